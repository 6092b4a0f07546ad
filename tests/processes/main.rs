//! Processes that share one file.
//!
//! The children are this program, run again; see [`crew`]. What they draw comes from a seed that each test
//! prints; the order in which they run is the machine's.

#![cfg(feature = "sqlite")]

mod broken_doubts;
mod broken_histories;
mod clocks;
#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod common;
mod crew;
#[path = "../common/dice.rs"]
mod dice;
mod doomed;
mod fairness;
#[path = "../common/flaky.rs"]
#[expect(dead_code, reason = "what is refused is no part of a history")]
mod flaky;
mod fresh_files;
#[path = "../common/history.rs"]
mod history;
mod killed;
mod killed_at_once;
mod ledger;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod no_room;
mod one_winner;
mod report;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod room;
#[path = "../common/seed.rs"]
mod seed;
mod short_leases;
#[cfg(target_os = "linux")]
mod signals;
#[path = "../common/soak.rs"]
mod soak;
#[cfg(target_os = "linux")]
mod stopped;
mod sweeping;
mod two_processes;
mod worker;
