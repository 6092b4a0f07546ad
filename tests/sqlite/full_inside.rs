//! Case 49: a disk that is full in the middle of a transaction that store and application share. SQLite then
//! undoes the statement, or the whole transaction, and in the second case whatever comes next would be
//! committed by itself.

use crate::common::{Answer, asks_for, key, scope};
use crate::full::FullFile;
use crate::{open, shell};
use idempotency::{ClaimOutcome, Error, Ran, Reply, RunError, SqliteOptions, SqliteStore, StoredResponse};
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};
use std::path::Path;

/// One row that needs many pages: SQLite undoes the whole transaction.
const TOO_LARGE_A_ROW: &str = "INSERT INTO orders VALUES (hex(zeroblob(100000)))";
/// The same as the second row of a statement, which SQLite can undo alone.
const TOO_LARGE_A_STATEMENT: &str =
    "INSERT INTO orders SELECT value FROM (SELECT 'small' AS value UNION ALL SELECT hex(zeroblob(100000)))";

fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

/// How many rows the application's tables and the store's have.
fn rows(path: &Path) -> [i64; 3] {
    let shell = shell(path);
    ["orders", "notes", "idempotency_record"].map(|table| {
        shell.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).expect("a count")
    })
}

fn run(
    store: &SqliteStore,
    work: impl FnOnce(&Transaction<'_>) -> Result<Reply, rusqlite::Error>,
) -> Result<Ran, RunError<rusqlite::Error>> {
    store.atomically(&scope("a"), &key("k"), &asks_for("x"), work)
}

/// Whether the operation can still be run as if it never had been, by a store with room.
#[track_caller]
fn runs_as_the_first(f: &FullFile) {
    assert_eq!(rows(&f.path), [0, 0, 0]);
    let again = run(&f.store, |transaction| {
        transaction.execute("INSERT INTO notes VALUES ('small')", [])?;
        Ok(Reply::Marker)
    });
    assert!(matches!(again, Ok(Ran::Executed(_))), "{again:?}");
    assert_eq!(rows(&f.path), [0, 1, 1]);
    let store = open(&f.path, SqliteOptions::new()).expect("the store, without the limit");
    let replayed = run(&store, |_| panic!("it has run")).expect("an answer");
    assert_eq!(replayed.reply(), Some(&Reply::Marker));
}

#[test]
fn work_that_hides_a_full_disk_after_which_the_transaction_is_gone_records_nothing() {
    let f = FullFile::new();
    let answer = run(&f.store, |transaction| {
        transaction.execute("INSERT INTO notes VALUES ('small')", [])?;
        let error = transaction.execute(TOO_LARGE_A_ROW, []).expect_err("there is no room");
        assert!(is_full(&error), "{error}");
        assert!(transaction.is_autocommit(), "the transaction is to be gone");
        Ok(StoredResponse::new(201).into())
    });
    let Err(RunError::NotRecorded { reply, error }) = answer else { panic!("{answer:?}") };
    assert_eq!(reply, StoredResponse::new(201).into());
    assert!(matches!(error, Error::TransactionEnded { committed: false }), "{error:?}");
    assert!(!error.is_indefinite() && !error.is_transient(), "{error:?}");
    runs_as_the_first(&f);
}

#[test]
fn work_that_fails_with_a_full_disk_gives_that_very_error_and_leaves_nothing() {
    for too_large in [TOO_LARGE_A_ROW, TOO_LARGE_A_STATEMENT] {
        let f = FullFile::new();
        let answer = run(&f.store, |transaction| {
            transaction.execute("INSERT INTO notes VALUES ('small')", [])?;
            transaction.execute(too_large, [])?;
            Ok(Reply::Marker)
        });
        let Err(RunError::Work(error)) = answer else { panic!("{too_large}: {answer:?}") };
        assert!(is_full(&error), "{too_large}: {error}");
        runs_as_the_first(&f);
    }
}

/// The transaction stands, so the work may well do without the statement.
#[test]
fn work_that_gets_over_a_full_disk_in_a_transaction_that_stands_is_recorded_with_the_rest_of_it() {
    let f = FullFile::new();
    let ran = run(&f.store, |transaction| {
        transaction.execute("INSERT INTO notes VALUES ('small')", [])?;
        let error = transaction.execute(TOO_LARGE_A_STATEMENT, []).expect_err("there is no room");
        assert!(is_full(&error), "{error}");
        assert!(!transaction.is_autocommit(), "the transaction is to stand");
        Ok(Reply::Marker)
    });
    assert!(matches!(ran, Ok(Ran::Executed(_))), "{ran:?}");
    assert_eq!(rows(&f.path), [0, 1, 1]);
}

#[test]
fn a_reply_for_which_there_is_no_room_comes_back_and_the_works_rows_are_not_kept() {
    let f = FullFile::new();
    let large: Reply = StoredResponse::new(201).with_body(vec![b'a'; 500_000]).into();
    let answer = run(&f.store, |transaction| {
        transaction.execute("INSERT INTO notes VALUES ('small')", [])?;
        Ok(large.clone())
    });
    let Err(RunError::NotRecorded { reply, error }) = answer else { panic!("{answer:?}") };
    assert_eq!(reply, large);
    assert!(matches!(error, Error::Full(_)), "{error:?}");
    assert!(!error.is_indefinite() && !error.is_transient(), "{error:?}");
    runs_as_the_first(&f);
}

/// A connection of the application's own, under the same limit.
fn limited(f: &FullFile) -> Connection {
    let connection = shell(&f.path);
    connection.pragma_update(None, "max_page_count", f.pages).expect("a limit");
    connection
}

fn begin(connection: &Connection) -> Transaction<'_> {
    Transaction::new_unchecked(connection, TransactionBehavior::Immediate).expect("the write lock")
}

