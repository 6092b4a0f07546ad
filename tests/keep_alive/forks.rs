//! Claims that are kept alive, carried over a `fork`: the thread is not there, and its locks stay as they
//! were.

use crate::alone::alone;
use crate::common::{asks_for, key, scope};
use crate::fork::{AS_IT_SHOULD_BE, in_a_fork};
use crate::stage::{FOR_EVER, Stage, on_every_stage, until};
use idempotency::{Claim, Error, Reply};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is tried in the child, with the number that it ends with if it does not come to what it should.
type Attempt = (u8, fn(Claim) -> Result<(), Error>);
const ENDINGS: [Attempt; 5] = [
    (1, |claim| Ok(claim.complete(Reply::Marker).map(drop)?)),
    (2, Claim::release),
    (3, Claim::abandon),
    (4, |claim| claim.into_ticket().key().as_str().is_empty().then_some(()).ok_or(Error::Forked)),
    (5, |claim| {
        drop(claim);
        Err(Error::Forked)
    }),
];
const IS_NOT_TOLD: u8 = 10;
const IS_KEPT_ALIVE: u8 = 11;

/// A renewal of all of `claims` that waits in the backend until the answer is set.
fn held(stage: &Stage, names: &[String]) -> Arc<AtomicBool> {
    let may_go = Arc::new(AtomicBool::new(false));
    stage.witness.before_each_batch({
        let may_go = Arc::clone(&may_go);
        move || until("the child has ended", || may_go.load(Ordering::SeqCst))
    });
    let is_asked = |name: &String| {
        let steps = stage.witness.steps();
        steps.iter().any(|step| step.in_a_batch && !step.is_answered && step.key == *name)
    };
    until("the renewals are on their way", || names.iter().any(is_asked));
    may_go
}

#[test]
fn claims_carried_over_a_fork_in_the_midst_of_a_renewal_are_ended_and_dropped_there_at_once() {
    const TEST: &str =
        "forks::claims_carried_over_a_fork_in_the_midst_of_a_renewal_are_ended_and_dropped_there_at_once";
    alone(TEST, || {
        on_every_stage(|stage| {
            let names: Vec<_> = ENDINGS.iter().map(|(number, _)| format!("job {number}")).collect();
            let mut claims: Vec<_> = names.iter().map(|name| stage.kept(name)).collect();
            let may_go = held(&stage, &names);
            let number = in_a_fork(|| {
                for ((number, end), mut claim) in ENDINGS.into_iter().zip(claims.drain(..)) {
                    if claim.is_lost() || !matches!(claim.renewal_error(), Some(Error::Forked)) {
                        return IS_NOT_TOLD;
                    }
                    if !matches!(claim.keep_alive(FOR_EVER), Err(Error::Forked)) {
                        return IS_KEPT_ALIVE;
                    }
                    for answer in [claim.renew(), end(claim)] {
                        match answer {
                            // The records of a store in memory are the child's own.
                            Ok(()) if stage.name == "memory" => {}
                            Err(Error::Forked) => {}
                            _ => return number,
                        }
                    }
                }
                AS_IT_SHOULD_BE
            });
            assert_eq!(number, AS_IT_SHOULD_BE, "{}", stage.name);
            may_go.store(true, Ordering::SeqCst);
            names.iter().for_each(|name| stage.until_renewed(name, 2));
            for claim in claims {
                assert!(claim.renewal_error().is_none(), "{}", stage.name);
                claim.complete(Reply::Marker).expect("the parent's claim stands");
            }
        });
    });
}

/// The thread that it would wait for is not there.
#[test]
fn a_store_carried_over_a_fork_with_a_renewer_is_dropped_there_at_once() {
    alone("forks::a_store_carried_over_a_fork_with_a_renewer_is_dropped_there_at_once", || {
        on_every_stage(|stage| {
            let mut claim = Some(stage.kept("job"));
            let may_go = held(&stage, &["job".to_owned()]);
            let mut stage = Some(stage);
            let number = in_a_fork(|| {
                drop(claim.take());
                drop(stage.take());
                AS_IT_SHOULD_BE
            });
            assert_eq!(number, AS_IT_SHOULD_BE);
            may_go.store(true, Ordering::SeqCst);
            let stage = stage.expect("it was the child's copy that was dropped");
            stage.until_renewed("job", 2);
        });
    });
}

#[test]
fn a_fork_can_keep_claims_of_a_store_of_its_own_alive() {
    alone("forks::a_fork_can_keep_claims_of_a_store_of_its_own_alive", || {
        let number = in_a_fork(|| {
            on_every_stage(|stage| {
                let claim =
                    stage.store.try_claim(&scope("tenant"), &key("job"), &asks_for("it")).expect("an answer");
                drop(claim);
                let _kept = stage.kept("other");
                stage.until_renewed("other", 3);
            });
            AS_IT_SHOULD_BE
        });
        assert_eq!(number, AS_IT_SHOULD_BE);
    });
}
