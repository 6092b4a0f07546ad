//! Renewals that fail: counted, told, tried again, and no loss.

use crate::common::{Answer, Fixture, START, asks_for, key, on_every_backend, scope};
use crate::panicking::Panicking;
use crate::stage::{FOR_EVER, LEASE, on_every_stage, until, with_lease};
use idempotency::testing::{Fault, FaultyBackend};
use idempotency::{
    Backend, BackendError, Claim, Command, Error, ErrorKind, IdempotencyStore, ManualClock, MemoryBackend,
    MemoryOptions, Outcome, Record, RecordId, Reply, StoreId, Swept, Timestamp,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type FaultyStore = IdempotencyStore<FaultyBackend<Arc<dyn Backend>>>;

fn faulty(fixture: &Fixture) -> FaultyStore {
    with_lease(&IdempotencyStore::new(FaultyBackend::new(Arc::clone(fixture.store.backend()))), LEASE)
}

fn kept<B: Backend>(store: &IdempotencyStore<B>, name: &str) -> Claim {
    let claim = store.try_claim(&scope("tenant"), &key(name), &asks_for("it")).expect("an answer").claimed();
    claim.keep_alive(FOR_EVER).expect("a thread");
    claim
}

#[test]
fn a_renewal_that_fails_is_counted_and_told_and_tried_again_until_it_succeeds() {
    on_every_backend(|fixture| {
        for (name, fault, kind) in [
            ("before", Fault::Before, ErrorKind::Unavailable),
            ("after", Fault::After, ErrorKind::Indefinite),
        ] {
            let store = faulty(fixture);
            let claim =
                store.try_claim(&scope("tenant"), &key(name), &asks_for("it")).expect("an answer").claimed();
            store.backend().fail(fault, 0, 3);
            claim.keep_alive(FOR_EVER).expect("a thread");
            until("a renewal succeeds", || store.metrics().renewals > 0);
            until("the owner hears of it", || claim.renewal_error().is_none());
            let metrics = store.metrics();
            assert_eq!(metrics.renewal_failures, 3, "{}", fixture.name);
            assert_eq!((metrics.errors.of(kind), metrics.errors.total()), (3, 3), "{}", fixture.name);
            assert_eq!((metrics.lost_claims, claim.is_lost()), (0, false), "{}", fixture.name);

            store.backend().fail(fault, 0, usize::MAX);
            until("the owner hears of it", || claim.renewal_error().is_some());
            assert_eq!(claim.renewal_error().map(|error| error.kind()), Some(kind), "{}", fixture.name);
            until("it is tried again and again", || store.metrics().renewal_failures >= 10);
            assert!(!claim.is_lost());

            store.backend().fail(fault, 0, 0);
            until("the owner hears that it succeeded", || claim.renewal_error().is_none());
            claim.complete(Reply::Marker).expect("a claim that stands");
        }
    });
}

#[test]
fn renewing_goes_on_when_the_lease_is_over_and_succeeds_as_long_as_nobody_has_taken_over() {
    on_every_backend(|fixture| {
        let store = faulty(fixture);
        let ask = || store.try_claim(&scope("tenant"), &key("job"), &asks_for("it")).expect("an answer");
        let claim = kept(&store, "job");
        store.backend().fail(Fault::Before, 0, usize::MAX);
        until("a renewal fails", || claim.renewal_error().is_some());
        fixture.clock.advance(LEASE * 5);
        let failures = store.metrics().renewal_failures;
        until("it is tried again", || store.metrics().renewal_failures > failures + 2);
        assert!(!claim.is_lost(), "{}", fixture.name);
        let renewals = store.metrics().renewals;
        store.backend().fail(Fault::Before, 0, 0);
        until("it succeeds", || store.metrics().renewals > renewals);
        assert_eq!(ask().name(), "in progress", "{}", fixture.name);
        claim.complete(Reply::Marker).expect("a claim that stands");
    });
}

/// As of a store that was down for long.
#[test]
fn a_claim_that_was_taken_over_while_its_renewals_failed_is_lost_once_one_does_not() {
    on_every_backend(|fixture| {
        let store = faulty(fixture);
        let claim = kept(&store, "job");
        store.backend().fail(Fault::Before, 0, usize::MAX);
        until("a renewal fails", || claim.renewal_error().is_some());
        fixture.clock.advance(LEASE);
        let other = with_lease(&fixture.store, LEASE);
        let next =
            other.try_claim(&scope("tenant"), &key("job"), &asks_for("it")).expect("an answer").claimed();
        assert!(next.is_takeover() && !claim.is_lost(), "{}", fixture.name);
        store.backend().fail(Fault::Before, 0, 0);
        until("the owner hears of it", || claim.is_lost());
        claim.complete(Reply::Marker).expect_err("a claim that is lost");
        next.complete(Reply::Marker).expect("a claim that stands");
    });
}

#[test]
fn a_renewal_by_the_owner_that_succeeds_clears_the_error() {
    on_every_backend(|fixture| {
        let store = faulty(fixture);
        let mut claim = kept(&store, "job");
        store.backend().fail(Fault::Before, 0, usize::MAX);
        until("a renewal fails", || claim.renewal_error().is_some());
        claim.keep_alive(std::time::Duration::ZERO).expect("nothing to do");
        store.backend().fail(Fault::Before, 0, 0);
        until("the owner's renewal is the latest", || {
            // One of the renewer's may still have been on its way.
            claim.renew().expect("a claim that stands");
            claim.renewal_error().is_none()
        });
    });
}

/// The completion that fails is the owner's call, and not counted as a renewal's.
#[test]
fn a_completion_that_fails_gives_back_a_claim_that_can_be_kept_alive_again() {
    on_every_backend(|fixture| {
        let store = faulty(fixture);
        let claim = kept(&store, "job");
        until("it is renewed", || store.metrics().renewals > 0);
        // Twice, if a look at the record comes before it.
        store.backend().fail(Fault::Before, 0, usize::MAX);
        let failed = claim.complete(Reply::Marker).expect_err("a backend that fails");
        assert!(failed.error().is_transient(), "{failed:?}");
        store.backend().fail(Fault::Before, 0, 0);
        let (_, claim, reply) = failed.into_parts();
        let renewals = store.metrics().renewals;
        claim.keep_alive(FOR_EVER).expect("a thread");
        until("it is renewed", || store.metrics().renewals > renewals);
        claim.complete(reply).expect("a claim that stands");
        assert_eq!(store.metrics().lost_claims, 0);
    });
}

#[test]
fn a_backend_that_panics_is_counted_and_the_thread_goes_on() {
    on_every_stage(|stage| {
        let panics = Arc::new(AtomicBool::new(true));
        stage.witness.before_each_batch({
            let panics = Arc::clone(&panics);
            move || assert!(!panics.load(Ordering::SeqCst), "on purpose")
        });
        let claims = ["one", "two"].map(|name| stage.kept(name));
        until("it has panicked often", || stage.store.metrics().renewal_failures >= 6);
        for claim in &claims {
            until("the owner hears of it", || claim.renewal_error().is_some());
            assert!(matches!(claim.renewal_error(), Some(Error::Indefinite(_))), "{claim:?}");
            assert!(!claim.is_lost());
        }
        panics.store(false, Ordering::SeqCst);
        for claim in claims {
            until("the owner hears that it succeeded", || claim.renewal_error().is_none());
            claim.complete(Reply::Marker).expect("a claim that stands");
        }
        let metrics = stage.store.metrics();
        assert_eq!(metrics.errors.of(ErrorKind::Indefinite), metrics.renewal_failures, "{}", stage.name);
    });
}

/// It panics in the midst of the backend, under its lock.
#[test]
fn a_clock_that_panics_is_counted_and_the_thread_goes_on() {
    fn goes_on<B: Backend>(store: &IdempotencyStore<B>, clock: &Panicking) {
        let store = with_lease(store, LEASE);
        let claim = kept(&store, "job");
        clock.panics.store(true, Ordering::SeqCst);
        until("it has panicked often", || store.metrics().renewal_failures >= 3);
        until("the owner hears of it", || claim.renewal_error().is_some());
        clock.panics.store(false, Ordering::SeqCst);
        until("the owner hears that it succeeded", || claim.renewal_error().is_none());
        claim.complete(Reply::Marker).expect("a claim that stands");
    }
    let clock = Panicking { clock: ManualClock::new(START), panics: Arc::default() };
    goes_on(
        &IdempotencyStore::new(MemoryBackend::new(MemoryOptions::new().with_clock(clock.clone()))),
        &clock,
    );
    #[cfg(feature = "sqlite")]
    {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = idempotency::SqliteOptions::new().with_clock(clock.clone());
        let backend = idempotency::SqliteBackend::open(folder.path().join("store.db"), options);
        goes_on(&IdempotencyStore::new(backend.expect("a fresh store")), &clock);
    }
}

type Answers = Vec<Result<Outcome, BackendError>>;

/// A backend that answers a batch otherwise than the one inside.
#[derive(Debug)]
struct Otherwise {
    inner: Arc<dyn Backend>,
    answers: fn(&[(RecordId, Command)], Answers) -> Answers,
}

impl Backend for Otherwise {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        self.inner.execute(id, command)
    }

    fn execute_many(&self, batch: &[(RecordId, Command)]) -> Answers {
        (self.answers)(batch, self.inner.execute_many(batch))
    }

    fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        self.inner.read(id)
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        self.inner.sweep(limit)
    }

    fn store_id(&self) -> StoreId {
        self.inner.store_id()
    }
}

