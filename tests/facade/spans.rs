//! Spans, as a subscriber gets them.

use crate::common::{asks_for, on_every_backend};
use crate::log::{Line, Log};
use crate::stage::{Stage, operation};
use idempotency::testing::Fault;
use idempotency::{Claim, Reply};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tracing::{Level, info_span};

/// A call, and the span that it is in: name, outcome.
type Call = (&'static str, &'static str, fn(&Stage<'_>, Claim));

/// Each on a claim that was granted before.
const CALLS: &[Call] = &[
    ("claim", "in_progress", |stage, _claim| drop(stage.ask())),
    ("claim", "mismatch", |stage, _claim| {
        let (scope, key, _) = operation();
        drop(stage.store.try_claim(&scope, &key, &asks_for("another order")));
    }),
    ("claim", "taken_over", |stage, _dead| {
        stage.lapse();
        drop(stage.ask());
    }),
    ("claim", "error", |stage, _claim| {
        stage.store.backend().fail(Fault::Before, 0, 1);
        drop(stage.ask());
    }),
    ("complete", "recorded", |_, claim| drop(claim.complete(Reply::Marker))),
    ("complete", "error", |stage, claim| {
        stage.store.backend().fail(Fault::After, 0, 1);
        drop(claim.complete(Reply::Marker));
    }),
    ("renew", "renewed", |_, mut claim| drop(claim.renew())),
    ("checkpoint", "renewed", |_, mut claim| drop(claim.save_checkpoint("half-way"))),
    ("release", "released", |_, claim| drop(claim.release())),
    ("abandon", "abandoned", |_, claim| drop(claim.abandon())),
    ("read", "found", |stage, claim| drop(stage.store.lookup(claim.scope(), claim.key()))),
    ("read", "found", |stage, claim| drop(stage.store.resume(claim.ticket()))),
    ("forget", "forgotten", |stage, claim| drop(stage.store.forget(claim.scope(), claim.key()))),
];

/// Each where there is no record any more.
const CALLS_TOO_LATE: &[Call] = &[
    ("claim", "claimed", |stage, _claim| drop(stage.ask())),
    ("complete", "lost", |_, claim| drop(claim.complete(Reply::Marker))),
    ("renew", "lost", |_, mut claim| drop(claim.renew())),
    ("checkpoint", "lost", |_, mut claim| drop(claim.save_checkpoint("late"))),
    ("release", "gone", |_, claim| drop(claim.release())),
    ("abandon", "gone", |_, claim| drop(claim.abandon())),
    ("read", "absent", |stage, claim| drop(stage.store.lookup(claim.scope(), claim.key()))),
    ("forget", "absent", |stage, claim| drop(stage.store.forget(claim.scope(), claim.key()))),
];

#[track_caller]
fn the_only(spans: &[Line]) -> &Line {
    match spans {
        [span] => span,
        spans => panic!("wanted one span, got {spans:?}"),
    }
}

#[test]
fn each_command_is_one_span_with_the_digests_of_its_names_and_its_outcome() {
    let too_late = |call: &'static Call| (call, true);
    for (call, is_too_late) in
        CALLS.iter().map(|call| (call, false)).chain(CALLS_TOO_LATE.iter().map(too_late))
    {
        let (name, outcome, play) = call;
        on_every_backend(|fixture| {
            let stage = Stage::new(fixture);
            let claim = stage.claim();
            let (scope, key, _) = operation();
            if is_too_late {
                stage.store.forget(&scope, &key).expect("an answer");
            }
            let (_, log) = Log::of(Level::DEBUG, || play(&stage, claim));
            let span = the_only(&log.spans);
            assert_eq!((span.name, span.field("outcome")), (*name, Some(*outcome)), "{}", fixture.name);
            assert_eq!(span.field("scope"), Some(scope.to_string().as_str()));
            assert_eq!(span.field("key"), Some(key.to_string().as_str()));
            assert_eq!((span.level, span.target.as_str(), span.inside), (Level::DEBUG, "idempotency", None));
            let has_claimed = ["claimed", "taken_over"].contains(outcome);
            assert_eq!(span.field("token").is_some(), has_claimed, "{outcome}");
            assert_eq!(span.field("attempt").is_some(), has_claimed, "{outcome}");
        });
    }
}

#[test]
fn the_span_of_a_claim_says_which_one_was_granted() {
    on_every_backend(|fixture| {
        let stage = Stage::new(fixture);
        let _dead = stage.ticket();
        stage.lapse();
        let (ticket, log) = Log::of(Level::DEBUG, || stage.ticket());
        let span = the_only(&log.spans);
        assert_eq!(span.field("attempt"), Some("2"), "{}", fixture.name);
        assert_eq!(span.field("token"), Some(ticket.token().to_string().as_str()), "{}", fixture.name);
    });
}

#[test]
fn what_is_about_many_records_is_one_span_without_names_and_its_events_have_them() {
    on_every_backend(|fixture| {
        let stage = Stage::new(fixture);
        let (_, log) = Log::of(Level::DEBUG, || {
            drop(stage.store.try_claim_many(&[operation(), operation()]));
            stage.store.sweep(1).expect("a sweep");
            stage.store.stats().expect("counts");
            stage.store.stuck(1).expect("a list");
        });
        let spans: Vec<_> = log.spans.iter().map(|span| (span.name, span.field("scope"))).collect();
        let expected = ["batch", "sweep", "stats", "stuck"].map(|name| (name, None));
        assert_eq!(spans, expected, "{}", fixture.name);
        let (scope, _, _) = operation();
        let inside = log.events.iter().filter(|event| event.inside == Some("batch"));
        let of: Vec<_> = inside.map(|event| (event.message(), event.field("scope"))).collect();
        let scope = scope.to_string();
        let scope = Some(scope.as_str());
        assert_eq!(of, [("claimed", scope), ("in progress elsewhere", scope)], "{}", fixture.name);
    });
}

/// The name of each span, and of the one that it is in.
fn nested(log: &Log) -> Vec<(&'static str, Option<&'static str>)> {
    log.spans.iter().map(|span| (span.name, span.inside)).collect()
}

#[test]
fn the_spans_of_work_and_of_its_commands_are_inside_of_its_run() {
    on_every_backend(|fixture| {
        let stage = Stage::new(fixture);
        let (scope, key, fingerprint) = operation();
        let work = |claim: &mut Claim| {
            let _charging = info_span!("charging").entered();
            claim.renew().expect("a renewal");
            Ok::<_, ()>(Reply::Marker)
        };
        let run = || drop(stage.store.run(&scope, &key, &fingerprint, work));
        let (_, log) = Log::of(Level::DEBUG, run);
        assert_eq!(
            nested(&log),
            [
                ("run", None),
                ("claim", Some("run")),
                ("charging", Some("run")),
                ("renew", Some("charging")),
                ("complete", Some("run")),
            ],
            "{}",
            fixture.name
        );
        let (_, log) = Log::of(Level::DEBUG, run);
        assert_eq!(nested(&log), [("run", None), ("claim", Some("run"))], "{}", fixture.name);
    });
}

#[test]
fn a_run_says_what_came_of_it_at_a_level_that_its_works_own_lines_have() {
    type Work = fn(&mut Claim) -> Result<Reply, &'static str>;
    let works: [(Work, &str); 3] = [
        (|_| Ok(Reply::Marker), "executed"),
        (|_| Err("no money"), "failed"),
        (|_| Ok(Reply::Reference("x".repeat(2_000_000))), "error"),
    ];
    for (work, outcome) in works {
        on_every_backend(|fixture| {
            let stage = Stage::new(fixture);
            let (scope, key, fingerprint) = operation();
            let run = || drop(stage.store.run(&scope, &key, &fingerprint, work));
            let (_, log) = Log::of(Level::INFO, run);
            let span = the_only(&log.spans);
            assert_eq!((span.name, span.field("outcome")), ("run", Some(outcome)), "{}", fixture.name);
            assert_eq!(span.field("scope"), Some(scope.to_string().as_str()));
            assert_eq!(span.field("key"), Some(key.to_string().as_str()));
        });
    }
    on_every_backend(|fixture| {
        let stage = Stage::new(fixture);
        let (scope, key, fingerprint) = operation();
        let run = || drop(stage.store.run(&scope, &key, &fingerprint, |_| Ok::<_, ()>(Reply::Marker)));
        let outcome = || {
            Log::of(Level::INFO, run)
                .1
                .spans
                .first()
                .and_then(|span| span.field("outcome").map(str::to_owned))
        };
        assert_eq!(outcome().as_deref(), Some("executed"));
        assert_eq!(outcome().as_deref(), Some("replayed"));
    });
}

/// Else all later lines of the thread would be in it.
#[test]
fn a_span_is_left_when_the_work_panics() {
    on_every_backend(|fixture| {
        let stage = Stage::new(fixture);
        let (scope, key, fingerprint) = operation();
        let (_, log) = Log::of(Level::DEBUG, || {
            let run =
                || stage.store.run(&scope, &key, &fingerprint, |_| -> Result<Reply, ()> { panic!("a bug") });
            catch_unwind(AssertUnwindSafe(run)).expect_err("the panic goes on");
            tracing::info!("afterwards");
        });
        assert_eq!(nested(&log), [("run", None), ("claim", Some("run")), ("abandon", Some("run"))]);
        assert_eq!(log.events.last().expect("a line").inside, None, "{}", fixture.name);
    });
}

#[cfg(feature = "sqlite")]
mod transactions {
    use super::{Level, Log, Reply, info_span, nested, operation, the_only};
    use idempotency::rusqlite::{Connection, Transaction, TransactionBehavior};
    use idempotency::{ClaimOutcome, IdempotencyStore};

    #[test]
    fn the_spans_of_work_are_inside_of_the_transaction_that_it_shares() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = IdempotencyStore::open(folder.path().join("store.db")).expect("a fresh store");
        let (scope, key, fingerprint) = operation();
        let run = || {
            let work = |_: &Transaction<'_>| {
                let _booking = info_span!("booking").entered();
                Ok::<_, ()>(Reply::Marker)
            };
            drop(store.atomically(&scope, &key, &fingerprint, work));
        };
        let (_, log) = Log::of(Level::INFO, run);
        assert_eq!(nested(&log), [("atomically", None), ("booking", Some("atomically"))]);
        assert_eq!(log.spans[0].field("outcome"), Some("executed"));
        assert_eq!(log.spans[0].field("key"), Some(key.to_string().as_str()));
        let (_, log) = Log::of(Level::INFO, run);
        assert_eq!(the_only(&log.spans).field("outcome"), Some("replayed"));
    }

    #[test]
    fn a_command_in_a_transaction_of_the_applications_is_a_span_as_any_other() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("store.db");
        let store = IdempotencyStore::open(&path).expect("a fresh store");
        let mut connection = Connection::open(&path).expect("the file");
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).expect("the lock");
        let (scope, key, fingerprint) = operation();
        let (_, log) = Log::of(Level::DEBUG, || {
            match store.try_claim_in(&tx, &scope, &key, &fingerprint).expect("an answer") {
                ClaimOutcome::Claimed(claim) => drop(claim.complete(Reply::Marker).expect("a completion")),
                other => panic!("wanted Claimed, got {other:?}"),
            }
        });
        assert_eq!(nested(&log), [("claim", None), ("complete", None)]);
    }
}
