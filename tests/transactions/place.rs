//! Transactions that `complete_in` and `try_claim_in` are refused in: without the write lock, or on another
//! database.

use crate::common::Answer;
use crate::shop::{
    Shop, Stored, a_key, a_print, a_scope, begin, claim, claim_in, no_savepoint, open, order, rows,
};
use idempotency::rusqlite::{self, Connection, OpenFlags, Transaction, TransactionBehavior};
use idempotency::{Error, Reply, SqliteStore, Ticket};

/// Both methods, each refused as `is_right` says, and neither has done anything on the connection.
#[track_caller]
fn both_refused(
    about: &str,
    store: &SqliteStore,
    tx: &Transaction<'_>,
    ticket: &Ticket,
    is_right: fn(&Error) -> bool,
) {
    let changes = tx.total_changes();
    let error = store.complete_in(tx, ticket, Reply::Marker).expect_err(about);
    assert!(is_right(&error), "{about}: {error:?}");
    assert!(!error.is_transient() && !error.is_indefinite(), "{about}: {error:?}");
    for (scope, key) in [(a_scope(), a_key()), (a_scope(), crate::common::key("new"))] {
        let error = store.try_claim_in(tx, &scope, &key, &a_print()).map(drop).expect_err(about);
        assert!(is_right(&error), "{about}: {error:?}");
        assert!(!error.is_transient() && !error.is_indefinite(), "{about}: {error:?}");
    }
    assert_eq!(tx.total_changes(), changes, "{about}: something was written");
    no_savepoint(tx);
}

fn no_write_lock(error: &Error) -> bool {
    matches!(error, Error::NoWriteLock)
}

fn other_database(error: &Error) -> bool {
    matches!(error, Error::OtherDatabase(_))
}

#[test]
fn a_transaction_that_does_not_hold_the_write_lock_is_refused_and_stays_as_it_was() {
    for first in ["", "SELECT * FROM orders", "SELECT * FROM idempotency_record", "CREATE TEMP TABLE t (a)"] {
        let shop = Shop::new();
        let ticket = shop.claim().into_ticket();
        let before = shop.stored();
        let mut connection = shop.connection();
        let tx = connection.transaction_with_behavior(TransactionBehavior::Deferred).expect("a transaction");
        tx.execute_batch(first).expect(first);
        both_refused(first, &shop.store, &tx, &ticket, no_write_lock);
        order(&tx, "a book").expect("it can still write");
        shop.store.complete_in(&tx, &ticket, Reply::Marker).expect("and has the lock then");
        tx.commit().expect("a commit");
        assert_eq!(shop.stored().meta, before.meta);
        assert_eq!(shop.orders(), ["a book"]);
        assert_eq!(claim(&shop.store).expect("a store").name(), "completed");
    }
}

/// Its object is still there when the transaction has ended.
#[test]
fn a_transaction_that_was_ended_by_hand_is_refused() {
    for end in ["COMMIT", "ROLLBACK", "COMMIT; BEGIN", "ROLLBACK; BEGIN; SELECT * FROM orders"] {
        let shop = Shop::new();
        let ticket = shop.claim().into_ticket();
        let before = shop.stored();
        let mut connection = shop.connection();
        let tx = begin(&mut connection);
        tx.execute_batch(end).expect(end);
        both_refused(end, &shop.store, &tx, &ticket, no_write_lock);
        drop(tx);
        assert_eq!(shop.stored(), before, "{end}");
    }
}

#[test]
fn the_write_lock_of_an_attached_database_is_not_that_of_the_store() {
    let shop = Shop::new();
    let ticket = shop.claim().into_ticket();
    let mut connection = shop.connection();
    connection.execute("ATTACH ?1 AS aside", [shop.other_path().to_str()]).expect("another file");
    connection.execute_batch("CREATE TABLE aside.notes (text)").expect("a table there");
    let tx = connection.transaction_with_behavior(TransactionBehavior::Deferred).expect("a transaction");
    tx.execute_batch("INSERT INTO aside.notes VALUES (1)").expect("a note");
    both_refused("attached", &shop.store, &tx, &ticket, no_write_lock);
}

