//! The whole memory backend under 4 to 8 threads, in interleavings that shuttle draws: uniformly, and by PCT,
//! which finds what needs few changes of thread at the right places. `just shuttle` runs it.
//!
//! `IDEMPOTENCY_TEST_SEED=<number>` draws the same interleavings and the same programs again; of one that fails,
//! shuttle prints the schedule, too. `IDEMPOTENCY_SOAK=<number>` runs that many times as many.
#![cfg(idempotency_shuttle)]

mod arena;
#[path = "../common/history.rs"]
mod checker;
#[path = "../common/dice.rs"]
mod dice;
mod explore;
#[path = "../common/flaky.rs"]
#[expect(dead_code, reason = "what is refused is no part of a history")]
mod flaky;
#[path = "../races/history.rs"]
mod history;
mod one_key;
#[cfg(idempotency_planted)]
mod planted;
mod programs;
#[path = "../common/seed.rs"]
mod seed;
#[path = "../common/soak.rs"]
mod soak;
#[path = "../races/terms.rs"]
mod terms;
mod waiters;
