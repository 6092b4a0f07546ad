//! What these tests need beside the fixtures: a backend that notes what it is asked, and can be held up; and
//! waiting for what the renewer does.

use crate::common::{Answer, Fixture, asks_for, key, on_every_backend, scope, secs};
use idempotency::{
    Backend, BackendError, Claim, ClaimOutcome, Clock, Command, IdempotencyStore, ManualClock,
    MonotonicClock, Outcome, Policy, Record, RecordId, StoreId, Swept, Timestamp,
};
use std::fmt;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// A third of it is 20 ms: soon, but not at once.
pub const LEASE: Duration = Duration::from_millis(60);
pub const FOR_EVER: Duration = Duration::MAX;

/// Right code passes however long this is.
const PATIENCE: Duration = Duration::from_secs(100);

/// Waits until `condition` holds.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let clock = MonotonicClock::new();
    let give_up = clock.now().saturating_add(PATIENCE);
    while !condition() {
        assert!(!give_up.is_over(clock.now()), "it never came to this: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// One store, watched.
pub struct Stage {
    pub name: &'static str,
    /// Leases of [`LEASE`].
    pub store: IdempotencyStore<Arc<Witness>>,
    pub witness: Arc<Witness>,
    pub clock: ManualClock,
}

/// Runs `test` on a fresh store of each backend.
pub fn on_every_stage(test: impl Fn(Stage)) {
    on_every_backend(|fixture| test(Stage::new(fixture)));
}

impl Stage {
    fn new(fixture: &Fixture) -> Self {
        let witness = Arc::new(Witness::new(Arc::clone(fixture.store.backend())));
        Self {
            name: fixture.name,
            store: with_lease(&IdempotencyStore::new(Arc::clone(&witness)), LEASE),
            witness,
            clock: fixture.clock.clone(),
        }
    }

    pub fn ask(&self, name: &str) -> ClaimOutcome {
        self.store.try_claim(&scope("tenant"), &key(name), &asks_for("it")).expect("an answer")
    }

    /// A claim that is granted now.
    #[track_caller]
    pub fn claim(&self, name: &str) -> Claim {
        self.ask(name).claimed()
    }

    /// A claim that is kept alive.
    #[track_caller]
    pub fn kept(&self, name: &str) -> Claim {
        let claim = self.claim(name);
        claim.keep_alive(FOR_EVER).expect("a thread");
        claim
    }

    /// Waits until `name` was renewed so often once more.
    #[track_caller]
    pub fn until_renewed(&self, name: &str, times: usize) {
        let enough = self.witness.renewals(name) + times;
        until(&format!("{name} is renewed, {}", self.name), || self.witness.renewals(name) >= enough);
    }

    /// Lets so much time pass that each claim which is kept alive is renewed, whatever was on its way before.
    pub fn let_renewals_come(&self) {
        let pulse = self.kept("pulse");
        // What is due when the first of them comes, and what is not, but a third of a lease later.
        self.until_renewed("pulse", 4);
        pulse.release().expect("the pulse's claim stands");
    }
}

/// A handle on the same store with this lease.
pub fn with_lease<B: Backend>(store: &IdempotencyStore<B>, lease: Duration) -> IdempotencyStore<B> {
    let policy = Policy::new().with_lease(lease).with_retention(secs(3_600));
    store.with_policy(policy).expect("a usable policy")
}

/// One step of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub key: String,
    pub command: &'static str,
    /// Whether the renewer has asked, or some owner.
    pub in_a_batch: bool,
    pub is_answered: bool,
}

/// A backend that notes what it is asked. Renewals in a batch can be held up before they are executed, or
/// after.
pub struct Witness {
    inner: Arc<dyn Backend>,
    seen: Mutex<Seen>,
    /// What is done at each batch, before it is executed.
    before: Mutex<Option<Hook>>,
    /// At which key a renewal panics.
    poisoned: Mutex<Option<&'static str>>,
}

type Hook = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Seen {
    steps: Vec<Step>,
    batches: Vec<usize>,
    threads: Vec<ThreadId>,
}

impl Witness {
    fn new(inner: Arc<dyn Backend>) -> Self {
        Self { inner, seen: Mutex::default(), before: Mutex::default(), poisoned: Mutex::default() }
    }

    /// Does this before each batch from now on, on the renewer's thread.
    pub fn before_each_batch(&self, hook: impl Fn() + Send + Sync + 'static) {
        *unpoisoned(&self.before) = Some(Arc::new(hook));
    }

    /// Panics at each batch that has `key` in it.
    pub fn panic_at(&self, key: &'static str) {
        *unpoisoned(&self.poisoned) = Some(key);
    }

    /// How often `name` was renewed in the background.
    pub fn renewals(&self, name: &str) -> usize {
        self.steps().iter().filter(|step| step.key == name && step.is_renewed()).count()
    }

    pub fn steps(&self) -> Vec<Step> {
        unpoisoned(&self.seen).steps.clone()
    }

    /// The lengths of all batches.
    pub fn batches(&self) -> Vec<usize> {
        unpoisoned(&self.seen).batches.clone()
    }

    /// The threads that have asked for batches.
    pub fn threads(&self) -> Vec<ThreadId> {
        unpoisoned(&self.seen).threads.clone()
    }

    fn note(&self, id: &RecordId, command: &Command, in_a_batch: bool, is_answered: bool) {
        let command = match command {
            Command::Claim { .. } => "claim",
            Command::Complete { .. } => "complete",
            Command::Renew { .. } => "renew",
            Command::Checkpoint { .. } => "checkpoint",
            Command::Release { .. } => "release",
            Command::Abandon { .. } => "abandon",
            Command::Forget => "forget",
        };
        let key = id.key.as_str().to_owned();
        unpoisoned(&self.seen).steps.push(Step { key, command, in_a_batch, is_answered });
    }
}

impl Step {
    pub fn is_renewed(&self) -> bool {
        self.in_a_batch && self.is_answered && self.command == "renew"
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Backend for Witness {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        self.note(id, command, false, false);
        let answer = self.inner.execute(id, command);
        self.note(id, command, false, true);
        answer
    }

    fn execute_many(&self, batch: &[(RecordId, Command)]) -> Vec<Result<Outcome, BackendError>> {
        batch.iter().for_each(|(id, command)| self.note(id, command, true, false));
        let before = unpoisoned(&self.before).clone();
        if let Some(hook) = before {
            hook();
        }
        let poisoned = *unpoisoned(&self.poisoned);
        if batch.iter().any(|(id, _)| poisoned == Some(id.key.as_str())) {
            resume_unwind(Box::new("on purpose"));
        }
        let answers = self.inner.execute_many(batch);
        batch.iter().for_each(|(id, command)| self.note(id, command, true, true));
        let mut seen = unpoisoned(&self.seen);
        seen.batches.push(batch.len());
        seen.threads.push(thread::current().id());
        answers
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
