//! What these tests need beside the fixtures: waiting for what a sweeper does, and a backend that does
//! something before a sweep.

use crate::common::{Answer, Fixture, asks_for, key, scope};
use idempotency::{
    Backend, BackendError, Clock, Command, DynStore, MonotonicClock, Outcome, Record, RecordId, StoreId,
    Sweeper, Swept, Timestamp,
};
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// As often as it gets: zero is taken as a millisecond.
pub const AT_ONCE: Duration = Duration::ZERO;
/// Never, for a test.
pub const RARELY: Duration = Duration::from_secs(3_600);

/// Right code passes however long this is.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` holds; says whether it does, or never did.
#[must_use]
pub fn comes_true(condition: impl Fn() -> bool) -> bool {
    let clock = MonotonicClock::new();
    let give_up = clock.now().saturating_add(PATIENCE);
    while !condition() {
        if give_up.is_over(clock.now()) {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

#[track_caller]
pub fn until(what: &str, condition: impl Fn() -> bool) {
    assert!(comes_true(condition), "it never came to this: {what}");
}

/// Waits until `sweeper` has run `runs` times more, the first of them from its beginning.
#[track_caller]
pub fn until_it_has_run(sweeper: &Sweeper, runs: u64) {
    // The run that goes on now may have begun before what the caller did.
    let enough = sweeper.runs() + runs + 1;
    until("enough runs of the sweeper", || sweeper.runs() >= enough);
}

/// Lets so much time pass that a sweeper which has something to do now, or at once again, would have done it.
pub fn let_another_sweeper_run() {
    let other = Fixture::in_memory();
    until_it_has_run(&other.store.spawn_sweeper(AT_ONCE), 20);
}

/// Claims `count` keys that start with `prefix`, and leaves the claims.
pub fn claim_many(store: &DynStore, prefix: &str, count: usize) {
    let operations: Vec<_> =
        (0..count).map(|n| (scope("tenant"), key(&format!("{prefix} {n}")), asks_for("it"))).collect();
    store
        .try_claim_many(&operations)
        .into_iter()
        .for_each(|answer| drop(answer.expect("an answer").claimed()));
}

/// A backend that does something before each sweep, on the sweeping thread.
pub struct Hooked {
    inner: Arc<dyn Backend>,
    before_sweep: Box<dyn Fn() + Send + Sync>,
}

impl Hooked {
    pub fn new(inner: &Arc<dyn Backend>, before_sweep: impl Fn() + Send + Sync + 'static) -> Self {
        Self { inner: Arc::clone(inner), before_sweep: Box::new(before_sweep) }
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Backend for Hooked {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        self.inner.execute(id, command)
    }

    fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        self.inner.read(id)
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        (self.before_sweep)();
        self.inner.sweep(limit)
    }

    fn store_id(&self) -> StoreId {
        self.inner.store_id()
    }
}
