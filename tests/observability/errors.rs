//! Each failure is counted once, by its kind, and as nothing else.

use crate::common::{Answer, Fixture, asks_for, key, on_every_backend, scope, secs};
use crate::stage::{Stage, moved, once, operation};
use idempotency::{
    Backend, BackendError, Claim, Command, DynStore, Error, ErrorKind, FencingToken, Fingerprint,
    IdempotencyStore, MAX_CHECKPOINT_LEN, ManualClock, MemoryBackend, MemoryOptions, Metrics, Outcome,
    Policy, Record, RecordId, Reply, Stats, StoreId, StoredResponse, Stuck, Swept, Ticket, Timestamp,
};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// A backend that answers everything with one error, once it is told to.
#[derive(Debug)]
struct Failing {
    inner: Arc<dyn Backend>,
    error: Mutex<Option<BackendError>>,
}

impl Failing {
    fn call<T>(&self, call: impl FnOnce(&dyn Backend) -> Result<T, BackendError>) -> Result<T, BackendError> {
        match &*self.error.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error.clone()),
            None => call(&*self.inner),
        }
    }
}

impl Backend for Failing {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        self.call(|inner| inner.execute(id, command))
    }

    fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        self.call(|inner| inner.read(id))
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        self.call(|inner| inner.sweep(limit))
    }

    fn stats(&self) -> Result<Stats, BackendError> {
        self.call(|inner| inner.stats())
    }

    fn stuck(&self, limit: usize) -> Result<Vec<Stuck>, BackendError> {
        self.call(|inner| inner.stuck(limit))
    }

    fn store_id(&self) -> StoreId {
        self.inner.store_id()
    }
}

type Store = IdempotencyStore<Failing>;

