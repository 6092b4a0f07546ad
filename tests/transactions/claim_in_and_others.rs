//! Claims inside transactions, and what other connections do meanwhile and in between.

use crate::common::{Answer, key, secs};
use crate::shop::{
    Shop, a_key, a_print, a_scope, begin, claim, claim_in, executed, granted, open, order, reply, run,
};
use idempotency::rusqlite::{self, Connection};
use idempotency::{ClaimOutcome, Error, Ran, Reply, RunError};
use std::sync::mpsc;
use std::thread;

fn newest_token(connection: &Connection) -> i64 {
    connection.query_row("SELECT max(token) FROM idempotency_record", [], |row| row.get(0)).expect("a token")
}

#[test]
fn while_the_transaction_is_open_others_find_the_file_locked_and_read_what_was_committed() {
    let shop = Shop::new();
    let other = shop.handle();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    let claimed = granted(claim_in(&shop.store, &tx));
    for store in [&shop.store, &other] {
        let busy = claim(store).expect_err("the transaction has the lock");
        assert!(matches!(busy, Error::Busy(_)) && busy.is_transient() && !busy.is_indefinite(), "{busy:?}");
        assert_eq!(store.lookup(&a_scope(), &a_key()).expect("it can be read"), None);
        let busy = run(store, crate::shop::no_work);
        assert!(matches!(busy, Err(RunError::Store(Error::Busy(_)))), "{busy:?}");
    }
    claimed.complete(reply(201, "it")).expect("held");
    tx.commit().expect("a commit");
    for store in [&shop.store, &other] {
        assert_eq!(claim(store).expect("a store").completed().reply, reply(201, "it"));
    }
}

/// Whoever comes between a claim and its commit waits, and then hears what came of it: never an error.
#[test]
fn who_waits_for_the_transaction_hears_its_reply_after_a_commit_and_is_granted_the_key_after_a_rollback() {
    for commits in [true, false] {
        let shop = Shop::new();
        let patient =
            open(shop.path(), shop.options().with_busy_timeout(secs(60))).expect("the shop's store");
        let mut connection = shop.connection();
        let tx = begin(&mut connection);
        granted(claim_in(&shop.store, &tx)).complete(reply(201, "it")).expect("held");
        let (sender, receiver) = mpsc::channel();
        thread::scope(|threads| {
            let waits = threads.spawn(|| {
                sender.send(()).expect("the test waits for it");
                claim(&patient)
            });
            receiver.recv().expect("it is about to claim");
            if commits { tx.commit() } else { tx.rollback() }.expect("an end");
            let answer = waits.join().expect("a thread that ends").expect("an answer");
            match answer {
                ClaimOutcome::Completed(done) => assert!(commits && done.reply == reply(201, "it")),
                ClaimOutcome::Claimed(claim) => assert!(!commits && claim.attempt() == 1),
                other => panic!("{other:?}"),
            }
        });
    }
}

#[test]
fn tokens_rise_over_rollbacks_other_connections_and_every_way_to_claim() {
    let start = Shop::new();
    let ahead = Shop::new();
    // Beyond what the wall clock gives for two centuries.
    ahead
        .connection()
        .execute("UPDATE idempotency_meta SET last_token = 9000000000000000000", [])
        .expect("a counter");
    for shop in [start, ahead] {
        let other = shop.handle();
        let (mut one, mut two) = (shop.connection(), shop.connection());
        let mut granted_last = 0;
        for round in 0..20 {
            let name = format!("round {round}");
            let k = key(&name);
            match round % 5 {
                0 => {
                    let tx = begin(&mut one);
                    granted(shop.store.try_claim_in(&tx, &a_scope(), &k, &a_print()))
                        .complete(Reply::Marker)
                        .expect("held");
                    tx.commit().expect("a commit");
                }
                1 => {
                    for _ in 0..3 {
                        let tx = begin(&mut two);
                        let undone = granted(other.try_claim_in(&tx, &a_scope(), &k, &a_print()));
                        assert_eq!(undone.attempt(), 1);
                        assert!(newest_token(&tx) > granted_last);
                        tx.rollback().expect("a rollback");
                    }
                    let tx = begin(&mut two);
                    assert_eq!(granted(other.try_claim_in(&tx, &a_scope(), &k, &a_print())).attempt(), 1);
                    tx.commit().expect("a commit");
                }
                2 => drop(other.try_claim(&a_scope(), &k, &a_print()).expect("a store").claimed()),
                3 => {
                    let failed = shop.store.atomically(&a_scope(), &k, &a_print(), |_| Err(()));
                    assert!(matches!(failed, Err(RunError::Work(()))));
                    let ran =
                        shop.store.atomically(&a_scope(), &k, &a_print(), |_| Ok::<_, ()>(Reply::Marker));
                    assert!(matches!(ran, Ok(Ran::Executed(_))));
                }
                _ => {
                    let tx = begin(&mut one);
                    granted(shop.store.try_claim_in(&tx, &a_scope(), &k, &a_print()))
                        .release()
                        .expect("held");
                    let again = granted(other.try_claim_in(&tx, &a_scope(), &k, &a_print()));
                    again.complete(Reply::Marker).expect("held");
                    tx.commit().expect("a commit");
                }
            }
            let token = newest_token(&shop.connection());
            assert!(token > granted_last, "round {round}: {token} after {granted_last}");
            granted_last = token;
        }
        assert_eq!(shop.stored().records.len(), 20);
    }
}

