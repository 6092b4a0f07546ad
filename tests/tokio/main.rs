//! The store for tasks of a tokio runtime: what a dropped future, a panic and a shutdown leave, at each place
//! where a future waits. `tests/README.md` says which test covers which case.
//!
//! The runtime is the smallest that there is, with the dependency's own features; the threads of its pool are
//! real.

#[expect(dead_code, reason = "shared by test files that use different parts of it")]
#[path = "../common/mod.rs"]
mod common;

mod bench;
mod cases;
mod conformance;
mod endings;
mod extensions;
mod gate;
mod keep_alive;
mod panics;
mod shutdown;
mod tasks;
mod undelivered;
mod work;
