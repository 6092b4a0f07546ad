//! The seed of random and concurrent tests, and of benches.

use std::env;
use std::hash::{BuildHasher, RandomState};

/// The seed of a test.
pub fn seed() -> u64 {
    seed_in("IDEMPOTENCY_TEST_SEED")
}

/// The seed in this variable of the environment, or a new one. Printed, so that a run can be had again.
pub fn seed_in(variable: &str) -> u64 {
    let seed = match env::var(variable) {
        Ok(value) => value.parse().unwrap_or_else(|_| panic!("{variable}={value} is no number below 2^64")),
        Err(_) => RandomState::new().hash_one(variable),
    };
    println!("replay with {variable}={seed}");
    seed
}

/// The next number after `state`, which moves on (`SplitMix64`).
pub const fn next_number(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
