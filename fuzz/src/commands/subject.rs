//! The backends that sequences run on. The one on a file is used again by the next sequence, since opening one takes
//! longer than most sequences do.

use super::model::at;
use idempotency::{
    Backend, BackendError, Command, Durability, FencingToken, ManualClock, MemoryBackend, MemoryOptions,
    Outcome, Record, RecordId, SqliteBackend, SqliteOptions, Swept,
};
use std::cell::RefCell;
use std::path::PathBuf;
use tempfile::TempDir;

thread_local! {
    static ON_SQLITE: RefCell<Option<Subject>> = const { RefCell::new(None) };
}

/// A backend, and the clock that it reads.
pub struct Subject {
    pub name: &'static str,
    pub clock: ManualClock,
    backend: Option<Box<dyn Backend>>,
    folder: Option<TempDir>,
}

impl Subject {
    pub fn in_memory(shards: u8) -> Self {
        let clock = ManualClock::new(at(0));
        let options = MemoryOptions::new()
            .with_clock(clock.clone())
            .with_shards(usize::from(shards % 4) + 1)
            .with_hash_seed(1, 2)
            .with_first_token(FencingToken::FIRST);
        Self { name: "memory", clock, backend: Some(Box::new(MemoryBackend::new(options))), folder: None }
    }

    /// Without records.
    pub fn on_sqlite() -> Self {
        ON_SQLITE.take().unwrap_or_else(|| {
            let folder = Some(tempfile::tempdir().expect("a temporary folder"));
            let mut fresh = Self { name: "sqlite", clock: ManualClock::new(at(0)), backend: None, folder };
            fresh.reopen();
            fresh
        })
    }

    /// For the next sequence, if that went well.
    pub fn put_back(self) {
        if self.folder.is_some() {
            self.clock.set(at(1 << 45));
            self.sweep(usize::MAX);
            ON_SQLITE.set(Some(self));
        }
    }

    /// Closes the file and opens it again, if it is on one.
    pub fn reopen(&mut self) -> bool {
        let Some(path) = self.path() else { return false };
        self.backend = None;
        let options = SqliteOptions::new().with_clock(self.clock.clone()).with_durability(Durability::Normal);
        self.backend = Some(Box::new(SqliteBackend::open(path, options).expect("a store")));
        true
    }

    fn path(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.path().join("store.db"))
    }

    fn backend(&self) -> &dyn Backend {
        &**self.backend.as_ref().expect("a store that is open")
    }

    pub fn execute(&self, id: &RecordId, command: &Command, in_a_batch: bool) -> Outcome {
        if !in_a_batch {
            return sound(self.backend().execute(id, command));
        }
        let answers = self.backend().execute_many(&[(id.clone(), command.clone())]);
        assert_eq!(answers.len(), 1, "{}: one answer for each command", self.name);
        answers.into_iter().map(sound).next().expect("an answer")
    }

    pub fn read(&self, id: &RecordId) -> Option<Record> {
        sound(self.backend().read(id)).map(|(record, _)| record)
    }

    pub fn sweep(&self, limit: usize) -> Swept {
        sound(self.backend().sweep(limit))
    }
}

fn sound<T>(answer: Result<T, BackendError>) -> T {
    answer.expect("a backend that nothing is wrong with")
}
