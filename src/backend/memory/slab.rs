//! Entries under numbers that are short, and that stay theirs: [`Slab`].

use crate::backend::memory::entry::Entry;

/// How many entries are allocated at a time: some 4 KiB. None of them ever moves, so growing costs no copies and
/// leaves no room unused.
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 5;

/// Entries, each in a slot of its own. The slots of those that were removed are filled first.
#[derive(Debug, Default)]
pub(super) struct Slab {
    chunks: Vec<Vec<Slot>>,
    slots: u32,
    first_free: Option<u32>,
}

#[derive(Debug)]
enum Slot {
    Used(Entry),
    Free { next: Option<u32> },
}

impl Slab {
    /// How many slots there are, the free ones included.
    pub(super) const fn slots(&self) -> u32 {
        self.slots
    }

    pub(super) fn get(&self, number: u32) -> Option<&Entry> {
        let (chunk, place) = position(number)?;
        match self.chunks.get(chunk)?.get(place)? {
            Slot::Used(entry) => Some(entry),
            Slot::Free { .. } => None,
        }
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Entry> {
        match self.slot_mut(number)? {
            Slot::Used(entry) => Some(entry),
            Slot::Free { .. } => None,
        }
    }

    /// Gives `entry` a number; none if there is none left.
    pub(super) fn insert(&mut self, entry: Entry) -> Option<u32> {
        let Some(number) = self.first_free else { return self.append(entry) };
        let slot = self.slot_mut(number)?;
        let Slot::Free { next } = *slot else { return None };
        *slot = Slot::Used(entry);
        self.first_free = next;
        Some(number)
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<Entry> {
        let next = self.first_free;
        let slot = self.slot_mut(number)?;
        match std::mem::replace(slot, Slot::Free { next }) {
            Slot::Used(entry) => {
                self.first_free = Some(number);
                Some(entry)
            }
            free @ Slot::Free { .. } => {
                *slot = free;
                None
            }
        }
    }

    /// All entries with their numbers, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Entry)> {
        let numbered = (0..self.slots).zip(self.chunks.iter().flatten());
        numbered.filter_map(|(number, slot)| match slot {
            Slot::Used(entry) => Some((number, entry)),
            Slot::Free { .. } => None,
        })
    }

    /// All entries, in no order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.chunks.iter_mut().flatten().filter_map(|slot| match slot {
            Slot::Used(entry) => Some(entry),
            Slot::Free { .. } => None,
        })
    }

    fn slot_mut(&mut self, number: u32) -> Option<&mut Slot> {
        let (chunk, place) = position(number)?;
        self.chunks.get_mut(chunk)?.get_mut(place)
    }

    fn append(&mut self, entry: Entry) -> Option<u32> {
        let number = self.slots;
        self.slots = number.checked_add(1)?;
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks.last_mut()?.push(Slot::Used(entry));
        Some(number)
    }
}

/// Which chunk a slot is in, and where in it.
fn position(number: u32) -> Option<(usize, usize)> {
    let number = usize::try_from(number).ok()?;
    Some((number >> CHUNK_BITS, number & (CHUNK - 1)))
}
