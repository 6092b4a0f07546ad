//! Threads that run work at once.

use crate::common::{key, scope};
use crate::shop::{Shop, a_key, a_print, a_scope, order, reply};
use idempotency::rusqlite;
use idempotency::{Ran, SqliteStore};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const THREADS: usize = 8;

/// Runs `call` on every thread at once.
fn at_once<T: Send>(call: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(THREADS);
    let (barrier, call) = (&barrier, &call);
    thread::scope(|threads| {
        let running: Vec<_> = (0..THREADS)
            .map(|number| {
                threads.spawn(move || {
                    barrier.wait();
                    call(number)
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().expect("a thread that ends")).collect()
    })
}

/// One store for all, and a handle on the file for each: they wait for one another's locks.
fn stores(shop: &Shop) -> [(&'static str, Vec<SqliteStore>); 2] {
    let handle = || {
        let options = shop.options().with_busy_timeout(Duration::from_secs(60));
        crate::shop::open(shop.path(), options).expect("the shop's store")
    };
    [("one store", vec![handle(); THREADS]), ("a handle each", (0..THREADS).map(|_| handle()).collect())]
}

#[test]
fn of_threads_that_run_one_key_at_once_one_executes_and_the_others_replay_its_reply() {
    for round in 0..2 {
        let shop = Shop::new();
        let (name, stores) = stores(&shop).into_iter().nth(round).expect("two ways");
        let runs = AtomicUsize::new(0);
        let answers = at_once(|number| {
            let ran = stores[number].atomically(&a_scope(), &a_key(), &a_print(), |tx| {
                runs.fetch_add(1, Ordering::SeqCst);
                order(tx, &format!("a book for {number}"))?;
                Ok::<_, rusqlite::Error>(reply(201, format!("for {number}")))
            });
            ran.expect("an answer")
        });
        let executed: Vec<_> = answers.iter().filter(|ran| matches!(ran, Ran::Executed(_))).collect();
        assert_eq!(executed.len(), 1, "{name}");
        assert_eq!(runs.load(Ordering::SeqCst), 1, "{name}");
        for answer in &answers {
            assert!(matches!(answer, Ran::Executed(_) | Ran::Replayed(_)), "{name}: {answer:?}");
            assert_eq!(answer.reply(), executed[0].reply(), "{name}");
        }
        assert_eq!(shop.orders().len(), 1, "{name}");
        assert_eq!(shop.stored().records.len(), 1, "{name}");
    }
}

#[test]
fn threads_that_run_keys_of_their_own_all_execute_and_there_is_a_row_for_each_completion() {
    const EACH: usize = 10;
    for round in 0..2 {
        let shop = Shop::new();
        let (name, stores) = stores(&shop).into_iter().nth(round).expect("two ways");
        let executed = at_once(|number| {
            let mut executed = 0;
            for order_of in 0..EACH {
                let item = format!("order {order_of} of {number}");
                let ran = stores[number].atomically(&scope("acct_1"), &key(&item), &a_print(), |tx| {
                    order(tx, &item)?;
                    Ok::<_, rusqlite::Error>(reply(201, item.clone()))
                });
                let ran = ran.expect("an answer");
                assert_eq!(ran.reply(), Some(&reply(201, item)), "{name}");
                executed += usize::from(matches!(ran, Ran::Executed(_)));
            }
            executed
        });
        assert_eq!(executed, [EACH; THREADS], "{name}");
        assert_eq!(shop.orders().len(), EACH * THREADS, "{name}");
        let completed: u32 = shop
            .connection()
            .query_row("SELECT count(*) FROM idempotency_record WHERE state = 'completed'", [], |row| {
                row.get(0)
            })
            .expect("a count");
        assert_eq!(usize::try_from(completed), Ok(EACH * THREADS), "{name}");
    }
}

#[test]
fn of_threads_whose_work_fails_half_of_the_time_each_failure_leaves_nothing_and_the_key_to_the_next() {
    let shop = Shop::new();
    let store = &stores(&shop)[0].1[0];
    let runs = AtomicUsize::new(0);
    let answers = at_once(|number| {
        store.atomically(&a_scope(), &a_key(), &a_print(), |tx| {
            let run = runs.fetch_add(1, Ordering::SeqCst);
            order(tx, &format!("a book for {number}")).expect("an order");
            if run < THREADS / 2 { Err(run) } else { Ok(reply(201, "it")) }
        })
    });
    assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), THREADS / 2);
    assert_eq!(answers.iter().filter(|answer| matches!(answer, Ok(Ran::Executed(_)))).count(), 1);
    assert_eq!(runs.load(Ordering::SeqCst), THREADS / 2 + 1);
    assert_eq!(shop.orders().len(), 1);
    assert_eq!(shop.column::<i64>("attempt"), 1);
}