/// A call that has one error, whether it counts as a completion that failed, too.
type Call = (&'static str, fn(&Store, Ticket), bool);
const CALLS: &[Call] = &[
    ("try_claim", |store, _| drop(ask(store)), false),
    ("try_claim_many", |store, _| drop(store.try_claim_many(&[operation()])), false),
    (
        "claim_or_wait",
        |store, _| {
            let (scope, key, fingerprint) = operation();
            drop(store.claim_or_wait(&scope, &key, &fingerprint, secs(600)));
        },
        false,
    ),
    (
        "run",
        |store, _| {
            let (scope, key, fingerprint) = operation();
            let work = |_: &mut Claim| -> Result<Reply, ()> { panic!("it was run") };
            drop(store.run(&scope, &key, &fingerprint, work));
        },
        false,
    ),
    ("complete", |store, ticket| drop(store.complete(&ticket, Reply::Marker)), true),
    ("release", |store, ticket| drop(store.release(&ticket)), false),
    ("abandon", |store, ticket| drop(store.abandon(&ticket)), false),
    ("resume", |store, ticket| drop(store.resume(ticket)), false),
    ("lookup", |store, ticket| drop(store.lookup(ticket.scope(), ticket.key())), false),
    ("forget", |store, ticket| drop(store.forget(ticket.scope(), ticket.key())), false),
    ("sweep", |store, _| drop(store.sweep(10)), false),
    ("sweep_all", |store, _| drop(store.sweep_all()), false),
    ("stats", |store, _| drop(store.stats()), false),
    ("stuck", |store, _| drop(store.stuck(10)), false),
];

fn ask(store: &Store) -> Result<idempotency::ClaimOutcome, Error> {
    let (scope, key, fingerprint) = operation();
    store.try_claim(&scope, &key, &fingerprint)
}

/// One of each kind that a backend can fail with.
fn failures() -> Vec<(ErrorKind, BackendError)> {
    let no_such_year = idempotency::time::read_clock(&ManualClock::new(Timestamp::from_millis(-1)));
    vec![
        (ErrorKind::Busy, BackendError::busy()),
        (ErrorKind::Unavailable, BackendError::unavailable()),
        (ErrorKind::Indefinite, BackendError::indefinite()),
        (ErrorKind::Full, BackendError::full()),
        (ErrorKind::ReadOnly, BackendError::read_only()),
        (ErrorKind::CannotOpen, BackendError::cannot_open()),
        (ErrorKind::Corrupt, BackendError::corrupt("a row")),
        (ErrorKind::Foreign, BackendError::foreign("a file")),
        (ErrorKind::Foreign, BackendError::newer_schema(9, 2)),
        (ErrorKind::Clock, no_such_year.expect_err("a time before 1970").into()),
        (ErrorKind::TokensExhausted, BackendError::tokens_exhausted()),
        (ErrorKind::Refused, BackendError::invalid_option("an option")),
        (ErrorKind::Refused, BackendError::unsupported("do it")),
        (ErrorKind::Bug, BackendError::bug("a bug")),
        (ErrorKind::Other, BackendError::other(io::Error::other("anything"))),
    ]
}

#[test]
fn whatever_fails_in_whichever_call_counts_once_by_its_kind() {
    let kinds: BTreeSet<_> = failures().into_iter().map(|(kind, _)| kind).collect();
    let lost_claims_are_no_failures = BTreeSet::from([ErrorKind::ClaimLost]);
    assert_eq!(&kinds | &lost_claims_are_no_failures, ErrorKind::ALL.iter().copied().collect());
    for (kind, error) in failures() {
        for (name, call, is_completion) in CALLS {
            on_every_backend(|fixture| {
                let inner = Arc::clone(fixture.store.backend());
                let store = IdempotencyStore::new(Failing { inner, error: Mutex::new(None) });
                let ticket = ask(&store).expect("an answer").claimed().into_ticket();
                let before = store.metrics();
                *store.backend().error.lock().expect("no panic") = Some(error.clone());
                call(&store, ticket);
                let counted = format!("errors.{kind}");
                let mut expected = once(&[&counted]);
                expected.extend(is_completion.then(|| ("failed_completions".to_owned(), 1)));
                assert_eq!(moved(&before, &store.metrics()), expected, "{name}: {kind} on {}", fixture.name);
            });
        }
    }
}

#[test]
fn each_operation_of_a_batch_that_fails_counts() {
    on_every_backend(|fixture| {
        let inner = Arc::clone(fixture.store.backend());
        let error = Mutex::new(Some(BackendError::busy()));
        let store = IdempotencyStore::new(Failing { inner, error });
        let answers = store.try_claim_many(&[operation(), operation(), operation()]);
        assert!(answers.iter().all(Result::is_err));
        assert_eq!(store.metrics().errors.of(ErrorKind::Busy), 3, "{}", fixture.name);
        assert_eq!(store.metrics().errors.total(), 3, "{}", fixture.name);
    });
}

#[test]
fn what_is_refused_before_the_backend_is_asked_counts_as_refused() {
    type Refusal = (&'static str, fn(&Stage<'_>, Claim) -> Option<Error>, bool);
    const REFUSALS: &[Refusal] = &[
        ("a reply that is too large", |_, claim| Some(claim.complete(reference(5)).err()?.into()), true),
        (
            "the same by ticket",
            |stage, claim| stage.store.complete(&claim.into_ticket(), reference(5)).err(),
            true,
        ),
        (
            "headers that are too large",
            |_, claim| {
                let reply = StoredResponse::new(200).with_header("name", vec![b'x'; 70_000]);
                Some(claim.complete(reply).err()?.into())
            },
            true,
        ),
        ("no retention", |_, claim| Some(claim.complete_for(secs(0), Reply::Marker).err()?.into()), true),
        (
            "a checkpoint that is too large",
            |_, mut claim| claim.save_checkpoint(vec![0; MAX_CHECKPOINT_LEN + 1]).err(),
            false,
        ),
    ];
    for (what, refuse, is_completion) in REFUSALS {
        on_every_backend(|fixture| {
            let stage = Stage::new(fixture);
            let policy = Policy::new().with_max_reply_len(4);
            let stage = Stage { store: stage.store.with_policy(policy).expect("a policy"), ..stage };
            let claim = stage.claim();
            let _ticket = claim.ticket();
            let (before, calls) = (stage.store.metrics(), stage.store.backend().calls());
            let error = refuse(&stage, claim).expect(what);
            assert_eq!(error.kind(), ErrorKind::Refused, "{what}: {error:?}");
            assert_eq!(stage.store.backend().calls(), calls, "{what}");
            let mut expected = once(&["errors.refused"]);
            expected.extend(is_completion.then(|| ("failed_completions".to_owned(), 1)));
            assert_eq!(moved(&before, &stage.store.metrics()), expected, "{what} on {}", fixture.name);
        });
    }
}

fn reference(len: usize) -> Reply {
    Reply::Reference("x".repeat(len))
}

#[test]
fn a_run_whose_reply_is_not_recorded_counts_why_and_the_claim_that_is_left() {
    on_every_backend(|fixture| {
        let stage = Stage::new(fixture);
        let store = stage.store.with_policy(Policy::new().with_max_reply_len(4)).expect("a policy");
        let (scope, key, fingerprint) = operation();
        let ran = store.run(&scope, &key, &fingerprint, |_| Ok::<_, ()>(reference(5)));
        ran.expect_err("it is too large");
        assert_eq!(
            moved(&Metrics::default(), &store.metrics()),
            once(&["claims", "errors.refused", "failed_completions", "dropped_unfinished"]),
            "{}",
            fixture.name
        );
    });
}

#[test]
fn a_full_store_counts_the_claims_that_it_has_no_room_for() {
    let store = IdempotencyStore::new(MemoryBackend::new(MemoryOptions::new().with_max_records(1)));
    let claim = |name| store.try_claim(&scope("a"), &key(name), &asks_for("x"));
    let _ticket = claim("first").expect("room").claimed().into_ticket();
    claim("second").expect_err("no room");
    assert_eq!(moved(&Metrics::default(), &store.metrics()), once(&["claims", "errors.full"]));
}

