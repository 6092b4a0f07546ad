//! How much a memory store holds, and how much it may.

use crate::sync::{AtomicUsize, Ordering};

/// Counts across all shards. Relaxed: they bound memory, and order nothing.
#[derive(Debug)]
pub(super) struct Usage {
    records: Counter,
    bytes: Counter,
}

#[derive(Debug)]
struct Counter {
    used: AtomicUsize,
    max: usize,
}

impl Counter {
    fn new(max: usize) -> Self {
        Self { used: AtomicUsize::new(0), max }
    }

    fn admit(&self, more: usize) -> bool {
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(more).filter(|used| *used <= self.max)
            })
            .is_ok()
    }
}

impl Usage {
    pub(super) fn new(max_records: usize, max_bytes: usize) -> Self {
        Self { records: Counter::new(max_records), bytes: Counter::new(max_bytes) }
    }

    /// Takes room for one more record, or leaves all as it was.
    pub(super) fn admit_record(&self, bytes: usize) -> bool {
        if !self.records.admit(1) {
            return false;
        }
        let admitted = self.bytes.admit(bytes);
        if !admitted {
            self.records.used.fetch_sub(1, Ordering::Relaxed);
        }
        admitted
    }

    /// Accounts for a record that was replaced. Never refused: what exists may always be completed.
    pub(super) fn replace_record(&self, old_bytes: usize, new_bytes: usize) {
        // In one step: room that is given back at once must not look taken to a claim.
        match new_bytes.checked_sub(old_bytes) {
            Some(more) => self.bytes.used.fetch_add(more, Ordering::Relaxed),
            None => self.bytes.used.fetch_sub(old_bytes.saturating_sub(new_bytes), Ordering::Relaxed),
        };
    }

    /// Gives back the room of one record.
    pub(super) fn remove_record(&self, bytes: usize) {
        self.records.used.fetch_sub(1, Ordering::Relaxed);
        self.bytes.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
