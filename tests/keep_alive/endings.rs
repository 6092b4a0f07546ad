//! Ending a claim that is kept alive ends the renewing first.

use crate::common::{Answer, asks_for, key, scope};
use crate::seed;
use crate::stage::{FOR_EVER, LEASE, Stage, Step, on_every_stage, until, with_lease};
use idempotency::{Backend, Claim, Error, IdempotencyStore, Reply, StoredResponse};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// What ends a claim, the name of the command by which it does, and whether the next claim is granted then.
struct Ending {
    name: &'static str,
    command: &'static str,
    frees: bool,
    end: fn(&IdempotencyStore<Arc<crate::stage::Witness>>, Claim) -> Result<(), Error>,
}

const ENDINGS: [Ending; 6] = [
    Ending {
        name: "complete",
        command: "complete",
        frees: false,
        end: |_, claim| Ok(claim.complete(Reply::Marker).map(drop)?),
    },
    Ending {
        name: "complete_for",
        command: "complete",
        frees: false,
        end: |_, claim| Ok(claim.complete_for(Duration::from_secs(9), Reply::Marker).map(drop)?),
    },
    Ending { name: "release", command: "release", frees: true, end: |_, claim| claim.release() },
    Ending { name: "abandon", command: "abandon", frees: true, end: |_, claim| claim.abandon() },
    Ending {
        name: "into_ticket, then complete",
        command: "complete",
        frees: false,
        end: |store, claim| store.complete(&claim.into_ticket(), Reply::Marker).map(drop),
    },
    Ending {
        name: "into_ticket, then abandon",
        command: "abandon",
        frees: true,
        end: |store, claim| store.abandon(&claim.into_ticket()),
    },
];

/// That of `key` nothing was asked, or still executed, in the background after `command`.
#[track_caller]
fn nothing_comes_after(steps: &[Step], key: &str, command: &str) {
    let mut of_key = steps.iter().filter(|step| step.key == key);
    assert!(of_key.any(|step| step.command == command), "{key}: {command} was not asked");
    let after: Vec<_> = of_key.filter(|step| step.in_a_batch).collect();
    assert!(after.is_empty(), "{key}: {after:?}");
}

