//! The backend in memory: for tests, and for work of a single process.

mod entry;
mod expiries;
#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test that panics has failed")]
mod flooding;
mod options;
mod shard;
mod slab;
mod tokens;
mod usage;

pub use self::options::MemoryOptions;

use self::entry::Entry;
use self::shard::{First, Shard};
use self::tokens::TokenCounter;
use self::usage::Usage;
use crate::backend::{Backend, StoreId, Swept};
use crate::error::BackendError;
use crate::inspection::{Stats, Stuck, StuckList};
use crate::key::RecordId;
use crate::outcome::Outcome;
use crate::planted;
use crate::record::{FencingToken, Record};
use crate::sync::{AtomicUsize, Mutex, Ordering, sleep};
use crate::time::{Clock, Timestamp, read_clock};
use crate::transition::{self, Command, Transition, Write};
use crossbeam_utils::CachePadded;
use siphasher::sip::SipHasher13;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// How many records a sweep looks at before it lets others into the shard.
const SWEEP_BATCH: usize = 256;
const MAX_SHARDS: usize = 1 << 12;

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
        if planted::is("scope-ignored") {
            id.key.hash(&mut hasher);
        } else {
            id.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The shard for a hash: by bits that the table inside does not use.
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
            let early = planted::is("clock-before-the-lock").then(|| read_clock(&*self.clock));
            let mut shard = self.shard(hash).lock();
            let now = early.unwrap_or_else(|| read_clock(&*self.clock))?;
            let slot = shard.find(hash, id);
            let Transition { write, outcome } = match slot.and_then(|slot| shard.get_mut(slot)) {
                Some(entry) => entry.show(|_, record| self.decide(Some(record), command, now)),
                None => self.decide(None, command, now),
            }?;
            if planted::is("claim-in-two-steps") {
                drop(shard);
                sleep(planted::GAP);
                shard = self.shard(hash).lock();
            }
            match (write, slot) {
                (Write::Put(record), Some(slot)) => {
                    let replaced = shard.replace(slot, record);
                    displaced = replaced.map(|replaced| {
                        self.usage.replace_record(replaced.old_bytes, replaced.new_bytes);
                        replaced.displaced
                    });
                }
                (Write::Put(record), None) => {
                    let entry = Entry::new(id.clone(), record);
                    let bytes = Shard::footprint(&entry);
                    if !self.usage.admit_record(bytes) {
                        return Ok(None);
                    }
                    if shard.insert(hash, entry).is_none() {
                        self.usage.remove_record(bytes);
                        return Err(BackendError::bug("a shard has no more slots"));
                    }
                }
                (Write::Delete, Some(slot)) => {
                    removed = shard.remove(hash, slot);
                    if let Some(entry) = &removed {
                        self.usage.remove_record(Shard::footprint(entry));
                    }
                }
                (Write::Keep, _) | (Write::Delete, None) => {}
            }
            outcome
        };
        drop((displaced, removed));
        Ok(Some(outcome))
    }

    /// What `command` does to `record`, with a token drawn if that is a grant.
    fn decide(
        &self,
        record: Option<&Record>,
        command: &Command,
        now: Timestamp,
    ) -> Result<Transition, BackendError> {
        check(record)?;
        let grants = transition::grants(record, command, now);
        let token = if grants { self.draw_token()? } else { FencingToken::FIRST };
        let one_more = || FencingToken::new(record.map_or(0, |own| own.token.get()).saturating_add(1));
        let token = planted::is("token-of-the-record").then(one_more).flatten().unwrap_or(token);
        let transition = transition::apply(record, command, now, token);
        if let Write::Put(record) = &transition.write {
            check(Some(record))?;
        }
        Ok(transition)
    }

    /// Shows every record to `look`, shard by shard, with the time at which its shard stood still.
    fn survey(&self, mut look: impl FnMut(&mut Entry, Timestamp)) -> Result<(), BackendError> {
        self.shards.iter().try_for_each(|shard| {
            let mut shard = shard.lock();
            let now = read_clock(&*self.clock)?;
            shard.iter_mut().for_each(|entry| look(entry, now));
            Ok(())
        })
    }

    /// Removes at most `limit` expired records of one shard. Says what is first then, if it has looked as far as
    /// that.
    fn sweep_shard(&self, shard: &Mutex<Shard>, limit: usize) -> Result<(usize, First), BackendError> {
        let mut expired = Vec::new();
        let first = {
            let mut shard = shard.lock();
            let now = read_clock(&*self.clock)?;
            let mut looks = 0..SWEEP_BATCH;
            loop {
                if looks.next().is_none() {
                    break First::PutOff;
                }
                match shard.look_at_first(now) {
                    First::PutOff => {}
                    First::Expired if expired.len() < limit => {
                        let entry = shard.remove_first(|id| self.hash(id));
                        let entry =
                            entry.ok_or_else(|| BackendError::bug("an expired record can't be found"))?;
                        self.usage.remove_record(Shard::footprint(&entry));
                        expired.push(entry);
                    }
                    first => break first,
                }
            }
        };
        if planted::is("sweep-by-key-in-memory") {
            sleep(planted::GAP);
            expired.iter().for_each(|entry| drop(self.try_execute(entry.id(), &Command::Forget)));
        }
        Ok((expired.len(), first))
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
        let mut shard = self.shard(hash).lock();
        let record = shard
            .find(hash, id)
            .and_then(|slot| shard.get_mut(slot))
            .map(|entry| entry.show(|_, record| record.clone()));
        check(record.as_ref())?;
        let now = read_clock(&*self.clock)?;
        drop(shard);
        Ok(record.filter(|record| !record.is_expired(now)).map(|record| (record, now)))
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        // Each sweep starts with another shard, so that small limits reach them all.
        let first = self.next_swept.fetch_add(1, Ordering::Relaxed);
        let mut removed: usize = 0;
        for index in 0..self.shards.len() {
            let shard = self.shard_at(first.wrapping_add(index));
            loop {
                let (swept, first) = self.sweep_shard(shard, limit.saturating_sub(removed))?;
                removed = removed.saturating_add(swept);
                match first {
                    First::None => break,
                    First::PutOff => {}
                    First::Expired => return Ok(Swept { removed, more: true }),
                }
            }
        }
        Ok(Swept { removed, more: false })
    }

    fn stats(&self) -> Result<Stats, BackendError> {
        let mut stats = Stats::default();
        self.survey(|entry, now| {
            let bytes = u64::try_from(entry.content_len()).unwrap_or(u64::MAX);
            entry.show(|_, record| stats.count(record, now, bytes));
        })?;
        Ok(stats)
    }

    fn stuck(&self, limit: usize) -> Result<Vec<Stuck>, BackendError> {
        let mut list = StuckList::new(limit);
        self.survey(|entry, now| entry.show(|id, record| list.offer(id, record, now)))?;
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
