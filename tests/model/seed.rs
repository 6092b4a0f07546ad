//! The seed of random and concurrent tests.

use std::env;
use std::hash::{BuildHasher, RandomState};

const VARIABLE: &str = "IDEMPOTENCY_TEST_SEED";

/// The seed in the environment, or a new one. Printed, so that a failed run can be had again.
pub fn seed() -> u64 {
    let seed = match env::var(VARIABLE) {
        Ok(value) => value.parse().unwrap_or_else(|_| panic!("{VARIABLE}={value} is no number below 2^64")),
        Err(_) => RandomState::new().hash_one(VARIABLE),
    };
    println!("replay with {VARIABLE}={seed}");
    seed
}
