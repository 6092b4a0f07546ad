//! Work that ends the transaction by itself: no reply is recorded, and what is said of the commit is true.

use crate::common::Answer;
use crate::shop::{Shop, claim, order, reply};
use idempotency::rusqlite;
use idempotency::{Error, Failures, LostReason, Policy, Reply, RunError};

/// What the work does after it has ordered a book; whether that was committed; what is ordered then; and
/// whether the last of the statements is denied.
struct Ending {
    statements: &'static str,
    committed: bool,
    orders: &'static [&'static str],
    denied: bool,
}

const LATER: &str = "INSERT INTO orders (item) VALUES ('later')";

const ENDINGS: [Ending; 11] = [
    Ending { statements: "COMMIT", committed: true, orders: &["a book"], denied: false },
    Ending { statements: "COMMIT; BEGIN", committed: true, orders: &["a book"], denied: false },
    Ending {
        statements: "COMMIT; BEGIN IMMEDIATE; {later}",
        committed: true,
        orders: &["a book"],
        denied: false,
    },
    Ending {
        statements: "COMMIT; SAVEPOINT other; {later}",
        committed: true,
        orders: &["a book"],
        denied: false,
    },
    Ending { statements: "COMMIT; {later}", committed: true, orders: &["a book", "later"], denied: false },
    Ending { statements: "ROLLBACK", committed: false, orders: &[], denied: false },
    Ending { statements: "ROLLBACK; BEGIN", committed: false, orders: &[], denied: false },
    Ending { statements: "ROLLBACK; BEGIN IMMEDIATE; {later}", committed: false, orders: &[], denied: false },
    // It may have been SQLite that rolled back, and the work not noticed: what it goes on with is no part of
    // anything that would be completed.
    Ending { statements: "ROLLBACK; {later}", committed: false, orders: &[], denied: true },
    Ending {
        statements: "ROLLBACK; BEGIN IMMEDIATE; {later}; COMMIT",
        committed: false,
        orders: &[],
        denied: true,
    },
    Ending {
        statements: "INSERT INTO audit VALUES ('the first'); {later}",
        committed: false,
        orders: &[],
        denied: true,
    },
];

impl Ending {
    fn work(&self, tx: &rusqlite::Connection) {
        order(tx, "a book").expect("an order");
        // One by one, as work that does not look at what it is answered.
        let answers = self.statements.split("; ").map(|it| tx.execute_batch(&it.replace("{later}", LATER)));
        let last = answers.last().expect("a statement");
        assert_eq!(last.is_err(), self.denied, "{}", self.statements);
    }

    /// After the error: what it has said is true, and the store can be used.
    fn check(&self, shop: &Shop, before: &crate::shop::Stored) {
        let Self { statements, committed, orders, .. } = self;
        assert_eq!(shop.orders(), *orders, "{statements}");
        let connection = shop.connection();
        connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").expect("no lock is left");
        if *committed {
            assert_eq!(shop.column::<String>("state"), "in_progress", "{statements}");
            assert_eq!(claim(&shop.store).expect("a store").name(), "in progress", "{statements}");
            shop.at(90);
            assert_eq!(claim(&shop.store).expect("a store").claimed().attempt(), 2, "{statements}");
        } else {
            let after = shop.stored();
            assert_eq!(
                (after.records, after.meta),
                (before.records.clone(), before.meta.clone()),
                "{statements}"
            );
            shop.must_run("another book", 1);
        }
    }
}

#[test]
fn work_that_ends_the_transaction_and_gives_a_reply_gets_it_back_unrecorded_with_what_was_committed() {
    for ending in ENDINGS {
        let shop = Shop::new();
        let before = shop.stored();
        let ended = shop.run(|tx| {
            ending.work(tx);
            Ok::<_, rusqlite::Error>(reply(201, "it"))
        });
        let error = ended.expect_err(ending.statements);
        assert_eq!(error.is_indefinite(), ending.committed, "{}: {error:?}", ending.statements);
        let RunError::NotRecorded { reply: given, error } = error else {
            panic!("{}: {error:?}", ending.statements)
        };
        assert_eq!(given, reply(201, "it"));
        let Error::TransactionEnded { committed } = error else { panic!("{}: {error:?}", ending.statements) };
        assert_eq!(committed, ending.committed, "{}", ending.statements);
        ending.check(&shop, &before);
    }
}

#[test]
fn work_that_ends_the_transaction_and_fails_gets_its_error_if_nothing_was_committed_and_else_hears_so() {
    for ending in ENDINGS {
        let shop = Shop::new();
        let before = shop.stored();
        let ended = shop.run(|tx| {
            ending.work(tx);
            Err("closed today")
        });
        match ended {
            Err(RunError::Work("closed today")) => assert!(!ending.committed, "{}", ending.statements),
            Err(RunError::Store(Error::TransactionEnded { committed: true })) => {
                assert!(ending.committed, "{}", ending.statements);
            }
            other => panic!("{}: {other:?}", ending.statements),
        }
        ending.check(&shop, &before);
    }
}

#[test]
fn work_that_ends_the_transaction_and_gives_a_failure_gets_it_back_with_what_was_committed() {
    for ending in ENDINGS {
        let shop = Shop::new();
        let before = shop.stored();
        let ended = shop.run(|tx| {
            ending.work(tx);
            Ok::<_, rusqlite::Error>(reply(503, "later"))
        });
        match ended {
            Err(RunError::NotRecorded { reply: given, error: Error::TransactionEnded { committed } }) => {
                assert_eq!(
                    (given, committed),
                    (reply(503, "later"), ending.committed),
                    "{}",
                    ending.statements
                );
            }
            other => panic!("{}: {other:?}", ending.statements),
        }
        ending.check(&shop, &before);
    }
}

#[test]
fn a_takeover_that_the_work_commits_by_itself_stands_as_that_attempt_and_one_that_it_rolls_back_does_not() {
    for (statements, attempt) in [("COMMIT", 2), ("ROLLBACK", 1)] {
        let shop = Shop::new();
        let first = shop.claim();
        shop.at(90);
        let ended = shop.run(|tx| {
            tx.execute_batch(statements)?;
            Ok::<_, rusqlite::Error>(reply(201, "it"))
        });
        assert!(
            matches!(
                &ended,
                Err(RunError::NotRecorded { error: Error::TransactionEnded { committed }, .. })
                    if *committed == (attempt == 2)
            ),
            "{ended:?}"
        );
        assert_eq!(shop.column::<i64>("attempt"), attempt, "{statements}");
        let late = first.complete(Reply::Marker).map_err(Error::from);
        match late {
            Ok(_) => assert_eq!(attempt, 1),
            Err(Error::ClaimLost(LostReason::Running)) => assert_eq!(attempt, 2),
            other => panic!("{statements}: {other:?}"),
        }
    }
}

/// `Failures::Record` records what the work gives, not what it has undone.
#[test]
fn not_even_a_policy_that_records_failures_records_the_reply_of_an_ended_transaction() {
    let shop = Shop::new();
    let store = shop.store.with_policy(Policy::new().with_failures(Failures::Record)).expect("a policy");
    for status in [201, 503] {
        let ended = crate::shop::run(&store, |tx| {
            tx.execute_batch("ROLLBACK")?;
            Ok::<_, rusqlite::Error>(reply(status, "it"))
        });
        let definite = matches!(
            &ended,
            Err(RunError::NotRecorded { error: Error::TransactionEnded { committed: false }, .. })
        );
        assert!(definite, "{ended:?}");
    }
    shop.must_run("a book", 1);
}
