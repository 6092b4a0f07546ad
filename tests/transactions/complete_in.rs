//! A claim of its own, completed in a transaction of the application's.

use crate::common::{Answer, START, key, scope, secs};
use crate::shop::{
    Shop, Stored, a_key, a_print, a_scope, begin, claim, no_savepoint, no_work, open, order, replayed, reply,
};
use idempotency::rusqlite::TransactionBehavior;
use idempotency::{Completed, Error, LostReason, Policy, Reply, SqliteOptions, StoredResponse, Ticket};
use std::time::Duration;

#[track_caller]
fn lost(answer: Result<Completed, Error>) -> LostReason {
    match answer {
        Err(Error::ClaimLost(reason)) => reason,
        other => panic!("wanted ClaimLost, got {other:?}"),
    }
}

/// Orders an apple and completes `ticket` in one transaction, which must be refused, and is then committed
/// all the same: the apple is there, and of the store every byte is as it was.
#[track_caller]
fn refused(shop: &Shop, ticket: &Ticket, reply: impl Into<Reply>) -> Error {
    let before = shop.stored();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    order(&tx, "an apple").expect("an order");
    let inside = Stored::read(&tx, "idempotency_");
    let error = shop.store.complete_in(&tx, ticket, reply).expect_err("it must be refused");
    assert!(!error.is_indefinite(), "{error:?}");
    assert_eq!(Stored::read(&tx, "idempotency_"), inside, "the transaction stays as it was");
    no_savepoint(&tx);
    order(&tx, "a pear").expect("and can go on");
    tx.commit().expect("and be committed");
    let after = shop.stored();
    assert_eq!((&after.records, &after.meta), (&before.records, &before.meta));
    assert!(after.orders.ends_with(&["an apple".into(), "a pear".into()]), "{:?}", after.orders);
    error
}

#[test]
fn the_reply_and_the_row_are_committed_together() {
    let shop = Shop::new();
    let ticket = shop.claim().into_ticket();
    shop.at(60);
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    order(&tx, "a book").expect("an order");
    let done = shop.store.complete_in(&tx, &ticket, reply(201, "it")).expect("held");
    no_savepoint(&tx);
    assert_eq!(done.reply, reply(201, "it"));
    assert_eq!((done.created_at, done.completed_at), (START, START.saturating_add(secs(60))));
    assert_eq!(shop.column::<String>("state"), "in_progress", "others see nothing of it before the commit");
    assert_eq!(shop.orders(), [""; 0]);
    tx.commit().expect("a commit");
    assert_eq!(claim(&shop.store).expect("a store").completed(), done);
    assert_eq!(replayed(shop.run(no_work)), done);
    assert_eq!(shop.orders(), ["a book"]);
}

#[test]
fn after_a_rollback_the_record_stands_in_progress_to_the_byte_and_can_be_completed() {
    let shop = Shop::new();
    let mut owner = shop.claim();
    owner.save_checkpoint("half-way").expect("held");
    let before = shop.stored();
    let mut connection = shop.connection();
    for _ in 0..2 {
        let tx = begin(&mut connection);
        order(&tx, "a book").expect("an order");
        shop.store.complete_in(&tx, &owner.ticket(), reply(201, "it")).expect("held");
        tx.rollback().expect("a rollback");
        assert_eq!(shop.stored(), before);
        assert_eq!(claim(&shop.store).expect("a store").name(), "in progress");
    }
    let dropped = begin(&mut connection);
    shop.store.complete_in(&dropped, &owner.ticket(), reply(201, "it")).expect("held");
    drop(dropped);
    assert_eq!(shop.stored(), before);
    owner.complete(reply(200, "later")).expect("held");
    assert_eq!(shop.column::<i64>("attempt"), 1);
}

