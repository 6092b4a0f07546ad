//! What these tests need beside the fixtures: one operation, and stores whose calls are counted, fail, or are
//! told to a test before they are made.

use crate::common::{Answer, Fixture, asks_for, key, scope};
use crate::snapshot::{Snapshot, snapshot};
use idempotency::testing::FaultyBackend;
use idempotency::transition::Command;
use idempotency::{
    Backend, BackendError, Claim, ClaimOutcome, Completed, Error, Fingerprint, IdempotencyKey,
    IdempotencyStore, LostReason, Outcome, Policy, Ran, Record, RecordId, Reply, RunError, Scope, StoreId,
    StoredResponse, Swept, Timestamp,
};
use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

// ---- one operation

pub fn a_scope() -> Scope {
    scope("tenant")
}

pub fn a_key() -> IdempotencyKey {
    key("k")
}

pub fn a_print() -> Fingerprint {
    asks_for("pay")
}

/// A reply that can be told from those with another status.
pub fn reply(status: u16) -> Reply {
    StoredResponse::new(status)
        .with_header("x-status", status.to_string())
        .with_body(format!("{status}!"))
        .into()
}

pub fn try_claim<B: Backend>(store: &IdempotencyStore<B>) -> Result<ClaimOutcome, Error> {
    store.try_claim(&a_scope(), &a_key(), &a_print())
}

#[track_caller]
pub fn claim<B: Backend>(store: &IdempotencyStore<B>) -> Claim {
    try_claim(store).expect("an answer").claimed()
}

pub fn run<B: Backend, E>(
    store: &IdempotencyStore<B>,
    work: impl FnOnce(&mut Claim) -> Result<Reply, E>,
) -> Result<Ran, RunError<E>> {
    store.run(&a_scope(), &a_key(), &a_print(), work)
}

pub fn no_work(_: &mut Claim) -> Result<Reply, Infallible> {
    panic!("the work was run")
}

/// Runs work that gives `reply`, which must be recorded, as attempt `attempt`.
#[track_caller]
pub fn must_run<B: Backend>(store: &IdempotencyStore<B>, attempt: u32, reply: Reply) -> Completed {
    let ran = run(store, |claim| {
        assert_eq!((claim.attempt(), claim.is_takeover()), (attempt, attempt > 1));
        Ok::<_, Infallible>(reply)
    });
    executed(ran)
}

#[track_caller]
pub fn executed<E: fmt::Debug>(ran: Result<Ran, RunError<E>>) -> Completed {
    match ran {
        Ok(Ran::Executed(done)) => done,
        other => panic!("wanted Executed, got {other:?}"),
    }
}

#[track_caller]
pub fn replayed<E: fmt::Debug>(ran: Result<Ran, RunError<E>>) -> Completed {
    match ran {
        Ok(Ran::Replayed(done)) => done,
        other => panic!("wanted Replayed, got {other:?}"),
    }
}

#[track_caller]
pub fn not_recorded<E: fmt::Debug>(ran: Result<Ran, RunError<E>>) -> (Reply, Error) {
    match ran {
        Err(RunError::NotRecorded { reply, error }) => (reply, error),
        other => panic!("wanted NotRecorded, got {other:?}"),
    }
}

/// Why the claim of a reply that was not recorded was lost.
#[track_caller]
pub fn lost<E: fmt::Debug>(ran: Result<Ran, RunError<E>>) -> LostReason {
    match not_recorded(ran) {
        (_, Error::ClaimLost(reason)) => reason,
        other => panic!("wanted ClaimLost, got {other:?}"),
    }
}

/// What is stored of the operation.
pub fn stored(fixture: &Fixture) -> Snapshot {
    snapshot(fixture, &a_scope(), &a_key())
}

/// Holds what is stored against `before` when the lease of 90 seconds that began at 0 is about to end, and
/// then finds attempt `attempt` taken over by the next.
#[track_caller]
pub fn stands_under_its_lease(fixture: &Fixture, before: &Snapshot, attempt: u32) {
    assert_eq!(stored(fixture), *before, "{}", fixture.name);
    fixture.at(89);
    assert_eq!(try_claim(&fixture.store).expect("an answer").name(), "in progress", "{}", fixture.name);
    fixture.at(90);
    assert_eq!(claim(&fixture.store).attempt(), attempt + 1, "{}", fixture.name);
}

// ---- stores

/// A store whose calls are counted, and fail when a test says so. It counts for itself.
pub type WatchedStore = IdempotencyStore<FaultyBackend<Arc<dyn Backend>>>;

pub fn watched(fixture: &Fixture, policy: Policy) -> WatchedStore {
    IdempotencyStore::new(FaultyBackend::new(Arc::clone(fixture.store.backend())))
        .with_policy(policy)
        .expect("a usable policy")
}

/// A store that counts commands and looks apart, and has a test act before each of them.
pub type StagedStore = IdempotencyStore<Staged>;

/// A call, by its number among its like, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Call {
    Command(usize),
    Look(usize),
}

/// What is done before a call; an error is the call's answer.
type Stage = Box<dyn FnMut(Call) -> Result<(), BackendError> + Send>;

pub struct Staged {
    inner: Arc<dyn Backend>,
    commands: AtomicUsize,
    looks: AtomicUsize,
    stage: Mutex<Stage>,
}

pub fn staged(
    fixture: &Fixture,
    stage: impl FnMut(Call) -> Result<(), BackendError> + Send + 'static,
) -> StagedStore {
    IdempotencyStore::new(Staged {
        inner: Arc::clone(fixture.store.backend()),
        commands: AtomicUsize::new(0),
        looks: AtomicUsize::new(0),
        stage: Mutex::new(Box::new(stage)),
    })
}

impl Staged {
    pub fn commands(&self) -> usize {
        self.commands.load(Ordering::SeqCst)
    }

    pub fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }

    fn before(&self, call: Call) -> Result<(), BackendError> {
        (self.stage.lock().expect("a stage that does not panic"))(call)
    }
}

impl Backend for Staged {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        self.before(Call::Command(self.commands.fetch_add(1, Ordering::SeqCst) + 1))?;
        self.inner.execute(id, command)
    }

    fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        self.before(Call::Look(self.looks.fetch_add(1, Ordering::SeqCst) + 1))?;
        self.inner.read(id)
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        self.inner.sweep(limit)
    }

    fn store_id(&self) -> StoreId {
        self.inner.store_id()
    }
}

impl fmt::Debug for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staged").finish_non_exhaustive()
    }
}
