//! A claim inside a transaction of the application's.

use crate::common::{Answer, START, asks_for, key, secs};
use crate::shop::{
    Shop, Stored, a_key, a_print, a_scope, begin, claim, claim_in, granted, no_savepoint, order, reply, rows,
};
use idempotency::{ClaimOutcome, Error, LostReason, Policy, Reply, State};

#[test]
fn claim_row_and_reply_are_committed_together() {
    let shop = Shop::new();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    let claimed = granted(claim_in(&shop.store, &tx));
    assert_eq!((claimed.attempt(), claimed.is_takeover(), claimed.checkpoint()), (1, false, None));
    order(&tx, "a book").expect("an order");
    let done = claimed.complete(reply(201, "it")).expect("held");
    no_savepoint(&tx);
    assert_eq!(shop.stored().records.len(), 0, "nobody sees it before the commit");
    tx.commit().expect("a commit");
    assert_eq!(claim(&shop.store).expect("a store").completed(), done);
    assert_eq!(done.expires_at, START.saturating_add(secs(24 * 60 * 60)));
    assert_eq!(shop.orders(), ["a book"]);
}

#[test]
fn a_claim_that_is_rolled_back_never_was() {
    for completes in [false, true] {
        let shop = Shop::new();
        let before = shop.stored();
        let mut connection = shop.connection();
        let tx = begin(&mut connection);
        let claimed = granted(claim_in(&shop.store, &tx));
        order(&tx, "a book").expect("an order");
        if completes {
            claimed.complete(reply(201, "it")).expect("held");
        }
        tx.rollback().expect("a rollback");
        assert_eq!(shop.stored(), before);
        assert_eq!(shop.store.lookup(&a_scope(), &a_key()).expect("a store"), None);
        let next =
            shop.store.try_claim(&a_scope(), &a_key(), &asks_for("anything")).expect("a store").claimed();
        assert_eq!(next.attempt(), 1);
    }
}

#[test]
fn a_takeover_that_is_rolled_back_leaves_the_lapsed_record_to_the_byte() {
    let shop = Shop::new();
    let mut first = shop.claim();
    first.save_checkpoint("half-way").expect("held");
    shop.at(90);
    let before = shop.stored();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    let claimed = granted(claim_in(&shop.store, &tx));
    assert_eq!((claimed.attempt(), claimed.is_takeover()), (2, true));
    assert_eq!(claimed.checkpoint().map(|bytes| &bytes[..]), Some(b"half-way".as_slice()));
    claimed.complete(Reply::Marker).expect("held");
    drop(tx);
    assert_eq!(shop.stored(), before);
    first.complete(reply(201, "the first's")).expect("nobody has taken over");
}

#[test]
fn a_commit_without_a_reply_leaves_the_record_in_progress_until_its_lease_ends() {
    let shop = Shop::new();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    assert_eq!(granted(claim_in(&shop.store, &tx)).attempt(), 1);
    order(&tx, "a book").expect("an order");
    tx.commit().expect("a commit");
    shop.at(89);
    assert_eq!(claim(&shop.store).expect("a store").name(), "in progress");
    shop.at(90);
    let tx = begin(&mut connection);
    let second = granted(claim_in(&shop.store, &tx));
    assert_eq!((second.attempt(), second.is_takeover()), (2, true));
    second.complete(Reply::Marker).expect("held");
    tx.commit().expect("a commit");
    assert_eq!(claim(&shop.store).expect("a store").name(), "completed");
}

#[test]
fn all_four_answers_are_given_and_those_that_grant_nothing_write_nothing() {
    let shop = Shop::new();
    let mut connection = shop.connection();
    let owner = shop.claim();
    let before = shop.stored();
    let tx = begin(&mut connection);
    let answer = claim_in(&shop.store, &tx).expect("a store");
    let ClaimOutcome::InProgress(running) = answer else { panic!("{answer:?}") };
    assert_eq!((running.attempt, running.lease_until), (1, owner.lease_until()));
    assert_eq!(running.retry_after, secs(1));
    let answer = shop.store.try_claim_in(&tx, &a_scope(), &a_key(), &asks_for("else")).expect("a store");
    assert!(
        matches!(&answer, ClaimOutcome::FingerprintMismatch(m) if m.state == State::InProgress),
        "{answer:?}"
    );
    assert_eq!(answer.suggested_status(), Some(422));
    tx.commit().expect("a commit");
    assert_eq!(shop.stored(), before);

    let done = owner.complete(reply(201, "it")).expect("held");
    let before = shop.stored();
    let tx = begin(&mut connection);
    match claim_in(&shop.store, &tx).expect("a store") {
        ClaimOutcome::Completed(completed) => assert_eq!(completed, done),
        other => panic!("{other:?}"),
    }
    let answer = shop.store.try_claim_in(&tx, &a_scope(), &a_key(), &asks_for("else")).expect("a store");
    assert!(
        matches!(&answer, ClaimOutcome::FingerprintMismatch(m) if m.state == State::Completed),
        "{answer:?}"
    );
    tx.commit().expect("a commit");
    assert_eq!(shop.stored(), before);
}

