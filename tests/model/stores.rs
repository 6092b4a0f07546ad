//! The kinds of stores that sequences are played on.

use crate::flaky::Flaky;
use idempotency::{Backend, DynStore, IdempotencyStore, ManualClock, MemoryBackend, MemoryOptions};
use std::path::Path;
use std::sync::Arc;

pub trait Kind: 'static {
    const NAME: &'static str;
    /// Whether it lies in a file: it can be closed, and shared with transactions of the application's.
    const ON_FILE: bool;

    fn open(folder: &Path, clock: &ManualClock) -> Opened;
}

/// A store that is open.
pub struct Opened {
    /// What the first handle asks: its calls may fail.
    pub flaky: Arc<Flaky>,
    pub first: DynStore,
    pub second: DynStore,
    /// The second handle, as what it is.
    #[cfg(feature = "sqlite")]
    pub in_file: Option<idempotency::SqliteStore>,
}

impl Opened {
    fn through(first: Arc<dyn Backend>, second: DynStore) -> Self {
        let flaky = Arc::new(Flaky::new(first));
        let first = IdempotencyStore::new(Arc::clone(&flaky)).erase();
        Self {
            flaky,
            first,
            second,
            #[cfg(feature = "sqlite")]
            in_file: None,
        }
    }
}

pub struct Memory;

impl Kind for Memory {
    const NAME: &'static str = "memory";
    const ON_FILE: bool = false;

    fn open(_: &Path, clock: &ManualClock) -> Opened {
        // Shards and hash are fixed, so that a sequence that is replayed does the same again.
        let options = MemoryOptions::new().with_shards(4).with_hash_seed(1, 2).with_clock(clock.clone());
        let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new(options));
        Opened::through(Arc::clone(&backend), IdempotencyStore::new(backend))
    }
}

#[cfg(feature = "sqlite")]
pub struct Sqlite;

#[cfg(feature = "sqlite")]
impl Kind for Sqlite {
    const NAME: &'static str = "sqlite";
    const ON_FILE: bool = true;

    fn open(folder: &Path, clock: &ManualClock) -> Opened {
        use idempotency::{Durability, SqliteBackend, SqliteOptions};
        let open = || {
            let options = SqliteOptions::new().with_clock(clock.clone()).with_durability(Durability::Normal);
            SqliteBackend::open(folder.join("store.db"), options).expect("a store that opens")
        };
        let second = IdempotencyStore::new(open());
        let mut opened = Opened::through(Arc::new(open()), second.erase());
        opened.in_file = Some(second);
        opened
    }
}
