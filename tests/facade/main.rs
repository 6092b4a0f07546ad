//! What goes out through `metrics` and `tracing`, seen by a recorder and a subscriber of our own.

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod common;

mod background;
mod events;
#[path = "../keep_alive/stage.rs"]
#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod kept_stage;
mod log;
mod panicking;
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
#[cfg(feature = "tokio")]
mod tasks;

use scenarios::{SCENARIOS, Scenario};

/// The scenarios that are told on the thread that plays them. `background` has the other one.
fn told_here() -> impl Iterator<Item = &'static Scenario> {
    SCENARIOS.iter().filter(|scenario| scenario.counter != "renewal_failures")
}