/// A plain claim in such a place waits for a lock that its own transaction holds.
#[test]
fn a_claim_that_is_dropped_in_the_open_transaction_does_nothing_and_does_not_wait() {
    crate::shop::without_standing_still(|| {
        let shop = Shop::new();
        // Long enough to be taken for standing still if the drop asked for the lock.
        let patient = crate::shop::open(shop.path(), shop.options().with_busy_timeout(secs(3_600)));
        let patient = patient.expect("the shop's store");
        let mut connection = shop.connection();
        let tx = begin(&mut connection);
        let claimed = granted(claim_in(&patient, &tx));
        let (changes, inside) = (tx.total_changes(), Stored::read(&tx, "idempotency_"));
        drop(claimed);
        assert_eq!(tx.total_changes(), changes);
        assert_eq!(Stored::read(&tx, "idempotency_"), inside);
        assert_eq!(inside.records.len(), 1);
        assert!(matches!(claim_in(&patient, &tx), Ok(ClaimOutcome::InProgress(_))));
        tx.rollback().expect("a rollback");
        assert_eq!(shop.claim().attempt(), 1);
    });
}

#[test]
fn a_first_attempt_that_is_released_leaves_no_record_and_the_key_to_any_request() {
    let shop = Shop::new();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    order(&tx, "a book").expect("an order");
    granted(claim_in(&shop.store, &tx)).release().expect("held");
    let again = granted(shop.store.try_claim_in(&tx, &a_scope(), &a_key(), &asks_for("anything")));
    assert_eq!(again.attempt(), 1);
    again.release().expect("held");
    tx.commit().expect("a commit");
    assert_eq!(shop.stored().records.len(), 0);
    assert_eq!(shop.orders(), ["a book"]);
}

#[test]
fn a_takeover_that_is_released_stands_lapsed_with_its_attempt_and_its_checkpoint() {
    let shop = Shop::new();
    let mut first = shop.claim();
    first.save_checkpoint("half-way").expect("held");
    shop.at(90);
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    granted(claim_in(&shop.store, &tx)).release().expect("held");
    tx.commit().expect("a commit");
    let lost = first.complete(Reply::Marker).map_err(Error::from);
    assert!(matches!(lost, Err(Error::ClaimLost(LostReason::Running))), "{lost:?}");
    let other = shop.store.try_claim(&a_scope(), &a_key(), &asks_for("else")).expect("a store");
    assert_eq!(other.name(), "mismatch");
    let third = shop.claim();
    assert_eq!(third.attempt(), 3);
    assert_eq!(third.checkpoint().map(|bytes| &bytes[..]), Some(b"half-way".as_slice()));
}

#[test]
fn a_release_after_the_reply_is_refused_and_the_reply_stands() {
    let shop = Shop::new();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    let claimed = granted(claim_in(&shop.store, &tx));
    let done = claimed.complete(reply(201, "it")).expect("held");
    let Err(Error::AlreadyRecorded(first)) = claimed.complete(reply(500, "again")) else {
        panic!("recorded")
    };
    assert_eq!(first, done);
    let lost = claimed.release();
    assert!(matches!(lost, Err(Error::ClaimLost(LostReason::CompletedByThisClaim))), "{lost:?}");
    tx.commit().expect("a commit");
    assert_eq!(claim(&shop.store).expect("a store").completed(), done);
}

#[test]
fn a_reply_that_is_too_large_leaves_the_claim_standing_for_a_smaller_one() {
    let shop = Shop::new();
    let strict = shop.store.with_policy(Policy::new().with_max_reply_len(10)).expect("a policy");
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    let claimed = granted(claim_in(&strict, &tx));
    let inside = Stored::read(&tx, "idempotency_");
    let large = claimed.complete(reply(201, vec![0; 11]));
    assert!(matches!(large, Err(Error::ReplyTooLarge { len: 11, max: 10 })), "{large:?}");
    assert_eq!(Stored::read(&tx, "idempotency_"), inside);
    claimed.complete(reply(201, vec![0; 10])).expect("held");
    tx.commit().expect("a commit");
    assert_eq!(claim(&shop.store).expect("a store").completed().reply, reply(201, vec![0; 10]));
}

