//! The answers of `atomically`, where all goes well.

use crate::common::{Answer, START, asks_for, key, scope, secs};
use crate::shop::{
    Shop, a_key, a_print, a_scope, claim, executed, no_work, order, replayed, reply, run,
    without_standing_still,
};
use idempotency::rusqlite;
use idempotency::{Error, Failures, Policy, Ran, Reply, RunError, SqliteOptions, State};

#[test]
fn work_that_gives_a_reply_is_executed_once_and_replayed_after_that() {
    let shop = Shop::new();
    let first = shop.must_run("a book", 1);
    assert_eq!(first.reply, reply(201, "a book"));
    assert_eq!((first.created_at, first.completed_at), (START, START));
    assert_eq!(first.expires_at, START.saturating_add(secs(24 * 60 * 60)));
    let after = shop.stored();
    shop.at(24 * 60 * 60 - 1);
    assert_eq!(replayed(shop.run(no_work)), first);
    assert_eq!(claim(&shop.store).expect("a store").completed(), first);
    assert_eq!(shop.stored(), after, "a replay writes nothing");
    assert_eq!(after.orders, ["a book"]);
    shop.at(24 * 60 * 60);
    shop.must_run("another book", 1);
}

#[test]
fn what_is_recorded_survives_the_closing_of_the_file() {
    let shop = Shop::new();
    let first = shop.must_run("a book", 1);
    let (path, options) = (shop.path(), shop.options());
    drop(shop.store);
    let reopened = crate::shop::open(path, options).expect("the same store");
    assert_eq!(replayed(run(&reopened, no_work)), first);
}

#[test]
fn replies_of_every_kind_are_recorded_and_come_back() {
    for wanted in [reply(204, ""), reply(400, "no"), Reply::Reference("order 7".into()), Reply::Marker] {
        let shop = Shop::new();
        let first = executed(shop.run(|_| Ok::<_, Error>(wanted.clone())));
        assert_eq!(first.reply, wanted);
        assert_eq!(replayed(shop.run(no_work)), first);
    }
}

#[test]
fn a_replay_and_the_execution_give_the_client_the_same_and_say_which_they_are() {
    let shop = Shop::new();
    let ran = shop.run(|_| Ok::<_, Error>(reply(201, "a book"))).expect("it runs");
    let again = shop.run(no_work).expect("it ran");
    assert!(matches!((&ran, &again), (Ran::Executed(_), Ran::Replayed(_))));
    assert_eq!((ran.reply(), ran.suggested_status()), (again.reply(), again.suggested_status()));
    assert_eq!(ran.suggested_status(), Some(201));
}

#[test]
fn a_reply_is_handed_out_as_the_very_bytes_that_the_work_gave() {
    let shop = Shop::new();
    let body = bytes::Bytes::from(vec![7; 1_000]);
    let done = executed(
        shop.run(|_| Ok::<_, Error>(idempotency::StoredResponse::new(200).with_body(body.clone()).into())),
    );
    let handed_out = done.reply.response().expect("a response").body();
    assert_eq!((handed_out.as_ptr(), handed_out.len()), (body.as_ptr(), body.len()), "it was copied");
}

#[test]
fn a_running_claim_is_told_and_the_work_not_run() {
    let shop = Shop::new();
    let owner = shop.claim();
    let before = shop.stored();
    shop.at(89);
    let Ok(Ran::InProgress(running)) = shop.run(no_work) else { panic!("it is in progress") };
    assert_eq!((running.attempt, running.lease_until), (1, owner.lease_until()));
    assert_eq!(running.retry_after, secs(1));
    let ran = shop.run(no_work).expect("an answer");
    assert_eq!((ran.reply(), ran.suggested_status()), (None, Some(409)));
    assert_eq!(shop.stored(), before);
    owner.complete(reply(201, "it")).expect("held");
}

