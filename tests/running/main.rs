//! Work that is run through the store (`run`), and callers that wait for it (`claim_or_wait`), on every backend.

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod common;

mod answers;
mod ended_inside;
mod errors;
mod failures;
#[cfg(feature = "sqlite")]
mod in_a_transaction;
mod inside;
mod looks;
mod not_recorded;
mod panics;
#[path = "../common/snapshot.rs"]
mod snapshot;
mod support;
mod table;
mod waiters;
mod waiting;
