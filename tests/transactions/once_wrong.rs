//! What was wrong once: the symptom is each test's name, the cause stands above it.

use crate::common::Answer;
use crate::shop::{Shop, a_key, a_print, a_scope, begin, claim, executed, order, reply};
use idempotency::rusqlite::{self, Connection};
use idempotency::{Error, Ran, Reply, RunError, SqliteStore};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

#[track_caller]
fn said<E: std::fmt::Debug>(ended: Result<Ran, RunError<E>>) -> Error {
    match ended {
        Err(RunError::Store(error) | RunError::NotRecorded { error, .. }) => error,
        other => panic!("wanted a store's error, got {other:?}"),
    }
}

/// The work gives up the mark, by a savepoint of the same name, and the transaction is still open. It is
/// looked at before it is rolled back, so the claim is seen in it.
#[test]
fn a_mark_that_the_work_has_released_is_no_commit() {
    for fails in [false, true] {
        let shop = Shop::new();
        let before = shop.stored();
        let ended = shop.run(|tx| {
            order(tx, "a book").expect("an order");
            for name in ["idempotency", "idempotency_0000000000000000"] {
                let _it_has_another_name = tx.execute_batch(&format!("RELEASE {name}"));
            }
            if fails { Err("closed today") } else { Ok(reply(201, "it")) }
        });
        if let Ok(ran) = ended {
            assert!(!fails && matches!(ran, Ran::Executed(_)), "{ran:?}");
            assert_eq!(shop.orders(), ["a book"]);
        } else {
            assert_eq!(shop.stored(), before, "it was rolled back");
            assert!(
                ended.is_err_and(|error| !error.is_indefinite()),
                "nothing was kept, and it says otherwise"
            );
        }
    }
}

/// Another owner of the row is taken for the proof that the transaction was rolled back.
#[test]
fn what_was_committed_is_not_denied_when_the_claim_has_been_taken_over_since() {
    let shop = Shop::new();
    let other = shop.handle();
    let ended = shop.run(|tx| {
        order(tx, "a book")?;
        tx.execute_batch("COMMIT")?;
        shop.at(90);
        assert_eq!(claim(&other).expect("a store").claimed().attempt(), 2);
        Ok::<_, rusqlite::Error>(reply(201, "it"))
    });
    assert_eq!(shop.orders(), ["a book"], "it was committed");
    let error = said(ended);
    assert!(error.is_indefinite(), "the book is ordered, and it says: {error:?}");
}

/// So is a row that is gone.
#[test]
fn what_was_committed_is_not_denied_when_the_record_has_been_forgotten_since() {
    let shop = Shop::new();
    let other = shop.handle();
    let ended = shop.run(|tx| {
        order(tx, "a book").and_then(|_| tx.execute_batch("COMMIT")).expect("a commit");
        assert!(other.forget(&a_scope(), &a_key()).expect("a store"));
        Err("closed today")
    });
    assert_eq!(shop.orders(), ["a book"], "it was committed");
    match ended {
        Err(RunError::Work("closed today")) => panic!("the book is ordered, and it says: nothing was kept"),
        ended => assert!(said(ended).is_indefinite()),
    }
}

/// The mark's name is known, so a savepoint of the same name in a new transaction passes for it.
#[test]
fn a_savepoint_of_the_marks_name_in_another_transaction_does_not_pass_for_it() {
    let shop = Shop::new();
    let ended = shop.run(|tx| {
        order(tx, "a book")
            .and_then(|_| tx.execute_batch("COMMIT; BEGIN IMMEDIATE; SAVEPOINT idempotency"))
            .expect("another transaction");
        Err("closed today")
    });
    assert_eq!(shop.orders(), ["a book"], "it was committed");
    assert!(!matches!(ended, Err(RunError::Work(_))), "nothing was kept, it says: {ended:?}");
}

#[test]
fn a_busy_timeout_of_the_works_own_does_not_replace_the_stores_for_later_calls() {
    fn timeout(connection: &Connection) -> rusqlite::Result<i64> {
        connection.query_row("PRAGMA busy_timeout", [], |row| row.get(0))
    }
    let shop = Shop::new();
    executed(shop.run(|tx| {
        tx.busy_timeout(Duration::from_millis(4_321))?;
        Ok::<_, rusqlite::Error>(Reply::Marker)
    }));
    shop.at(24 * 60 * 60);
    executed(shop.run(|tx| {
        assert_ne!(timeout(tx)?, 4_321, "SQLite's own wait has replaced the store's");
        Ok::<_, rusqlite::Error>(Reply::Marker)
    }));
}

