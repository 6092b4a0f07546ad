//! What work may do while it runs: use the store, extend its claim, put it elsewhere.

use crate::common::{Answer, START, key, on_every_backend, secs};
use crate::support::{
    a_key, a_print, a_scope, claim, executed, must_run, no_work, replayed, reply, run, stored, try_claim,
    watched,
};
use idempotency::{Claim, Error, IdempotencyStore, Policy, Ran, RunError, State};
use std::convert::Infallible;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

#[test]
fn work_can_use_the_store_for_other_operations() {
    on_every_backend(|fixture| {
        let (store, other, third) = (&fixture.store, key("other"), key("third"));
        let ran = run(store, |_| {
            let inner = store.run(&a_scope(), &other, &a_print(), |_| {
                store.try_claim(&a_scope(), &third, &a_print())?.claimed().abandon()?;
                Ok::<_, Error>(reply(202))
            })?;
            assert!(matches!(inner, Ran::Executed(_)), "{}: {inner:?}", fixture.name);
            Ok::<_, RunError<Error>>(reply(201))
        });
        assert_eq!(executed(ran).reply, reply(201), "{}", fixture.name);
        let inner = store.run(&a_scope(), &other, &a_print(), no_work);
        assert_eq!(replayed(inner).reply, reply(202), "{}", fixture.name);
        assert_eq!(
            store.try_claim(&a_scope(), &third, &a_print()).expect("an answer").claimed().attempt(),
            2
        );
    });
}

/// Nothing is locked meanwhile: its own key answers as it does to everybody else.
#[test]
fn to_its_own_work_a_key_is_in_progress_and_not_a_deadlock() {
    on_every_backend(|fixture| {
        let store = &fixture.store;
        let ran = run(store, |claim| {
            let before = stored(fixture);
            let Ok(Ran::InProgress(running)) = run(store, no_work) else { panic!("{}", fixture.name) };
            assert_eq!((running.lease_until, running.attempt), (claim.lease_until(), 1), "{}", fixture.name);
            let waited = store.claim_or_wait(&a_scope(), &a_key(), &a_print(), Duration::ZERO);
            assert_eq!(waited.expect("an answer").name(), "in progress", "{}", fixture.name);
            let record = store.lookup(&a_scope(), &a_key()).expect("a store").expect("a record");
            assert_eq!((record.state, record.token), (State::InProgress, claim.token()), "{}", fixture.name);
            assert_eq!(stored(fixture), before, "{}", fixture.name);
            Ok::<_, Infallible>(reply(201))
        });
        assert_eq!(executed(ran).reply, reply(201), "{}", fixture.name);
    });
}

#[test]
fn work_that_renews_its_claim_keeps_it_beyond_the_lease() {
    on_every_backend(|fixture| {
        let ran = run(&fixture.store, |claim| {
            for minute in 1..=10 {
                fixture.at(60 * minute);
                if minute % 2 == 0 {
                    claim.renew()?;
                } else {
                    claim.save_checkpoint("so far")?;
                }
                assert_eq!(claim.lease_until(), START.saturating_add(secs(60 * minute + 90)));
                assert_eq!(try_claim(&fixture.store)?.name(), "in progress", "{}", fixture.name);
            }
            Ok::<_, Error>(reply(201))
        });
        assert_eq!(executed(ran).created_at, START, "{}", fixture.name);
    });
}

/// A claim of another operation in the place of its own: `run` ends what it was granted, and leaves the other
/// as whoever drops a claim does.
#[test]
fn work_that_exchanges_its_claim_for_another_still_ends_its_own() {
    on_every_backend(|fixture| {
        let store = watched(fixture, Policy::new());
        for (other, gives, attempt) in [
            ("one", Ok(reply(201)), None),
            ("two", Err("no luck"), Some(2)),
            ("three", Ok(reply(503)), Some(2)),
        ] {
            fixture.at(0);
            let other = key(other);
            let mut kept: Option<Claim> = None;
            let mut before = None;
            let ran = run(&store, |claim| {
                let foreign = store.try_claim(&a_scope(), &other, &a_print()).expect("an answer").claimed();
                before = Some(fixture.stored(&a_scope(), &other));
                kept = Some(mem::replace(claim, foreign));
                gives.clone()
            });
            assert!(!matches!(ran, Err(RunError::NotRecorded { .. })), "{}: {ran:?}", fixture.name);
            assert_eq!(Some(fixture.stored(&a_scope(), &other)), before, "{}", fixture.name);
            match attempt {
                None => assert_eq!(replayed(run(&store, no_work)).reply, reply(201), "{}", fixture.name),
                Some(attempt) => assert_eq!(claim(&store).attempt(), attempt, "{}", fixture.name),
            }
            let own = kept.expect("work that was run");
            assert!(matches!(own.abandon(), Err(Error::ClaimLost(_))), "{}", fixture.name);
            fixture.store.forget(&a_scope(), &a_key()).expect("a store");
        }
    });
}

