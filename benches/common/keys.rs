//! Random keys: as a client makes them, in no order, so that each lands on another page.

use idempotency::IdempotencyKey;
use std::env;
use std::hash::{BuildHasher, RandomState};

const VARIABLE: &str = "IDEMPOTENCY_BENCH_SEED";

/// The seed in the environment, or a new one. Printed, so that a run can be had again.
pub fn seed() -> u64 {
    let seed = match env::var(VARIABLE) {
        Ok(value) => value.parse().unwrap_or_else(|_| panic!("{VARIABLE}={value} is no number below 2^64")),
        Err(_) => RandomState::new().hash_one(VARIABLE),
    };
    println!("replay with {VARIABLE}={seed}");
    seed
}

/// Draws UUIDs of version 4, which differ from one another for all that a bench can draw.
#[derive(Debug)]
pub struct Keys {
    state: u64,
}

impl Keys {
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// `SplitMix64`.
    pub const fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn draw(&mut self) -> IdempotencyKey {
        let (high, low) = (self.number(), self.number());
        let uuid = format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            (low >> 48) & 0x3fff | 0x8000,
            low & 0xffff_ffff_ffff
        );
        IdempotencyKey::new(uuid).expect("a valid key")
    }

    pub fn take(&mut self, count: usize) -> Vec<IdempotencyKey> {
        (0..count).map(|_| self.draw()).collect()
    }
}
