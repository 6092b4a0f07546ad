//! Random sequences of commands on every backend, against an independent model: each answer, and each record
//! after each step.
//!
//! To replay a failure:
//! - A failing sequence is shrunk, printed, and its seed kept in `tests/model/regressions.txt`, which is
//!   tried first in every run. Commit that file with the fix. `PROPTEST_DISABLE_FAILURE_PERSISTENCE=1` turns
//!   it off.
//! - `IDEMPOTENCY_TEST_SEED=<number>` repeats a whole run; the number is printed. `PROPTEST_RNG_SEED` does
//!   the same and wins.
//! - `PROPTEST_CASES=<number>` plays more sequences than the usual 256, or fewer; `PROPTEST_MAX_SHRINK_ITERS`
//!   and `PROPTEST_VERBOSE` work as proptest documents them.

mod driver;
mod history;
#[path = "../agreement/plain.rs"]
mod plain;
#[path = "../common/seed.rs"]
#[expect(dead_code, reason = "proptest draws its own numbers")]
mod seed;
mod steps;

use driver::{Kind, Tally, play};
use proptest::test_runner::{FileFailurePersistence, RngSeed, TestRunner};
use std::cell::{Cell, RefCell};

const REGRESSIONS: &str = "tests/model/regressions.txt";

/// Plays as many sequences as proptest is configured for, each on a store of its own.
fn every_sequence_matches(fresh: impl Fn(usize) -> Kind) -> Tally {
    let mut config = proptest::test_runner::Config::default();
    if config.failure_persistence.is_some() {
        config.failure_persistence = Some(Box::new(FileFailurePersistence::Direct(REGRESSIONS)));
    }
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(seed::seed());
    }
    let cases = usize::try_from(config.cases).expect("a number of cases");
    let (tally, played) = (RefCell::new(Tally::new()), Cell::new(0));
    let outcome = TestRunner::new(config).run(&steps::sequence(), |sequence| {
        played.set(played.get() + 1);
        play(fresh(played.get()), &sequence, &mut tally.borrow_mut())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    let tally = tally.into_inner();
    println!("{cases} sequences: {tally:?}");
    assert!(played.get() >= cases, "{} of {cases} sequences were played", played.get());
    for what in COMMON {
        let happened = tally.get(what).copied().unwrap_or(0);
        assert!(happened >= cases / 4, "{what} happened only {happened} times in {cases} sequences");
    }
    tally
}

/// What must happen in every fourth sequence on average, or the sequences are not worth playing.
const COMMON: [&str; 15] = [
    "first claims",
    "takeovers",
    "in progress",
    "replays",
    "mismatches",
    "completions",
    "repeated completions",
    "renewals",
    "releases",
    "abandonments",
    "lost claims",
    "forgotten records",
    "records swept",
    "commands in batches",
    "jumps to a deadline",
];

#[test]
fn the_memory_backend_does_what_the_model_does() {
    let tally = every_sequence_matches(|_| Kind::memory());
    assert_eq!(tally.get("reopenings"), None, "memory has nothing to reopen");
}

#[cfg(feature = "sqlite")]
#[test]
fn the_sqlite_backend_does_what_the_model_does_across_reopenings() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tally = every_sequence_matches(|number| Kind::sqlite(folder.path().join(format!("{number}.db"))));
    assert!(tally.get("reopenings").is_some_and(|happened| *happened > 0));
}
