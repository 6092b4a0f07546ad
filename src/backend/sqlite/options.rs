//! How a SQLite backend is opened: [`SqliteOptions`].

use crate::time::{Clock, SystemClock};
use rusqlite::Connection;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// A crash of the process and a loss of power: each commit is synced (`synchronous=FULL`).
    #[default]
    Full,
    /// A crash of the process. A loss of power may take the last acknowledged claims and completions back, so
    /// that an operation that was completed runs again; the file stays sound (`synchronous=NORMAL`).
    Normal,
}

/// Run on every new connection; see [`SqliteOptions::with_connection_setup`].
pub(super) type ConnectionSetup = Arc<dyn Fn(&Connection) -> rusqlite::Result<()> + Send + Sync>;

/// How a [`SqliteBackend`](crate::SqliteBackend) is opened.
///
/// ```
/// use idempotency::{Durability, IdempotencyStore, SqliteBackend, SqliteOptions};
/// use std::time::Duration;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("payments.db");
/// let options = SqliteOptions::new().with_prefix("payments_").with_busy_timeout(Duration::from_secs(2));
/// let store = IdempotencyStore::new(SqliteBackend::open(path, options)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SqliteOptions {
    pub(super) durability: Durability,
    pub(super) busy_timeout: Duration,
    pub(super) prefix: String,
    pub(super) clock: Arc<dyn Clock>,
    /// Whether the clock is code of the application's own.
    pub(super) is_clock_foreign: bool,
    pub(super) vfs: Option<String>,
    pub(super) connection_setup: Option<ConnectionSetup>,
    pub(super) read_only: bool,
    pub(super) must_exist: bool,
}

impl SqliteOptions {
    /// Full durability, a busy timeout of 5 seconds, tables with the prefix `idempotency_`, the
    /// [`SystemClock`].
    #[must_use]
    pub fn new() -> Self {
        Self {
            durability: Durability::Full,
            busy_timeout: Duration::from_secs(5),
            prefix: "idempotency_".to_owned(),
            clock: Arc::new(SystemClock),
            is_clock_foreign: false,
            vfs: None,
            connection_setup: None,
            read_only: false,
            must_exist: false,
        }
    }

    /// What an acknowledged write survives.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How long a command waits for other connections that write to the file before it fails with
    /// [`Error::Busy`](crate::Error::Busy). The callers of one handle wait in line, each for at most this long
    /// once it is its turn. Replays, look-ups, and claims that hear of one that runs wait for no writer,
    /// but in a batch, and after a commit whose end is not known yet.
    #[must_use]
    pub fn with_busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// What the names of the store's two tables start with: 1 to 64 ASCII letters, digits and underscores;
    /// case is ignored, as in all of SQLite's names. Stores with different prefixes in one file are different
    /// stores.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Where the time comes from. All processes on one file must agree on it, so a clock of the wall. It is
    /// read while the file's write lock is held, or a connection that reads.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self.is_clock_foreign = true;
        self
    }

    /// Which of SQLite's registered VFSs to use, by name, in place of its default.
    #[must_use]
    pub fn with_vfs(mut self, name: impl Into<String>) -> Self {
        self.vfs = Some(name.into());
        self
    }

    /// A function to run on every connection that the store opens, before its own set-up: for an encryption
    /// key, or pragmas of the application's own. An error of its fails the opening. The store has one that
    /// writes, and a few that read: as many as are read from at once, at most one a core or 4, and never more
    /// than 16. After a failure it opens a new one; each [`stats`](crate::IdempotencyStore#method.stats) and
    /// [`stuck`](crate::IdempotencyStore#method.stuck) opens one of its own. Busy handler, commit and
    /// rollback hooks, journal mode, locking mode, `synchronous`, `journal_size_limit` and, where it reads,
    /// `query_only` are the store's to set; `wal_autocheckpoint` is 4,000 pages unless the function sets another
    /// number.
    #[must_use]
    pub fn with_connection_setup(
        mut self,
        setup: impl Fn(&Connection) -> rusqlite::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.connection_setup = Some(Arc::new(setup));
        self
    }

    /// Opens for reading only: no store is made and none changed, and every command that could write is
    /// [`Error::ReadOnly`](crate::Error::ReadOnly). SQLite itself may still make its `-wal` and `-shm` files
    /// beside the store's, and needs a folder that it can write to for that. They stay until the next program
    /// that writes closes the store.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Opens a store that is there, and makes none: a path without a file is
    /// [`Error::CannotOpen`](crate::Error::CannotOpen), and a file without the store's tables
    /// [`Error::Foreign`](crate::Error::Foreign). For an operator's tool, say, where a mistyped path must not
    /// become an empty store.
    #[must_use]
    pub fn must_exist(mut self) -> Self {
        self.must_exist = true;
        self
    }
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("durability", &self.durability)
            .field("busy_timeout", &self.busy_timeout)
            .field("prefix", &self.prefix)
            .field("vfs", &self.vfs)
            .field("read_only", &self.read_only)
            .field("must_exist", &self.must_exist)
            .finish_non_exhaustive()
    }
}
