//! The background sweeper, on every backend. `tests/sqlite/sweeping.rs` has it beside claims.

#[cfg(target_os = "linux")]
#[path = "../sqlite/address_space.rs"]
mod address_space;
#[cfg(unix)]
#[path = "../sqlite/alone.rs"]
mod alone;
#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod common;
mod ending;
mod failing;
#[cfg(unix)]
#[path = "../sqlite/fork.rs"]
mod fork;
#[cfg(unix)]
mod forks;
#[path = "../common/panicking.rs"]
mod panicking;
mod support;
mod sweeping;
#[cfg(target_os = "linux")]
mod without_thread;
