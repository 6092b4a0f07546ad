//! Work that ends its own claim through a ticket, and what `run` makes of what it gives then.

use crate::common::on_every_backend;
use crate::support::{
    a_key, a_scope, executed, lost, must_run, no_work, replayed, reply, run, stored, watched,
};
use idempotency::{Claim, DynStore, Error, Failures, LostReason, Metrics, Policy, Reply, RunError};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

fn completes(store: &DynStore, claim: &Claim) -> Result<(), Error> {
    store.complete(&claim.ticket(), reply(202)).map(drop)
}

fn counted(change: impl FnOnce(&mut Metrics)) -> Metrics {
    let mut metrics = Metrics::default();
    metrics.claims = 1;
    change(&mut metrics);
    metrics
}

/// Two replies, and the first one stands.
#[test]
fn of_the_reply_that_the_work_recorded_and_the_one_that_it_gives_the_first_stands_and_comes_back() {
    on_every_backend(|fixture| {
        let store = watched(fixture, Policy::new()).erase();
        let mut before = None;
        let ran = run(&store, |claim| {
            completes(&store, claim)?;
            before = Some(stored(fixture));
            Ok::<_, Error>(reply(201))
        });
        let done = executed(ran);
        assert_eq!(done.reply, reply(202), "{}", fixture.name);
        assert_eq!(Some(stored(fixture)), before, "{}", fixture.name);
        assert_eq!(replayed(run(&store, no_work)), done, "{}", fixture.name);
        let metrics = store.metrics();
        assert_eq!(
            (metrics.completions, metrics.replays, metrics.lost_claims),
            (1, 1, 0),
            "{}",
            fixture.name
        );
        assert_eq!(metrics.errors.total(), 0, "{}", fixture.name);
    });
}

#[test]
fn an_error_a_failure_or_a_panic_after_the_work_has_completed_leaves_its_reply_to_be_replayed() {
    on_every_backend(|fixture| {
        for failures in [Failures::Abandon, Failures::Release] {
            let store = watched(fixture, Policy::new().with_failures(failures)).erase();
            let after_completing = |gives: fn() -> Result<Reply, Error>| {
                let ran = catch_unwind(AssertUnwindSafe(|| {
                    run(&store, |claim| {
                        completes(&store, claim)?;
                        gives()
                    })
                }));
                assert_eq!(replayed(run(&store, no_work)).reply, reply(202), "{}", fixture.name);
                fixture.store.forget(&a_scope(), &a_key()).expect("a store");
                ran
            };
            let failed = after_completing(|| Err(Error::Reentrant)).expect("no panic");
            assert!(matches!(failed, Err(RunError::Work(Error::Reentrant))), "{}: {failed:?}", fixture.name);
            let failed = after_completing(|| Ok(reply(503))).expect("no panic");
            assert_eq!(lost(failed), LostReason::CompletedByThisClaim, "{}", fixture.name);
            let panic = after_completing(|| resume_unwind(Box::new("done, and out of luck")));
            assert_eq!(panic.expect_err("a panic").downcast_ref(), Some(&"done, and out of luck"));
            let metrics = store.metrics();
            assert_eq!((metrics.completions, metrics.failed_runs, metrics.lost_claims), (3, 3, 0));
        }
    });
}

#[test]
fn a_reply_after_the_work_has_released_its_claim_is_not_recorded() {
    on_every_backend(|fixture| {
        let store = watched(fixture, Policy::new()).erase();
        let ran = run(&store, |claim| {
            store.release(&claim.ticket())?;
            Ok::<_, Error>(reply(201))
        });
        assert_eq!(lost(ran), LostReason::Gone, "{}", fixture.name);
        assert_eq!(stored(fixture).record, None, "{}", fixture.name);
        let expected = counted(|metrics| (metrics.releases, metrics.lost_claims) = (1, 1));
        assert_eq!(store.metrics(), expected, "{}", fixture.name);
    });
}

#[test]
fn an_error_after_the_work_has_released_its_claim_is_the_works_own_and_leaves_nothing() {
    on_every_backend(|fixture| {
        let store = watched(fixture, Policy::new()).erase();
        let ran = run(&store, |claim| {
            store.release(&claim.ticket())?;
            Err::<Reply, _>(Error::Reentrant)
        });
        assert!(matches!(ran, Err(RunError::Work(Error::Reentrant))), "{}: {ran:?}", fixture.name);
        assert_eq!(stored(fixture).record, None, "{}", fixture.name);
        let expected = counted(|metrics| (metrics.releases, metrics.failed_runs) = (1, 1));
        assert_eq!(store.metrics(), expected, "{}", fixture.name);
    });
}

/// Abandoned is lapsed, and nobody has taken over.
#[test]
fn a_reply_after_the_work_has_abandoned_its_claim_is_recorded_unless_somebody_took_over() {
    on_every_backend(|fixture| {
        let ran = run(&fixture.store, |claim| {
            fixture.store.abandon(&claim.ticket())?;
            Ok::<_, Error>(reply(201))
        });
        assert_eq!(executed(ran).reply, reply(201), "{}", fixture.name);
        fixture.store.forget(&a_scope(), &a_key()).expect("a store");

        let ran = run(&fixture.store, |claim| {
            fixture.store.abandon(&claim.ticket())?;
            must_run(&fixture.store, 2, reply(202));
            Ok::<_, Error>(reply(201))
        });
        assert_eq!(lost(ran), LostReason::Completed, "{}", fixture.name);
        assert_eq!(replayed(run(&fixture.store, no_work)).reply, reply(202), "{}", fixture.name);
    });
}

/// A retention of its own for one reply: through a second handle on the claim.
#[test]
fn work_can_record_a_reply_for_a_retention_of_its_own() {
    on_every_backend(|fixture| {
        let minute = crate::common::secs(60);
        let ran = run(&fixture.store, |claim| {
            let own = fixture.store.resume(claim.ticket())?;
            Ok::<_, Error>(own.complete_for(minute, reply(402))?.reply)
        });
        let done = executed(ran);
        assert_eq!(done.expires_at, crate::common::START.saturating_add(minute), "{}", fixture.name);
        fixture.at(59);
        assert_eq!(replayed(run(&fixture.store, no_work)), done, "{}", fixture.name);
        fixture.at(60);
        must_run(&fixture.store, 1, reply(201));
    });
}