#[test]
fn every_ending_waits_for_the_renewal_that_is_on_its_way_and_none_comes_after_it() {
    /// Right code passes however small this is: it is how long wrong code has to come too early.
    const PATIENCE: usize = 50;
    on_every_stage(|stage| {
        for Ending { name, command, frees, end } in ENDINGS {
            let is_held = Arc::new(AtomicBool::new(false));
            stage.witness.before_each_batch({
                let (is_held, witness) = (Arc::clone(&is_held), Arc::downgrade(&stage.witness));
                move || {
                    let is_asked = || {
                        let steps = witness.upgrade().map_or_else(Vec::new, |witness| witness.steps());
                        steps.iter().any(|step| step.key == name && step.command == command)
                    };
                    is_held.store(true, Ordering::SeqCst);
                    for _ in 0..PATIENCE {
                        if is_asked() {
                            break;
                        }
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            });
            let claim = stage.kept(name);
            until("a renewal is on its way", || is_held.load(Ordering::SeqCst));
            end(&stage.store, claim).unwrap_or_else(|error| panic!("{}, {name}: {error}", stage.name));
            stage.witness.before_each_batch(|| ());
            stage.let_renewals_come();
            nothing_comes_after(&stage.witness.steps(), name, command);
            let next = if frees { "claimed" } else { "completed" };
            assert_eq!(stage.ask(name).name(), next, "{}, {name}", stage.name);
        }
        let metrics = stage.store.metrics();
        assert_eq!((metrics.lost_claims, metrics.renewal_failures), (0, 0), "{}", stage.name);
    });
}

#[test]
fn of_hundreds_of_claims_that_end_while_they_are_renewed_none_is_lost_or_renewed_afterwards() {
    const ROUNDS: usize = 300;
    let mut dice = seed::seed();
    let mut below = move |bound: u64| seed::next_number(&mut dice) % bound;
    let rounds: Vec<_> = (0..ROUNDS).map(|round| (round % ENDINGS.len(), below(3_000))).collect();
    on_every_stage(|stage| {
        let store = with_lease(&stage.store, Duration::from_millis(1));
        // Beside others, so that batches are on their way all the time.
        let beside: Vec<_> = ["one", "two"]
            .map(|name| {
                store.try_claim(&scope("tenant"), &key(name), &asks_for("it")).expect("an answer").claimed()
            })
            .into();
        beside.iter().for_each(|claim| claim.keep_alive(FOR_EVER).expect("a thread"));
        for (round, (ending, micros)) in rounds.iter().enumerate() {
            let Ending { end, command, .. } = ENDINGS[*ending];
            let key = key(&format!("job {round}"));
            let claim =
                store.try_claim(&scope("tenant"), &key, &asks_for("it")).expect("an answer").claimed();
            claim.keep_alive(FOR_EVER).expect("a thread");
            thread::sleep(Duration::from_micros(*micros));
            end(&stage.store, claim).unwrap_or_else(|error| panic!("{}, {command}: {error}", stage.name));
        }
        stage.until_renewed("one", 3);
        let steps = stage.witness.steps();
        for (round, (ending, _)) in rounds.iter().enumerate() {
            nothing_comes_after(&steps, &format!("job {round}"), ENDINGS[*ending].command);
        }
        let metrics = stage.store.metrics();
        assert_eq!((metrics.lost_claims, metrics.renewal_failures), (0, 0), "{}", stage.name);
        let renewed = (0..ROUNDS).filter(|round| stage.witness.renewals(&format!("job {round}")) > 0).count();
        assert!(renewed > ROUNDS / 10, "{}: only {renewed} were renewed at all", stage.name);
    });
}

/// What is dropped may be dropped while unwinding, or under a lock.
#[test]
fn dropping_a_claim_does_not_wait_for_the_renewal_that_is_on_its_way() {
    on_every_stage(|stage| {
        let (is_held, is_dropped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        stage.witness.before_each_batch({
            let (is_held, is_dropped) = (Arc::clone(&is_held), Arc::clone(&is_dropped));
            move || {
                is_held.store(true, Ordering::SeqCst);
                until("the claim is dropped meanwhile", || is_dropped.load(Ordering::SeqCst));
            }
        });
        let claim = stage.kept("job");
        until("a renewal is on its way", || is_held.load(Ordering::SeqCst));
        drop(claim);
        is_dropped.store(true, Ordering::SeqCst);
        stage.let_renewals_come();
        assert_eq!(stage.witness.renewals("job"), 1, "{}", stage.name);
        assert_eq!(stage.store.metrics().renewal_failures, 0, "{}", stage.name);
    });
}

#[test]
fn a_completion_that_is_refused_has_ended_the_renewing_and_it_can_be_asked_for_again() {
    on_every_stage(|stage| {
        let too_large = StoredResponse::new(200).with_body(vec![0; 2 * 1024 * 1024]);
        let refused = stage.kept("too large").complete(too_large).expect_err("a reply that is too large");
        let no_retention = stage.kept("no retention").complete_for(Duration::ZERO, Reply::Marker);
        for refused in [refused, no_retention.expect_err("a retention of zero")] {
            let (_, claim, _) = refused.into_parts();
            let name = claim.key().as_str();
            let renewals = stage.witness.renewals(name);
            stage.let_renewals_come();
            assert_eq!(stage.witness.renewals(name), renewals, "{}: {name}", stage.name);

            claim.keep_alive(FOR_EVER).expect("a thread");
            stage.until_renewed(name, 2);
            stage.clock.advance(LEASE.saturating_sub(Duration::from_millis(1)));
            assert_eq!(stage.ask(name).name(), "in progress");
            assert!(!claim.is_lost());
            claim.complete(Reply::Marker).expect("a claim that stands");
        }
    });
}

#[test]
fn a_ticket_that_was_made_of_a_kept_claim_is_renewed_by_nobody() {
    on_every_stage(|stage: Stage| {
        let claim = stage.kept("job");
        stage.until_renewed("job", 1);
        let ticket = claim.into_ticket();
        let renewals = stage.witness.renewals("job");
        stage.let_renewals_come();
        assert_eq!(stage.witness.renewals("job"), renewals, "{}", stage.name);
        stage.clock.advance(LEASE);
        assert!(stage.claim("job").is_takeover());
        assert!(matches!(stage.store.resume(ticket), Err(Error::ClaimLost(_))));
    });
}

#[test]
fn claims_of_every_handle_are_kept_alive_by_one_renewer() {
    on_every_stage(|stage| {
        let other = with_lease(&stage.store.erase(), LEASE * 2);
        fn claim<B: Backend>(store: &IdempotencyStore<B>, name: &str) -> Claim {
            store.try_claim(&scope("tenant"), &key(name), &asks_for("it")).expect("an answer").claimed()
        }
        let claims =
            [claim(&stage.store, "one"), claim(&other, "other"), claim(&stage.store.clone(), "third")];
        claims.iter().for_each(|claim| claim.keep_alive(FOR_EVER).expect("a thread"));
        claims.iter().for_each(|claim| stage.until_renewed(claim.key().as_str(), 2));
        let threads = stage.witness.threads();
        assert!(threads.iter().all(|thread| *thread == threads[0] && *thread != thread::current().id()));
    });
}
