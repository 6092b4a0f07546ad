//! Each record in a file of its own, in one folder.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `lock` | nothing; whoever has the store open holds it |
//! | `store` | the version of this layout, and the store's id |
//! | `token` | the highest fencing token so far |
//! | `r-` and 64 digits | one record, with its scope and key; the digits are a digest of both |
//!
//! A file is never changed, but replaced: written beside, synced, renamed, and the folder synced. So after a crash it
//! is the old one or the new one, whole.

mod codec;
mod files;

use files::Files;
use idempotency::time::read_clock;
use idempotency::transition::{self, Transition, Write};
use idempotency::{
    Backend, BackendError, Clock, Command, Outcome, Record, RecordId, StoreId, Swept, Timestamp,
};
use std::fmt;
use std::path::Path;
use std::process;
use std::sync::{Mutex, MutexGuard};

/// A store in a folder, for one process at a time.
pub struct FilePerKey {
    clock: Box<dyn Clock>,
    store_id: StoreId,
    /// The process that opened it. A forked child has the lock of the folder too, and the same last token.
    process: u32,
    /// Behind one lock: a command has them all for itself.
    files: Mutex<Files>,
}

impl FilePerKey {
    /// Opens the store in `folder`, or makes one there. It reads every record, to know when each expires. The folder
    /// itself has to be there, and to last: whoever makes it syncs the folder that it is in.
    ///
    /// # Errors
    /// `Busy` if another handle or process has it open; `CannotOpen` if there is no such folder; `Foreign` if its
    /// layout is unknown; `Corrupt` if its id or its token can't be read.
    pub fn open(folder: impl AsRef<Path>, clock: impl Clock + 'static) -> Result<Self, BackendError> {
        let (files, store_id) = Files::open(folder.as_ref())?;
        Ok(Self { clock: Box::new(clock), store_id, process: process::id(), files: Mutex::new(files) })
    }

    /// The files, for one command alone.
    fn files(&self) -> Result<MutexGuard<'_, Files>, BackendError> {
        // First: in a child, the lock may stand locked for ever.
        if self.process != process::id() {
            return Err(BackendError::forked());
        }
        let mut files = self.files.lock().map_err(|_| BackendError::bug("a command panicked"))?;
        files.settle()?;
        Ok(files)
    }
}

impl Backend for FilePerKey {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        let mut files = self.files()?;
        // Only now, so that a wait for the lock can't grant a lease that is over.
        let now = read_clock(&*self.clock)?;
        let old = files.record(id)?;
        if transition::grants(old.as_ref(), command, now) {
            // Kept before the claim is, so that no crash makes it come again.
            files.draw_token()?;
        }
        let Transition { write, outcome } = transition::apply(old.as_ref(), command, now, files.last_token());
        match write {
            Write::Keep => {}
            Write::Put(new) => files.put(id, old.as_ref(), &new)?,
            Write::Delete => files.delete(id, old.as_ref())?,
        }
        Ok(outcome)
    }

    fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        let record = self.files()?.record(id)?;
        let now = read_clock(&*self.clock)?;
        Ok(record.filter(|record| !record.is_expired(now)).map(|record| (record, now)))
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        let mut removed = 0;
        loop {
            // Anew for each record, so that others can come in between. The lock does not promise that they do.
            let mut files = self.files()?;
            let now = read_clock(&*self.clock)?;
            let Some(first) = files.first_expired(now)? else { return Ok(Swept { removed, more: false }) };
            if removed == limit {
                return Ok(Swept { removed, more: true });
            }
            files.remove_expired(&first)?;
            removed += 1;
        }
    }

    fn store_id(&self) -> StoreId {
        self.store_id
    }
}

/// Shows which store it is, never what is stored.
impl fmt::Debug for FilePerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilePerKey").field("store_id", &self.store_id).finish_non_exhaustive()
    }
}
