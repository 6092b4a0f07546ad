//! What is a loss, and what only looks like one.

use crate::stage::{LEASE, Stage, on_every_stage, until};
use idempotency::{Claim, CompleteError, Completed, Error, LostReason, Reply};
use std::time::Duration;

/// Takes `claim`'s record away and lets somebody else claim the operation.
fn taken_by_force(stage: &Stage, claim: &Claim) -> Claim {
    assert!(stage.store.forget(claim.scope(), claim.key()).expect("an answer"));
    stage.claim(claim.key().as_str())
}

#[test]
fn a_claim_that_was_taken_by_force_is_lost_and_renewed_no_more() {
    on_every_stage(|stage| {
        let claim = stage.kept("job");
        stage.until_renewed("job", 1);
        assert!(!claim.is_lost());
        let next = taken_by_force(&stage, &claim);
        until("the owner hears of it", || claim.is_lost());
        assert_eq!(stage.store.metrics().lost_claims, 1, "{}", stage.name);
        assert!(claim.renewal_error().is_none(), "a loss is no failure");
        let renewals = stage.witness.renewals("job");
        stage.let_renewals_come();
        assert_eq!(stage.witness.renewals("job"), renewals, "{}", stage.name);

        let refused = claim.complete(Reply::Marker).expect_err("a claim that is lost");
        assert!(matches!(refused.error(), Error::ClaimLost(LostReason::Running)), "{refused:?}");
        let (_, claim, _) = refused.into_parts();
        assert!(claim.is_lost());
        next.complete(Reply::Marker).expect("a claim that stands");
        assert_eq!(stage.store.metrics().renewal_failures, 0);
    });
}

/// A call of an owner's, by name; gives the error that it must come to, and the claim.
type Call = (&'static str, fn(Claim) -> (Error, Claim));
const CALLS: [Call; 4] = [
    ("renew", |mut claim| (claim.renew().expect_err("a claim that is lost"), claim)),
    ("save_checkpoint", |mut claim| {
        (claim.save_checkpoint("late").expect_err("a claim that is lost"), claim)
    }),
    ("complete", |claim| parts(claim.complete(Reply::Marker))),
    ("complete_for", |claim| parts(claim.complete_for(Duration::from_secs(1), Reply::Marker))),
];

fn parts(completed: Result<Completed, CompleteError>) -> (Error, Claim) {
    let (error, claim, _reply) = completed.expect_err("a claim that is lost").into_parts();
    (error, claim)
}

/// Also of one that nobody keeps alive.
#[test]
fn a_claim_is_lost_as_soon_as_any_call_of_its_owner_hears_so() {
    on_every_stage(|stage| {
        for (name, call) in CALLS {
            let claim = stage.claim(name);
            let _next = taken_by_force(&stage, &claim);
            assert!(!claim.is_lost(), "it has not heard of it");
            let (error, claim) = call(claim);
            assert!(matches!(error, Error::ClaimLost(LostReason::Running)), "{}: {error:?}", stage.name);
            assert!(claim.is_lost(), "{}: {name}", stage.name);
        }
    });
}

/// It is not the one that blocks the key.
#[test]
fn a_claim_that_a_renewal_has_found_lost_is_not_counted_as_dropped_unfinished() {
    on_every_stage(|stage| {
        let claim = stage.kept("job");
        let next = taken_by_force(&stage, &claim);
        until("the owner hears of it", || claim.is_lost());
        drop(claim);
        assert_eq!(stage.store.metrics().dropped_unfinished, 0, "{}", stage.name);
        drop(next);
        assert_eq!(stage.store.metrics().dropped_unfinished, 1, "{}", stage.name);
    });
}

#[test]
fn a_claim_that_somebody_completes_by_its_ticket_is_not_lost_and_renewed_no_more() {
    on_every_stage(|stage| {
        let claim = stage.kept("job");
        stage.until_renewed("job", 1);
        stage.store.complete(&claim.ticket(), Reply::Marker).expect("a claim that stands");
        stage.let_renewals_come();
        let renewals = stage.witness.renewals("job");
        stage.let_renewals_come();
        assert_eq!(stage.witness.renewals("job"), renewals, "{}", stage.name);
        assert!(!claim.is_lost() && claim.renewal_error().is_none(), "{}", stage.name);
        let metrics = stage.store.metrics();
        assert_eq!((metrics.lost_claims, metrics.renewal_failures), (0, 0), "{}", stage.name);
        claim.complete(Reply::Marker).expect("the first reply stands, and is given");
    });
}

#[test]
fn a_lapsed_claim_is_kept_alive_again_as_long_as_nobody_has_taken_over() {
    on_every_stage(|stage| {
        let claim = stage.claim("job");
        stage.clock.advance(LEASE * 10);
        claim.keep_alive(Duration::MAX).expect("a thread");
        stage.until_renewed("job", 1);
        assert!(matches!(stage.ask("job"), idempotency::ClaimOutcome::InProgress(_)), "{}", stage.name);
        assert!(!claim.is_lost());
    });
}