#[test]
fn an_answer_that_is_missing_or_belongs_to_another_command_is_a_failure() {
    let fixture = Fixture::in_memory();
    let none: fn(&[_], _) -> Answers = |_, _| Vec::new();
    let others: fn(&[_], _) -> Answers = |batch, _| batch.iter().map(|_| Ok(Outcome::Released)).collect();
    for answers in [none, others] {
        let inner = Arc::clone(fixture.store.backend());
        let store = with_lease(&IdempotencyStore::new(Otherwise { inner, answers }), LEASE);
        let claim = kept(&store, "job");
        until("it has failed often", || store.metrics().renewal_failures >= 3);
        until("the owner hears of it", || claim.renewal_error().is_some());
        assert!(claim.renewal_error().is_some_and(|error| error.is_indefinite()));
        assert!(!claim.is_lost());
        claim.release().expect("a claim that stands");
    }
}

/// Beside one that does not fail. Both have a lease of which a tenth and a third can be told apart.
#[test]
fn a_renewal_that_fails_is_tried_again_sooner_than_one_that_succeeds_is_renewed_again() {
    on_every_backend(|fixture| {
        let answers: fn(&[(RecordId, Command)], Answers) -> Answers = |batch, answers| {
            let fails = |id: &RecordId| id.key.as_str() == "fails";
            let answer = |(id, answer)| if fails(id) { Err(BackendError::busy()) } else { answer };
            batch.iter().map(|(id, _)| id).zip(answers).map(answer).collect()
        };
        let inner = Arc::clone(fixture.store.backend());
        let store = with_lease(&IdempotencyStore::new(Otherwise { inner, answers }), LEASE * 5);
        let (succeeds, fails) = (kept(&store, "succeeds"), kept(&store, "fails"));
        let (failures, renewals) = (|| store.metrics().renewal_failures, || store.metrics().renewals);
        until("it is tried again more often", || failures() >= renewals() + 20);
        assert!(succeeds.renewal_error().is_none() && fails.renewal_error().is_some(), "{}", fixture.name);
    });
}
