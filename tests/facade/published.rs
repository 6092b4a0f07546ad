//! Counters and durations, as a recorder gets them.

use crate::common::{Fixture, on_every_backend};
use crate::recorder::{Recorded, Recorder};
use crate::stage::{Stage, counts, operation};
use crate::told_here;
use idempotency::testing::Fault;
use idempotency::{Claim, ErrorKind, IdempotencyStore, Metrics, Reply};
use metrics::Unit;
use std::collections::{BTreeMap, BTreeSet};

/// The series that a counter is published as, by the rule that the docs give.
fn series(counter: &str) -> String {
    match counter.strip_prefix("errors.") {
        Some(kind) => format!("idempotency_errors_total{{kind={kind:?}}}"),
        None => format!("idempotency_{counter}_total"),
    }
}

/// What a recorder must have been told for a store with these counters.
fn expected(metrics: &Metrics) -> BTreeMap<String, u64> {
    let lost = format!("errors.{}", ErrorKind::ClaimLost);
    let counts = counts(metrics);
    counts.iter().filter(|(name, _)| **name != lost).map(|(name, count)| (series(name), *count)).collect()
}

#[test]
fn what_is_published_is_what_the_counters_say() {
    for scenario in told_here() {
        on_every_backend(|fixture| {
            let (metrics, recorded) = Recorder::of(|| {
                let stage = Stage::new(fixture);
                (scenario.play)(&stage);
                stage.store.metrics()
            });
            assert_eq!(recorded.counters, expected(&metrics), "{} on {}", scenario.counter, fixture.name);
            assert!(recorded.counters[&series(scenario.counter)] > 0, "{}", scenario.counter);
        });
    }
}

#[test]
fn every_counter_begins_at_zero_when_a_store_is_opened() {
    let (_, recorded) = Recorder::of(|| drop(IdempotencyStore::in_memory()));
    assert_eq!(recorded.counters, expected(&Metrics::default()));
    assert!(recorded.samples.is_empty());
}

#[test]
fn the_stores_of_a_program_add_up() {
    let (one, other) = (Fixture::in_memory(), Fixture::in_memory());
    let ((one, other), recorded) = Recorder::of(|| {
        let (one, other) = (Stage::new(&one), Stage::new(&other));
        one.complete();
        drop(one.ask().expect("a replay"));
        other.complete();
        (one.store.metrics(), other.store.metrics())
    });
    assert_eq!((one.claims, one.replays, other.claims, other.replays), (1, 1, 1, 0));
    assert_eq!((recorded.counters[&series("claims")], recorded.counters[&series("replays")]), (2, 1));
}

#[test]
fn a_recorder_that_is_installed_after_the_store_was_opened_gets_what_happens_from_then_on() {
    on_every_backend(|fixture| {
        let stage = Stage::new(fixture);
        stage.complete();
        let (_, recorded) = Recorder::of(|| drop(stage.ask().expect("an answer")));
        assert_eq!(recorded.counters, [(series("replays"), 1)].into(), "{}", fixture.name);
        assert_eq!(samples(&recorded), [("claim".to_owned(), 1)].into(), "{}", fixture.name);
    });
}

/// How many samples there are of each command.
fn samples(recorded: &Recorded) -> BTreeMap<String, usize> {
    let command = |series: &str| {
        let label = series.strip_prefix("idempotency_command_duration_seconds{command=\"");
        label.and_then(|label| label.strip_suffix("\"}")).expect(series).to_owned()
    };
    recorded.samples.iter().map(|(series, samples)| (command(series), samples.len())).collect()
}

#[test]
fn each_call_of_the_backend_is_one_sample() {
    for scenario in told_here() {
        on_every_backend(|fixture| {
            let (calls, recorded) = Recorder::of(|| {
                let stage = Stage::new(fixture);
                (scenario.play)(&stage);
                stage.store.backend().calls()
            });
            let all: usize = samples(&recorded).values().sum();
            assert_eq!(all, calls, "{} on {}", scenario.counter, fixture.name);
        });
    }
}

type Call = (&'static str, fn(&Stage<'_>, Claim));

/// Each command, on a claim that was granted before.
const CALLS: &[Call] = &[
    ("claim", |stage, _claim| drop(stage.ask().expect("an answer"))),
    ("batch", |stage, _claim| drop(stage.store.try_claim_many(&[operation(), operation()]))),
    ("complete", |_, claim| drop(claim.complete(Reply::Marker).expect("a completion"))),
    ("renew", |_, mut claim| claim.renew().expect("a renewal")),
    ("checkpoint", |_, mut claim| claim.save_checkpoint("half-way").expect("a checkpoint")),
    ("release", |_, claim| claim.release().expect("a release")),
    ("abandon", |_, claim| claim.abandon().expect("the end of the lease")),
    ("read", |stage, claim| drop(stage.store.lookup(claim.scope(), claim.key()).expect("a record"))),
    ("read", |stage, claim| drop(stage.store.resume(claim.ticket()).expect("the claim"))),
    ("forget", |stage, claim| assert!(stage.store.forget(claim.scope(), claim.key()).expect("an answer"))),
    ("sweep", |stage, _claim| assert_eq!(stage.store.sweep(1).expect("a sweep").removed, 0)),
    ("stats", |stage, _claim| assert_eq!(stage.store.stats().expect("counts").in_progress, 1)),
    ("stuck", |stage, _claim| assert_eq!(stage.store.stuck(1).expect("a list").len(), 0)),
];

