//! The durable backend: a SQLite file, shared by threads and processes.

mod batch;
mod busy;
mod connection;
mod evidence;
mod failure;
mod file;
mod inside;
mod library;
mod line;
mod open;
mod options;
mod place;
mod process;
mod readers;
mod row;
mod schema;
mod session;
mod sql;
mod survey;
mod transaction;
mod watch;
mod writer;
#[cfg(idempotency_planted)]
mod wrong;

pub use self::options::{Durability, SqliteOptions};
pub(crate) use self::transaction::Atomic;

use self::inside::Inside;
use self::line::{Line, Turn};
use self::open::Known;
use self::place::Place;
use self::readers::Readers;
use self::writer::Writer;
use crate::backend::{Backend, StoreId, Swept};
use crate::error::{BackendError, Error};
use crate::inspection::{Stats, Stuck};
use crate::key::RecordId;
use crate::outcome::Outcome;
use crate::record::Record;
use crate::time::Timestamp;
use crate::transition::Command;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How many rows one transaction of a sweep deletes at the most: others write between two of them.
const SWEEP_BATCH: usize = 1_000;

/// Records in a SQLite file, in two tables that can live beside the application's own.
///
/// Durable, and shared by the threads and processes of one machine (never over a network file system:
/// SQLite's write-ahead log needs shared memory). Opening turns the whole file to write-ahead logging. All
/// writes of this handle go through one connection. What a look can answer (replays, claims that run, other
/// requests' keys) is read on others, a few at the most, and waits for no writer.
pub struct SqliteBackend {
    // Before the writer: the last connection that is closed writes the log back, and takes it away.
    readers: Readers,
    line: Line,
    // Behind both, so that their connections are closed when the process is told so.
    place: Arc<Place>,
}

impl SqliteBackend {
    /// Opens the store in the file at `path`, and makes file and tables if they are not there. To SQLite, a
    /// path that starts with `file:` is a URI; give it an absolute path, since the file is opened again now and
    /// then (after a commit that failed, say), and no `cache=shared`, whose locks are not waited for.
    ///
    /// # Errors
    /// Nothing is kept open after any of them:
    /// - [`Error::Forked`]: this process was forked from one that had a store open.
    /// - [`Error::OldLibrary`]: the linked SQLite can lose what it has acknowledged.
    /// - [`Error::InvalidOption`]: a database in memory (use
    ///   [`in_memory`](crate::IdempotencyStore::in_memory)), an unusable prefix, a NUL in a name, a file
    ///   that can't be turned to write-ahead logging, or a set-up that changes the locking mode.
    /// - [`Error::CannotOpen`], [`Error::ReadOnly`], [`Error::Full`], [`Error::Busy`],
    ///   [`Error::Unavailable`]: the file can't be opened, written, or had in time.
    /// - [`Error::Foreign`], [`Error::NewerSchema`], [`Error::Corrupt`]: what is there is not a store that
    ///   this version can work with; none of its rows, tables and settings was changed.
    /// - [`Error::Indefinite`]: the store may have been made, or not; it holds no record yet. Open again.
    /// - [`Error::Other`]: anything else, such as an unknown VFS, or what the connection's set-up failed
    ///   with.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, Error> {
        let place = Arc::new(Place::new(path.as_ref(), options)?);
        let writer = Writer::new(Arc::clone(&place))?;
        let readers = Readers::new(Arc::clone(&place), writer.known().clone());
        Ok(Self { readers, line: Line::new(writer), place })
    }

    /// Has `commands` executed, with those of other threads; one answer for each.
    fn submit(
        &self,
        commands: Vec<(RecordId, Command)>,
    ) -> Result<Vec<Result<Outcome, BackendError>>, BackendError> {
        // Before the line: a fork's copy of its lock may stand locked for ever.
        self.refuse_a_fork()?;
        self.line.submit(&self.place, commands)
    }

    /// This thread's turn with the writer.
    fn turn(&self) -> Result<Turn<'_>, BackendError> {
        self.refuse_a_fork()?;
        self.line.turn(&self.place)
    }

    /// The store, to be looked at on another connection. Refused to a thread that has the writer: it would
    /// see what was before its own transaction.
    fn known(&self) -> Result<&Known, BackendError> {
        self.refuse_a_fork()?;
        Inside::refuse(&self.place)?;
        Ok(self.readers.known())
    }

    /// What a claim is answered that can't be granted. None for all else, and where nothing may be executed.
    fn answer_without_writing(
        &self,
        id: &RecordId,
        command: &Command,
    ) -> Result<Option<Outcome>, BackendError> {
        match command {
            Command::Claim { .. } if !self.place.options.read_only => self.readers()?.answer(id, command),
            _ => Ok(None),
        }
    }

    /// The connections that read, and what they show stays as it is.
    fn readers(&self) -> Result<&Readers, BackendError> {
        self.known()?;
        if self.place.is_in_doubt.load(Ordering::SeqCst) {
            self.turn()?.end_doubt()?;
        }
        Ok(&self.readers)
    }

    fn refuse_a_fork(&self) -> Result<(), BackendError> {
        if self.place.is_forked() { Err(BackendError::forked()) } else { Ok(()) }
    }
}

impl Backend for SqliteBackend {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        if let Some(outcome) = self.answer_without_writing(id, command)? {
            return Ok(outcome);
        }
        let answers = self.submit(vec![(id.clone(), command.clone())])?;
        answers.into_iter().next().unwrap_or_else(|| Err(BackendError::bug("a command was not answered")))
    }

    fn execute_many(&self, batch: &[(RecordId, Command)]) -> Vec<Result<Outcome, BackendError>> {
        self.submit(batch.to_vec()).unwrap_or_else(|error| vec![Err(error); batch.len()])
    }

    fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        self.readers()?.read(id)
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        #[cfg(idempotency_planted)]
        if crate::planted::is("sweep-by-key-in-sqlite") {
            return wrong::sweep_by_key(self, limit);
        }
        let mut removed: usize = 0;
        loop {
            let left = limit.saturating_sub(removed);
            let (batch, more) = self.turn()?.sweep(left.min(SWEEP_BATCH))?;
            removed = removed.saturating_add(batch);
            if !more || batch == left || batch == 0 {
                return Ok(Swept { removed, more });
            }
        }
    }

    fn stats(&self) -> Result<Stats, BackendError> {
        survey::stats(&self.place, self.known()?)
    }

    fn stuck(&self, limit: usize) -> Result<Vec<Stuck>, BackendError> {
        survey::stuck(&self.place, self.known()?, limit)
    }

    fn store_id(&self) -> StoreId {
        self.readers.known().store_id
    }
}

impl fmt::Debug for SqliteBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteBackend")
            .field("path", &self.place.path)
            .field("store_id", &self.store_id())
            .finish_non_exhaustive()
    }
}
