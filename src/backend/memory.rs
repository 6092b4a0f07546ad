//! The backend in memory: for tests, and for work of a single process.

mod shard;
mod tokens;
mod usage;

use self::shard::{Entry, Shard};
use self::tokens::TokenCounter;
use self::usage::Usage;
use crate::backend::{Backend, StoreId, Swept};
use crate::error::BackendError;
use crate::inspection::{Stats, Stuck, StuckList};
use crate::key::RecordId;
use crate::outcome::Outcome;
use crate::record::{FencingToken, Record};
use crate::sync::{AtomicUsize, Mutex, Ordering};
use crate::time::{Clock, MonotonicClock, Timestamp, read_clock};
use crate::transition::{self, Command, Transition, Write};
use crossbeam_utils::CachePadded;
use siphasher::sip::SipHasher13;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::thread::available_parallelism;

/// How many records one sweep removes before it lets others into the shard.
const SWEEP_BATCH: usize = 256;
const MAX_SHARDS: usize = 1 << 12;
const SHARDS_PER_CORE: usize = 8;

/// How a [`MemoryBackend`] is made.
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
    clock: Arc<dyn Clock>,
    max_records: usize,
    max_bytes: usize,
    shards: usize,
    hash_seed: (u64, u64),
    first_token: Option<FencingToken>,
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

/// Records in the memory of this process, in shards with a lock each.
///
/// Gone at exit, and wrong as soon as a second instance serves the same clients: use the SQLite backend then.
/// No user code runs under a lock but one reading of the clock.
pub struct MemoryBackend {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    usage: Usage,
    clock: Arc<dyn Clock>,
    hash_seed: (u64, u64),
    own_tokens: Option<TokenCounter>,
    store_id: StoreId,
    next_swept: AtomicUsize,
}

impl MemoryBackend {
    /// An empty store.
    #[must_use]
    pub fn new(options: MemoryOptions) -> Self {
        let shards = options.shards.clamp(1, MAX_SHARDS).next_power_of_two();
        Self {
            shards: (0..shards).map(|_| CachePadded::new(Mutex::new(Shard::default()))).collect(),
            usage: Usage::new(options.max_records, options.max_bytes),
            clock: options.clock,
            hash_seed: options.hash_seed,
            own_tokens: options.first_token.map(TokenCounter::starting_at),
            store_id: StoreId::random(),
            next_swept: AtomicUsize::new(0),
        }
    }

    fn hash(&self, id: &RecordId) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.hash_seed.0, self.hash_seed.1);
        id.hash(&mut hasher);
        hasher.finish()
    }

    /// The shard for a hash: by bits that the table inside uses neither for the slot nor for the tag.
    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        self.shard_at(usize::try_from(hash >> 32).unwrap_or(0))
    }

    #[expect(clippy::indexing_slicing, reason = "masked by the length, which is a power of two")]
    fn shard_at(&self, index: usize) -> &Mutex<Shard> {
        &self.shards[index & self.shards.len().saturating_sub(1)]
    }

    fn draw_token(&self) -> Result<FencingToken, BackendError> {
        let tokens = self.own_tokens.as_ref().unwrap_or_else(|| TokenCounter::of_the_process());
        tokens.draw().ok_or_else(BackendError::tokens_exhausted)
    }

    /// Executes `command`, or says that there is no room for a new record.
    fn try_execute(&self, id: &RecordId, command: &Command) -> Result<Option<Outcome>, BackendError> {
        let hash = self.hash(id);
        let mut displaced = None;
        let mut removed = None;
        let outcome = {
            let mut shard = self.shard(hash).lock();
            let now = read_clock(&*self.clock)?;
            let record = shard.get(hash, id);
            check(record)?;
            let token = if transition::grants(record, command, now) {
                self.draw_token()?
            } else {
                FencingToken::FIRST
            };
            let old_bytes = record.map(|record| Entry::footprint(id, record));
            let Transition { write, outcome } = transition::apply(record, command, now, token);
            match write {
                Write::Keep => {}
                Write::Put(record) => {
                    check(Some(&record))?;
                    let new_bytes = Entry::footprint(id, &record);
                    match old_bytes {
                        Some(old_bytes) => self.usage.replace_record(old_bytes, new_bytes),
                        None if self.usage.admit_record(new_bytes) => {}
                        None => return Ok(None),
                    }
                    displaced = shard.put(hash, id, record);
                }
                Write::Delete => {
                    removed = shard.remove(hash, id);
                    if let Some(entry) = &removed {
                        self.usage.remove_record(entry.own_footprint());
                    }
                }
            }
            outcome
        };
        drop((displaced, removed));
        Ok(Some(outcome))
    }

    /// Shows every record to `look`, shard by shard, with the time at which its shard stood still.
    fn survey(&self, mut look: impl FnMut(&RecordId, &Record, Timestamp)) -> Result<(), BackendError> {
        self.shards.iter().try_for_each(|shard| {
            let shard = shard.lock();
            let now = read_clock(&*self.clock)?;
            shard.records().for_each(|(id, record)| look(id, record, now));
            Ok(())
        })
    }

    /// Removes at most `limit` expired records of one shard; says whether there are more in it.
    fn sweep_shard(&self, shard: &Mutex<Shard>, limit: usize) -> Result<Swept, BackendError> {
        let mut expired = Vec::new();
        let more = {
            let mut shard = shard.lock();
            let now = read_clock(&*self.clock)?;
            while expired.len() < limit {
                let Some(entry) = shard.pop_expired(now, |id| self.hash(id)) else { break };
                self.usage.remove_record(entry.own_footprint());
                expired.push(entry);
            }
            shard.has_expired(now)
        };
        Ok(Swept { removed: expired.len(), more })
    }
}