/// How a record goes away.
type WayToGo = (&'static str, fn(&Shop));

/// An answer that grants nothing is no promise that the record stays.
#[test]
fn a_record_that_goes_away_after_the_answer_leaves_the_key_to_the_next_claim_with_a_token_of_its_own() {
    let ways: [WayToGo; 4] = [
        ("forgotten", |shop| assert!(shop.handle().forget(&a_scope(), &a_key()).expect("a store"))),
        ("deleted by hand", |shop| {
            shop.connection().execute("DELETE FROM idempotency_record", []).map(drop).expect("a shell");
        }),
        ("expired", |shop| shop.at(90 + 24 * 60 * 60)),
        ("swept", |shop| {
            shop.at(90 + 24 * 60 * 60);
            assert_eq!(shop.handle().sweep(1).expect("a store").removed, 1);
        }),
    ];
    for (way, take_away) in ways {
        for again in 0..3 {
            let shop = Shop::new();
            let owner = shop.claim();
            let mut connection = shop.connection();
            let tx = begin(&mut connection);
            assert!(matches!(claim_in(&shop.store, &tx), Ok(ClaimOutcome::InProgress(_))), "{way}");
            tx.commit().expect("a commit");
            assert!(matches!(run(&shop.store, crate::shop::no_work), Ok(Ran::InProgress(_))), "{way}");
            take_away(&shop);
            match again {
                0 => assert_eq!(shop.claim().attempt(), 1, "{way}"),
                1 => drop(shop.must_run("a book", 1)),
                _ => {
                    let tx = begin(&mut connection);
                    assert_eq!(granted(claim_in(&shop.store, &tx)).attempt(), 1, "{way}");
                    tx.commit().expect("a commit");
                }
            }
            assert!(shop.column::<i64>("token") > owner.token().get(), "{way}");
            let late = owner.complete(Reply::Marker).map_err(Error::from);
            assert!(matches!(late, Err(Error::ClaimLost(_))), "{way}: {late:?}");
        }
    }
}

/// Inside one transaction nothing can go away in between: what was answered holds until its end.
#[test]
fn what_a_claim_was_answered_in_a_transaction_stays_so_until_it_ends() {
    let shop = Shop::new();
    let other = shop.handle();
    let owner = shop.claim();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    assert!(matches!(claim_in(&shop.store, &tx), Ok(ClaimOutcome::InProgress(_))));
    for refused in [
        other.forget(&a_scope(), &a_key()).map(drop),
        other.release(&owner.ticket()),
        other.complete(&owner.ticket(), Reply::Marker).map(drop),
    ] {
        assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    }
    assert!(matches!(claim_in(&shop.store, &tx), Ok(ClaimOutcome::InProgress(_))));
    tx.commit().expect("a commit");
    owner.complete(Reply::Marker).expect("held");
}

#[test]
fn an_owner_outside_and_an_owner_inside_never_hold_one_key_both() {
    let shop = Shop::new();
    let outside = shop.claim();
    shop.at(90);
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    let inside = granted(claim_in(&shop.store, &tx));
    order(&tx, "the inside's").expect("an order");
    inside.complete(reply(201, "inside")).expect("held");
    let busy = outside.complete(reply(201, "outside")).expect_err("the transaction has the lock");
    let (error, outside, _) = busy.into_parts();
    assert!(matches!(error, Error::Busy(_)), "{error:?}");
    tx.commit().expect("a commit");
    let lost = outside.complete(reply(201, "outside")).map_err(Error::from);
    assert!(matches!(lost, Err(Error::ClaimLost(_))), "{lost:?}");
    assert_eq!(claim(&shop.store).expect("a store").completed().reply, reply(201, "inside"));
}

#[test]
fn work_of_atomically_is_not_run_over_a_claim_that_a_transaction_has_committed() {
    let shop = Shop::new();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    assert_eq!(granted(claim_in(&shop.store, &tx)).attempt(), 1);
    tx.commit().expect("a commit");
    assert!(matches!(shop.run(crate::shop::no_work), Ok(Ran::InProgress(_))));
    shop.at(90);
    executed(shop.run(|_| Ok::<_, rusqlite::Error>(Reply::Marker)));
    assert_eq!(shop.column::<i64>("attempt"), 2);
}
