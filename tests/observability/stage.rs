//! A store whose counters are watched.

use crate::common::{Answer, Fixture, asks_for, key, scope};
use idempotency::testing::FaultyBackend;
use idempotency::{
    Backend, Claim, ClaimOutcome, Clock, Error, Fingerprint, IdempotencyKey, IdempotencyStore, Metrics,
    MonotonicClock, Reply, Scope, Ticket,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// A store whose calls fail when a test says so.
pub type WatchedStore = IdempotencyStore<FaultyBackend<Arc<dyn Backend>>>;

/// `store` is on the fixture's backend, counts for itself, and has the default policy: lease 90 s, retention
/// 24 h.
pub struct Stage<'f> {
    pub fixture: &'f Fixture,
    pub store: WatchedStore,
}

impl<'f> Stage<'f> {
    pub fn new(fixture: &'f Fixture) -> Self {
        let backend = FaultyBackend::new(Arc::clone(fixture.store.backend()));
        Self { fixture, store: IdempotencyStore::new(backend) }
    }

    /// Asks for the one operation that there is.
    pub fn ask(&self) -> Result<ClaimOutcome, Error> {
        let (scope, key, fingerprint) = operation();
        self.store.try_claim(&scope, &key, &fingerprint)
    }

    #[track_caller]
    pub fn claim(&self) -> Claim {
        self.ask().expect("an answer").claimed()
    }

    #[track_caller]
    pub fn ticket(&self) -> Ticket {
        self.claim().into_ticket()
    }

    /// The operation, completed.
    #[track_caller]
    pub fn complete(&self) {
        self.claim().complete(Reply::Marker).expect("a completion");
    }

    /// Long enough for a lease to be over.
    pub fn lapse(&self) {
        self.fixture.at(90);
    }

    /// Long enough for every record to be over.
    pub fn expire(&self) {
        self.fixture.at(3 * 24 * 3_600);
    }
}

pub fn operation() -> (Scope, IdempotencyKey, Fingerprint) {
    (scope("acct_1"), key("k"), asks_for("an order"))
}

/// Waits until `condition` holds: right code passes however long this may take.
#[track_caller]
pub fn until(what: &str, condition: impl Fn() -> bool) {
    let clock = MonotonicClock::new();
    let give_up = clock.now().saturating_add(Duration::from_secs(100));
    while !condition() {
        assert!(!give_up.is_over(clock.now()), "it never came to this: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// How many went into each counter by name, those of errors as `errors.kind`.
pub type Counts = BTreeMap<String, u64>;

/// Every counter that there is, as `Debug` shows them: a new one can't be missed.
pub fn counts(metrics: &Metrics) -> Counts {
    let printed = format!("{metrics:?}");
    let inside = printed.strip_prefix("Metrics { ").and_then(|rest| rest.strip_suffix(" }"));
    let (numbers, _) = inside.and_then(|inside| inside.split_once(", errors: {")).expect("errors come last");
    let number = |field: &str| {
        let (name, value) = field.split_once(": ").expect("a field");
        (name.to_owned(), value.parse().expect("a number"))
    };
    let errors = metrics.errors.iter().map(|(kind, count)| (format!("errors.{kind}"), count));
    numbers.split(", ").map(number).chain(errors).collect()
}

/// What has gone into which counters meanwhile.
pub fn moved(before: &Metrics, after: &Metrics) -> Counts {
    let before = counts(before);
    let rise = |(name, count): (String, u64)| {
        let rise = count.checked_sub(before[&name]).expect("counters only go up");
        (rise > 0).then_some((name, rise))
    };
    counts(after).into_iter().filter_map(rise).collect()
}

/// One event in each of the counters named.
pub fn once(names: &[&str]) -> Counts {
    names.iter().map(|name| ((*name).to_owned(), 1)).collect()
}
