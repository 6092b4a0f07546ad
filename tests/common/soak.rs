//! How long tests with counts of their own run.

use std::env;

/// `count`, as many times as `IDEMPOTENCY_SOAK` says: once where it says nothing, as in CI.
pub fn times(count: usize) -> usize {
    let factor = env::var("IDEMPOTENCY_SOAK").map_or(1, |value| match value.parse() {
        Ok(factor) if factor >= 1 => factor,
        _ => panic!("IDEMPOTENCY_SOAK={value} is no number from 1 on"),
    });
    count.saturating_mul(factor)
}
