//! One shard of the memory backend: records, found by id, and by expiry so that sweeping costs what it removes.

use crate::backend::memory::entry::Entry;
use crate::backend::memory::expiries::Expiries;
use crate::backend::memory::slab::Slab;
use crate::key::RecordId;
use crate::planted;
use crate::record::Record;
use crate::time::Timestamp;
use hashbrown::HashTable;
use std::mem;

/// Up to so many slots nothing is worth shrinking.
const SMALL: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Shard {
    by_id: HashTable<Place>,
    by_expiry: Expiries,
    entries: Slab,
}

/// Where the entry is whose id has this hash.
#[derive(Debug)]
struct Place {
    /// The lower half. It stands here so that growing looks at no entry.
    hash: u32,
    slot: u32,
}

impl Place {
    /// The half twice: the table takes the place from the lowest bits and the tag from the highest.
    fn table_hash(&self) -> u64 {
        let half = u64::from(self.hash);
        (half << 32) | half
    }
}

/// The lower half of a hash: the upper one says which shard it is.
fn half(hash: u64) -> u32 {
    u32::try_from(hash & u64::from(u32::MAX)).unwrap_or(0)
}

fn is_same(one: &RecordId, other: &RecordId) -> bool {
    one.key == other.key && (one.scope == other.scope || planted::is("scope-ignored"))
}

/// What a record was replaced by, in bytes, and the record that it displaced.
pub(super) struct Replaced {
    /// To be dropped once the lock is released.
    pub(super) displaced: Record,
    pub(super) old_bytes: usize,
    pub(super) new_bytes: usize,
}

/// What a look at the record that may have expired first came to.
pub(super) enum First {
    /// None has expired.
    None,
    /// It has expired.
    Expired,
    /// It has not expired, or is gone, and will not be looked at again before it is time.
    PutOff,
}

impl Shard {
    /// An estimate of the memory that `entry` takes, indexes included.
    pub(super) fn footprint(entry: &Entry) -> usize {
        // Indexes have room to grow.
        let indexes = size_of::<Place>().saturating_add(size_of::<(Timestamp, u32)>()).saturating_mul(2);
        entry.footprint().saturating_add(indexes)
    }

    pub(super) fn find(&self, hash: u64, id: &RecordId) -> Option<u32> {
        let sought = Place { hash: half(hash), slot: 0 };
        let is_its = |place: &Place| {
            place.hash == sought.hash
                && self.entries.get(place.slot).is_some_and(|entry| is_same(entry.id(), id))
        };
        self.by_id.find(sought.table_hash(), is_its).map(|place| place.slot)
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Entry> {
        self.entries.get_mut(slot)
    }

    /// Stores `entry`, whose id is not here yet; none if there is no slot left.
    pub(super) fn insert(&mut self, hash: u64, entry: Entry) -> Option<()> {
        let filed_at = entry.filed_at();
        let slot = self.entries.insert(entry)?;
        let place = Place { hash: half(hash), slot };
        self.by_id.insert_unique(place.table_hash(), place, Place::table_hash);
        self.file(filed_at, slot);
        Some(())
    }

    /// Puts `record` in place of the one in `slot`.
    pub(super) fn replace(&mut self, slot: u32, record: Record) -> Option<Replaced> {
        let entry = self.entries.get_mut(slot)?;
        let old_bytes = Self::footprint(entry);
        let filed_at = entry.filed_at();
        let displaced = entry.replace(record);
        let new_bytes = Self::footprint(entry);
        let to_file_at = entry.filed_at();
        if to_file_at != filed_at {
            self.file(to_file_at, slot);
        }
        Some(Replaced { displaced, old_bytes, new_bytes })
    }

    /// Removes the record that [`look_at_first`](Self::look_at_first) has found expired.
    pub(super) fn remove_first(&mut self, hash_of: impl Fn(&RecordId) -> u64) -> Option<Entry> {
        let (_, slot) = self.by_expiry.first()?;
        let hash = hash_of(self.entries.get(slot)?.id());
        self.by_expiry.drop_first();
        self.remove(hash, slot)
    }

    pub(super) fn remove(&mut self, hash: u64, slot: u32) -> Option<Entry> {
        let found =
            self.by_id.find_entry(Place { hash: half(hash), slot }.table_hash(), |place| place.slot == slot);
        found.ok()?.remove();
        let entry = self.entries.remove(slot);
        self.shrink();
        entry
    }

    /// Every entry, in no order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut()
    }

    /// Looks at the record that may have expired first.
    pub(super) fn look_at_first(&mut self, now: Timestamp) -> First {
        let Some((at, slot)) = self.by_expiry.first().filter(|(at, _)| at.is_over(now)) else {
            return First::None;
        };
        match self.entries.get_mut(slot).filter(|entry| entry.filed_at() == at) {
            Some(entry) if entry.is_expired(now) => return First::Expired,
            Some(entry) => {
                entry.note_filed_at_expiry();
                self.by_expiry.file_first_anew(entry.expires_at());
            }
            None => self.by_expiry.drop_first(),
        }
        First::PutOff
    }

    fn file(&mut self, at: Timestamp, slot: u32) {
        self.by_expiry.file(at, slot);
        // What is gone stays filed until it is looked at, or until there is more of it than there are records.
        if self.by_expiry.len() > self.len().saturating_mul(2).saturating_add(SMALL) {
            self.file_all_anew();
        }
    }

    fn file_all_anew(&mut self) {
        let filed = self.entries.iter().map(|(slot, entry)| (entry.filed_at(), slot));
        self.by_expiry.rebuild(self.len(), filed);
    }

    fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Gives memory back once three quarters of the slots are empty: so what that costs is paid by the removals
    /// before it.
    fn shrink(&mut self) {
        let slots = usize::try_from(self.entries.slots()).unwrap_or(usize::MAX);
        if slots <= SMALL || self.len() >= slots >> 2 {
            return;
        }
        let mut scattered = mem::take(&mut self.entries);
        for place in &mut self.by_id {
            let entry = scattered.remove(place.slot);
            if let Some(slot) = entry.and_then(|entry| self.entries.insert(entry)) {
                place.slot = slot;
            }
        }
        self.by_id.shrink_to(self.len().saturating_mul(2), Place::table_hash);
        self.file_all_anew();
    }
}
