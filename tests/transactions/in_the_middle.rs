//! Errors in the middle of the store's statements, in a transaction of the application's: nothing of them is
//! left, even if it is committed all the same.

use crate::common::Answer;
use crate::shop::{Shop, begin, claim, claim_in, no_savepoint, order, reply};
use idempotency::rusqlite::{self, Transaction};
use idempotency::{Error, Reply, Ticket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

fn trigger(shop: &Shop, when: &str, what: &str) {
    shop.connection()
        .execute_batch(&format!("CREATE TRIGGER in_the_way {when} BEGIN SELECT {what}; END"))
        .expect("a trigger");
}

type Attempt = fn(&Shop, &Transaction<'_>, &Ticket) -> Result<(), Error>;

const COMPLETE: Attempt = |shop, tx, ticket| shop.store.complete_in(tx, ticket, Reply::Marker).map(drop);
const CLAIM: Attempt = |shop, tx, _| {
    shop.store
        .try_claim_in(tx, &crate::shop::a_scope(), &crate::common::key("new"), &crate::shop::a_print())
        .map(drop)
};
const TAKE_OVER: Attempt = |shop, tx, _| {
    shop.at(90);
    claim_in(&shop.store, tx).map(drop)
};

/// Each stops one of the store's statements, some of them after they have written.
#[test]
fn a_statement_of_the_stores_that_fails_half_way_leaves_nothing_if_the_caller_commits_all_the_same() {
    for (when, attempts) in [
        ("AFTER UPDATE ON idempotency_record", [COMPLETE, TAKE_OVER]),
        ("AFTER UPDATE ON idempotency_meta", [CLAIM, TAKE_OVER]),
        ("BEFORE UPDATE ON idempotency_meta", [CLAIM, TAKE_OVER]),
        ("AFTER INSERT ON idempotency_record", [CLAIM, CLAIM]),
    ] {
        for (what, ends_the_transaction) in [
            ("RAISE(ABORT, 'in the way')", false),
            ("RAISE(FAIL, 'in the way')", false),
            ("RAISE(ROLLBACK, 'in the way')", true),
        ] {
            for attempt in attempts {
                let shop = Shop::new();
                let mut owner = shop.claim();
                owner.save_checkpoint("half-way").expect("held");
                let ticket = owner.into_ticket();
                trigger(&shop, when, what);
                let before = shop.stored();
                let mut connection = shop.connection();
                let tx = begin(&mut connection);
                order(&tx, "a book").expect("an order");
                let error = attempt(&shop, &tx, &ticket).expect_err("a trigger is in the way");
                assert!(!error.is_indefinite() && !error.is_transient(), "{when} {what}: {error:?}");
                assert!(matches!(error, Error::Other(_)), "{when} {what}: {error:?}");
                assert_eq!(tx.is_autocommit(), ends_the_transaction, "{when} {what}");
                no_savepoint(&tx);
                let committed = tx.commit();
                assert_eq!(committed.is_err(), ends_the_transaction, "{when} {what}: {committed:?}");
                let after = shop.stored();
                assert_eq!((&after.records, &after.meta), (&before.records, &before.meta), "{when} {what}");
                assert_eq!(after.orders.len(), usize::from(!ends_the_transaction), "{when} {what}");
                shop.connection().execute_batch("DROP TRIGGER in_the_way").expect("no trigger");
                shop.store.complete(&ticket, Reply::Marker).expect("still held");
            }
        }
    }
}

#[test]
fn a_trigger_that_swallows_a_statement_of_the_stores_is_an_error_that_leaves_nothing() {
    for (when, attempt) in [
        ("BEFORE UPDATE ON idempotency_meta", CLAIM),
        ("BEFORE INSERT ON idempotency_record", CLAIM),
        ("BEFORE UPDATE ON idempotency_record", COMPLETE),
    ] {
        let shop = Shop::new();
        let ticket = shop.claim().into_ticket();
        trigger(&shop, when, "RAISE(IGNORE)");
        let before = shop.stored();
        let mut connection = shop.connection();
        let tx = begin(&mut connection);
        order(&tx, "a book").expect("an order");
        let error = attempt(&shop, &tx, &ticket).expect_err("a trigger is in the way");
        assert!(matches!(error, Error::Corrupt { .. } | Error::Bug { .. }), "{when}: {error:?}");
        tx.commit().expect("a commit");
        let after = shop.stored();
        assert_eq!((&after.records, &after.meta), (&before.records, &before.meta), "{when}");
        assert_eq!(after.orders, ["a book"], "{when}");
    }
}

#[test]
fn a_file_without_room_for_the_reply_is_full_and_has_no_part_of_it() {
    let shop = Shop::new();
    let ticket = shop.claim().into_ticket();
    let before = shop.stored();
    let mut connection = shop.connection();
    let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).expect("a count");
    connection.query_row(&format!("PRAGMA max_page_count = {}", pages + 3), [], |_| Ok(())).expect("a limit");
    let tx = begin(&mut connection);
    order(&tx, "a book").expect("there is room for it");
    let full = shop.store.complete_in(&tx, &ticket, reply(201, vec![1; 500_000]));
    assert!(matches!(full, Err(Error::Full(_))), "{full:?}");
    let ended = tx.is_autocommit();
    let committed = tx.commit();
    assert_eq!(committed.is_err(), ended, "{committed:?}");
    let after = shop.stored();
    assert_eq!((&after.records, &after.meta), (&before.records, &before.meta));
    assert_eq!(after.orders.len(), usize::from(!ended));
    let tx = begin(&mut connection);
    shop.store.complete_in(&tx, &ticket, reply(201, "less")).expect("there is room for it");
    tx.commit().expect("a commit");
    assert_eq!(claim(&shop.store).expect("a store").completed().reply, reply(201, "less"));
}

#[test]
fn a_file_without_room_for_the_reply_of_atomically_keeps_nothing_and_goes_on_with_less() {
    let shop = Shop::new();
    let before = shop.stored();
    let full = shop.run(|tx| {
        order(tx, "a book")?;
        let pages: i64 = tx.query_row("PRAGMA page_count", [], |row| row.get(0))?;
        tx.query_row(&format!("PRAGMA max_page_count = {}", pages + 3), [], |_| Ok(()))?;
        Ok::<_, rusqlite::Error>(reply(201, vec![1; 500_000]))
    });
    let is_full = matches!(
        &full,
        Err(idempotency::RunError::NotRecorded { reply: given, error: Error::Full(_) })
            if *given == reply(201, vec![1; 500_000])
    );
    assert!(is_full, "{full:?}");
    assert_eq!(shop.stored(), before);
    shop.must_run("a book", 1);
}

#[test]
fn a_damaged_record_or_counter_is_corrupt_and_the_transaction_goes_on() {
    for (damage, attempts) in [
        ("UPDATE idempotency_record SET attempt = 0", vec![COMPLETE, TAKE_OVER]),
        ("UPDATE idempotency_record SET checkpoint = x'00'", vec![TAKE_OVER]),
    ] {
        for attempt in attempts {
            let shop = Shop::new();
            let mut owner = shop.claim();
            owner.save_checkpoint("half-way").expect("held");
            let ticket = owner.into_ticket();
            let shell = shop.connection();
            shell.execute_batch(&format!("PRAGMA ignore_check_constraints = ON; {damage}")).expect(damage);
            let before = shop.stored();
            let mut connection = shop.connection();
            let tx = begin(&mut connection);
            order(&tx, "a book").expect("an order");
            let error = attempt(&shop, &tx, &ticket).expect_err(damage);
            assert!(matches!(error, Error::Corrupt { .. }), "{damage}: {error:?}");
            tx.commit().expect("a commit");
            let after = shop.stored();
            assert_eq!((&after.records, &after.meta), (&before.records, &before.meta), "{damage}");
            assert_eq!(after.orders, ["a book"], "{damage}");
        }
    }
}

#[test]
fn a_clock_that_is_out_of_range_or_panics_leaves_the_transaction_usable_and_nothing_written() {
    let shop = Shop::new();
    let ticket = shop.claim().into_ticket();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    order(&tx, "a book").expect("an order");
    shop.clock.time.set(idempotency::Timestamp::from_millis(i64::MAX));
    for attempt in [COMPLETE, CLAIM] {
        let error = attempt(&shop, &tx, &ticket).expect_err("no such time");
        assert!(matches!(error, Error::Clock(_)), "{error:?}");
    }
    shop.at(1);
    shop.clock.panics.store(true, Ordering::SeqCst);
    for attempt in [COMPLETE, CLAIM] {
        let unwound = catch_unwind(AssertUnwindSafe(|| attempt(&shop, &tx, &ticket)));
        assert!(unwound.is_err(), "the panic is the caller's");
    }
    shop.clock.panics.store(false, Ordering::SeqCst);
    shop.store.complete_in(&tx, &ticket, reply(201, "it")).expect("held");
    tx.commit().expect("a commit");
    assert_eq!(shop.orders(), ["a book"]);
    assert_eq!(claim(&shop.store).expect("a store").completed().reply, reply(201, "it"));
    assert_eq!(shop.stored().records.len(), 1, "the claims that panicked granted nothing");
}
