//! A store on a disk that can fail, and what its file says when it is asked in other ways.

use crate::common::{START, key, scope};
use crate::vfs::Disk;
use idempotency::{
    Durability, Error, IdempotencyStore, ManualClock, Record, SqliteBackend, SqliteOptions, SqliteStore,
    Timestamp,
};
use rusqlite::{Connection, OpenFlags};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// The keys that tests use, all within one scope.
pub const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
pub const SCOPE: &str = "s";

/// What an operation's faults meet besides the operation.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// How many pages the write-ahead log may have before a commit is followed by a checkpoint. With one, each
    /// commit writes the database file too, and the next starts the log anew; with SQLite's own number, none
    /// does.
    pub checkpoint_after: u32,
    /// Whether somebody else has the file open. Alone, a connection that is closed takes the log with it; in
    /// company it leaves the log as it is.
    pub in_company: bool,
    /// Whether the token counter is ahead of the wall clock, as after that was set back.
    pub counter_is_ahead: bool,
    /// How the store is opened.
    pub durability: Durability,
}

impl Setting {
    pub const PLAIN: Self = Self {
        checkpoint_after: 1_000,
        in_company: false,
        counter_is_ahead: false,
        durability: Durability::Full,
    };

    pub const IN_COMPANY: Self = Self { in_company: true, ..Self::PLAIN };

    /// A counter ahead of the clock makes a difference where the log stays, and nothing else is written.
    pub const ALL: [Self; 3] = [
        Self::PLAIN,
        Self { counter_is_ahead: true, ..Self::IN_COMPANY },
        Self { checkpoint_after: 1, ..Self::IN_COMPANY },
    ];

    /// A commit is not synced by itself, but what is written back is.
    pub const NORMAL: [Self; 2] = [
        Self { durability: Durability::Normal, ..Self::PLAIN },
        Self { durability: Durability::Normal, checkpoint_after: 1, ..Self::IN_COMPANY },
    ];
}

/// Nanoseconds of the wall clock in the year 2200.
pub const FAR_AHEAD: i64 = 7_258_118_400_000_000_000;

pub struct Bench {
    // What is open stands before the folder: fields are dropped in this order.
    pub store: SqliteStore,
    _company: Option<Connection>,
    pub disk: Disk,
    pub clock: ManualClock,
    pub path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Bench {
    /// A fresh store in a file that also has the application's own table of orders.
    pub fn new(setting: Setting) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("store.db");
        let shell = shell(&path);
        shell.execute_batch("CREATE TABLE orders (id TEXT UNIQUE) STRICT").expect("a fresh file");
        let (disk, clock) = (Disk::new(), ManualClock::new(START));
        let store = open(&path, options(&disk, &clock, setting)).expect("a fresh store");
        let last_token = if setting.counter_is_ahead { FAR_AHEAD } else { 0 };
        // From here on the shell has the log open, too.
        shell
            .execute("UPDATE idempotency_meta SET last_token = max(last_token, ?1)", [last_token])
            .expect("a counter");
        let company = setting.in_company.then_some(shell);
        // From here on it has its connection that reads.
        assert_eq!(store.lookup(&scope(SCOPE), &key(KEYS[0])).expect("a sound disk"), None);
        Self { store, _company: company, disk, clock, path, _folder: folder }
    }

    /// What a process would see that comes by now.
    pub fn stored(&self) -> Stored {
        Stored::of(&self.path, SqliteOptions::new().read_only())
    }

    /// What this very handle sees.
    pub fn seen(&self) -> Stored {
        Stored::through(&self.store, &self.clock, &shell(&self.path))
    }

    /// What would be found if all processes on the file were killed now.
    pub fn stored_if_killed(&self) -> Stored {
        Stored::if_killed(&self.path)
    }

    /// Has this handle's connection forget every page: somebody else commits, and empties the log.
    pub fn forget_pages(&self) {
        shell(&self.path)
            .execute_batch("UPDATE idempotency_meta SET last_token = last_token + 1")
            .and_then(|()| shell(&self.path).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())))
            .expect("an empty log");
    }

    /// The token of the record of `name`.
    pub fn stored_token(&self, name: &str) -> Option<i64> {
        self.number("SELECT max(token) FROM idempotency_record WHERE key = ?1", [name])
    }

    /// The highest token of all records.
    pub fn stored_highest_token(&self) -> Option<i64> {
        self.number("SELECT max(token) FROM idempotency_record", [])
    }

    /// The last token that the file has counted.
    pub fn stored_counter(&self) -> Option<i64> {
        self.number("SELECT last_token FROM idempotency_meta", [])
    }

    fn number(&self, question: &str, about: impl rusqlite::Params) -> Option<i64> {
        shell(&self.path).query_row(question, about, |row| row.get(0)).expect("a number or none")
    }

    pub fn rival(&self) -> SqliteStore {
        rival(&self.path, &self.clock)
    }
}

