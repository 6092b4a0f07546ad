//! Statements that are interrupted at any point, as a watchdog over slow queries does it.

use crate::common::{asks_for, key};
use crate::shop::{Shop, a_scope, begin, order, rows};
use idempotency::rusqlite::{self, InterruptHandle};
use idempotency::{Error, RunError, StoredResponse};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

/// Runs `body` beside a thread that interrupts whatever runs on the connections whose handles it is sent.
fn interrupted(body: impl FnOnce(&mpsc::Sender<InterruptHandle>)) {
    let is_over = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel::<InterruptHandle>();
    thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            let mut handle = None;
            while !is_over.load(Ordering::Relaxed) {
                handle = receiver.try_iter().last().or(handle);
                if let Some(handle) = &handle {
                    handle.interrupt();
                }
                thread::yield_now();
            }
        });
        // Also where the body panics, lest the scope wait for ever.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _over = Over(is_over);
        body(&sender);
    });
}

const CALLS: usize = 300;

fn completed(connection: &rusqlite::Connection, name: &str) -> bool {
    let found = "SELECT count(*) FROM idempotency_record WHERE key = ?1 AND state = 'completed'";
    connection.query_row(found, [name], |row| row.get::<_, i64>(0)).expect("a count") == 1
}

#[test]
fn work_whose_statements_are_interrupted_is_done_or_not_as_it_is_said() {
    let shop = Shop::new();
    let [mut done, mut failed] = [0, 0];
    interrupted(|handles| {
        for n in 0..CALLS {
            let name = format!("order {n}");
            let ran = shop.store.atomically(&a_scope(), &key(&name), &asks_for("x"), |tx| {
                handles.send(tx.get_interrupt_handle()).expect("the watchdog");
                order(tx, &name).map(|_| StoredResponse::new(201).into())
            });
            let is_kept = shop.orders().contains(&name);
            assert_eq!(completed(&shop.connection(), &name), is_kept, "{n}: both or neither");
            match ran {
                Ok(_) => done += usize::from(is_kept),
                Err(RunError::Work(_)) => failed += usize::from(!is_kept),
                Err(RunError::Store(error) | RunError::NotRecorded { error, .. }) => {
                    assert!(!matches!(error, Error::TransactionEnded { committed: true }), "{n}: {error:?}");
                    assert!(error.is_indefinite() || !is_kept, "{n}: {error:?}");
                    failed += 1;
                }
            }
        }
    });
    println!("{done} done, {failed} failed");
    assert_eq!(done + failed, CALLS, "an answer that was not true");
    assert!(done > 0, "none came through");
}

#[test]
fn a_call_in_the_applications_transaction_that_is_interrupted_leaves_nothing_there() {
    let shop = Shop::new();
    let mut connection = shop.connection();
    let [mut done, mut failed] = [0, 0];
    for n in 0..CALLS {
        let name = format!("order {n}");
        let ticket = shop
            .store
            .try_claim(&a_scope(), &key(&name), &asks_for("x"))
            .map(|answer| crate::common::Answer::claimed(answer).into_ticket())
            .expect("a store");
        let tx = begin(&mut connection);
        let stored = || rows(&tx, "SELECT * FROM main.idempotency_record ORDER BY scope, key");
        let before = stored();
        let mut answers = Vec::new();
        interrupted(|handles| {
            handles.send(tx.get_interrupt_handle()).expect("the watchdog");
            answers.push(shop.store.complete_in(&tx, &ticket, StoredResponse::new(201)).map(drop));
            let another = key(&format!("another {n}"));
            answers.push(shop.store.try_claim_in(&tx, &a_scope(), &another, &asks_for("x")).map(drop));
        });
        let changed = stored().iter().filter(|row| !before.contains(row)).count();
        if tx.is_autocommit() {
            // SQLite has rolled it back; nothing is left of either.
            assert_eq!(changed, 0);
            failed += 1;
            continue;
        }
        let said: usize = answers.iter().map(|answer| usize::from(answer.is_ok())).sum();
        if answers.iter().flatten_err().all(|error| !error.is_indefinite()) {
            assert_eq!(changed, said, "{n}: {answers:?}");
        }
        done += said;
        failed += answers.len() - said;
        tx.rollback().expect("a rollback");
    }
    println!("{done} done, {failed} failed");
    assert!(done > 0, "none came through");
}

/// The errors among some answers.
trait FlattenErr<'a> {
    fn flatten_err(self) -> impl Iterator<Item = &'a Error>;
}

impl<'a, I: Iterator<Item = &'a Result<(), Error>>> FlattenErr<'a> for I {
    fn flatten_err(self) -> impl Iterator<Item = &'a Error> {
        self.filter_map(|answer| answer.as_ref().err())
    }
}