#[test]
fn a_reply_for_which_there_is_no_room_in_the_applications_transaction_is_full_and_the_claim_stands() {
    let f = FullFile::new();
    let (s, k) = (scope("a"), key("k"));
    let claim = f.store.try_claim(&s, &k, &asks_for("x")).expect("an answer").claimed();
    let before = f.store.lookup(&s, &k).expect("an answer");
    let large = StoredResponse::new(201).with_body(vec![b'a'; 500_000]);

    let connection = limited(&f);
    let transaction = begin(&connection);
    transaction.execute("INSERT INTO notes VALUES ('small')", []).expect("there is room");
    let error = f.store.complete_in(&transaction, &claim.ticket(), large.clone()).expect_err("no room");
    assert!(matches!(error, Error::Full(_)), "{error:?}");
    drop(transaction);
    assert_eq!(rows(&f.path), [0, 0, 1], "rolled back");
    assert_eq!(f.store.lookup(&s, &k).expect("an answer"), before, "the claim stands as it was");

    let connection = shell(&f.path);
    let transaction = begin(&connection);
    transaction.execute("INSERT INTO notes VALUES ('small')", []).expect("there is room");
    f.store.complete_in(&transaction, &claim.ticket(), large.clone()).expect("there is room");
    transaction.commit().expect("a commit");
    assert_eq!(rows(&f.path), [0, 1, 1]);
    let answer = f.store.try_claim(&s, &k, &asks_for("x")).expect("an answer");
    assert_eq!(answer.completed().reply, large.into());
}

#[test]
fn a_claim_in_the_applications_transaction_that_a_full_disk_ends_is_not_made() {
    let f = FullFile::new();
    let (s, k) = (scope("a"), key("k"));
    let connection = limited(&f);
    let transaction = begin(&connection);
    let answer = f.store.try_claim_in(&transaction, &s, &k, &asks_for("x")).expect("an answer");
    let ClaimOutcome::Claimed(claim) = answer else { panic!("{answer:?}") };
    let error = transaction.execute(TOO_LARGE_A_ROW, []).expect_err("there is no room");
    assert!(is_full(&error) && transaction.is_autocommit(), "the transaction is to be gone: {error}");
    let refused = claim.complete(Reply::Marker).expect_err("its transaction is gone");
    assert!(matches!(refused, Error::NoWriteLock), "{refused:?}");
    drop(transaction);
    assert_eq!(rows(&f.path), [0, 0, 0]);
    runs_as_the_first(&f);
}
