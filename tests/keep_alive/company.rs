//! What one claim's renewing does to others', and to those who end claims in odd places.

use crate::stage::{FOR_EVER, on_every_stage, until};
use idempotency::ClaimOutcome;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[test]
fn a_claim_whose_renewal_panics_in_the_backend_takes_no_other_along() {
    on_every_stage(|stage| {
        stage.witness.panic_at("bad");
        let good: Vec<_> = (0..5).map(|number| stage.kept(&format!("good {number}"))).collect();
        let bad = stage.kept("bad");
        let late: Vec<_> = (5..10).map(|number| stage.kept(&format!("good {number}"))).collect();
        until(&format!("the bad one fails, {}", stage.name), || bad.renewal_error().is_some());
        for number in 0..10 {
            stage.until_renewed(&format!("good {number}"), 3);
        }
        for claim in good.iter().chain(&late) {
            until(&format!("a good one is well, {}", stage.name), || claim.renewal_error().is_none());
            assert!(claim.is_kept_alive() && !claim.is_lost(), "{}", stage.name);
        }
        let error = bad.renewal_error().expect("an error");
        assert!(error.is_indefinite(), "a panic may come after the writing: {error}");
        assert!(!bad.is_lost());
    });
}

#[test]
fn a_claim_can_be_ended_on_the_renewers_own_thread() {
    on_every_stage(|stage| {
        let claim = stage.kept("job");
        let held = Arc::new(Mutex::new(Some(claim)));
        let ended = Arc::new(Mutex::new(None));
        let (takes, tells) = (Arc::clone(&held), Arc::clone(&ended));
        stage.witness.before_each_batch(move || {
            let claim = takes.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(claim) = claim {
                *tells.lock().unwrap_or_else(PoisonError::into_inner) = Some(claim.abandon());
            }
        });
        until(&format!("it is ended, {}", stage.name), || {
            ended.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(Result::is_ok)
        });
        // The thread goes on: what it renews is renewed.
        let next = stage.kept("next");
        stage.until_renewed("next", 2);
        next.release().expect("a claim that stands");
    });
}

#[test]
fn it_is_told_whether_a_claim_will_be_renewed_once_more() {
    on_every_stage(|stage| {
        let claim = stage.claim("job");
        assert!(!claim.is_kept_alive(), "before anybody asked");
        claim.keep_alive(FOR_EVER).expect("a thread");
        stage.until_renewed("job", 2);
        assert!(claim.is_kept_alive());
        claim.keep_alive(Duration::from_millis(1)).expect("a thread");
        until(&format!("the renewing ends, {}", stage.name), || !claim.is_kept_alive());
        claim.keep_alive(FOR_EVER).expect("a thread");
        assert!(claim.is_kept_alive());

        assert!(stage.store.forget(claim.scope(), claim.key()).expect("it is there"));
        until(&format!("the loss is heard of, {}", stage.name), || claim.is_lost());
        until(&format!("a lost claim is not renewed, {}", stage.name), || !claim.is_kept_alive());
        assert!(matches!(stage.ask("job"), ClaimOutcome::Claimed(_)));
    });
}
