//! Work that completes its claim in a transaction of its own (`complete_in`), inside `run`.

use crate::common::Fixture;
use crate::support::{a_key, a_scope, executed, no_work, not_recorded, replayed, reply, run};
use idempotency::rusqlite::{Connection, TransactionBehavior};
use idempotency::{Error, IdempotencyStore, Ran, Reply, RunError, SqliteBackend, SqliteOptions, SqliteStore};
use std::convert::Infallible;
use std::time::Duration;

/// A store with a table beside it.
fn shop() -> (Fixture, SqliteStore, Connection) {
    let fixture = Fixture::on_sqlite();
    let path = fixture.path().expect("a file");
    let options = SqliteOptions::new().with_clock(fixture.clock.clone());
    let store = IdempotencyStore::new(SqliteBackend::open(&path, options).expect("a store"));
    let connection = Connection::open(path).expect("the same file");
    connection.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)").expect("a table");
    (fixture, store, connection)
}

/// Runs work that writes an order and completes in one transaction, and then gives what `gives` gives.
fn run_with_order(
    store: &SqliteStore,
    connection: &mut Connection,
    commits: bool,
    gives: Result<Reply, &'static str>,
) -> (Result<Ran, RunError<&'static str>>, i64) {
    let ran = run(store, |claim| {
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).expect("the write lock");
        transaction.execute("INSERT INTO orders DEFAULT VALUES", []).expect("an order");
        store.complete_in(&transaction, &claim.ticket(), reply(201)).expect("a claim that stands");
        if commits { transaction.commit() } else { transaction.rollback() }.expect("its end");
        gives
    });
    let orders = connection.query_row("SELECT count(*) FROM orders", [], |row| row.get(0));
    (ran, orders.expect("a number"))
}

#[test]
fn a_reply_that_was_committed_with_its_rows_stands_whatever_the_work_gives_then() {
    let (_fixture, store, mut connection) = shop();
    let (ran, orders) = run_with_order(&store, &mut connection, true, Ok(reply(201)));
    assert_eq!((executed(ran).reply, orders), (reply(201), 1));
    assert_eq!(replayed(run(&store, no_work)).reply, reply(201));

    store.forget(&a_scope(), &a_key()).expect("a store");
    let (ran, orders) = run_with_order(&store, &mut connection, true, Err("after the commit"));
    assert!(matches!(ran, Err(RunError::Work("after the commit"))), "{ran:?}");
    assert_eq!((replayed(run(&store, no_work)).reply, orders), (reply(201), 2));
}

#[test]
fn after_a_rollback_the_claim_ends_by_what_the_work_gives() {
    let (_fixture, store, mut connection) = shop();
    let (ran, orders) = run_with_order(&store, &mut connection, false, Err("rolled back"));
    assert!(matches!(ran, Err(RunError::Work("rolled back"))), "{ran:?}");
    assert_eq!(orders, 0);
    let (ran, orders) = run_with_order(&store, &mut connection, false, Ok(reply(409)));
    assert_eq!((executed(ran).reply, orders), (reply(409), 0));
    assert_eq!(replayed(run(&store, no_work)).reply, reply(409));
}

/// The transaction of the work's own holds the file's write lock, so the claim's end has to wait for it.
#[test]
fn work_that_leaves_its_transaction_open_gets_its_reply_back() {
    let fixture = Fixture::on_sqlite();
    let path = fixture.path().expect("a file");
    let options = SqliteOptions::new().with_clock(fixture.clock.clone()).with_busy_timeout(Duration::ZERO);
    let store = IdempotencyStore::new(SqliteBackend::open(&path, options).expect("a store"));
    let connection = Connection::open(path).expect("the same file");
    let ran = run(&store, |_| {
        connection.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
        Ok::<_, Infallible>(reply(201))
    });
    let (given, error) = not_recorded(ran);
    assert!(matches!(error, Error::Busy(_)), "{error:?}");
    assert_eq!(given, reply(201));
    connection.execute_batch("ROLLBACK").expect("the lock given back");
    let again = run(&store, no_work);
    assert!(matches!(again, Ok(Ran::InProgress(_))), "{again:?}");
}