#[test]
fn a_sample_is_labelled_with_its_command() {
    for (command, call) in CALLS {
        on_every_backend(|fixture| {
            let stage = Stage::new(fixture);
            let claim = stage.claim();
            let (_, recorded) = Recorder::of(|| call(&stage, claim));
            assert_eq!(samples(&recorded), [((*command).to_owned(), 1)].into(), "on {}", fixture.name);
        });
    }
}

#[test]
fn a_call_that_fails_is_a_sample_too() {
    for fault in [Fault::Before, Fault::After] {
        on_every_backend(|fixture| {
            let stage = Stage::new(fixture);
            stage.store.backend().fail(fault, 0, 1);
            let (_, recorded) = Recorder::of(|| stage.ask().expect_err("a fault"));
            assert_eq!(samples(&recorded), [("claim".to_owned(), 1)].into(), "{fault:?} on {}", fixture.name);
        });
    }
}

#[cfg(feature = "sqlite")]
mod atomically {
    use super::{Recorder, operation, samples};
    use idempotency::rusqlite::Transaction;
    use idempotency::{IdempotencyStore, Reply, SqliteStore};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;
    use std::time::{Duration, Instant};

    fn open() -> (SqliteStore, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        (IdempotencyStore::open(folder.path().join("store.db")).expect("a fresh store"), folder)
    }

    /// Whole, with the work, so that it can't be shorter than that; nor longer than it was for its caller.
    #[expect(clippy::disallowed_methods, reason = "what is published is an elapsed time")]
    #[test]
    fn a_run_in_one_transaction_is_one_sample_in_seconds_with_its_work() {
        const WORK: Duration = Duration::from_millis(20);
        let (store, _folder) = open();
        let (scope, key, fingerprint) = operation();
        let work = |_: &Transaction<'_>| {
            thread::sleep(WORK);
            Ok::<_, ()>(Reply::Marker)
        };
        let began = Instant::now();
        let (_ran, recorded) = Recorder::of(|| store.atomically(&scope, &key, &fingerprint, work));
        let took = began.elapsed();
        assert_eq!(samples(&recorded), [("atomically".to_owned(), 1)].into());
        let sample = recorded.samples.values().flatten().next().expect("a sample");
        assert!((WORK.as_secs_f64()..=took.as_secs_f64()).contains(sample), "{sample} s of {took:?}");
    }

    #[test]
    fn work_that_panics_is_a_sample_too() {
        let (store, _folder) = open();
        let (scope, key, fingerprint) = operation();
        let run =
            || store.atomically(&scope, &key, &fingerprint, |_| -> Result<Reply, ()> { panic!("a bug") });
        let (_, recorded) =
            Recorder::of(|| catch_unwind(AssertUnwindSafe(run)).expect_err("the panic goes on"));
        assert_eq!(samples(&recorded), [("atomically".to_owned(), 1)].into());
        assert_eq!(recorded.counters["idempotency_failed_runs_total"], 1);
    }
}

#[test]
fn every_metric_is_described_with_its_unit_and_stands_in_the_table_of_the_docs() {
    let fixture = Fixture::in_memory();
    let (_, recorded) = Recorder::of(|| Stage::new(&fixture).complete());
    let name = |series: &String| series.split('{').next().expect("a name").to_owned();
    let published: BTreeSet<_> = recorded.counters.keys().chain(recorded.samples.keys()).map(name).collect();
    assert_eq!(recorded.descriptions.keys().cloned().collect::<BTreeSet<_>>(), published);

    let docs = include_str!("../../src/observability.rs");
    let rows = docs.lines().filter(|line| line.starts_with("//! | `idempotency_"));
    let rows: BTreeMap<_, _> =
        rows.filter_map(|row| Some((row.split('`').nth(1)?.to_owned(), row))).collect();
    assert_eq!(rows.keys().cloned().collect::<BTreeSet<_>>(), published);
    for (name, (unit, description)) in &recorded.descriptions {
        let documented = if name.ends_with("_total") {
            (Unit::Count, "| counter | count |")
        } else {
            (Unit::Seconds, "| histogram | seconds |")
        };
        assert_eq!(*unit, Some(documented.0), "{name}");
        assert!(rows[name].contains(documented.1), "{name}");
        assert!(description.ends_with('.') && !description.contains('['), "{name}: {description}");
    }
}

#[test]
fn labels_are_kinds_and_commands_and_nothing_else() {
    let commands = [
        "claim",
        "complete",
        "renew",
        "checkpoint",
        "release",
        "abandon",
        "forget",
        "read",
        "sweep",
        "batch",
    ];
    for scenario in told_here() {
        on_every_backend(|fixture| {
            let (_, recorded) = Recorder::of(|| (scenario.play)(&Stage::new(fixture)));
            for series in recorded.counters.keys().filter(|series| series.contains('{')) {
                let is_a_kind = ErrorKind::ALL.iter().any(|kind| *series == series_of_errors(*kind));
                assert!(is_a_kind, "{series}");
            }
            for command in samples(&recorded).keys() {
                assert!(commands.contains(&command.as_str()), "{command}");
            }
            assert!(recorded.targets.iter().all(|target| target == "idempotency"));
        });
    }
}

fn series_of_errors(kind: ErrorKind) -> String {
    series(&format!("errors.{kind}"))
}
