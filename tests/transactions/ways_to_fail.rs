//! Ways in which work can end without a reply that is recorded, each with what it is answered.

use crate::common::{START, secs};
use crate::shop::{Shop, cause, code, order, reply, run};
use idempotency::rusqlite::{self, ffi};
use idempotency::{Error, Failures, LostReason, Policy, Ran, Reply, RunError, StoredResponse, Timestamp};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

/// One that leaves nothing behind. It moves the clock only within itself.
pub type WayToFail = (&'static str, fn(&Shop));

type Answer = Result<Ran, RunError<rusqlite::Error>>;

/// Orders a book, and executes `statements`.
fn ordered_and(shop: &Shop, statements: &str) -> Answer {
    shop.run(|tx| {
        order(tx, "a book")?;
        tx.execute_batch(statements)?;
        Ok(reply(201, "it"))
    })
}

/// The work's own error, with SQLite's extended code.
#[track_caller]
fn is_of_the_work(answer: Answer, wanted: i32) {
    match answer {
        Err(RunError::Work(error)) => assert_eq!(code(&error), Some(wanted), "{error:?}"),
        other => panic!("wanted the work's own error, got {other:?}"),
    }
}

/// The error with which the reply that the work gave was not recorded. It is definite.
#[track_caller]
fn not_recorded(answer: Answer, wanted: &Reply) -> Error {
    match answer {
        Err(error @ RunError::NotRecorded { .. }) => {
            assert!(!error.is_indefinite(), "{error:?}");
            match error {
                RunError::NotRecorded { reply, error } => {
                    assert_eq!(reply, *wanted);
                    error
                }
                _ => unreachable!(),
            }
        }
        other => panic!("wanted NotRecorded, got {other:?}"),
    }
}

/// The lease is 90 s and the retention 24 h, so the record is gone an hour later.
const RECORD_GONE: u64 = 90 + 25 * 60 * 60;

pub const WAYS_TO_FAIL: [WayToFail; 22] = [
    ("an error", |shop| {
        let answer = shop.run(|tx| {
            order(tx, "a book").expect("an order");
            Err("closed today")
        });
        assert!(matches!(answer, Err(RunError::Work("closed today"))), "{answer:?}");
    }),
    ("a reply that is a failure", |shop| {
        for failures in [Failures::Abandon, Failures::Release] {
            let store = shop.store.with_policy(Policy::new().with_failures(failures)).expect("a policy");
            let answer = run(&store, |tx| {
                order(tx, "a book")?;
                Ok::<_, rusqlite::Error>(reply(503, "later"))
            });
            assert!(
                matches!(&answer, Ok(Ran::Failed(failed)) if *failed == reply(503, "later")),
                "{answer:?}"
            );
        }
    }),
    ("a body that is too large", |shop| {
        let large = reply(201, vec![0; 1024 * 1024 + 1]);
        let answer = shop.run(|tx| {
            order(tx, "a book")?;
            Ok(large.clone())
        });
        let error = not_recorded(answer, &large);
        assert!(matches!(error, Error::ReplyTooLarge { len: 1_048_577, max: 1_048_576 }), "{error:?}");
    }),
    ("headers that are too large", |shop| {
        let large: Reply = StoredResponse::new(201).with_header("x", vec![b'x'; 64 * 1024]).into();
        let answer = shop.run(|tx| {
            order(tx, "a book")?;
            Ok(large.clone())
        });
        let error = not_recorded(answer, &large);
        assert!(matches!(error, Error::HeadersTooLarge { .. }), "{error:?}");
    }),
    ("a value that is there", |shop| {
        let answer = ordered_and(shop, "INSERT INTO orders (item) VALUES ('a book')");
        is_of_the_work(answer, ffi::SQLITE_CONSTRAINT_UNIQUE);
    }),
    ("a value that is refused", |shop| {
        let answer = ordered_and(shop, "INSERT INTO orders (item, amount) VALUES ('a pen', 0)");
        is_of_the_work(answer, ffi::SQLITE_CONSTRAINT_CHECK);
    }),
    ("a value that is missing", |shop| {
        let answer = ordered_and(shop, "INSERT INTO orders (item) VALUES (NULL)");
        is_of_the_work(answer, ffi::SQLITE_CONSTRAINT_NOTNULL);
    }),
    ("a foreign key", |shop| {
        let answer = ordered_and(shop, "INSERT INTO orders (item, customer) VALUES ('a pen', 7)");
        is_of_the_work(answer, ffi::SQLITE_CONSTRAINT_FOREIGNKEY);
    }),
    ("a foreign key that is looked at when it is committed", |shop| {
        let answer = ordered_and(shop, "INSERT INTO orders (item, parent) VALUES ('a pen', 7)");
        let error = not_recorded(answer, &reply(201, "it"));
        assert!(matches!(error, Error::Other(_)) && !error.is_transient(), "{error:?}");
        assert_eq!(cause(&error), Some(ffi::SQLITE_CONSTRAINT_FOREIGNKEY));
    }),
    ("a conflict that rolls back", |shop| {
        let answer = ordered_and(shop, "INSERT INTO audit VALUES ('the first')");
        is_of_the_work(answer, ffi::SQLITE_CONSTRAINT_UNIQUE);
    }),
    ("a trigger that rolls back", |shop| {
        let answer = ordered_and(shop, "INSERT INTO audit VALUES ('bomb')");
        is_of_the_work(answer, ffi::SQLITE_CONSTRAINT_TRIGGER);
    }),
    ("a conflict that rolls back and that the work takes no notice of", |shop| {
        let answer = shop.run(|tx| {
            order(tx, "a book")?;
            tx.execute("INSERT INTO audit VALUES ('the first')", []).expect_err("it is there");
            Ok(reply(201, "it"))
        });
        let error = not_recorded(answer, &reply(201, "it"));
        assert!(matches!(error, Error::TransactionEnded { committed: false }), "{error:?}");
    }),
    ("a rollback of the work's own, and an error", |shop| {
        let answer = shop.run(|tx| {
            order(tx, "a book").and_then(|_| tx.execute_batch("ROLLBACK")).expect("a rollback");
            Err("closed today")
        });
        assert!(matches!(answer, Err(RunError::Work("closed today"))), "{answer:?}");
    }),
    ("a rollback of the work's own, and a failure", |shop| {
        let answer = shop.run(|tx| {
            tx.execute_batch("ROLLBACK")?;
            Ok::<_, rusqlite::Error>(reply(503, "later"))
        });
        let error = not_recorded(answer, &reply(503, "later"));
        assert!(matches!(error, Error::TransactionEnded { committed: false }), "{error:?}");
    }),
    ("a panic", |shop| {
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            shop.run(|tx| -> Result<Reply, rusqlite::Error> {
                order(tx, "a book")?;
                std::panic::panic_any("closed today");
            })
        }));
        assert_eq!(unwound.expect_err("it goes on").downcast_ref(), Some(&"closed today"));
    }),
    ("a panic of what judges the reply", |shop| {
        let judge = |_: &Reply| -> bool { std::panic::panic_any("no judgement") };
        let store = shop.store.with_policy(Policy::new().failure_if(judge)).expect("a policy");
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            run(&store, |tx| {
                order(tx, "a book")?;
                Ok::<_, rusqlite::Error>(reply(201, "it"))
            })
        }));
        assert_eq!(unwound.expect_err("it goes on").downcast_ref(), Some(&"no judgement"));
    }),
    ("a panic after a rollback of its own", |shop| {
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            shop.run(|tx| -> Result<Reply, rusqlite::Error> {
                tx.execute_batch("ROLLBACK; BEGIN IMMEDIATE")?;
                order(tx, "a book")?;
                std::panic::panic_any("closed today");
            })
        }));
        assert_eq!(unwound.expect_err("it goes on").downcast_ref(), Some(&"closed today"));
    }),
    ("a clock that is out of range when the work ends", |shop| {
        let before = idempotency::Clock::now(&shop.clock);
        let answer = shop.run(|tx| {
            shop.clock.time.set(Timestamp::from_millis(-1));
            order(tx, "a book")?;
            Ok(reply(201, "it"))
        });
        shop.clock.time.set(before);
        let error = not_recorded(answer, &reply(201, "it"));
        assert!(matches!(error, Error::Clock(_)), "{error:?}");
    }),
    ("a clock that panics when the work ends", |shop| {
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            shop.run(|tx| {
                shop.clock.panics.store(true, Ordering::SeqCst);
                order(tx, "a book")?;
                Ok::<_, rusqlite::Error>(reply(201, "it"))
            })
        }));
        shop.clock.panics.store(false, Ordering::SeqCst);
        assert!(unwound.is_err(), "the panic is the caller's");
    }),
    ("work that lasts until its own record has expired", |shop| {
        let before = idempotency::Clock::now(&shop.clock);
        let answer = shop.run(|tx| {
            order(tx, "a book")?;
            shop.clock.time.set(START.saturating_add(secs(3 * RECORD_GONE)));
            Ok(reply(201, "it"))
        });
        shop.clock.time.set(before);
        let error = not_recorded(answer, &reply(201, "it"));
        assert!(matches!(error, Error::ClaimLost(LostReason::Gone)), "{error:?}");
    }),
    ("a record that the work has deleted", |shop| {
        let error = not_recorded(ordered_and(shop, "DELETE FROM idempotency_record"), &reply(201, "it"));
        assert!(matches!(error, Error::ClaimLost(LostReason::Gone)), "{error:?}");
    }),
    ("a table that the work has dropped", |shop| {
        let error = not_recorded(ordered_and(shop, "DROP TABLE idempotency_record"), &reply(201, "it"));
        assert!(!error.is_transient(), "{error:?}");
    }),
];

/// What was there before, and the attempt that the next run is.
pub type Before = (&'static str, fn(&Shop), u32);
pub const BEFORE: [Before; 4] = [
    ("nothing", |_| {}, 1),
    (
        "a takeover that was abandoned with a checkpoint",
        |shop| {
            shop.claim().save_checkpoint("a quarter").expect("held");
            shop.at(90);
            let mut second = shop.claim();
            assert_eq!(second.attempt(), 2);
            second.save_checkpoint("half-way").expect("held");
            second.abandon().expect("held");
        },
        3,
    ),
    (
        "a reply that has expired",
        |shop| {
            shop.claim().complete(reply(201, "long ago")).expect("held");
            shop.at(24 * 60 * 60);
        },
        1,
    ),
    (
        "a claim that has expired",
        |shop| {
            shop.claim().save_checkpoint("half-way").expect("held");
            shop.at(RECORD_GONE);
        },
        1,
    ),
];