#[test]
fn of_two_claims_of_one_key_in_one_transaction_the_second_hears_that_it_runs() {
    let shop = Shop::new();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    let first = granted(claim_in(&shop.store, &tx));
    let inside = Stored::read(&tx, "idempotency_");
    let second = claim_in(&shop.store, &tx).expect("a store");
    no_savepoint(&tx);
    assert!(matches!(&second, ClaimOutcome::InProgress(running) if running.attempt == 1), "{second:?}");
    assert_eq!(Stored::read(&tx, "idempotency_"), inside);
    first.complete(reply(201, "it")).expect("held");
    let third = claim_in(&shop.store, &tx).expect("a store");
    assert!(matches!(&third, ClaimOutcome::Completed(done) if done.reply == reply(201, "it")), "{third:?}");
    tx.commit().expect("a commit");
}

#[test]
fn a_claim_whose_savepoint_was_rolled_back_is_lost() {
    let shop = Shop::new();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    tx.execute_batch("SAVEPOINT part").expect("a savepoint");
    let claimed = granted(claim_in(&shop.store, &tx));
    tx.execute_batch("ROLLBACK TO part").expect("undone");
    let lost = claimed.complete(Reply::Marker);
    assert!(matches!(lost, Err(Error::ClaimLost(LostReason::Gone))), "{lost:?}");
    claimed.release().expect("there is nothing to do");
    tx.commit().expect("a commit");
    assert_eq!(shop.stored().records.len(), 0);
}

#[test]
fn a_claim_whose_transaction_was_ended_by_hand_completes_nothing() {
    for (end, rows_left) in [("COMMIT", 1), ("ROLLBACK", 0), ("COMMIT; BEGIN", 1)] {
        let shop = Shop::new();
        let mut connection = shop.connection();
        let tx = begin(&mut connection);
        let claimed = granted(claim_in(&shop.store, &tx));
        tx.execute_batch(end).expect(end);
        let refused = claimed.complete(Reply::Marker);
        assert!(matches!(refused, Err(Error::NoWriteLock)), "{end}: {refused:?}");
        let refused = claimed.release();
        assert!(matches!(refused, Err(Error::NoWriteLock)), "{end}: {refused:?}");
        drop(tx);
        assert_eq!(shop.stored().records.len(), rows_left, "{end}");
        assert_eq!(
            rows(&shop.connection(), "SELECT 1 FROM idempotency_record WHERE state = 'completed'").len(),
            0
        );
    }
}

#[test]
fn it_shows_what_a_plain_claim_shows_and_derives_the_same_downstream_key() {
    let shop = Shop::new();
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    let claimed = granted(claim_in(&shop.store, &tx));
    let derived = [claimed.downstream_key("charge"), claimed.downstream_key("mail")];
    let shown = format!("{claimed:?}");
    assert!(!shown.contains("acct_1"), "{shown}");
    tx.rollback().expect("a rollback");
    let plain = shop.claim();
    assert_eq!(derived, [plain.downstream_key("charge"), plain.downstream_key("mail")]);
}

#[test]
fn a_store_without_tokens_grants_nothing_and_the_transaction_goes_on() {
    let shop = Shop::new();
    shop.connection().execute("UPDATE idempotency_meta SET last_token = ?1", [i64::MAX - 1]).expect("almost");
    let mut connection = shop.connection();
    let tx = begin(&mut connection);
    order(&tx, "a book").expect("an order");
    granted(claim_in(&shop.store, &tx)).complete(Reply::Marker).expect("the last token");
    let refused = shop.store.try_claim_in(&tx, &a_scope(), &key("new"), &a_print());
    assert!(matches!(refused, Err(Error::TokensExhausted)), "{refused:?}");
    assert!(
        matches!(claim_in(&shop.store, &tx), Ok(ClaimOutcome::Completed(_))),
        "what is there still answers"
    );
    tx.commit().expect("a commit");
    assert_eq!(shop.orders(), ["a book"]);
    assert_eq!(shop.column::<i64>("token"), i64::MAX);
}