#[test]
fn work_that_exchanges_its_claim_and_panics_abandons_its_own() {
    on_every_backend(|fixture| {
        let (store, other) = (watched(fixture, Policy::new()), key("other"));
        let mut before = None;
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            run(&store, |claim| -> Result<_, Infallible> {
                let foreign = store.try_claim(&a_scope(), &other, &a_print()).expect("an answer").claimed();
                before = Some(fixture.stored(&a_scope(), &other));
                mem::forget(mem::replace(claim, foreign));
                resume_unwind(Box::new("out of luck"))
            })
        }));
        assert_eq!(unwound.expect_err("a panic").downcast_ref(), Some(&"out of luck"), "{}", fixture.name);
        assert_eq!(Some(fixture.stored(&a_scope(), &other)), before, "{}", fixture.name);
        assert_eq!(claim(&store).attempt(), 2, "{}", fixture.name);
    });
}

/// The limit on replies is the policy's that runs, not that of the claim which was put in its place.
#[test]
fn a_claim_of_another_store_in_its_place_changes_nothing() {
    on_every_backend(|fixture| {
        let elsewhere = IdempotencyStore::in_memory();
        let tight = elsewhere.with_policy(Policy::new().with_max_reply_len(0)).expect("a usable policy");
        let ran = run(&fixture.store, |claim| {
            drop(mem::replace(claim, crate::support::claim(&tight)));
            Ok::<_, Infallible>(reply(201))
        });
        assert_eq!(executed(ran).reply, reply(201), "{}", fixture.name);
        let left = elsewhere.lookup(&a_scope(), &a_key()).expect("a store").expect("a record");
        assert_eq!((left.state, left.attempt), (State::InProgress, 1), "{}", fixture.name);

        let ran = run(&tight, no_work);
        assert!(matches!(ran, Ok(Ran::InProgress(_))), "{}: {ran:?}", fixture.name);
    });
}

/// Its own claim in another handle is its own claim.
#[test]
fn work_that_puts_a_second_handle_of_its_claim_in_its_place_is_recorded() {
    on_every_backend(|fixture| {
        let store = watched(fixture, Policy::new());
        let mut moved = None;
        let ran = run(&store, |claim| {
            let second = store.resume(claim.ticket())?;
            moved = Some(mem::replace(claim, second));
            Ok::<_, Error>(reply(201))
        });
        assert_eq!(executed(ran).reply, reply(201), "{}", fixture.name);
        let again = moved.expect("work that was run").complete(reply(202)).expect("it has completed");
        assert_eq!(again.reply, reply(201), "{}: the first reply stands", fixture.name);
    });
}

/// A handle that was moved out of the work completes what `run` has abandoned, unless somebody took over.
#[test]
fn a_claim_that_outlives_its_run_is_no_more_than_a_ticket() {
    on_every_backend(|fixture| {
        let mut aside = None;
        let failed = run(&fixture.store, |claim| {
            aside = Some(claim.ticket());
            Err("later, elsewhere")
        });
        assert!(matches!(failed, Err(RunError::Work(_))), "{}: {failed:?}", fixture.name);
        let ticket = aside.expect("work that was run");
        let done = fixture.store.complete(&ticket, reply(201)).expect("nobody has taken over");
        assert_eq!(replayed(run(&fixture.store, no_work)), done, "{}", fixture.name);

        fixture.store.forget(&a_scope(), &a_key()).expect("a store");
        must_run(&fixture.store, 1, reply(202));
        let late = fixture.store.complete(&ticket, reply(201));
        assert!(matches!(late, Err(Error::ClaimLost(_))), "{}: {late:?}", fixture.name);
    });
}

/// The claim that is lent is the one that is stored.
#[test]
fn work_sees_its_own_claim() {
    on_every_backend(|fixture| {
        let store = fixture.store_with(secs(30), secs(60));
        let ran = run(&store, |claim| {
            let record = fixture.stored(&a_scope(), &a_key()).expect("a record");
            assert_eq!((claim.scope(), claim.key()), (&a_scope(), &a_key()), "{}", fixture.name);
            assert_eq!((claim.token(), claim.attempt()), (record.token, record.attempt), "{}", fixture.name);
            assert_eq!(claim.lease_until(), START.saturating_add(secs(30)), "{}", fixture.name);
            assert_eq!(
                (claim.ticket().fingerprint(), claim.checkpoint()),
                (&a_print(), None),
                "{}",
                fixture.name
            );
            Ok::<_, Infallible>(reply(201))
        });
        let done = executed(ran);
        assert_eq!(done.expires_at, START.saturating_add(secs(60)), "{}", fixture.name);
    });
}
