//! Events, as a subscriber gets them.

use crate::common::{Fixture, on_every_backend};
use crate::log::{Line, Log};
use crate::scenarios::SCENARIOS;
use crate::stage::{Stage, operation};
use crate::told_here;
use idempotency::testing::Fault;
use idempotency::{
    Backend, BackendError, Command, ErrorKind, IdempotencyStore, Outcome, Record, RecordId, Reply, StoreId,
    Swept, Timestamp,
};
use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tracing::Level;

/// It is told on a thread of the store's.
pub const RENEWAL_FAILED: &str = "not renewed, to be tried again";

/// For each counter, the line that goes with it.
const LINES: &[(&str, Level, &str)] = &[
    ("claims", Level::DEBUG, "claimed"),
    ("takeovers", Level::INFO, "taken over: an earlier attempt ended without a reply"),
    ("replays", Level::DEBUG, "replayed"),
    ("in_progress", Level::DEBUG, "in progress elsewhere"),
    ("mismatches", Level::WARN, "refused: the key is another request's"),
    ("completions", Level::DEBUG, "completed"),
    ("failed_completions", Level::WARN, "the reply was not recorded, or may not be"),
    ("releases", Level::DEBUG, "released"),
    ("abandons", Level::DEBUG, "abandoned"),
    ("failed_runs", Level::DEBUG, "the work failed"),
    ("lost_claims", Level::WARN, "the claim is lost"),
    ("dropped_unfinished", Level::WARN, "a claim was dropped without being ended"),
    ("renewals", Level::DEBUG, "renewed"),
    ("renewal_failures", Level::WARN, RENEWAL_FAILED),
    ("checkpoints", Level::DEBUG, "checkpoint saved"),
    ("forgotten", Level::INFO, "forgotten: an operator deleted the record"),
    ("swept", Level::DEBUG, "swept"),
];

#[test]
fn whatever_is_counted_is_a_line_of_its_level_with_the_digests_of_its_names() {
    let lines: BTreeSet<_> = LINES.iter().map(|(counter, ..)| *counter).collect();
    assert_eq!(lines, SCENARIOS.iter().map(|scenario| scenario.counter).collect());
    let (scope, key, _) = operation();
    let digests = (Some(scope.to_string()), Some(key.to_string()));
    for scenario in told_here() {
        let (_, level, message) =
            LINES.iter().find(|(counter, ..)| *counter == scenario.counter).expect("a line");
        on_every_backend(|fixture| {
            let (_, log) = Log::of(Level::DEBUG, || (scenario.play)(&Stage::new(fixture)));
            let last = log.events.last().expect("a line");
            assert_eq!((last.level, last.message()), (*level, *message), "{}", fixture.name);
            assert!(log.events.iter().all(|event| event.target == "idempotency"));
            let names = (last.field("scope").map(str::to_owned), last.field("key").map(str::to_owned));
            let expected = if scenario.counter == "swept" { (None, None) } else { digests.clone() };
            assert_eq!(names, expected, "{message}");
        });
    }
}

#[test]
fn there_are_as_many_lines_as_were_counted() {
    for scenario in told_here() {
        on_every_backend(|fixture| {
            let (metrics, log) = Log::of(Level::DEBUG, || {
                let stage = Stage::new(fixture);
                (scenario.play)(&stage);
                stage.store.metrics()
            });
            let counted: u64 = crate::stage::counts(&metrics).values().sum();
            assert_eq!(log.events.len() as u64, counted, "{} on {}", scenario.counter, fixture.name);
        });
    }
}

/// The levels that a service has switched on at night.
#[test]
fn at_the_level_of_information_an_operation_in_which_nothing_is_wrong_says_nothing() {
    on_every_backend(|fixture| {
        let (_, log) = Log::of(Level::INFO, || {
            let stage = Stage::new(fixture);
            let mut claim = stage.claim();
            drop(stage.ask().expect("in progress"));
            claim.renew().expect("a renewal");
            claim.save_checkpoint("half-way").expect("a checkpoint");
            claim.complete(Reply::Marker).expect("a completion");
            drop(stage.ask().expect("a replay"));
            drop(stage.store.try_claim_many(&[operation()]));
            stage.expire();
            stage.store.sweep_all().expect("a sweep");
            stage.claim().release().expect("a release");
        });
        assert!(log.events.is_empty(), "{:?} on {}", log.events, fixture.name);
        assert!(log.spans.is_empty(), "{:?} on {}", log.spans, fixture.name);
    });
}

#[test]
fn what_is_wrong_names_its_operation_even_where_no_span_is_kept() {
    let (scope, key, _) = operation();
    for scenario in told_here() {
        on_every_backend(|fixture| {
            let (_, log) = Log::of(Level::WARN, || (scenario.play)(&Stage::new(fixture)));
            for event in &log.events {
                assert_eq!(event.inside, None, "{event:?}");
                assert_eq!(event.field("scope"), Some(scope.to_string().as_str()), "{event:?}");
                assert_eq!(event.field("key"), Some(key.to_string().as_str()), "{event:?}");
            }
        });
    }
}

