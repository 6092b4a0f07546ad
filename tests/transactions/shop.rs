//! A shop: a store beside the application's own tables in one file, and all that is stored there.

use crate::common::{Answer, START, asks_for, key, scope};
use idempotency::rusqlite::types::Value;
use idempotency::rusqlite::{self, Connection, Transaction, TransactionBehavior};
use idempotency::{
    Claim, ClaimOutcome, Clock, Completed, Error, Fingerprint, IdempotencyKey, IdempotencyStore, ManualClock,
    Ran, Reply, RunError, Scope, SqliteBackend, SqliteOptions, SqliteStore, StoredResponse, Timestamp,
    TxClaim,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// `audit` has what SQLite ends a transaction for.
const TABLES: &str = "
CREATE TABLE customers (id INTEGER PRIMARY KEY);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY,
  item TEXT NOT NULL UNIQUE,
  amount INTEGER NOT NULL DEFAULT 1 CHECK (amount > 0),
  customer INTEGER REFERENCES customers (id),
  parent INTEGER REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED
);
CREATE TABLE audit (item TEXT UNIQUE ON CONFLICT ROLLBACK);
CREATE TRIGGER no_bombs BEFORE INSERT ON audit WHEN new.item = 'bomb' BEGIN
  SELECT RAISE(ROLLBACK, 'a bomb');
END;
INSERT INTO audit VALUES ('the first');
";

/// A clock that the test moves, and makes panic.
#[derive(Clone)]
pub struct TestClock {
    pub time: ManualClock,
    pub panics: Arc<AtomicBool>,
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        assert!(!self.panics.load(Ordering::SeqCst), "a clock of the caller's own that panics");
        self.time.now()
    }
}

/// `store` has the default policy: lease 90 s, retention 24 h. It does not wait for locks.
pub struct Shop {
    pub store: SqliteStore,
    pub clock: TestClock,
    folder: tempfile::TempDir,
}

impl Shop {
    pub fn new() -> Self {
        Self::set_up_by("")
    }

    /// One whose store has `statements` run on its connection.
    pub fn set_up_by(statements: &'static str) -> Self {
        let clock = TestClock { time: ManualClock::new(START), panics: Arc::default() };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("shop.db");
        Connection::open(&path).and_then(|shell| shell.execute_batch(TABLES)).expect("the shop's own tables");
        let options = options(&clock).with_connection_setup(move |connection| {
            set_up(connection).and_then(|()| connection.execute_batch(statements))
        });
        let store = open(path, options).expect(statements);
        Self { store, clock, folder }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    /// A file of another name in the same folder.
    pub fn other_path(&self) -> PathBuf {
        self.folder.path().join("other.db")
    }

    /// Options for another handle, with this shop's clock.
    pub fn options(&self) -> SqliteOptions {
        options(&self.clock)
    }

    /// Another handle on the file, as another process has.
    pub fn handle(&self) -> SqliteStore {
        open(self.path(), self.options()).expect("the shop's store")
    }

    /// A connection of the application's own, which does not wait for locks.
    pub fn connection(&self) -> Connection {
        let connection = Connection::open(self.path()).expect("the shop's file");
        set_up(&connection).and_then(|()| connection.busy_timeout(Duration::ZERO)).expect("its set-up");
        connection
    }

    /// Moves the clock to `seconds` after its start.
    pub fn at(&self, seconds: u64) {
        self.clock.time.set(START.saturating_add(Duration::from_secs(seconds)));
    }

    pub fn stored(&self) -> Stored {
        Stored::read(&self.connection(), "idempotency_")
    }

    /// The items that were ordered, in order.
    pub fn orders(&self) -> Vec<String> {
        orders(&self.connection())
    }

    /// A column of the one record that there is.
    pub fn column<T: rusqlite::types::FromSql>(&self, column: &str) -> T {
        self.connection()
            .query_row(&format!("SELECT {column} FROM idempotency_record"), [], |row| row.get(0))
            .expect(column)
    }

    /// Claims [`a_key`] on its own.
    #[track_caller]
    pub fn claim(&self) -> Claim {
        claim(&self.store).expect("a store").claimed()
    }

    /// Runs `work` for [`a_key`].
    pub fn run<E>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<Reply, E>,
    ) -> Result<Ran, RunError<E>> {
        run(&self.store, work)
    }

    /// Orders `item` for [`a_key`]: it must run, as attempt `attempt`.
    #[track_caller]
    pub fn must_run(&self, item: &str, attempt: u32) -> Completed {
        let ran = self.run(|tx| {
            let found: u32 = tx.query_row(
                "SELECT attempt FROM idempotency_record WHERE scope = 'acct_1' AND key = 'k'",
                [],
                |row| row.get(0),
            )?;
            assert_eq!(found, attempt, "the attempt");
            order(tx, item)?;
            Ok::<_, rusqlite::Error>(reply(201, item.to_owned()))
        });
        let done = executed(ran);
        assert!(self.orders().contains(&item.to_owned()), "{item} was ordered");
        done
    }
}

