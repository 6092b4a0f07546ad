//! Constraints of the application's own tables, violated inside `atomically`.

use crate::common::Answer;
use crate::shop::{Shop, cause, claim, order, reply};
use idempotency::rusqlite::{self, ffi};
use idempotency::{Error, Reply, RunError};

/// As the application would get it without the store.
#[test]
fn a_violated_constraint_is_the_very_error_that_sqlite_gives_and_the_key_stays_free() {
    for statement in [
        "INSERT INTO orders (item) VALUES ('an apple')",
        "INSERT OR FAIL INTO orders (item) VALUES ('a pear'), ('an apple')",
        "INSERT OR ROLLBACK INTO orders (item) VALUES ('an apple')",
        "INSERT INTO orders (item, amount) VALUES ('a pen', -1)",
        "INSERT INTO orders (item) VALUES (NULL)",
        "INSERT INTO orders (item, customer) VALUES ('a pen', 1)",
        "INSERT INTO orders (id, item) VALUES (1, 'a pen')",
        "INSERT INTO audit VALUES ('bomb')",
        "INSERT INTO nothing VALUES (1)",
        "INSERT INTO orders",
    ] {
        let shop = Shop::new();
        let shell = shop.connection();
        order(&shell, "an apple").expect("an order");
        shell.execute_batch("BEGIN").expect("a transaction without the store");
        let wanted = shell.execute_batch(statement).expect_err(statement);
        if !shell.is_autocommit() {
            shell.execute_batch("ROLLBACK").expect("an end");
        }
        let before = shop.stored();
        let failed = shop.run(|tx| {
            order(tx, "a book")?;
            tx.execute_batch(statement)?;
            Ok::<_, rusqlite::Error>(Reply::Marker)
        });
        let Err(RunError::Work(error)) = failed else { panic!("{statement}: {failed:?}") };
        assert_eq!(error, wanted, "{statement}");
        assert_eq!(shop.stored(), before, "{statement}");
        let claim = claim(&shop.store).expect("a store").claimed();
        assert_eq!(claim.attempt(), 1, "{statement}");
        claim.release().expect("held");
        shop.must_run("a book", 1);
    }
}

#[test]
fn a_violation_that_the_work_deals_with_by_itself_is_none_of_the_stores() {
    let shop = Shop::new();
    order(&shop.connection(), "an apple").expect("an order");
    let done = shop.run(|tx| {
        order(tx, "a book")?;
        let error = order(tx, "an apple").expect_err("there is one");
        assert_eq!(crate::shop::code(&error), Some(ffi::SQLITE_CONSTRAINT_UNIQUE));
        Ok::<_, rusqlite::Error>(reply(409, "there is one"))
    });
    assert_eq!(crate::shop::executed(done).reply, reply(409, "there is one"));
    assert_eq!(shop.orders(), ["an apple", "a book"]);
}

#[test]
fn a_constraint_that_is_violated_at_the_commit_gives_the_reply_back_and_is_definite_and_the_store_goes_on() {
    let shop = Shop::new();
    let before = shop.stored();
    for round in 0..3 {
        let failed = shop.run(|tx| {
            tx.execute("INSERT INTO orders (item, parent) VALUES ('a part', 70)", [])?;
            Ok::<_, rusqlite::Error>(reply(201, "it"))
        });
        let error = failed.expect_err("there is no order 70");
        assert!(!error.is_indefinite() && !error.is_transient(), "{round}: {error:?}");
        let RunError::NotRecorded { reply: given, error } = error else { panic!("{round}: {error:?}") };
        assert_eq!(given, reply(201, "it"));
        assert!(matches!(error, Error::Other(_)), "{round}: {error:?}");
        assert_eq!(cause(&error), Some(ffi::SQLITE_CONSTRAINT_FOREIGNKEY));
        assert_eq!(shop.stored(), before, "{round}");
    }
    let done = shop.run(|tx| {
        tx.execute("INSERT INTO orders (item, parent) VALUES ('a part', 70)", [])?;
        tx.execute("INSERT INTO orders (id, item) VALUES (70, 'a whole')", [])?;
        Ok::<_, rusqlite::Error>(Reply::Marker)
    });
    crate::shop::executed(done);
    assert_eq!(shop.orders(), ["a part", "a whole"], "in order by the time of the commit");
}
