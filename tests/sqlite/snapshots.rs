//! Why every transaction that writes is IMMEDIATE: `tests/architecture` looks for others in the sources.

use crate::{folder, shell};
use rusqlite::{Connection, ffi};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often SQLite asked whether to go on waiting.
static ASKED: AtomicUsize = AtomicUsize::new(0);

fn wait_for_ever(_times: i32) -> bool {
    ASKED.fetch_add(1, Ordering::SeqCst);
    true
}

fn rows(connection: &Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).expect("a count")
}

/// Case 46, on SQLite alone.
#[test]
fn a_transaction_that_reads_first_fails_at_once_when_another_has_committed_whatever_the_busy_timeout() {
    let folder = folder();
    let path = folder.path().join("app.db");
    let (mut deferred, other) = (shell(&path), shell(&path));
    deferred.pragma_update(None, "journal_mode", "wal").expect("a mode");
    deferred.execute_batch("CREATE TABLE t (a)").expect("a table");
    deferred.busy_handler(Some(wait_for_ever)).expect("a busy handler");

    deferred.execute_batch("BEGIN").expect("a transaction");
    assert_eq!(rows(&deferred), 0);
    other.execute_batch("INSERT INTO t VALUES (1)").expect("a commit of somebody else's");
    let error = deferred.execute_batch("INSERT INTO t VALUES (2)").expect_err("its snapshot is old");
    let code = error.sqlite_error().map(|failure| failure.extended_code);
    assert_eq!((code, ffi::SQLITE_BUSY_SNAPSHOT), (Some(517), 517), "{error}");
    assert_eq!(ASKED.load(Ordering::SeqCst), 0, "no waiting helps, and none was tried");
    deferred.execute_batch("ROLLBACK").expect("the end of it");

    deferred.execute_batch("BEGIN IMMEDIATE").expect("a transaction that writes");
    assert_eq!(rows(&deferred), 1);
    other.busy_timeout(std::time::Duration::ZERO).expect("a busy timeout");
    let error =
        other.execute_batch("INSERT INTO t VALUES (3)").expect_err("the lock is taken from the start");
    assert_eq!(error.sqlite_error().map(|failure| failure.extended_code), Some(ffi::SQLITE_BUSY), "{error}");
    deferred.execute_batch("INSERT INTO t VALUES (2); COMMIT").expect("nobody could come between");
    assert_eq!((rows(&deferred), rows(&other)), (2, 2));
}