#[test]
fn a_store_without_tokens_counts_the_claims_that_it_can_not_grant() {
    let last = FencingToken::new(i64::MAX).expect("a token");
    let store = IdempotencyStore::new(MemoryBackend::new(MemoryOptions::new().with_first_token(last)));
    let claim = |name| store.try_claim(&scope("a"), &key(name), &asks_for("x"));
    let _ticket = claim("first").expect("a token").claimed().into_ticket();
    claim("second").expect_err("no token");
    assert_eq!(moved(&Metrics::default(), &store.metrics()), once(&["claims", "errors.tokens_exhausted"]));
}

#[test]
fn while_the_clock_is_out_of_range_every_claim_is_counted_as_that() {
    on_every_backend(|fixture| {
        let stage = Stage::new(fixture);
        fixture.clock.set(Timestamp::from_millis(-1));
        stage.ask().expect_err("no time");
        assert_eq!(
            moved(&Metrics::default(), &stage.store.metrics()),
            once(&["errors.clock"]),
            "{}",
            fixture.name
        );
    });
}

/// A backend that answers each command as if it were another one, and batches with one answer too few.
#[derive(Debug)]
struct Confused(Arc<dyn Backend>);

impl Backend for Confused {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        self.0.execute(id, command)?;
        Ok(match command {
            Command::Claim { .. } => Outcome::Released,
            Command::Complete { .. } => Outcome::Abandoned,
            Command::Renew { .. } => Outcome::Forgotten { existed: true },
            Command::Checkpoint { .. } => Outcome::Released,
            Command::Release { .. } => Outcome::Abandoned,
            Command::Abandon { .. } => Outcome::Released,
            Command::Forget => Outcome::AlreadyGone,
        })
    }

    fn execute_many(&self, batch: &[(RecordId, Command)]) -> Vec<Result<Outcome, BackendError>> {
        self.0.execute_many(batch).into_iter().skip(1).collect()
    }

    fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        self.0.read(id)
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        self.0.sweep(limit)
    }

    fn store_id(&self) -> StoreId {
        self.0.store_id()
    }
}

#[test]
fn an_answer_that_belongs_to_another_command_counts_as_indefinite_and_as_nothing_else() {
    type Wrong = (&'static str, fn(&DynStore, &Ticket) -> Option<Error>, bool);
    const CALLS: &[Wrong] = &[
        ("claim", |store, _| ask_one(store, &asks_for("an order")).err(), false),
        ("renew", |store, ticket| store.resume(ticket.clone()).expect("the claim").left(Claim::renew), false),
        (
            "checkpoint",
            |store, ticket| {
                store.resume(ticket.clone()).expect("the claim").left(|claim| claim.save_checkpoint("x"))
            },
            false,
        ),
        ("complete", |store, ticket| store.complete(ticket, Reply::Marker).err(), true),
        ("release", |store, ticket| store.release(ticket).err(), false),
        ("abandon", |store, ticket| store.abandon(ticket).err(), false),
        ("forget", |store, ticket| store.forget(ticket.scope(), ticket.key()).err(), false),
    ];
    for (name, call, is_completion) in CALLS {
        on_every_backend(|fixture| {
            let (scope, key, fingerprint) = operation();
            let ticket = fixture
                .store
                .try_claim(&scope, &key, &fingerprint)
                .expect("an answer")
                .claimed()
                .into_ticket();
            let store = crate::common::on(Confused(Arc::clone(fixture.store.backend())));
            let error = call(&store, &ticket).expect(name);
            assert!(error.is_indefinite(), "{name}: {error:?}");
            let mut expected = once(&["errors.indefinite"]);
            expected.extend(is_completion.then(|| ("failed_completions".to_owned(), 1)));
            assert_eq!(moved(&Metrics::default(), &store.metrics()), expected, "{name} on {}", fixture.name);
        });
    }
}

fn ask_one(store: &DynStore, fingerprint: &Fingerprint) -> Result<idempotency::ClaimOutcome, Error> {
    let (scope, key, _) = operation();
    store.try_claim(&scope, &key, fingerprint)
}

/// What a call of a claim's owner fails with, the claim being left to its ticket.
trait Left {
    fn left(self, call: impl FnOnce(&mut Claim) -> Result<(), Error>) -> Option<Error>;
}

impl Left for Claim {
    fn left(mut self, call: impl FnOnce(&mut Claim) -> Result<(), Error>) -> Option<Error> {
        let _ticket = self.ticket();
        call(&mut self).err()
    }
}

#[test]
fn an_operation_of_a_batch_that_gets_no_answer_counts_as_indefinite() {
    on_every_backend(|fixture: &mut Fixture| {
        let store = crate::common::on(Confused(Arc::clone(fixture.store.backend())));
        let answers = store.try_claim_many(&[operation(), operation()]);
        let indefinite = |answer: &Result<_, Error>| answer.as_ref().is_err_and(Error::is_indefinite);
        assert_eq!(answers.iter().map(indefinite).collect::<Vec<_>>(), [false, true], "{}", fixture.name);
        // The answer that there was is the second one's: the first one's key was in progress by then.
        assert_eq!(
            moved(&Metrics::default(), &store.metrics()),
            once(&["in_progress", "errors.indefinite"]),
            "{}",
            fixture.name
        );
    });
}
