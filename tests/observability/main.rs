//! What a store counts of what it does.

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod common;

mod counters;
mod errors;
mod races;
mod scenarios;
mod stage;
mod stores;
#[cfg(feature = "sqlite")]
mod transactions;
mod ways;