fn options(clock: &TestClock) -> SqliteOptions {
    SqliteOptions::new()
        .with_clock(clock.clone())
        .with_busy_timeout(Duration::ZERO)
        .with_connection_setup(set_up)
}

fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA foreign_keys = ON")
}

pub fn open(path: PathBuf, options: SqliteOptions) -> Result<SqliteStore, Error> {
    Ok(IdempotencyStore::new(SqliteBackend::open(path, options)?))
}

/// Everything that is stored: the store's rows as they lie in the file, all columns, and the shop's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    pub records: Vec<Vec<Value>>,
    pub meta: Vec<Vec<Value>>,
    pub orders: Vec<String>,
    pub audit: Vec<Vec<Value>>,
}

impl Stored {
    pub fn read(connection: &Connection, prefix: &str) -> Self {
        Self {
            records: rows(connection, &format!("SELECT * FROM main.{prefix}record ORDER BY scope, key")),
            meta: rows(connection, &format!("SELECT * FROM main.{prefix}meta")),
            orders: orders(connection),
            audit: rows(connection, "SELECT * FROM audit"),
        }
    }
}

pub fn rows(connection: &Connection, query: &str) -> Vec<Vec<Value>> {
    let read = || {
        let mut statement = connection.prepare(query)?;
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect())?;
        rows.collect::<rusqlite::Result<_>>()
    };
    read().expect(query)
}

fn orders(connection: &Connection) -> Vec<String> {
    connection
        .prepare("SELECT item FROM orders ORDER BY id")
        .and_then(|mut items| items.query_map([], |row| row.get(0))?.collect())
        .expect("orders")
}

/// The write lock of the file, from the beginning.
pub fn begin(connection: &mut Connection) -> Transaction<'_> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate).expect("the write lock")
}

/// Nothing of the store's own mark is left in a transaction of the application's.
#[track_caller]
pub fn no_savepoint(transaction: &Transaction<'_>) {
    transaction.execute_batch("RELEASE idempotency").expect_err("a savepoint was left open");
}

pub fn order(connection: &Connection, item: &str) -> rusqlite::Result<usize> {
    connection.execute("INSERT INTO orders (item) VALUES (?1)", [item])
}

/// A response that can be told from others.
pub fn reply(status: u16, body: impl Into<Vec<u8>>) -> Reply {
    StoredResponse::new(status).with_header("x-shop", "1").with_body(body.into()).into()
}

pub fn a_scope() -> Scope {
    scope("acct_1")
}

pub fn a_key() -> IdempotencyKey {
    key("k")
}

pub fn a_print() -> Fingerprint {
    asks_for("an order")
}

pub fn claim(store: &SqliteStore) -> Result<ClaimOutcome, Error> {
    store.try_claim(&a_scope(), &a_key(), &a_print())
}

pub fn claim_in<'t>(
    store: &SqliteStore,
    transaction: &'t Transaction<'_>,
) -> Result<ClaimOutcome<TxClaim<'t>>, Error> {
    store.try_claim_in(transaction, &a_scope(), &a_key(), &a_print())
}

#[track_caller]
pub fn granted(outcome: Result<ClaimOutcome<TxClaim<'_>>, Error>) -> TxClaim<'_> {
    match outcome {
        Ok(ClaimOutcome::Claimed(claim)) => claim,
        other => panic!("wanted Claimed, got {other:?}"),
    }
}

pub fn run<E>(
    store: &SqliteStore,
    work: impl FnOnce(&Transaction<'_>) -> Result<Reply, E>,
) -> Result<Ran, RunError<E>> {
    store.atomically(&a_scope(), &a_key(), &a_print(), work)
}

/// Work that must not be run.
pub fn no_work(_: &Transaction<'_>) -> Result<Reply, rusqlite::Error> {
    panic!("the work was run")
}

#[track_caller]
pub fn executed<E: std::fmt::Debug>(ran: Result<Ran, RunError<E>>) -> Completed {
    match ran {
        Ok(Ran::Executed(completed)) => completed,
        other => panic!("wanted Executed, got {other:?}"),
    }
}

#[track_caller]
pub fn replayed<E: std::fmt::Debug>(ran: Result<Ran, RunError<E>>) -> Completed {
    match ran {
        Ok(Ran::Replayed(completed)) => completed,
        other => panic!("wanted Replayed, got {other:?}"),
    }
}

/// SQLite's extended code.
pub fn code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}

/// SQLite's extended code, of the error underneath.
pub fn cause(error: &Error) -> Option<i32> {
    std::error::Error::source(error).and_then(|source| source.downcast_ref()).and_then(code)
}

/// What `test` gives, on a thread of its own: one that waits for itself fails instead of standing for ever.
pub fn without_standing_still<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let running = thread::spawn(move || sender.send(test()));
    match receiver.recv_timeout(Duration::from_secs(60)) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it waits for itself"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let panic = running.join().expect_err("a thread that sent nothing has panicked");
            std::panic::resume_unwind(panic)
        }
    }
}
