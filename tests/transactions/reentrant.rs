//! The store, used from inside its own `atomically`: an error instead of a wait for itself.

use crate::common::{asks_for, key, scope, secs};
use crate::shop::{
    Shop, Stored, a_print, claim_in, executed, granted, open, order, reply, run, without_standing_still,
};
use idempotency::rusqlite;
use idempotency::{Backend, Claim, Error, IdempotencyStore, Policy, Reply, RunError, Ticket};

/// What a call was answered, by name.
type Call = (&'static str, Result<(), Error>);
type OwnerCall = (&'static str, fn(Claim) -> Result<(), Error>);

/// A claim to try each of an owner's calls on.
fn resumed<B: Backend>(store: &IdempotencyStore<B>, ticket: &Ticket) -> Vec<Claim> {
    (0..6).map(|_| store.resume(ticket.clone()).expect("held")).collect()
}

/// Everything that a store and a claim of its can be asked.
fn every_call<B: Backend>(store: &IdempotencyStore<B>, ticket: &Ticket, claims: Vec<Claim>) -> Vec<Call> {
    let (s, k, f) = (scope("in"), key("side"), asks_for("x"));
    let batch = [(s.clone(), k.clone(), f), (s.clone(), key("other side"), f)];
    let mut calls = vec![
        ("try_claim", store.try_claim(&s, &k, &f).map(drop)),
        ("try_claim on a key that is held", store.try_claim(ticket.scope(), ticket.key(), &f).map(drop)),
        ("lookup", store.lookup(&s, &k).map(drop)),
        ("complete", store.complete(ticket, Reply::Marker).map(drop)),
        ("release", store.release(ticket)),
        ("abandon", store.abandon(ticket)),
        ("resume", store.resume(ticket.clone()).map(drop)),
        ("forget", store.forget(ticket.scope(), ticket.key()).map(drop)),
        ("sweep", store.sweep(10).map(drop)),
        ("sweep_all", store.sweep_all().map(drop)),
        ("stats", store.stats().map(drop)),
        ("stuck", store.stuck(10).map(drop)),
    ];
    calls.extend(store.try_claim_many(&batch).into_iter().map(|answer| ("try_claim_many", answer.map(drop))));
    assert_eq!(calls.len(), 14);
    let owner_calls: [OwnerCall; 6] = [
        ("claim.renew", |mut claim| claim.renew()),
        ("claim.save_checkpoint", |mut claim| claim.save_checkpoint("late")),
        ("claim.complete", |claim| Ok(claim.complete(Reply::Marker).map(drop)?)),
        ("claim.complete_for", |claim| Ok(claim.complete_for(secs(1), Reply::Marker).map(drop)?)),
        ("claim.release", Claim::release),
        ("claim.abandon", Claim::abandon),
    ];
    assert_eq!(claims.len(), owner_calls.len());
    calls.extend(owner_calls.into_iter().zip(claims).map(|((name, call), claim)| (name, call(claim))));
    calls
}

#[track_caller]
fn all_reentrant(handle: &str, calls: Vec<Call>) {
    for (name, answer) in calls {
        assert!(matches!(answer, Err(Error::Reentrant)), "{handle}, {name}: {answer:?}");
    }
}

#[test]
fn every_call_of_the_store_inside_its_own_work_is_refused_through_every_handle_and_does_nothing() {
    without_standing_still(|| {
        let shop = Shop::new();
        let store = &shop.store;
        let held = store.try_claim(&scope("out"), &key("side"), &asks_for("x")).expect("a store");
        let ticket = crate::common::Answer::claimed(held).into_ticket();
        store.try_claim(&scope("out"), &key("expired"), &asks_for("x")).map(drop).expect("a store");
        let handles = [
            ("the store", store.clone()),
            (
                "a handle with a policy",
                store.with_policy(Policy::new().with_lease(secs(1))).expect("a policy"),
            ),
        ];
        let erased = [
            ("erased", store.erase()),
            ("erased twice", store.erase().erase()),
            ("a clone", store.clone().erase()),
        ];
        let claims: Vec<_> = handles.iter().map(|(_, handle)| resumed(handle, &ticket)).collect();
        let erased_claims: Vec<_> = erased.iter().map(|(_, handle)| resumed(handle, &ticket)).collect();
        let before = shop.stored();
        executed(shop.run(|tx| {
            let inside = Stored::read(tx, "idempotency_");
            for ((name, handle), claims) in handles.iter().zip(claims) {
                all_reentrant(name, every_call(handle, &ticket, claims));
                let nested = run(handle, |_| -> Result<Reply, Error> { panic!("the work was run") });
                assert!(matches!(nested, Err(RunError::Store(Error::Reentrant))), "{name}: {nested:?}");
            }
            for ((name, handle), claims) in erased.iter().zip(erased_claims) {
                all_reentrant(name, every_call(handle, &ticket, claims));
            }
            assert_eq!(Stored::read(tx, "idempotency_"), inside, "nothing was done");
            Ok::<_, Error>(Reply::Marker)
        }));
        let mut after = shop.stored();
        after.records.retain(|record| !record.contains(&rusqlite::types::Value::Text("acct_1".into())));
        assert_eq!(after.records, before.records, "nothing was done");
        store.release(&ticket).expect("the store is free again");
    });
}

#[test]
fn after_work_that_failed_or_panicked_the_store_is_free_again() {
    without_standing_still(|| {
        let shop = Shop::new();
        let failed = shop.run(|_| Err("closed today"));
        assert!(matches!(failed, Err(RunError::Work(_))));
        assert_eq!(shop.store.lookup(&scope("a"), &key("k")).expect("free"), None);
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            shop.run(|_| -> Result<Reply, Error> { std::panic::panic_any("closed today") })
        }));
        assert!(unwound.is_err());
        assert_eq!(shop.store.lookup(&scope("a"), &key("k")).expect("free"), None);
        shop.must_run("a book", 1);
    });
}

