//! Random keys: as a client makes them, in no order, so that each lands on another page.

use crate::common::seed::{next_number, seed_in};
use idempotency::IdempotencyKey;

/// The seed of a bench.
pub fn seed() -> u64 {
    seed_in("IDEMPOTENCY_BENCH_SEED")
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

    pub const fn number(&mut self) -> u64 {
        next_number(&mut self.state)
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