/// A handle of somebody else's, on a disk that does not fail. It never waits for a lock.
pub fn rival(path: &Path, clock: &ManualClock) -> SqliteStore {
    let options = SqliteOptions::new().with_clock(clock.clone()).with_vfs(sound_disk());
    open(path, options.with_busy_timeout(Duration::ZERO)).expect("the same store")
}

/// How the store is opened. Nobody is there to let go of a lock meanwhile, so that it need not wait long; but
/// long enough to be seen trying again what is not about a lock.
pub fn options(disk: &Disk, clock: &ManualClock, setting: Setting) -> SqliteOptions {
    SqliteOptions::new()
        .with_clock(clock.clone())
        .with_vfs(disk.vfs())
        .with_durability(setting.durability)
        .with_busy_timeout(Duration::from_millis(50))
        .with_connection_setup(move |connection| {
            connection.pragma_update(None, "wal_autocheckpoint", setting.checkpoint_after)
        })
}

pub fn open(path: &Path, options: SqliteOptions) -> Result<SqliteStore, Error> {
    Ok(IdempotencyStore::new(SqliteBackend::open(path, options)?))
}

/// A connection of somebody else's.
pub fn shell(path: &Path) -> Connection {
    Connection::open_with_flags_and_vfs(path, OpenFlags::default(), sound_disk()).expect("a SQLite file")
}

/// A disk that is never told to fail: quicker than SQLite's own, since it does not sync.
pub fn sound_disk() -> &'static str {
    static SOUND: OnceLock<Disk> = OnceLock::new();
    SOUND.get_or_init(Disk::new).vfs()
}

/// All that a file says: every record, expired ones too, and the application's orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub records: BTreeMap<&'static str, Record>,
    pub orders: Vec<String>,
}

impl Stored {
    fn of(path: &Path, options: SqliteOptions) -> Self {
        let clock = ManualClock::new(Timestamp::from_millis(0));
        let store = open(path, options.with_clock(clock.clone()).with_vfs(sound_disk())).expect("a store");
        Self::through(&store, &clock, &shell(path))
    }

    /// What would be found if all processes on the file at `path` were killed now: their shared memory is gone,
    /// and whatever lies in the log is recovered, whether or not it counted before.
    pub fn if_killed(path: &Path) -> Self {
        let image = tempfile::tempdir().expect("a temporary folder");
        let copy = image.path().join("store.db");
        let log_of = |path: &Path| path.with_extension("db-wal");
        fs::copy(path, &copy).expect("a copy");
        // That this drops the file's locks, as closing any handle of a file does, is felt by other processes
        // only, and there are none.
        if log_of(path).exists() {
            fs::copy(log_of(path), log_of(&copy)).expect("a copy");
        }
        let stored = Self::of(&copy, SqliteOptions::new());
        let verdict: String =
            shell(&copy).query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a verdict");
        assert_eq!(verdict, "ok");
        stored
    }

    /// Whatever has expired is found by setting the clock back for the look.
    fn through(store: &SqliteStore, clock: &ManualClock, shell: &Connection) -> Self {
        use idempotency::Clock;
        let now = clock.now();
        clock.set(Timestamp::from_millis(0));
        let record = |name| store.lookup(&scope(SCOPE), &key(name)).expect("a readable record");
        let records = KEYS.into_iter().filter_map(|name| Some((name, record(name)?))).collect();
        clock.set(now);
        let orders = shell
            .prepare("SELECT id FROM orders ORDER BY id")
            .and_then(|mut orders| orders.query_map([], |row| row.get(0))?.collect())
            .expect("the orders");
        Self { records, orders }
    }

    pub fn record(&self, name: &str) -> Option<&Record> {
        self.records.get(name)
    }

    /// Without the records of `names` and the orders: what an operation on them leaves as it is.
    pub fn without(&self, names: &[&str]) -> BTreeMap<&'static str, Record> {
        self.records.clone().into_iter().filter(|(name, _)| !names.contains(name)).collect()
    }

    pub fn highest_token(&self) -> i64 {
        self.records.values().map(|record| record.token.get()).max().unwrap_or(0)
    }
}
