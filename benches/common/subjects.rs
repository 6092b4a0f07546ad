//! The stores that are measured.

use idempotency::{
    Backend, Clock, Durability, IdempotencyStore, MemoryBackend, MemoryOptions, SqliteBackend, SqliteOptions,
    SqliteStore,
};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder for a file of SQLite's, gone when it is dropped. It lies in the target folder: on a disk, not in a
/// temporary folder that may be memory.
#[derive(Debug)]
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder for the file"))
    }

    pub fn database(&self) -> PathBuf {
        self.0.path().join("bench.db")
    }
}

/// A kind of store to measure.
pub trait Subject: Sync {
    type Backend: Backend;

    /// An empty store, and what must outlive it.
    fn open(&self, clock: impl Clock + 'static) -> Opened<Self::Backend>;
}

pub struct Opened<B: Backend> {
    pub store: IdempotencyStore<B>,
    pub folder: Option<Folder>,
}

pub struct Memory;

impl Subject for Memory {
    type Backend = MemoryBackend;

    fn open(&self, clock: impl Clock + 'static) -> Opened<MemoryBackend> {
        let backend = MemoryBackend::new(MemoryOptions::new().with_clock(clock));
        Opened { store: IdempotencyStore::new(backend), folder: None }
    }
}

impl Subject for Durability {
    type Backend = SqliteBackend;

    fn open(&self, clock: impl Clock + 'static) -> Opened<SqliteBackend> {
        let folder = Folder::new();
        let options = SqliteOptions::new().with_clock(clock).with_durability(*self);
        let backend = SqliteBackend::open(folder.database(), options).expect("a fresh store");
        Opened { store: IdempotencyStore::new(backend), folder: Some(folder) }
    }
}

/// The durable store in the file at `path`, made if it is not there.
pub fn durable(path: &Path) -> SqliteStore {
    IdempotencyStore::open(path).expect("a working store")
}