#[test]
fn another_request_under_the_key_is_told_whatever_the_record_is_like_and_the_work_not_run() {
    let shop = Shop::new();
    let other = || shop.store.atomically(&a_scope(), &a_key(), &asks_for("something else"), no_work);
    let mismatch = |state| {
        let before = shop.stored();
        let ran = other().expect("an answer");
        assert!(matches!(&ran, Ran::FingerprintMismatch(m) if m.state == state), "{ran:?}");
        assert_eq!((ran.reply(), ran.suggested_status()), (None, Some(422)));
        assert_eq!(shop.stored(), before);
    };
    let owner = shop.claim();
    mismatch(State::InProgress);
    shop.at(90);
    mismatch(State::InProgress);
    owner.complete(reply(201, "it")).expect("not taken over");
    mismatch(State::Completed);
    shop.at(90 + 24 * 60 * 60);
    assert!(matches!(
        shop.store
            .atomically(&a_scope(), &a_key(), &asks_for("something else"), |_| Ok::<_, Error>(Reply::Marker)),
        Ok(Ran::Executed(_))
    ));
}

#[test]
fn a_lapsed_claim_is_taken_over_with_its_first_time_and_its_checkpoint_is_dropped_by_the_completion() {
    let shop = Shop::new();
    let mut lapsed = shop.claim();
    lapsed.save_checkpoint("half-way").expect("held");
    shop.at(90);
    let done = shop.must_run("a book", 2);
    assert_eq!((done.created_at, done.completed_at), (START, START.saturating_add(secs(90))));
    assert_eq!(shop.column::<i64>("attempt"), 2);
    assert_eq!(shop.column::<Option<Vec<u8>>>("checkpoint"), None);
    let lost = lapsed.complete(reply(201, "late")).map_err(Error::from);
    assert!(matches!(lost, Err(Error::ClaimLost(idempotency::LostReason::Completed))), "{lost:?}");
}

#[test]
fn the_reply_is_replayed_for_the_retention_of_the_handle_that_ran_it() {
    let shop = Shop::new();
    let short = shop.store.with_policy(Policy::new().with_retention(secs(5))).expect("a policy");
    let done = executed(run(&short, |_| Ok::<_, Error>(Reply::Marker)));
    assert_eq!(done.expires_at, START.saturating_add(secs(5)));
    shop.at(4);
    assert_eq!(replayed(shop.run(no_work)), done);
    shop.at(5);
    shop.must_run("a book", 1);
}

#[test]
fn retention_counts_from_the_end_of_the_work_and_the_lease_does_not_bound_it() {
    let shop = Shop::new();
    let hasty = shop.store.with_policy(Policy::new().with_lease(secs(1))).expect("a policy");
    let done = executed(run(&hasty, |_| {
        shop.at(100);
        Ok::<_, Error>(Reply::Marker)
    }));
    assert_eq!(done.created_at, START);
    assert_eq!(done.completed_at, START.saturating_add(secs(100)));
    assert_eq!(done.expires_at, START.saturating_add(secs(100 + 24 * 60 * 60)));
}

/// Whether a reply of that status is recorded, under each way to treat failures and each idea of a failure.
#[test]
fn what_counts_as_a_failure_is_not_recorded_unless_failures_are() {
    let too_many = |reply: &Reply| reply.response().is_some_and(|response| response.status() == 429);
    let policies = [
        (Policy::new(), [true, true, true, false]),
        (Policy::new().with_failures(Failures::Release), [true, true, true, false]),
        (Policy::new().with_failures(Failures::Record), [true; 4]),
        (Policy::new().failure_if(too_many), [true, true, false, true]),
        (Policy::new().failure_if(too_many).with_failures(Failures::Record), [true; 4]),
        (Policy::new().failure_if(|_| true), [false; 4]),
    ];
    for (policy, recorded) in policies {
        for (status, is_recorded) in [201, 400, 429, 503].into_iter().zip(recorded) {
            let shop = Shop::new();
            let store = shop.store.with_policy(policy).expect("a policy");
            let before = shop.stored();
            let ran = run(&store, |tx| {
                order(tx, "a book")?;
                Ok::<_, rusqlite::Error>(reply(status, "it"))
            })
            .expect("it ran");
            assert_eq!(ran.reply(), Some(&reply(status, "it")), "{policy:?}");
            assert_eq!(ran.suggested_status(), Some(status), "{policy:?}");
            if is_recorded {
                assert!(matches!(ran, Ran::Executed(_)), "{policy:?}, {status}: {ran:?}");
                assert!(matches!(run(&store, no_work), Ok(Ran::Replayed(_))), "{policy:?}, {status}");
                assert_eq!(shop.orders(), ["a book"]);
            } else {
                assert!(matches!(ran, Ran::Failed(_)), "{policy:?}, {status}: {ran:?}");
                assert_eq!(shop.stored(), before, "{policy:?}, {status}");
                shop.must_run("a book", 1);
            }
        }
    }
}

