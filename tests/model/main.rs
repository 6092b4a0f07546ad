//! Random sequences of calls on every kind of store, against an independent model: each answer, and each
//! record after each step. Calls may fail, also so that nobody knows whether they were done.
//!
//! To replay a failure:
//! - A failing sequence is shrunk, printed, and its seed kept in `tests/model/regressions.txt`, which is
//!   tried first in every run. Commit that file with the fix. `PROPTEST_DISABLE_FAILURE_PERSISTENCE=1` turns
//!   it off.
//! - `IDEMPOTENCY_TEST_SEED=<number>` repeats a whole run; the number is printed. `PROPTEST_RNG_SEED` does
//!   the same and wins.
//! - `PROPTEST_CASES=<number>` plays more sequences than the usual 256, or fewer, and `IDEMPOTENCY_SOAK=<factor>`
//!   so many times more; `PROPTEST_MAX_SHRINK_ITERS` and `PROPTEST_VERBOSE` work as proptest documents them.

mod calls;
#[path = "../common/flaky.rs"]
mod flaky;
mod held;
mod history;
mod machine;
#[path = "../agreement/plain.rs"]
#[expect(dead_code, reason = "what sweeps came to is compared batch by batch here")]
mod plain;
#[path = "../common/seed.rs"]
#[expect(dead_code, reason = "proptest draws its own numbers")]
mod seed;
#[path = "../common/soak.rs"]
mod soak;
mod steps;
mod stores;
mod subject;

use proptest::test_runner::{Config, FileFailurePersistence, RngSeed, TestRunner};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};
use std::cell::Cell;
use stores::{Kind, Memory};
use subject::{Play, Tally, take_tally};

const REGRESSIONS: &str = "tests/model/regressions.txt";

/// Plays as many sequences as proptest is configured for, each on a store of its own.
fn every_sequence_matches<K: Kind>() -> Tally {
    let mut config = Config { max_local_rejects: u32::MAX, ..Config::default() };
    if config.failure_persistence.is_some() {
        config.failure_persistence = Some(Box::new(FileFailurePersistence::Direct(REGRESSIONS)));
    }
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(seed::seed());
    }
    let cases = soak::times(usize::try_from(config.cases).expect("a number of sequences"));
    config.cases = u32::try_from(cases).expect("a number of sequences");
    let sequences = machine::Machine::<K>::sequential_strategy(1..100);
    let drawn = Cell::new(0);
    let outcome = TestRunner::new(config.clone()).run(&sequences, |(truth, steps, seen)| {
        // What is shrunk has no such counter.
        drawn.set(drawn.get() + usize::from(seen.is_some()));
        Play::<K>::test_sequential(config.clone(), truth, steps, seen);
        Ok(())
    });
    let (drawn, tally) = (drawn.get(), take_tally());
    if let Err(failure) = outcome {
        panic!("sequence {drawn} of {cases}: {failure}");
    }
    println!("{}: {cases} sequences: {tally:?}", K::NAME);
    assert!(drawn >= cases, "{drawn} of {cases} sequences were drawn");
    for (what, often) in
        COMMON.map(|what| (what, cases / 4)).into_iter().chain(RARE.map(|what| (what, cases / 32)))
    {
        let happened = tally.get(what).copied().unwrap_or(0);
        assert!(happened >= often, "{what} happened only {happened} times in {cases} sequences");
    }
    tally
}

/// What must happen in every fourth sequence on average, or the sequences are not worth playing.
const COMMON: [&str; 18] = [
    "first claims",
    "takeovers",
    "in progress",
    "replays",
    "mismatches",
    "completions",
    "renewals",
    "releases",
    "lost claims",
    "forgotten records",
    "records swept",
    "commands in batches",
    "claims of many",
    "jumps to a deadline",
    "refused calls",
    "done unheard",
    "not done unheard",
    "doubts",
];

/// What must happen in every thirty-second.
const RARE: [&str; 7] = [
    "abandonments",
    "repeated completions",
    "tickets resumed",
    "tickets lost",
    "stuck claims",
    "doubts decided: done",
    "doubts decided: not done",
];

#[test]
fn the_memory_backend_does_what_the_model_does() {
    let tally = every_sequence_matches::<Memory>();
    assert_eq!(tally.get("reopenings"), None, "memory has nothing to reopen");
}

#[cfg(feature = "sqlite")]
#[test]
fn the_sqlite_backend_does_what_the_model_does_across_reopenings() {
    let tally = every_sequence_matches::<stores::Sqlite>();
    for what in ["reopenings", "transactions", "work that failed"] {
        assert!(tally.get(what).is_some_and(|happened| *happened > 0), "{what}: none");
    }
}
