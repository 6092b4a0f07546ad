//! Claims that are kept alive in the background, on every backend.
//!
//! The store's clock is the test's: a lease is over when the test says so. The renewer's time is the
//! machine's, and the leases are so short that it has something to do all the time.

#[cfg(target_os = "linux")]
#[path = "../sqlite/address_space.rs"]
mod address_space;
#[cfg(unix)]
#[path = "../sqlite/alone.rs"]
mod alone;
mod batches;
#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod common;
mod company;
mod endings;
mod failures;
#[cfg(unix)]
#[path = "../sqlite/fork.rs"]
mod fork;
#[cfg(unix)]
mod forks;
mod leases;
mod limits;
mod losses;
#[path = "../common/panicking.rs"]
mod panicking;
#[path = "../common/seed.rs"]
mod seed;
mod stage;
mod threads;
#[cfg(feature = "sqlite")]
mod transactions;
#[cfg(target_os = "linux")]
mod without_thread;