#[test]
fn a_savepoint_that_is_rolled_back_takes_the_completion_back_and_leaves_the_transaction() {
    let shop = Shop::new();
    let ticket = shop.claim().into_ticket();
    let before = shop.stored();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    order(&tx, "a book").expect("an order");
    tx.execute_batch("SAVEPOINT idempotency").expect("a savepoint of the caller's own");
    shop.store.complete_in(&tx, &ticket, reply(201, "it")).expect("held");
    tx.execute_batch("ROLLBACK TO idempotency; RELEASE idempotency").expect("it is still there");
    tx.commit().expect("a commit");
    assert_eq!(shop.stored().records, before.records);
    assert_eq!(shop.orders(), ["a book"]);
}

#[test]
fn an_owner_that_was_taken_over_commits_no_row_and_the_new_owners_record_stays_as_it_is() {
    let shop = Shop::new();
    let first = shop.claim().into_ticket();
    shop.at(90);
    let mut second = shop.claim();
    second.save_checkpoint("further").expect("held");
    assert!(matches!(refused(&shop, &first, reply(201, "late")), Error::ClaimLost(LostReason::Running)));
    second.complete(reply(201, "the second's")).expect("held");
    assert!(matches!(refused_again(&shop, &first), Error::ClaimLost(LostReason::Completed)));
}

/// As [`refused`], where the fruit has been ordered already.
fn refused_again(shop: &Shop, ticket: &Ticket) -> Error {
    shop.connection().execute("DELETE FROM orders", []).expect("no orders");
    refused(shop, ticket, reply(201, "late"))
}

