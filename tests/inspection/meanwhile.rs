//! What goes on in the file while its records are counted and listed, and what is left of the look
//! afterwards.

use crate::common::{Answer, Fixture, asks_for, key, on, scope, secs};
use crate::counts;
use idempotency::{
    Claim, Clock, DynStore, Error, IdempotencyStore, ManualClock, Reply, SqliteBackend, SqliteOptions,
    SqliteStore, Timestamp,
};
use rusqlite::{Connection, TransactionBehavior};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn claim(store: &DynStore, name: &str) -> Claim {
    store.try_claim(&scope("a"), &key(name), &asks_for("x")).expect("a store").claimed()
}

fn open(path: &Path, options: SqliteOptions) -> SqliteStore {
    IdempotencyStore::new(SqliteBackend::open(path, options).expect("a store"))
}

/// Both questions, answered or not.
fn ask(store: &DynStore) -> [Result<(), Error>; 2] {
    [store.stats().map(drop), store.stuck(10).map(drop)]
}

/// Writes the whole log back and empties it, which nobody can who has a reader in it.
fn empty_the_log(path: &Path) -> bool {
    let shell = Connection::open(path).expect("the file");
    shell.busy_timeout(Duration::ZERO).expect("a setting");
    shell
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0))
        .map(|is_busy| !is_busy)
        .expect("an answer")
}

type Interruption = Box<dyn FnOnce() + Send>;

/// Shows the fixture's time, and at one reading does something before it shows it.
#[derive(Clone)]
struct Interrupted {
    clock: ManualClock,
    at_the_next: Arc<Mutex<Option<Interruption>>>,
}

impl Interrupted {
    fn new(clock: &ManualClock) -> Self {
        Self { clock: clock.clone(), at_the_next: Arc::default() }
    }

    fn at_the_next(&self, interruption: impl FnOnce() + Send + 'static) {
        *self.at_the_next.lock().expect("no panic before") = Some(Box::new(interruption));
    }
}

impl Clock for Interrupted {
    fn now(&self) -> Timestamp {
        let now = self.clock.now();
        let interruption = self.at_the_next.lock().expect("no panic before").take();
        if let Some(interruption) = interruption {
            interruption();
        }
        now
    }
}

#[test]
fn records_are_counted_while_another_connection_holds_the_write_lock() {
    let f = Fixture::on_sqlite();
    drop(claim(&f.store, "k"));
    let path = f.path().expect("a file");
    let mut other = Connection::open(&path).expect("the file");
    let transaction =
        other.transaction_with_behavior(TransactionBehavior::Immediate).expect("the write lock");
    assert_eq!(transaction.execute("DELETE FROM idempotency_record", []), Ok(1));
    // No time to wait for the lock.
    let options =
        SqliteOptions::new().with_clock(f.clock.clone()).read_only().with_busy_timeout(Duration::ZERO);
    let store = open(&path, options);
    f.at(90);
    assert_eq!(counts(store.stats().expect("counts")), [0, 1, 0, 0, 0], "what is not committed is not seen");
    assert_eq!(store.stuck(10).expect("a list").len(), 1);
    transaction.commit().expect("a commit");
    assert_eq!(counts(store.stats().expect("counts")), [0, 0, 0, 0, 0]);
}

/// The claims are made in the middle: the first row has been read by then. They have no time to wait for
/// anything.
#[test]
fn claims_are_made_and_completed_while_records_are_counted_and_are_not_among_them() {
    let f = Fixture::on_sqlite();
    let path = f.path().expect("a file");
    drop(claim(&f.store, "before"));
    let clock = Interrupted::new(&f.clock);
    let looking =
        on(SqliteBackend::open(&path, SqliteOptions::new().with_clock(clock.clone())).expect("a store"));
    for round in 0..3_u64 {
        let (same, other) = (looking.clone(), {
            let options = SqliteOptions::new().with_clock(f.clock.clone()).with_busy_timeout(Duration::ZERO);
            on(SqliteBackend::open(&path, options).expect("a store"))
        });
        clock.at_the_next(move || {
            drop(claim(&other, &format!("claimed {round}")));
            claim(&other, &format!("done {round}")).complete(Reply::Marker).expect("held");
            claim(&same, &format!("of the same handle {round}")).release().expect("held");
        });
        assert_eq!(counts(looking.stats().expect("counts")), [1 + round, 0, round, 0, 0]);
    }
    assert_eq!(counts(looking.stats().expect("counts")), [4, 0, 3, 0, 0]);
    assert!(empty_the_log(&path));
}

/// Otherwise a claim that is a moment newer than the time would look as if its lease were too long.
#[test]
fn the_time_is_read_after_the_records() {
    let f = Fixture::on_sqlite();
    let path = f.path().expect("a file");
    let clock = Interrupted::new(&f.clock);
    let looking =
        on(SqliteBackend::open(&path, SqliteOptions::new().with_clock(clock.clone())).expect("a store"));
    drop(claim(&f.store, "before"));
    let (store, later) = (f.store.clone(), f.clock.clone());
    clock.at_the_next(move || {
        later.advance(secs(1));
        drop(claim(&store, "newer than the time"));
    });
    assert_eq!(looking.stuck(10).expect("a list"), []);
    f.at(0);
    assert_eq!(looking.stuck(10).expect("a list").len(), 1, "it is there, and a second ahead");
}

