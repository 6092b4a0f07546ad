//! What an operator sees: how many records there are, and which claims look stuck. How each class of record
//! is seen at each moment around its deadlines, `agreement` shows.

#[expect(dead_code, reason = "shared by test files that use different parts of it")]
#[path = "../common/mod.rs"]
mod common;

mod counts;
#[cfg(feature = "sqlite")]
mod damage;
#[path = "../common/dice.rs"]
#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod dice;
#[cfg(feature = "sqlite")]
mod meanwhile;
#[path = "../common/seed.rs"]
mod seed;
mod stuck;
mod wrappers;

use idempotency::Stats;

/// In progress, lapsed, completed, expired, damaged.
fn counts(stats: Stats) -> [u64; 5] {
    [stats.in_progress, stats.lapsed, stats.completed, stats.expired, stats.damaged]
}
