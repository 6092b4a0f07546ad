//! Which process has stores open: [`Process`].
//!
//! SQLite keeps what its process has locked in a table of its own, by file. A fork inherits the table without
//! the locks: a connection that it opens to a file of the table is told that the lock is there already, takes
//! none, and writes where nobody respects it (SQLite, "How To Corrupt An SQLite Database File", section 2.7).
//! So a fork of a process with an open store is refused one, a new one of its own too.

use crate::error::BackendError;
use crate::planted;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// The process that opened stores, and how many of them are open: atomic, since a lock could be inherited
/// locked.
static OPEN: AtomicU64 = AtomicU64::new(0);

/// One open store's hold on its process.
pub(super) struct Process(u32);

impl Process {
    /// Refuses a fork of a process that has stores open.
    pub(super) fn open() -> Result<Self, BackendError> {
        let this = process::id();
        let one_more = |open| match Stores::unpack(open) {
            Stores { of, count: 1.. } if of != this => None,
            Stores { count, .. } => Some(Stores { of: this, count: count.saturating_add(1) }.pack()),
        };
        OPEN.try_update(Ordering::SeqCst, Ordering::SeqCst, one_more)
            .map(|_| Self(this))
            .map_err(|_| BackendError::forked())
    }

    /// Whether this process is a fork of the one that opened the store.
    pub(super) fn is_left(&self) -> bool {
        self.0 != process::id() && !planted::is("fork-unnoticed")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // What a fork inherited stays in SQLite's table whatever becomes of our handle.
        if !self.is_left() {
            OPEN.update(Ordering::SeqCst, Ordering::SeqCst, |open| {
                let stores = Stores::unpack(open);
                Stores { count: stores.count.saturating_sub(1), ..stores }.pack()
            });
        }
    }
}

/// What [`OPEN`] holds: the process in the upper half, the count in the lower one.
struct Stores {
    of: u32,
    count: u32,
}

impl Stores {
    fn unpack(open: u64) -> Self {
        let lower_half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        Self { of: lower_half(open >> 32), count: lower_half(open) }
    }

    fn pack(&self) -> u64 {
        u64::from(self.of) << 32 | u64::from(self.count)
    }
}