#[test]
fn after_a_look_no_reader_is_left_whatever_came_of_it() {
    let f = Fixture::on_sqlite();
    let path = f.path().expect("a file");
    drop(claim(&f.store, "k"));
    assert!(ask(&f.store).iter().all(Result::is_ok));
    assert!(empty_the_log(&path), "after answers");
    drop(claim(&f.store, "k2"));
    f.clock.set(Timestamp::from_millis(-1));
    assert!(ask(&f.store).iter().all(Result::is_err));
    assert!(empty_the_log(&path), "after errors");
    f.at(0);

    let panicking = Interrupted::new(&f.clock);
    let store =
        on(SqliteBackend::open(&path, SqliteOptions::new().with_clock(panicking.clone())).expect("a store"));
    drop(claim(&f.store, "k3"));
    panicking.at_the_next(|| std::panic::panic_any("the clock stands still"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| store.stats())).is_err());
    assert!(empty_the_log(&path), "after a panic");
    assert_eq!(counts(store.stats().expect("counts")), [3, 0, 0, 0, 0]);
    drop((store, f.store));
    assert!(!path.with_extension("db-wal").exists(), "the last one to close the file takes its log away");
}

/// A connection's number for the file changes with each commit that is not its own.
#[test]
fn a_look_commits_nothing() {
    let f = Fixture::on_sqlite();
    let other = Connection::open(f.path().expect("a file")).expect("the file");
    let version =
        || -> i64 { other.query_row("PRAGMA data_version", [], |row| row.get(0)).expect("a number") };
    let empty = version();
    claim(&f.store, "done").complete(Reply::Marker).expect("held");
    let before = version();
    assert_ne!(before, empty, "commits show");
    assert!(ask(&f.store).iter().all(Result::is_ok));
    assert_eq!(version(), before);
}

/// Each look has a connection of its own, which is set up as all are; a set-up that writes is no obstacle,
/// since it is none to the others.
#[test]
fn the_connection_of_a_look_is_set_up_as_every_other() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let options = SqliteOptions::new().with_connection_setup(move |connection| {
        counted.fetch_add(1, Ordering::SeqCst);
        connection.execute_batch("CREATE TABLE IF NOT EXISTS log (at); INSERT INTO log VALUES (1)")
    });
    let store = open(&folder.path().join("store.db"), options).erase();
    assert_eq!(connections.load(Ordering::SeqCst), 1);
    for expected in [3, 5] {
        assert!(ask(&store).iter().all(Result::is_ok));
        assert_eq!(connections.load(Ordering::SeqCst), expected);
    }
    let failing = SqliteOptions::new().with_connection_setup({
        let opened = AtomicUsize::new(0);
        move |_| match opened.fetch_add(1, Ordering::SeqCst) {
            0 => Ok(()),
            _ => Err(rusqlite::Error::QueryReturnedNoRows),
        }
    });
    let store = open(&folder.path().join("store.db"), failing).erase();
    for answer in ask(&store) {
        assert!(matches!(answer, Err(Error::Other(_))), "{answer:?}");
    }
    drop(claim(&store, "the store itself is open"));
}

#[test]
fn a_store_that_was_opened_by_a_uri_is_counted_whatever_the_uri_allows() {
    for mode in ["", "?mode=rwc", "?mode=rw"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("store.db");
        drop(open(&path, SqliteOptions::new()));
        let store = open(Path::new(&format!("file:{}{mode}", path.display())), SqliteOptions::new()).erase();
        drop(claim(&store, "k"));
        assert_eq!(counts(store.stats().expect(mode)), [1, 0, 0, 0, 0], "{mode}");
    }
}

#[test]
fn a_store_opened_for_reading_only_is_counted() {
    let f = Fixture::on_sqlite();
    let options = SqliteOptions::new().with_clock(f.clock.clone()).read_only();
    let reader = open(&f.path().expect("a file"), options);
    drop(claim(&f.store, "k"));
    f.at(90);
    assert_eq!(counts(reader.stats().expect("counts")), [0, 1, 0, 0, 0]);
    assert_eq!(reader.stuck(10).expect("a list"), f.store.stuck(10).expect("a list"));
}

/// The store's own connection has the file open, so it works on; a look opens it anew, by its name.
#[test]
fn a_file_that_is_gone_or_replaced_is_the_error_that_it_is_for_other_calls_and_is_not_made_anew() {
    let f = Fixture::on_sqlite();
    let path = f.path().expect("a file");
    let away = path.with_extension("away");
    drop(claim(&f.store, "k"));
    assert!(empty_the_log(&path));
    std::fs::rename(&path, &away).expect("a move");
    for answer in ask(&f.store) {
        assert!(matches!(answer, Err(Error::CannotOpen(_))), "{answer:?}");
    }
    assert!(!path.exists(), "a file was made");
    std::fs::write(&path, "not a database, but a text of more than a hundred bytes: ".repeat(4))
        .expect("a file");
    for answer in ask(&f.store) {
        assert!(matches!(answer, Err(Error::Foreign { .. })), "{answer:?}");
    }
    let another = Fixture::on_sqlite();
    let other_path = another.path().expect("a file");
    assert!(empty_the_log(&other_path));
    std::fs::copy(&other_path, &path).expect("a copy");
    for answer in ask(&f.store) {
        assert!(matches!(answer, Err(Error::Foreign { .. })), "{answer:?}");
    }
    std::fs::rename(&away, &path).expect("a move back");
    assert_eq!(counts(f.store.stats().expect("counts")), [1, 0, 0, 0, 0]);
}
