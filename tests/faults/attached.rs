//! Work that also writes to a file that is attached: its commit is not one with the store's.

use crate::common::{asks_for, key, scope};
use crate::vfs::{Disk, Fault, File, Operation};
use idempotency::{IdempotencyStore, Reply, SqliteBackend, SqliteOptions};
use rusqlite::Connection;

/// SQLite commits the store's file, then fails on the other one. That the record is there says nothing of what
/// was written elsewhere.
#[test]
fn a_commit_that_fails_on_an_attached_file_only_is_not_called_done() {
    for operations in [&[Operation::Write] as &[_], &[Operation::Sync]] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (path, ledger) = (folder.path().join("store.db"), folder.path().join("ledger.db"));
        Connection::open(&path)
            .and_then(|shop| shop.execute_batch("CREATE TABLE orders (id)"))
            .expect("a file");
        Connection::open(&ledger)
            .and_then(|ledger| ledger.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE entries (id)"))
            .expect("a file");
        let disk = Disk::new();
        let attach = format!("ATTACH 'file:{}?vfs={}' AS ledger", ledger.display(), disk.vfs());
        let options =
            SqliteOptions::new().with_connection_setup(move |connection| connection.execute_batch(&attach));
        let store = IdempotencyStore::new(SqliteBackend::open(&path, options).expect("a store"));
        let run = |id: &'static str| {
            store.atomically(&scope("s"), &key(id), &asks_for("x"), |transaction| {
                transaction.execute("INSERT INTO orders VALUES (?1)", [id])?;
                transaction.execute("INSERT INTO ledger.entries VALUES (?1)", [id])?;
                Ok::<_, rusqlite::Error>(Reply::Marker)
            })
        };
        drop(run("sound").expect("both files"));
        disk.fail(Fault::of(operations, File::Wal));
        let ran = run("failed");
        assert_eq!(disk.heal().failed(), 1, "{operations:?}");
        let error = ran.expect_err("the ledger has no entry");
        assert!(error.is_indefinite(), "{operations:?}: {error:?}");
        let entries: i64 = Connection::open(&ledger)
            .and_then(|ledger| ledger.query_row("SELECT count(*) FROM entries", [], |row| row.get(0)))
            .expect("a count");
        assert!(entries >= 1);
    }
}

/// What is attached in memory goes with the connection.
#[test]
fn a_commit_that_fails_beside_an_attached_database_in_memory_is_settled() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let disk = Disk::new();
    let options = SqliteOptions::new()
        .with_vfs(disk.vfs())
        .with_connection_setup(|connection| connection.execute_batch("ATTACH ':memory:' AS scratch"));
    let path = folder.path().join("store.db");
    let store = IdempotencyStore::new(SqliteBackend::open(path, options).expect("a store"));
    disk.fail(Fault::of(&[Operation::Write], File::Wal));
    let ran =
        store.atomically(&scope("s"), &key("k"), &asks_for("x"), |_| Ok::<_, rusqlite::Error>(Reply::Marker));
    assert_eq!(disk.heal().failed(), 1);
    assert!(ran.is_err_and(|error| !error.is_indefinite()));
}
