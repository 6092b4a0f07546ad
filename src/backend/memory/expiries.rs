//! Where the records that have expired are found: [`Expiries`].

use crate::time::Timestamp;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Slots in the order of the times at which they are to be looked at. A hint: whoever finds a slot here looks
/// whether its record has expired.
#[derive(Debug, Default)]
pub(super) struct Expiries(BinaryHeap<Reverse<(Timestamp, u32)>>);

impl Expiries {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Has `slot` looked at at `at`. In the order of time, which claims come in, that is one comparison.
    pub(super) fn file(&mut self, at: Timestamp, slot: u32) {
        if self.0.len() == self.0.capacity() {
            // By an eighth, not by doubling: the copies cost less than the room.
            self.0.reserve_exact((self.0.len() >> 3).max(16));
        }
        self.0.push(Reverse((at, slot)));
    }

    /// The slot that is to be looked at first, and when.
    pub(super) fn first(&self) -> Option<(Timestamp, u32)> {
        self.0.peek().map(|Reverse(first)| *first)
    }

    pub(super) fn drop_first(&mut self) {
        self.0.pop();
    }

    /// Has the first slot looked at at `at` instead.
    pub(super) fn file_first_anew(&mut self, at: Timestamp) {
        if let Some(mut first) = self.0.peek_mut() {
            first.0.0 = at;
        }
    }

    /// Forgets all, and has `filed` looked at.
    pub(super) fn rebuild(&mut self, len: usize, filed: impl Iterator<Item = (Timestamp, u32)>) {
        let mut all = Vec::with_capacity(len);
        all.extend(filed.map(Reverse));
        self.0 = BinaryHeap::from(all);
    }
}
