//! What the test files share: every backend behind one fixture, with a clock that the test moves.

use idempotency::{
    Backend, Claim, ClaimOutcome, Completed, DynStore, Fingerprint, IdempotencyKey, IdempotencyStore,
    ManualClock, MemoryBackend, MemoryOptions, Policy, Record, Scope, Timestamp,
};
use std::sync::Arc;
use std::time::Duration;

/// Where the fixtures' clocks start: far from both ends of time.
pub const START: Timestamp = Timestamp::from_millis(1_000_000_000);

/// One store under test. `store` has the default policy: lease 90 s, retention 24 h.
pub struct Fixture {
    /// For messages: which backend this is.
    pub name: &'static str,
    pub store: DynStore,
    pub clock: ManualClock,
    #[cfg(feature = "sqlite")]
    file: Option<tempfile::TempDir>,
}

impl Fixture {
    pub fn in_memory() -> Self {
        let clock = ManualClock::new(START);
        Self {
            name: "memory",
            store: IdempotencyStore::new(MemoryBackend::new(MemoryOptions::new().with_clock(clock.clone())))
                .erase(),
            clock,
            #[cfg(feature = "sqlite")]
            file: None,
        }
    }

    #[cfg(feature = "sqlite")]
    pub fn on_sqlite() -> Self {
        let clock = ManualClock::new(START);
        let file = tempfile::tempdir().expect("a temporary folder");
        Self { name: "sqlite", store: open(&file, &clock), clock, file: Some(file) }
    }

    /// Closes the store and opens it again, where that means anything.
    pub fn reopen(&mut self) {
        #[cfg(feature = "sqlite")]
        if let Some(file) = &self.file {
            self.store = Self::in_memory().store;
            self.store = open(file, &self.clock);
        }
    }

    /// The file that the store is on, if it is on one.
    #[cfg(feature = "sqlite")]
    pub fn path(&self) -> Option<std::path::PathBuf> {
        self.file.as_ref().map(|file| file.path().join("store.db"))
    }

    /// A handle with another lease and retention.
    pub fn store_with(&self, lease: Duration, retention: Duration) -> DynStore {
        self.store
            .with_policy(Policy::new().with_lease(lease).with_retention(retention))
            .expect("a usable policy")
    }

    /// Moves the clock to `seconds` after its start.
    pub fn at(&self, seconds: u64) {
        self.clock.set(START.saturating_add(Duration::from_secs(seconds)));
    }

    /// What is stored, expired or not: found by setting the clock back for the look.
    pub fn stored(&self, scope: &Scope, key: &IdempotencyKey) -> Option<Record> {
        use idempotency::Clock;
        let now = self.clock.now();
        self.clock.set(Timestamp::from_millis(0));
        let record = self.store.lookup(scope, key).expect("a readable record");
        self.clock.set(now);
        record
    }
}

#[cfg(feature = "sqlite")]
fn open(file: &tempfile::TempDir, clock: &ManualClock) -> DynStore {
    use idempotency::{SqliteBackend, SqliteOptions};
    let options = SqliteOptions::new().with_clock(clock.clone());
    let backend = SqliteBackend::open(file.path().join("store.db"), options).expect("a fresh store");
    IdempotencyStore::new(backend).erase()
}

/// Runs `test` on a fresh store of each backend.
pub fn on_every_backend(test: impl Fn(&mut Fixture)) {
    test(&mut Fixture::in_memory());
    #[cfg(feature = "sqlite")]
    test(&mut Fixture::on_sqlite());
}

pub fn scope(value: &str) -> Scope {
    Scope::new(value).expect("a valid scope")
}

pub fn key(value: &str) -> IdempotencyKey {
    IdempotencyKey::new(value).expect("a valid key")
}

/// The fingerprint of a request that asks for `what`.
pub fn asks_for(what: &str) -> Fingerprint {
    Fingerprint::builder().field("what", what).finish()
}

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Names of the four answers, with what they carry where a test wants it.
pub trait Answer {
    fn claimed(self) -> Claim;
    fn completed(self) -> Completed;
    fn name(&self) -> &'static str;
}

impl Answer for ClaimOutcome {
    #[track_caller]
    fn claimed(self) -> Claim {
        match self {
            Self::Claimed(claim) => claim,
            other => panic!("wanted Claimed, got {other:?}"),
        }
    }

    #[track_caller]
    fn completed(self) -> Completed {
        match self {
            Self::Completed(completed) => completed,
            other => panic!("wanted Completed, got {other:?}"),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Claimed(_) => "claimed",
            Self::Completed(_) => "completed",
            Self::InProgress(_) => "in progress",
            Self::FingerprintMismatch(_) => "mismatch",
        }
    }
}

/// A store on any backend, for tests that need one of their own.
pub fn on(backend: impl Backend) -> DynStore {
    let backend: Arc<dyn Backend> = Arc::new(backend);
    IdempotencyStore::new(backend)
}
