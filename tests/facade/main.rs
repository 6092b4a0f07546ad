//! What goes out through `metrics` and `tracing`, seen by a recorder and a subscriber of our own.

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod common;

mod events;
mod log;
mod published;
mod recorder;
#[path = "../observability/scenarios.rs"]
#[expect(dead_code, reason = "what counts nothing is no business of this test's")]
mod scenarios;
mod secrecy;
mod spans;
#[path = "../observability/stage.rs"]
#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod stage;