#[test]
fn a_takeover_says_which_attempt_it_is_and_a_loss_says_why() {
    on_every_backend(|fixture| {
        let stage = Stage::new(fixture);
        let late = stage.claim();
        stage.lapse();
        let (owner, log) = Log::of(Level::INFO, || stage.ticket());
        let [taken] = &log.events[..] else { panic!("{:?}", log.events) };
        assert_eq!(taken.field("attempt"), Some("2"), "{}", fixture.name);
        assert_eq!(taken.field("token"), Some(owner.token().to_string().as_str()), "{}", fixture.name);
        let (_, log) = Log::of(Level::INFO, || late.complete(Reply::Marker).expect_err("a loss"));
        let [lost] = &log.events[..] else { panic!("{:?}", log.events) };
        assert_eq!(lost.field("reason"), Some("another claim has taken over"), "{}", fixture.name);
    });
}

#[test]
fn a_sweep_says_how_much_it_removed() {
    on_every_backend(|fixture| {
        let stage = Stage::new(fixture);
        stage.complete();
        stage.expire();
        let (_, log) = Log::of(Level::DEBUG, || stage.store.sweep(10).expect("a sweep"));
        let [swept] = &log.events[..] else { panic!("{:?}", log.events) };
        assert_eq!(swept.field("removed"), Some("1"), "{}", fixture.name);
    });
}

#[track_caller]
fn the_failure(log: &Log) -> &Line {
    match &log.events[..] {
        [event] if event.message() == "failed" => event,
        events => panic!("wanted one failure, got {events:?}"),
    }
}

#[test]
fn a_failure_says_of_what_and_gives_all_that_caused_it() {
    on_every_backend(|fixture| {
        let stage = Stage::new(fixture);
        let ticket = stage.ticket();
        stage.store.backend().fail(Fault::Before, 0, 1);
        let (_, log) = Log::of(Level::WARN, || stage.store.release(&ticket).expect_err("a fault"));
        let failure = the_failure(&log);
        let said = |name| failure.field(name);
        assert_eq!(
            (said("command"), said("kind")),
            (Some("release"), Some("unavailable")),
            "{}",
            fixture.name
        );
        assert_eq!(
            said("error"),
            Some("the store is unavailable: injected: Before the call"),
            "{}",
            fixture.name
        );
        stage.store.backend().fail(Fault::Before, 0, 1);
        let (_, log) = Log::of(Level::WARN, || stage.store.sweep(1).expect_err("a fault"));
        assert_eq!(the_failure(&log).field("command"), Some("sweep"), "{}", fixture.name);
        assert_eq!(the_failure(&log).field("key"), None, "{}", fixture.name);
    });
}

/// A backend that fails in one way.
struct Broken(BackendError, StoreId);

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Broken")
    }
}

impl Backend for Broken {
    fn execute(&self, _: &RecordId, _: &Command) -> Result<Outcome, BackendError> {
        Err(self.0.clone())
    }

    fn read(&self, _: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        Err(self.0.clone())
    }

    fn sweep(&self, _: usize) -> Result<Swept, BackendError> {
        Err(self.0.clone())
    }

    fn store_id(&self) -> StoreId {
        self.1
    }
}

#[test]
fn a_failure_is_a_warning_where_the_caller_was_wrong_or_may_try_again_and_else_an_error() {
    let anything = std::io::Error::other("anything");
    for (error, kind, level) in [
        (BackendError::invalid_option("an option"), ErrorKind::Refused, Level::WARN),
        (BackendError::busy(), ErrorKind::Busy, Level::WARN),
        (BackendError::unavailable(), ErrorKind::Unavailable, Level::WARN),
        (BackendError::indefinite(), ErrorKind::Indefinite, Level::ERROR),
        (BackendError::full(), ErrorKind::Full, Level::ERROR),
        (BackendError::read_only(), ErrorKind::ReadOnly, Level::ERROR),
        (BackendError::cannot_open(), ErrorKind::CannotOpen, Level::ERROR),
        (BackendError::corrupt("a row"), ErrorKind::Corrupt, Level::ERROR),
        (BackendError::foreign("a file"), ErrorKind::Foreign, Level::ERROR),
        (BackendError::tokens_exhausted(), ErrorKind::TokensExhausted, Level::ERROR),
        (BackendError::bug("a bug"), ErrorKind::Bug, Level::ERROR),
        (BackendError::other(anything), ErrorKind::Other, Level::ERROR),
    ] {
        let store = IdempotencyStore::new(Broken(error, StoreId::random()));
        let (scope, key, fingerprint) = operation();
        let ask = || store.try_claim(&scope, &key, &fingerprint).expect_err("it is broken");
        let (error, log) = Log::of(Level::WARN, ask);
        assert_eq!(error.kind(), kind);
        assert_eq!((the_failure(&log).level, the_failure(&log).field("kind")), (level, Some(kind.as_str())));
    }
}

#[test]
fn a_claim_that_is_dropped_by_a_panic_is_a_warning() {
    let fixture = Fixture::in_memory();
    let stage = Stage::new(&fixture);
    let (_, log) = Log::of(Level::WARN, || {
        let claim = stage.claim();
        let work = || -> () {
            let _claim = claim;
            panic!("a bug")
        };
        catch_unwind(AssertUnwindSafe(work)).expect_err("a panic");
    });
    let messages: Vec<_> = log.events.iter().map(Line::message).collect();
    assert_eq!(messages, ["a claim was dropped without being ended"]);
}

/// Every message that there is, of those told on a caller's thread.
pub fn messages() -> impl Iterator<Item = &'static str> {
    let messages = LINES.iter().map(|(_, _, message)| *message).chain(["failed"]);
    messages.filter(|message| *message != RENEWAL_FAILED)
}
