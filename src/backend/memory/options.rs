//! How a memory store is made: [`MemoryOptions`].

use crate::record::FencingToken;
use crate::time::{Clock, MonotonicClock};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::thread::available_parallelism;

const SHARDS_PER_CORE: usize = 8;

/// How a [`MemoryBackend`](crate::MemoryBackend) is made.
///
/// ```
/// use idempotency::{IdempotencyStore, ManualClock, MemoryBackend, MemoryOptions, Timestamp};
///
/// let clock = ManualClock::new(Timestamp::from_millis(0));
/// let options = MemoryOptions::new().with_clock(clock.clone()).with_max_records(10_000);
/// let store = IdempotencyStore::new(MemoryBackend::new(options));
/// ```
#[derive(Clone)]
pub struct MemoryOptions {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) max_records: usize,
    pub(super) max_bytes: usize,
    pub(super) shards: usize,
    pub(super) hash_seed: (u64, u64),
    pub(super) first_token: Option<FencingToken>,
}

impl MemoryOptions {
    /// A [`MonotonicClock`], at most 10 million records and 4 GiB, and as many shards as suit the machine.
    #[must_use]
    pub fn new() -> Self {
        let seed = RandomState::new();
        Self {
            clock: Arc::new(MonotonicClock::new()),
            max_records: 10_000_000,
            max_bytes: usize::try_from(1_u64 << 32).unwrap_or(usize::MAX),
            shards: available_parallelism().map_or(1, usize::from).saturating_mul(SHARDS_PER_CORE),
            hash_seed: (seed.hash_one(0), seed.hash_one(1)),
            first_token: None,
        }
    }

    /// Where the time comes from. It is read under a shard's lock.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// The most records the store holds. A full one first sweeps what has expired, then refuses claims that
    /// need a new record with [`Error::Full`](crate::Error::Full); what exists can always be taken over and
    /// completed.
    #[must_use]
    pub fn with_max_records(mut self, max: usize) -> Self {
        self.max_records = max;
        self
    }

    /// The most bytes the store holds before it refuses as [`with_max_records`](Self::with_max_records) does.
    /// Replies and checkpoints of existing records are taken beyond it. A part of a large buffer counts as
    /// the part, though it keeps the whole; see [`IntoBytes`](crate::IntoBytes).
    #[must_use]
    pub fn with_max_bytes(mut self, max: usize) -> Self {
        self.max_bytes = max;
        self
    }

    /// How many parts with a lock each the store has; rounded up to a power of two, at most 4,096.
    #[must_use]
    pub fn with_shards(mut self, shards: usize) -> Self {
        self.shards = shards;
        self
    }

    /// The key of the hash, random otherwise. For tests that must run the same way twice; a known one lets
    /// clients choose colliding keys.
    #[must_use]
    pub fn with_hash_seed(mut self, first: u64, second: u64) -> Self {
        self.hash_seed = (first, second);
        self
    }

    /// Gives the store a token counter of its own that starts with `first`, for tests. Without it all memory
    /// stores of the process share one that starts at the wall clock.
    #[must_use]
    pub fn with_first_token(mut self, first: FencingToken) -> Self {
        self.first_token = Some(first);
        self
    }
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryOptions")
            .field("max_records", &self.max_records)
            .field("max_bytes", &self.max_bytes)
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}