#[test]
fn a_connection_that_can_only_read_has_no_write_lock_whatever_it_began_as() {
    let shop = Shop::new();
    let ticket = shop.claim().into_ticket();
    let mut connection =
        Connection::open_with_flags(shop.path(), OpenFlags::SQLITE_OPEN_READ_ONLY).expect("the shop's file");
    let tx = begin(&mut connection);
    both_refused("read-only", &shop.store, &tx, &ticket, no_write_lock);
    drop(tx);
    assert_eq!(claim(&shop.store).expect("no lock is left").name(), "in progress");
}

/// A connection with another main database than the store's, and how it comes to be.
type Elsewhere = (&'static str, fn(&Shop) -> Connection);

fn tables_of_the_store(schema: &str, shop: &Shop) -> String {
    let shell = shop.connection();
    let id = rows(&shell, "SELECT hex(store_id) FROM idempotency_meta");
    let rusqlite::types::Value::Text(id) = &id[0][0] else { panic!("a store id") };
    let create: String = shell
        .query_row("SELECT sql FROM sqlite_schema WHERE name = 'idempotency_record'", [], |row| row.get(0))
        .expect("a table");
    format!(
        "{}; CREATE TEMP TABLE idempotency_meta (only_row, schema_version, last_token INTEGER, store_id BLOB);
         INSERT INTO temp.idempotency_meta VALUES (1, 1, 0, x'{id}')",
        create.replacen("idempotency_record", &format!("{schema}.idempotency_record"), 1)
    )
}

const ELSEWHERE: [Elsewhere; 8] = [
    ("in memory", |_| Connection::open_in_memory().expect("a database")),
    ("a file without a store", |shop| {
        let connection = Connection::open(shop.other_path()).expect("a file");
        connection.execute_batch("CREATE TABLE orders (item)").expect("a table");
        connection
    }),
    ("a file with another store", |shop| {
        drop(open(shop.other_path(), shop.options()).expect("another store"));
        Connection::open(shop.other_path()).expect("a file")
    }),
    ("a store with another prefix", |shop| {
        drop(open(shop.other_path(), shop.options().with_prefix("other_")).expect("another store"));
        Connection::open(shop.other_path()).expect("a file")
    }),
    ("the store's file, attached", |shop| {
        let connection = Connection::open_in_memory().expect("a database");
        connection.execute("ATTACH ?1 AS shop", [shop.path().to_str()]).expect("the shop's file");
        connection
    }),
    ("temporary tables with the store's names and id", |shop| {
        let connection = Connection::open(shop.other_path()).expect("a file");
        connection.execute_batch(&tables_of_the_store("temp", shop)).expect("tables");
        connection
    }),
    ("a view with the store's name", |shop| {
        let connection = Connection::open(shop.other_path()).expect("a file");
        connection.execute_batch("CREATE VIEW idempotency_meta AS SELECT 'x' AS store_id").expect("a view");
        connection
    }),
    ("an empty table with the store's name", |shop| {
        let connection = Connection::open(shop.other_path()).expect("a file");
        connection.execute_batch("CREATE TABLE idempotency_meta (store_id)").expect("a table");
        connection
    }),
];

#[test]
fn a_transaction_on_another_database_is_refused_and_stays_as_it_was() {
    for (name, elsewhere) in ELSEWHERE {
        let shop = Shop::new();
        let ticket = shop.claim().into_ticket();
        let before = shop.stored();
        let mut connection = elsewhere(&shop);
        connection.execute_batch("CREATE TABLE mine (a)").expect("a table");
        let tx = begin(&mut connection);
        tx.execute_batch("INSERT INTO mine VALUES (1)").expect("a row");
        both_refused(name, &shop.store, &tx, &ticket, other_database);
        tx.execute_batch("INSERT INTO mine VALUES (2)").expect("it goes on");
        tx.commit().expect("a commit");
        assert_eq!(rows(&connection, "SELECT a FROM mine").len(), 2, "{name}");
        drop(connection);
        assert_eq!(shop.stored(), before, "{name}");
    }
}

#[test]
fn a_file_that_has_a_store_of_another_prefix_only_is_another_database_for_this_one() {
    let shop = Shop::new();
    let mut connection = shop.connection();
    let elsewhere = open(shop.other_path(), shop.options().with_prefix("other_")).expect("another store");
    let ticket = claim(&elsewhere).expect("a store").claimed().into_ticket();
    let tx = begin(&mut connection);
    both_refused("another prefix", &elsewhere, &tx, &ticket, other_database);
}

#[test]
fn temporary_tables_with_the_stores_names_stand_in_for_nothing_in_its_own_file() {
    let shop = Shop::new();
    let ticket = shop.claim().into_ticket();
    let mut connection = shop.connection();
    connection.execute_batch(&tables_of_the_store("temp", &shop)).expect("tables");
    connection.execute_batch("UPDATE temp.idempotency_meta SET store_id = zeroblob(16)").expect("another id");
    let tx = begin(&mut connection);
    shop.store.complete_in(&tx, &ticket, Reply::Marker).expect("the main tables are asked");
    let new = shop.store.try_claim_in(&tx, &a_scope(), &crate::common::key("new"), &a_print());
    crate::shop::granted(new).complete(Reply::Marker).expect("the main tables are asked");
    tx.commit().expect("a commit");
    assert_eq!(shop.stored().records.len(), 2);
    assert_eq!(rows(&connection, "SELECT * FROM temp.idempotency_record").len(), 0);
}

#[test]
fn two_stores_in_one_file_are_told_apart_and_can_share_a_transaction() {
    let shop = Shop::new();
    let other = open(shop.path(), shop.options().with_prefix("other_")).expect("a second store");
    let ours = shop.claim().into_ticket();
    let theirs = claim(&other).expect("a store").claimed().into_ticket();
    let mut connection = shop.connection();
    let before = (shop.stored(), Stored::read(&connection, "other_"));
    let tx = begin(&mut connection);
    for (store, ticket) in [(&shop.store, &theirs), (&other, &ours)] {
        let lost = store.complete_in(&tx, ticket, Reply::Marker);
        assert!(matches!(lost, Err(Error::ClaimLost(_))), "{lost:?}");
    }
    shop.store.complete_in(&tx, &ours, Reply::Reference("ours".into())).expect("held");
    other.complete_in(&tx, &theirs, Reply::Reference("theirs".into())).expect("held");
    drop(tx);
    assert_eq!((shop.stored(), Stored::read(&connection, "other_")), before);
    let tx = begin(&mut connection);
    shop.store.complete_in(&tx, &ours, Reply::Reference("ours".into())).expect("held");
    other.complete_in(&tx, &theirs, Reply::Reference("theirs".into())).expect("held");
    tx.commit().expect("a commit");
    for (store, reference) in [(&shop.store, "ours"), (&other, "theirs")] {
        let done = claim(store).expect("a store").completed();
        assert_eq!(done.reply, Reply::Reference(reference.into()));
    }
}

/// In the claim's answer, not only at the end: nothing is granted there.
#[test]
fn a_claim_on_another_database_leaves_the_key_free() {
    let shop = Shop::new();
    let mut connection = Connection::open_in_memory().expect("a database");
    let tx = begin(&mut connection);
    assert!(matches!(claim_in(&shop.store, &tx), Err(Error::OtherDatabase(_))));
    assert_eq!(shop.claim().attempt(), 1);
}

/// It has the store's id, and none of what is committed here.
#[test]
fn a_transaction_on_a_copy_of_the_file_is_refused_and_one_on_the_file_by_another_name_is_not() {
    let shop = Shop::new();
    let ticket = shop.claim().into_ticket();
    let copy = shop.other_path();
    shop.connection().execute("VACUUM INTO ?1", [copy.display().to_string()]).expect("a copy");
    let mut on_copy = Connection::open(&copy).expect("the copy");
    both_refused("a copy", &shop.store, &begin(&mut on_copy), &ticket, other_database);

    #[cfg(unix)]
    {
        let link = copy.with_extension("link");
        std::os::unix::fs::symlink(shop.path(), &link).expect("a link");
        let mut by_link = Connection::open(link).expect("the file");
        let tx = begin(&mut by_link);
        shop.store.complete_in(&tx, &ticket, Reply::Marker).expect("the store's own file");
    }
}