/// Nothing but this process touches what is kept here, so a broken invariant is a bug.
fn check(record: Option<&Record>) -> Result<(), BackendError> {
    match record.map(Record::check) {
        Some(Err(_)) => Err(BackendError::bug("a record breaks an invariant")),
        _ => Ok(()),
    }
}

impl Backend for MemoryBackend {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        loop {
            if let Some(outcome) = self.try_execute(id, command)? {
                return Ok(outcome);
            }
            // One batch may not be enough: replies are taken beyond the limit, and others claim the room that
            // it makes.
            if self.sweep(SWEEP_BATCH)?.removed == 0 {
                // There may be room all the same: what had expired was swept by another claim, after this one
                // had found no room.
                return self.try_execute(id, command)?.ok_or_else(BackendError::full);
            }
        }
    }

    fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        let hash = self.hash(id);
        let shard = self.shard(hash).lock();
        let record = shard.get(hash, id);
        check(record)?;
        let now = read_clock(&*self.clock)?;
        Ok(record.filter(|record| !record.is_expired(now)).map(|record| (record.clone(), now)))
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        // Each sweep starts with another shard, so that small limits reach them all.
        let first = self.next_swept.fetch_add(1, Ordering::Relaxed);
        let mut removed: usize = 0;
        for index in 0..self.shards.len() {
            let shard = self.shard_at(first.wrapping_add(index));
            loop {
                let left = limit.saturating_sub(removed);
                let swept = self.sweep_shard(shard, left.min(SWEEP_BATCH))?;
                removed = removed.saturating_add(swept.removed);
                match swept.more {
                    true if left == swept.removed => return Ok(Swept { removed, more: true }),
                    true => {}
                    false => break,
                }
            }
        }
        Ok(Swept { removed, more: false })
    }

    fn stats(&self) -> Result<Stats, BackendError> {
        let mut stats = Stats::default();
        self.survey(|id, record, now| {
            let bytes = u64::try_from(Entry::content_len(id, record)).unwrap_or(u64::MAX);
            stats.count(record, now, bytes);
        })?;
        Ok(stats)
    }

    fn stuck(&self, limit: usize) -> Result<Vec<Stuck>, BackendError> {
        let mut list = StuckList::new(limit);
        self.survey(|id, record, now| list.offer(id, record, now))?;
        Ok(list.into_vec())
    }

    fn store_id(&self) -> StoreId {
        self.store_id
    }
}

/// Shows what is in use, never what is stored.
impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBackend")
            .field("store_id", &self.store_id)
            .field("shards", &self.shards.len())
            .field("usage", &self.usage)
            .finish_non_exhaustive()
    }
}