#[test]
fn of_two_owners_that_write_their_row_only_the_one_that_took_over_commits_it() {
    let shop = Shop::new();
    let first = shop.claim().into_ticket();
    shop.at(90);
    let second = shop.claim().into_ticket();
    let mut connection = shop.connection();
    for (ticket, item) in [(&first, "the first's"), (&second, "the second's")] {
        let tx = begin(&mut connection);
        order(&tx, item).expect("an order");
        match shop.store.complete_in(&tx, ticket, reply(201, item)) {
            Ok(_) => tx.commit().expect("a commit"),
            Err(Error::ClaimLost(LostReason::Running)) => tx.rollback().expect("a rollback"),
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(shop.orders(), ["the second's"]);
    assert_eq!(claim(&shop.store).expect("a store").completed().reply, reply(201, "the second's"));
}

#[test]
fn a_ticket_that_is_used_twice_is_recorded_once_and_the_error_has_the_first_reply() {
    let shop = Shop::new();
    let ticket = shop.claim().into_ticket();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    order(&tx, "a book").expect("an order");
    let first = shop.store.complete_in(&tx, &ticket, reply(201, "first")).expect("held");
    let Err(Error::AlreadyRecorded(done)) = shop.store.complete_in(&tx, &ticket, reply(500, "second")) else {
        panic!("in the same transaction")
    };
    assert_eq!(done, first);
    tx.commit().expect("a commit");
    let Error::AlreadyRecorded(done) = refused(&shop, &ticket, reply(500, "third")) else {
        panic!("in another")
    };
    assert_eq!(done, first);
    let by_itself = shop.store.complete(&ticket, reply(500, "fourth")).expect("an answer");
    assert_eq!(by_itself, first);
    assert_eq!(claim(&shop.store).expect("a store").completed(), first);
}

#[test]
fn a_ticket_that_was_completed_on_its_own_is_already_recorded_in_a_transaction() {
    let shop = Shop::new();
    let ticket = shop.claim().into_ticket();
    let first = shop.store.complete(&ticket, reply(201, "first")).expect("held");
    let Error::AlreadyRecorded(done) = refused(&shop, &ticket, reply(500, "second")) else {
        panic!("recorded")
    };
    assert_eq!(done, first);
}

/// How the record of a ticket goes away.
type WayToGo = (&'static str, fn(&Shop, &Ticket));

#[test]
fn a_claim_whose_record_is_gone_is_lost_and_makes_no_record() {
    let ways: [WayToGo; 4] = [
        ("forgotten", |shop, _| assert!(shop.store.forget(&a_scope(), &a_key()).expect("a store"))),
        ("released", |shop, ticket| shop.store.release(ticket).expect("held")),
        ("expired", |shop, _| shop.at(90 + 24 * 60 * 60)),
        ("swept", |shop, _| {
            shop.at(90 + 24 * 60 * 60);
            assert_eq!(shop.store.sweep(10).expect("a store").removed, 1);
        }),
    ];
    for (way, take_away) in ways {
        let shop = Shop::new();
        let ticket = shop.claim().into_ticket();
        take_away(&shop, &ticket);
        let error = refused(&shop, &ticket, reply(201, "late"));
        assert!(matches!(error, Error::ClaimLost(LostReason::Gone)), "{way}: {error:?}");
    }
}

#[test]
fn a_lapsed_or_abandoned_claim_that_nobody_took_over_can_still_be_completed() {
    for abandoned in [false, true] {
        let shop = Shop::new();
        let ticket = shop.claim().into_ticket();
        if abandoned {
            shop.store.abandon(&ticket).expect("held");
        }
        shop.at(90 + 24 * 60 * 60 - 1);
        let mut connection = shop.connection();
        let tx = begin(&mut connection);
        shop.store.complete_in(&tx, &ticket, Reply::Marker).expect("the token proves it");
        tx.commit().expect("a commit");
        assert_eq!(claim(&shop.store).expect("a store").completed().reply, Reply::Marker);
    }
}

#[test]
fn a_ticket_of_another_store_is_lost_through_either_stores_handle() {
    let shop = Shop::new();
    let other = open(shop.other_path(), shop.options()).expect("another file");
    let theirs = claim(&other).expect("a store").claimed().into_ticket();
    let ours = shop.claim().into_ticket();
    assert!(matches!(refused(&shop, &theirs, Reply::Marker), Error::ClaimLost(LostReason::Gone)));
    let before = shop.stored();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    assert_eq!(lost(other.complete_in(&tx, &ours, Reply::Marker)), LostReason::Gone);
    tx.commit().expect("a commit");
    assert_eq!(shop.stored(), before);
    assert!(matches!(claim(&other), Ok(idempotency::ClaimOutcome::InProgress(_))));
}

#[test]
fn a_reply_over_a_limit_is_refused_and_one_at_it_is_recorded() {
    let shop = Shop::new();
    let strict = shop.store.with_policy(Policy::new().with_max_reply_len(10)).expect("a policy");
    let ticket = shop.claim().into_ticket();
    let large = refused(&shop, &ticket, reply(201, vec![0; 1024 * 1024 + 1]));
    assert!(matches!(large, Error::ReplyTooLarge { .. }), "{large:?}");
    shop.connection().execute("DELETE FROM orders", []).expect("no orders");
    let headers = StoredResponse::new(201).with_header("x", vec![b'x'; 64 * 1024]);
    let large = refused(&shop, &ticket, headers);
    assert!(matches!(large, Error::HeadersTooLarge { .. }), "{large:?}");
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    let large = strict.complete_in(&tx, &ticket, reply(201, vec![0; 11]));
    assert!(matches!(large, Err(Error::ReplyTooLarge { len: 11, max: 10 })), "{large:?}");
    strict.complete_in(&tx, &ticket, reply(201, vec![0; 10])).expect("in the same transaction");
    tx.commit().expect("a commit");
    assert_eq!(claim(&shop.store).expect("a store").completed().reply, reply(201, vec![0; 10]));
}

#[test]
fn the_claims_own_retention_wins_over_that_of_the_handle() {
    let shop = Shop::new();
    let short = shop.store.with_policy(Policy::new().with_retention(secs(5))).expect("a policy");
    let ticket = claim(&short).expect("a store").claimed().into_ticket();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    let done = shop.store.complete_in(&tx, &ticket, Reply::Marker).expect("held");
    tx.commit().expect("a commit");
    assert_eq!(done.expires_at, START.saturating_add(secs(5)));
    shop.at(5);
    assert_eq!(claim(&shop.store).expect("a store").claimed().attempt(), 1);
}

#[test]
fn several_claims_are_completed_in_one_transaction_or_none_of_them() {
    let shop = Shop::new();
    let tickets = ["1", "2", "3"].map(|name| {
        shop.store.try_claim(&a_scope(), &key(name), &a_print()).expect("a store").claimed().into_ticket()
    });
    let before = shop.stored();
    let mut connection = shop.connection();
    for commits in [false, true] {
        let tx = begin(&mut connection);
        for ticket in &tickets {
            shop.store
                .complete_in(&tx, ticket, Reply::Reference(ticket.key().as_str().into()))
                .expect("held");
        }
        if commits {
            tx.commit().expect("a commit");
        } else {
            drop(tx);
            assert_eq!(shop.stored(), before);
        }
    }
    for ticket in &tickets {
        let done = shop.store.try_claim(&a_scope(), ticket.key(), &a_print()).expect("a store").completed();
        assert_eq!(done.reply, Reply::Reference(ticket.key().as_str().into()));
    }
}

#[test]
fn a_read_only_store_completes_nothing_in_a_transaction_that_could_write() {
    let shop = Shop::new();
    let ticket = shop.claim().into_ticket();
    let reader = open(shop.path(), SqliteOptions::new().read_only()).expect("the same store");
    let before = shop.stored();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    let refused = reader.complete_in(&tx, &ticket, Reply::Marker);
    assert!(matches!(refused, Err(Error::ReadOnly(_))), "{refused:?}");
    let refused = reader.try_claim_in(&tx, &scope("a"), &key("new"), &a_print());
    assert!(matches!(refused, Err(Error::ReadOnly(_))), "{refused:?}");
    tx.commit().expect("a commit");
    assert_eq!(shop.stored(), before);
}

#[test]
fn an_exclusive_transaction_and_a_deferred_one_that_has_written_hold_the_write_lock() {
    for (behavior, first) in
        [(TransactionBehavior::Exclusive, ""), (TransactionBehavior::Deferred, "DELETE FROM customers")]
    {
        let shop = Shop::new();
        let ticket = shop.claim().into_ticket();
        let mut connection = shop.connection();
        let tx = connection.transaction_with_behavior(behavior).expect("a transaction");
        tx.execute_batch(first).expect(first);
        order(&tx, "a book").expect("an order");
        shop.store.complete_in(&tx, &ticket, Reply::Marker).expect("it has the write lock");
        tx.commit().expect("a commit");
        assert_eq!(claim(&shop.store).expect("a store").name(), "completed");
    }
}

/// The application's own pragmas, and rows that it is reading meanwhile.
#[test]
fn the_connection_may_be_set_up_in_any_way_and_be_in_the_middle_of_a_query() {
    for pragma in ["synchronous = OFF", "cache_size = 1", "recursive_triggers = ON", "foreign_keys = OFF"] {
        let shop = Shop::new();
        let ticket = shop.claim().into_ticket();
        let mut connection = shop.connection();
        connection.execute_batch(&format!("PRAGMA {pragma}")).expect(pragma);
        connection.busy_timeout(Duration::from_millis(7)).expect("a timeout of the caller's own");
        let tx = begin(&mut connection);
        for item in ["1", "2", "3"] {
            order(&tx, item).expect("an order");
        }
        let mut query = tx.prepare("SELECT item FROM orders ORDER BY id").expect("a query");
        let mut items = query.query([]).expect("a query");
        let mut read = Vec::new();
        while let Some(item) = items.next().expect("a row") {
            read.push(item.get::<_, String>(0).expect("an item"));
            let answer = shop.store.complete_in(&tx, &ticket, Reply::Marker);
            assert_eq!(answer.is_ok(), read.len() == 1, "{answer:?}");
        }
        drop(items);
        drop(query);
        assert_eq!(read, ["1", "2", "3"], "{pragma}");
        let timeout: i64 = tx.query_row("PRAGMA busy_timeout", [], |row| row.get(0)).expect("a timeout");
        assert_eq!(timeout, 7, "it stays the caller's");
        tx.commit().expect("a commit");
        assert_eq!(claim(&shop.store).expect("a store").name(), "completed");
    }
}
