//! Savepoints of the work's own inside `atomically`.

use crate::shop::{Shop, executed, order};
use idempotency::rusqlite;
use idempotency::{Reply, RunError};

#[test]
fn savepoints_of_the_works_own_are_kept_or_undone_as_it_says_and_those_left_open_are_kept() {
    for (statements, wanted) in [
        ("SAVEPOINT mine; INSERT INTO orders (item) VALUES ('a pen'); RELEASE mine", vec!["a book", "a pen"]),
        (
            "SAVEPOINT mine; INSERT INTO orders (item) VALUES ('a pen'); ROLLBACK TO mine; RELEASE mine",
            vec!["a book"],
        ),
        ("SAVEPOINT mine; INSERT INTO orders (item) VALUES ('a pen')", vec!["a book", "a pen"]),
        ("SAVEPOINT mine; INSERT INTO orders (item) VALUES ('a pen'); ROLLBACK TO mine", vec!["a book"]),
        (
            "SAVEPOINT mine; SAVEPOINT mine; INSERT INTO orders (item) VALUES ('a pen'); RELEASE mine",
            vec!["a book", "a pen"],
        ),
        // The name that the store's own mark has.
        ("SAVEPOINT idempotency; INSERT INTO orders (item) VALUES ('a pen')", vec!["a book", "a pen"]),
        (
            "SAVEPOINT idempotency; INSERT INTO orders (item) VALUES ('a pen'); RELEASE idempotency",
            vec!["a book", "a pen"],
        ),
        (
            "SAVEPOINT IDEMPOTENCY; INSERT INTO orders (item) VALUES ('a pen'); ROLLBACK TO idempotency",
            vec!["a book"],
        ),
    ] {
        let shop = Shop::new();
        let done = shop.run(|tx| {
            order(tx, "a book")?;
            tx.execute_batch(statements)?;
            Ok::<_, rusqlite::Error>(Reply::Marker)
        });
        executed(done);
        assert_eq!(shop.orders(), wanted, "{statements}");
        assert_eq!(shop.column::<String>("state"), "completed", "{statements}");
        shop.connection().execute_batch("BEGIN IMMEDIATE; ROLLBACK").expect("no lock is left");
    }
}

#[test]
fn savepoints_that_are_left_open_by_work_that_fails_are_undone_with_the_rest() {
    for statements in ["SAVEPOINT mine", "SAVEPOINT idempotency", "SAVEPOINT idempotency; SAVEPOINT mine"] {
        let shop = Shop::new();
        let before = shop.stored();
        let failed = shop.run(|tx| {
            order(tx, "a book")
                .and_then(|_| tx.execute_batch(statements))
                .and_then(|()| order(tx, "a pen"))
                .expect("orders");
            Err("closed today")
        });
        assert!(matches!(failed, Err(RunError::Work("closed today"))), "{statements}: {failed:?}");
        assert_eq!(shop.stored(), before, "{statements}");
        shop.must_run("a book", 1);
    }
}
