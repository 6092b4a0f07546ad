//! `complete_in` and `try_claim_in` on the transaction of `atomically` itself, and two stores in one.

use crate::common::{Answer, key};
use crate::shop::{Shop, a_print, a_scope, claim, executed, granted, open, order, reply};
use idempotency::rusqlite;
use idempotency::{ClaimOutcome, Error, Ran, Reply, RunError};

/// An event that completes an order which an earlier request began, and begins another one.
#[test]
fn other_claims_that_are_made_and_completed_in_the_works_transaction_share_its_end() {
    for fails in [true, false] {
        let shop = Shop::new();
        let ticket = shop.claim().into_ticket();
        let before = shop.stored();
        let ran = shop.store.atomically(&a_scope(), &key("event"), &a_print(), |tx| {
            let done = shop.store.complete_in(tx, &ticket, reply(201, "the order"));
            assert_eq!(done.expect("held").reply, reply(201, "the order"));
            let inner = granted(shop.store.try_claim_in(tx, &a_scope(), &key("next"), &a_print()));
            order(tx, "a book").expect("an order");
            inner.complete(Reply::Reference("next".into())).expect("held");
            if fails { Err("closed today") } else { Ok(Reply::Marker) }
        });
        if fails {
            assert!(matches!(ran, Err(RunError::Work("closed today"))), "{ran:?}");
            assert_eq!(shop.stored(), before);
            shop.store.complete(&ticket, Reply::Marker).expect("still held");
        } else {
            executed(ran);
            assert_eq!(claim(&shop.store).expect("a store").completed().reply, reply(201, "the order"));
            for (name, wanted) in [("event", Reply::Marker), ("next", Reply::Reference("next".into()))] {
                let done =
                    shop.store.try_claim(&a_scope(), &key(name), &a_print()).expect("a store").completed();
                assert_eq!(done.reply, wanted);
            }
            assert_eq!(shop.orders(), ["a book"]);
        }
    }
}

/// The store's counter is ahead of the wall clock, which would keep the tokens apart otherwise.
#[test]
fn claims_in_one_transaction_draw_tokens_of_their_own() {
    let shop = Shop::new();
    let counter = 9_000_000_000_000_000_000_i64;
    let shell = shop.connection();
    shell.execute("UPDATE idempotency_meta SET last_token = ?1", [counter]).expect("a store");
    executed(shop.store.atomically(&a_scope(), &key("event"), &a_print(), |tx| {
        for name in ["first", "second"] {
            drop(granted(shop.store.try_claim_in(tx, &a_scope(), &key(name), &a_print())));
        }
        Ok::<_, rusqlite::Error>(Reply::Marker)
    }));
    let tokens: Vec<i64> = shell
        .prepare("SELECT token FROM idempotency_record ORDER BY token")
        .and_then(|mut tokens| tokens.query_map([], |row| row.get(0))?.collect())
        .expect("the records");
    assert_eq!(tokens, [counter + 1, counter + 2, counter + 3]);
    let last: i64 =
        shell.query_row("SELECT last_token FROM idempotency_meta", [], |row| row.get(0)).expect("a store");
    assert_eq!(last, counter + 3);
}

#[test]
fn a_refusal_inside_the_work_leaves_the_work_free_to_go_on() {
    let shop = Shop::new();
    let first = shop.claim().into_ticket();
    shop.at(90);
    let second = shop.claim();
    let before = shop.stored().records;
    let ran = shop.store.atomically(&a_scope(), &key("event"), &a_print(), |tx| {
        order(tx, "a book")?;
        let lost = shop.store.complete_in(tx, &first, Reply::Marker);
        assert!(matches!(lost, Err(Error::ClaimLost(_))), "{lost:?}");
        let large = shop.store.complete_in(tx, &second.ticket(), reply(201, vec![0; 2_000_000]));
        assert!(matches!(large, Err(Error::ReplyTooLarge { .. })), "{large:?}");
        Ok::<_, rusqlite::Error>(Reply::Marker)
    });
    executed(ran);
    assert!(shop.stored().records.starts_with(&before) || shop.stored().records.ends_with(&before));
    assert_eq!(shop.orders(), ["a book"]);
    second.complete(Reply::Marker).expect("held");
}

#[test]
fn the_key_that_the_work_runs_under_is_in_progress_inside_it() {
    let shop = Shop::new();
    executed(shop.run(|tx| {
        let inside = crate::shop::claim_in(&shop.store, tx).expect("an answer");
        assert!(matches!(&inside, ClaimOutcome::InProgress(running) if running.attempt == 1), "{inside:?}");
        Ok::<_, rusqlite::Error>(reply(201, "it"))
    }));
    assert_eq!(claim(&shop.store).expect("a store").completed().reply, reply(201, "it"));
}

/// A claim inside the work that is not completed is a claim like any other once it is committed.
#[test]
fn a_claim_that_the_work_leaves_open_is_in_progress_after_it_until_its_lease_ends() {
    let shop = Shop::new();
    let ran = shop.store.atomically(&a_scope(), &key("event"), &a_print(), |tx| {
        let left_open = granted(crate::shop::claim_in(&shop.store, tx));
        assert_eq!(left_open.attempt(), 1);
        Ok::<_, rusqlite::Error>(Reply::Marker)
    });
    executed(ran);
    assert_eq!(claim(&shop.store).expect("a store").name(), "in progress");
    shop.at(90);
    assert_eq!(shop.claim().attempt(), 2);
}

#[test]
fn a_second_store_in_the_same_file_takes_part_by_the_methods_that_take_the_transaction() {
    let shop = Shop::new();
    let other = open(shop.path(), shop.options().with_prefix("other_")).expect("a second store");
    let ran = shop.run(|tx| {
        granted(crate::shop::claim_in(&other, tx)).complete(Reply::Reference("theirs".into()))?;
        assert!(matches!(claim(&other), Err(Error::Busy(_))), "by itself it finds the file locked");
        Ok::<_, Error>(Reply::Reference("ours".into()))
    });
    assert_eq!(executed(ran).reply, Reply::Reference("ours".into()));
    assert_eq!(claim(&other).expect("a store").completed().reply, Reply::Reference("theirs".into()));
    let replayed = shop.run(crate::shop::no_work).expect("an answer");
    assert!(matches!(&replayed, Ran::Replayed(done) if done.reply == Reply::Reference("ours".into())));
}