#[test]
fn what_asks_nothing_of_the_file_can_be_asked_inside() {
    without_standing_still(|| {
        let shop = Shop::new();
        executed(shop.run(|_| {
            let handle = shop.store.with_policy(Policy::new().with_retention(secs(1)))?;
            assert_eq!(
                (handle.store_id(), handle.erase().store_id()),
                (shop.store.store_id(), handle.store_id())
            );
            assert!(!format!("{:?}", shop.store).is_empty());
            Ok::<_, Error>(Reply::Marker)
        }));
    });
}

#[test]
fn another_store_can_be_used_inside_and_the_outer_one_is_refused_inside_that_as_well() {
    without_standing_still(|| {
        let shop = Shop::new();
        let other = open(shop.other_path(), shop.options()).expect("another file");
        let done = executed(shop.run(|tx| {
            order(tx, "a book")?;
            let inner = run(&other, |_| {
                let refused = run(&shop.store, |_| -> Result<Reply, Error> { panic!("the work was run") });
                assert!(matches!(refused, Err(RunError::Store(Error::Reentrant))), "{refused:?}");
                let refused = crate::shop::claim(&other);
                assert!(matches!(refused, Err(Error::Reentrant)), "{refused:?}");
                Ok::<_, Error>(reply(200, "inner"))
            });
            assert_eq!(executed(inner).reply, reply(200, "inner"));
            let again = run(&other, |_| -> Result<Reply, Error> { panic!("the work was run") });
            assert_eq!(crate::shop::replayed(again).reply, reply(200, "inner"));
            Ok::<_, rusqlite::Error>(reply(201, "outer"))
        }));
        assert_eq!(done.reply, reply(201, "outer"));
        assert_eq!(shop.orders(), ["a book"]);
    });
}

#[test]
fn the_methods_that_take_the_transaction_can_be_used_inside_and_are_no_reentry() {
    without_standing_still(|| {
        let shop = Shop::new();
        let ticket = shop.claim().into_ticket();
        let ran = shop.store.atomically(&scope("acct_1"), &key("outer"), &a_print(), |tx| {
            shop.store.complete_in(tx, &ticket, Reply::Marker)?;
            let inner = shop.store.try_claim_in(tx, &scope("acct_1"), &key("inner"), &a_print());
            granted(inner).complete(Reply::Marker)?;
            assert!(matches!(claim_in(&shop.store, tx), Ok(idempotency::ClaimOutcome::Completed(_))));
            Ok::<_, Error>(Reply::Marker)
        });
        executed(ran);
    });
}