/// Each stays on the one connection of the store, and fails every later write, of others too, until the program
/// restarts.
#[test]
fn what_the_work_leaves_on_the_connection_does_not_fail_later_calls() {
    let mut failed = Vec::new();
    for statements in [
        "PRAGMA query_only = ON",
        "PRAGMA count_changes = ON",
        "PRAGMA locking_mode = EXCLUSIVE",
        "CREATE TEMP TRIGGER t AFTER INSERT ON main.idempotency_record BEGIN SELECT RAISE(ABORT, 'left'); END",
        "ATTACH '{path}' AS itself",
        "ATTACH '{other}' AS locked",
    ] {
        let shop = Shop::new();
        let other = Connection::open(shop.other_path()).expect("another file");
        let statements = statements
            .replace("{path}", &shop.path().display().to_string())
            .replace("{other}", &shop.other_path().display().to_string());
        drop(shop.store.atomically(&a_scope(), &crate::common::key("first"), &a_print(), |tx| {
            tx.execute_batch(&statements)?;
            Ok::<_, rusqlite::Error>(Reply::Marker)
        }));
        other.execute_batch("BEGIN EXCLUSIVE").expect("nobody has it open");
        for store in [&shop.store, &shop.handle()] {
            if let Err(error) = claim(store) {
                failed.push((statements.clone(), error));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// It keeps a snapshot open, and no transaction begins over an old one (SQLite's error 517).
#[test]
fn a_statement_that_the_work_has_leaked_does_not_fail_later_calls_for_ever() {
    let shop = Shop::new();
    executed(shop.run(|tx| {
        let mut query = tx.prepare("SELECT 1 UNION ALL SELECT count(*) FROM audit")?;
        let mut rows = query.query([])?;
        rows.next()?;
        std::mem::forget(rows);
        std::mem::forget(query);
        Ok::<_, rusqlite::Error>(Reply::Marker)
    }));
    shop.handle().forget(&a_scope(), &a_key()).expect("somebody else writes");
    let _one_that_finds_it_out = claim(&shop.store);
    assert!(matches!(claim(&shop.store).expect("a store").name(), "claimed" | "in progress"));
}

/// Nothing is locked, and trying again does not help: the caller's own statement is in the way.
#[test]
fn a_statement_of_the_callers_that_still_writes_is_no_lock_that_goes_away() {
    let shop = Shop::new();
    let ticket = shop.claim().into_ticket();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    let mut insert =
        tx.prepare("INSERT INTO orders (item) VALUES ('1'), ('2') RETURNING id").expect("orders");
    let mut ids = insert.query([]).expect("orders");
    ids.next().expect("an id");
    let error = shop.store.complete_in(&tx, &ticket, Reply::Marker).expect_err("it still writes");
    assert!(!error.is_transient(), "{error:?}");
}

/// A pool in a thread-local, say, that gives its claims back when the thread ends.
#[test]
fn a_store_that_is_used_while_a_thread_goes_down_does_not_panic() {
    type Answer = Result<Result<(), Error>, Box<dyn std::any::Any + Send>>;
    struct GoingDown(Option<(SqliteStore, mpsc::Sender<Answer>)>);
    impl Drop for GoingDown {
        fn drop(&mut self) {
            if let Some((store, sender)) = self.0.take() {
                let look_up = || store.lookup(&a_scope(), &a_key()).map(drop);
                let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(look_up));
                drop(sender.send(answer));
            }
        }
    }
    thread_local! {
        static LAST: std::cell::RefCell<GoingDown> = const { std::cell::RefCell::new(GoingDown(None)) };
    }
    let shop = Shop::new();
    let store = shop.store.clone();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // Registered before the store's own thread-local, so that it goes down after it.
        LAST.with_borrow_mut(|last| last.0 = Some((store.clone(), sender)));
        store.lookup(&a_scope(), &a_key()).map(drop)
    })
    .join()
    .expect("the thread itself does not panic")
    .expect("a store");
    let answer = receiver.recv().expect("an answer from the thread's end");
    assert!(matches!(answer, Ok(Ok(()))), "it has panicked");
}
