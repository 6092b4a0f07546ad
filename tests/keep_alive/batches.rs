//! Many claims share one call of the backend, so that a busy file costs one time-out and one commit.

use crate::common::{Answer, asks_for, key, on_every_backend, scope};
use crate::stage::{FOR_EVER, LEASE, Stage, on_every_stage, until, with_lease};
use idempotency::testing::{Fault, FaultyBackend};
use idempotency::{Backend, Claim, IdempotencyStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// So long that a claim which was renewed is not due again.
const LONG: Duration = Duration::from_secs(24 * 3_600);

/// Claims that are due as soon as they are kept alive.
fn due_at_once<B: Backend>(store: &IdempotencyStore<B>, count: usize) -> Vec<Claim> {
    let operations: Vec<_> =
        (0..count).map(|n| (scope("many"), key(&format!("job {n}")), asks_for("it"))).collect();
    let answers = store.try_claim_many(&operations);
    let tickets = answers.into_iter().map(|answer| answer.expect("an answer").claimed().into_ticket());
    tickets.map(|ticket| store.resume(ticket).expect("a claim that stands")).collect()
}

#[test]
fn claims_that_are_due_together_are_renewed_a_thousand_to_a_call() {
    on_every_stage(|stage: Stage| {
        let claims = due_at_once(&with_lease(&stage.store, LONG), 2_500);
        let (is_held, may_go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        stage.witness.before_each_batch({
            let (is_held, may_go) = (Arc::clone(&is_held), Arc::clone(&may_go));
            move || {
                is_held.store(true, Ordering::SeqCst);
                until("all are due", || may_go.load(Ordering::SeqCst));
            }
        });
        // The renewer is held up with this one, until all others are due.
        let first = stage.kept("first");
        until("it is on its way", || is_held.load(Ordering::SeqCst));
        claims.iter().for_each(|claim| claim.keep_alive(FOR_EVER).expect("a thread"));
        let before = stage.witness.batches().len();
        may_go.store(true, Ordering::SeqCst);
        until("all are renewed", || {
            let steps = stage.witness.steps();
            steps.iter().filter(|step| step.is_renewed() && step.key != "first").count() >= claims.len()
        });
        let batches = stage.witness.batches();
        let of_many: Vec<_> = batches[before..].iter().filter(|len| **len > 1).collect();
        assert_eq!(of_many.len(), 3, "{}: {batches:?}", stage.name);
        assert!(of_many.iter().all(|len| **len <= 1_000), "{}: {batches:?}", stage.name);
        first.release().expect("a claim that stands");
    });
}

#[test]
fn claims_that_were_granted_one_after_the_other_share_their_calls_from_then_on() {
    const CLAIMS: usize = 50;
    on_every_stage(|stage: Stage| {
        let claims: Vec<_> = (0..CLAIMS).map(|n| stage.kept(&format!("job {n}"))).collect();
        claims.iter().for_each(|claim| stage.until_renewed(claim.key().as_str(), 1));
        let before = stage.witness.batches().len();
        stage.until_renewed("job 0", 6);
        let batches = stage.witness.batches().split_off(before);
        let renewed: usize = batches.iter().sum();
        assert!(renewed > 4 * CLAIMS, "{}: {batches:?}", stage.name);
        assert!(renewed > 5 * batches.len(), "{}: {batches:?}", stage.name);
    });
}

#[test]
fn claims_whose_renewal_has_failed_together_are_tried_again_together() {
    const CLAIMS: usize = 200;
    on_every_backend(|fixture| {
        let backend = Arc::new(FaultyBackend::new(Arc::clone(fixture.store.backend())));
        let store = with_lease(&IdempotencyStore::new(Arc::clone(&backend)), LEASE * 10);
        let claims = due_at_once(&store, CLAIMS);
        backend.fail(Fault::Before, 0, usize::MAX);
        claims.iter().for_each(|claim| claim.keep_alive(FOR_EVER).expect("a thread"));
        // From here on all of them fail together, however they began.
        until("each has failed", || claims.iter().all(|claim| claim.renewal_error().is_some()));
        let (calls, failures) = (backend.calls(), store.metrics().renewal_failures);
        until("they have failed often", || {
            store.metrics().renewal_failures >= failures + 5 * u64::try_from(CLAIMS).expect("a small number")
        });
        let calls = backend.calls() - calls;
        assert!(calls <= 50, "{}: {calls} calls for {} renewals", fixture.name, 5 * CLAIMS);
        backend.fail(Fault::Before, 0, 0);
        until("each has succeeded", || claims.iter().all(|claim| claim.renewal_error().is_none()));
    });
}
