//! One shard of the memory backend: a hash table of records, and an index by expiry so that sweeping costs
//! what it removes.

use crate::key::RecordId;
use crate::record::Record;
use crate::time::Timestamp;
use hashbrown::HashTable;
use hashbrown::hash_table;
use std::collections::BTreeSet;

/// Below this many slots a table is not worth shrinking.
const SMALL_TABLE: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Shard {
    table: HashTable<Entry>,
    by_expiry: BTreeSet<(Timestamp, RecordId)>,
}

/// A record in its slot. Also what comes out again, to be dropped once the lock is released: a reply's bytes
/// may have a destructor of the caller's own.
#[derive(Debug)]
pub(super) struct Entry {
    hash: u64,
    id: RecordId,
    record: Record,
}

impl Entry {
    /// An estimate of the memory that a record takes, indexes included.
    pub(super) fn footprint(id: &RecordId, record: &Record) -> usize {
        let fixed = size_of::<Self>().saturating_add(size_of::<(Timestamp, RecordId)>());
        fixed.saturating_add(Self::content_len(id, record))
    }

    /// How many bytes of the caller's a record holds.
    pub(super) fn content_len(id: &RecordId, record: &Record) -> usize {
        let reply = record.reply.as_ref().map_or(0, |reply| {
            reply.payload_len().saturating_add(reply.response().map_or(0, |response| response.headers_len()))
        });
        [
            id.scope.as_str().len(),
            id.key.as_str().len(),
            record.checkpoint.as_ref().map_or(0, |c| c.len()),
            reply,
        ]
        .into_iter()
        .fold(0, usize::saturating_add)
    }

    pub(super) fn own_footprint(&self) -> usize {
        Self::footprint(&self.id, &self.record)
    }
}

impl Shard {
    pub(super) fn get(&self, hash: u64, id: &RecordId) -> Option<&Record> {
        self.table.find(hash, |entry| entry.id == *id).map(|entry| &entry.record)
    }

    /// Stores `record` and gives back what it displaced.
    pub(super) fn put(&mut self, hash: u64, id: &RecordId, record: Record) -> Option<Record> {
        match self.table.entry(hash, |entry| entry.id == *id, |entry| entry.hash) {
            hash_table::Entry::Occupied(mut slot) => {
                let entry = slot.get_mut();
                if entry.record.expires_at != record.expires_at {
                    let indexed = self.by_expiry.take(&(entry.record.expires_at, entry.id.clone()));
                    let id = indexed.map_or_else(|| entry.id.clone(), |(_, id)| id);
                    self.by_expiry.insert((record.expires_at, id));
                }
                Some(std::mem::replace(&mut entry.record, record))
            }
            hash_table::Entry::Vacant(slot) => {
                self.by_expiry.insert((record.expires_at, id.clone()));
                slot.insert(Entry { hash, id: id.clone(), record });
                None
            }
        }
    }

    pub(super) fn remove(&mut self, hash: u64, id: &RecordId) -> Option<Entry> {
        let entry = self.table.find_entry(hash, |entry| entry.id == *id).ok()?.remove().0;
        self.by_expiry.remove(&(entry.record.expires_at, entry.id.clone()));
        self.shrink();
        Some(entry)
    }

    /// Every record, in no order.
    pub(super) fn records(&self) -> impl Iterator<Item = (&RecordId, &Record)> {
        self.table.iter().map(|entry| (&entry.id, &entry.record))
    }

    pub(super) fn has_expired(&self, now: Timestamp) -> bool {
        self.by_expiry.first().is_some_and(|(expires_at, _)| expires_at.is_over(now))
    }

    /// Removes the record that expired first, if one has.
    pub(super) fn pop_expired(&mut self, now: Timestamp, hash: impl Fn(&RecordId) -> u64) -> Option<Entry> {
        while self.has_expired(now) {
            let (_, id) = self.by_expiry.pop_first()?;
            if let Ok(found) = self.table.find_entry(hash(&id), |entry| entry.id == id) {
                let entry = found.remove().0;
                self.shrink();
                return Some(entry);
            }
        }
        None
    }

    /// Gives memory back once three quarters of the table are empty; to half full, so that it pays for
    /// itself.
    fn shrink(&mut self) {
        let (len, capacity) = (self.table.len(), self.table.capacity());
        if capacity > SMALL_TABLE && len < capacity.div_euclid(4) {
            self.table.shrink_to(len.saturating_mul(2), |entry| entry.hash);
        }
    }
}