#[test]
fn an_error_of_the_work_is_not_recorded_even_where_failures_are() {
    let shop = Shop::new();
    let store = shop.store.with_policy(Policy::new().with_failures(Failures::Record)).expect("a policy");
    let before = shop.stored();
    let failed = run(&store, |tx| {
        order(tx, "a book").expect("an order");
        Err("no answer from the till")
    });
    assert!(matches!(failed, Err(RunError::Work("no answer from the till"))), "{failed:?}");
    assert_eq!(shop.stored(), before);
    shop.must_run("a book", 1);
}

#[test]
fn work_that_moves_between_keys_and_scopes_leaves_each_its_own_record() {
    let shop = Shop::new();
    for (s, k) in [("a", "1"), ("a", "2"), ("b", "1")] {
        let ran = shop.store.atomically(&scope(s), &key(k), &a_print(), |tx| {
            order(tx, &format!("{s} {k}"))?;
            Ok::<_, rusqlite::Error>(Reply::Reference(format!("{s} {k}")))
        });
        assert_eq!(executed(ran).reply, Reply::Reference(format!("{s} {k}")));
    }
    assert_eq!(shop.orders(), ["a 1", "a 2", "b 1"]);
    assert_eq!(shop.stored().records.len(), 3);
}

#[test]
fn a_store_that_is_full_of_tokens_or_read_only_or_damaged_runs_no_work() {
    let exhausted = Shop::new();
    exhausted
        .connection()
        .execute("UPDATE idempotency_meta SET last_token = ?1", [i64::MAX])
        .expect("a counter at its end");
    let before = exhausted.stored();
    let refused = exhausted.run(no_work);
    assert!(matches!(refused, Err(RunError::Store(Error::TokensExhausted))), "{refused:?}");
    assert_eq!(exhausted.stored(), before);

    let shop = Shop::new();
    let before = shop.stored();
    let reader = crate::shop::open(shop.path(), SqliteOptions::new().read_only()).expect("the same store");
    let refused = run(&reader, no_work);
    assert!(matches!(refused, Err(RunError::Store(Error::ReadOnly(_)))), "{refused:?}");
    assert_eq!(shop.stored(), before);

    shop.must_run("a book", 1);
    shop.connection().execute("UPDATE idempotency_record SET reply_body = x'00'", []).expect("damage");
    let before = shop.stored();
    let refused = shop.run(no_work);
    assert!(matches!(refused, Err(RunError::Store(Error::Corrupt { .. }))), "{refused:?}");
    assert_eq!(shop.stored(), before);
}

#[test]
fn a_file_that_somebody_else_writes_to_is_busy_and_the_work_not_run() {
    let shop = Shop::new();
    let other = shop.connection();
    other.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
    let busy = shop.run(no_work).expect_err("somebody else has the lock");
    assert!(matches!(busy, RunError::Store(Error::Busy(_))), "{busy:?}");
    assert!(busy.is_transient() && !busy.is_indefinite(), "{busy:?}");
    other.execute_batch("ROLLBACK").expect("the lock given back");
    shop.must_run("a book", 1);
}

#[test]
fn somebody_else_on_the_file_finds_it_locked_while_the_work_runs_and_sees_nothing_of_it() {
    without_standing_still(|| {
        let shop = Shop::new();
        let other = shop.handle();
        executed(shop.run(|tx| {
            order(tx, "a book")?;
            assert_eq!(shop.orders(), [""; 0], "not committed yet");
            assert_eq!(other.lookup(&a_scope(), &a_key()).expect("it can be read"), None);
            let busy = claim(&other).expect_err("this work has the lock");
            assert!(matches!(busy, Error::Busy(_)), "{busy:?}");
            Ok::<_, rusqlite::Error>(Reply::Marker)
        }));
        assert_eq!(claim(&other).expect("a store").name(), "completed");
    });
}
