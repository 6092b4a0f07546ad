//! `claim_or_wait`: how the waiting ends, by what happens before which look. `looks.rs` has how often it looks,
//! and `waiters.rs` many that wait.

use crate::common::{Answer, Fixture, START, asks_for, on_every_backend, secs};
use crate::support::{
    Call, StagedStore, a_key, a_print, a_scope, claim, must_run, reply, staged, stored, try_claim,
};
use idempotency::{BackendError, Claim, ClaimOutcome, DynStore, Error, ManualClock, Metrics};
use std::time::Duration;

/// Far more than any of it takes. Who gives up fails the test.
const LONG: Duration = Duration::from_secs(120);

fn wait(store: &StagedStore, max_wait: Duration) -> Result<ClaimOutcome, Error> {
    store.claim_or_wait(&a_scope(), &a_key(), &a_print(), max_wait)
}

/// Waits, for as long as it takes, for somebody's claim, to whom `happens` something before the second look.
/// Gives the answer, which must come by that look and `commands`, and the store that was waited on.
#[track_caller]
fn wait_while(
    fixture: &Fixture,
    commands: usize,
    happens: impl FnOnce(Claim, &DynStore, &ManualClock) -> Result<(), Error> + Send + 'static,
) -> (ClaimOutcome, StagedStore) {
    let mut owner = claim(&fixture.store);
    owner.save_checkpoint("half-way").expect("a claim that stands");
    let (plain, clock) = (fixture.store.clone(), fixture.clock.clone());
    let mut happens = Some(move || happens(owner, &plain, &clock));
    let store = staged(fixture, move |call| {
        if call == Call::Look(2) {
            let happens = happens.take().expect("one second look");
            happens().expect("a claim that stands");
        }
        Ok(())
    });
    let answer = wait(&store, LONG).expect("an answer");
    assert_eq!((store.backend().looks(), store.backend().commands()), (2, commands), "{}", fixture.name);
    (answer, store)
}

fn counted(change: impl FnOnce(&mut Metrics)) -> Metrics {
    let mut metrics = Metrics::default();
    metrics.in_progress = 1;
    change(&mut metrics);
    metrics
}

#[test]
fn a_reply_that_comes_while_somebody_waits_is_the_answer() {
    on_every_backend(|fixture| {
        let (answer, store) =
            wait_while(fixture, 1, |owner, _, _| Ok(owner.complete(reply(201)).map(drop)?));
        let done = answer.completed();
        assert_eq!(done.reply, reply(201), "{}", fixture.name);
        assert_eq!(done, try_claim(&fixture.store).expect("an answer").completed(), "{}", fixture.name);
        assert_eq!(store.metrics(), counted(|metrics| metrics.replays = 1), "{}", fixture.name);
    });
}

#[test]
fn a_wait_without_an_end_ends_with_the_reply() {
    on_every_backend(|fixture| {
        let mut owner = Some(claim(&fixture.store));
        let store = staged(fixture, move |call| {
            if call == Call::Look(1) {
                let owner: Claim = owner.take().expect("one first look");
                owner.complete(reply(201)).expect("a claim that stands");
            }
            Ok(())
        });
        let answer = wait(&store, Duration::MAX).expect("an answer");
        assert_eq!(answer.completed().reply, reply(201), "{}", fixture.name);
    });
}

#[test]
fn a_claim_that_is_released_while_somebody_waits_is_theirs_as_a_first_attempt() {
    on_every_backend(|fixture| {
        let (answer, store) = wait_while(fixture, 2, |owner, _, _| owner.release());
        let claim = answer.claimed();
        assert_eq!((claim.attempt(), claim.checkpoint()), (1, None), "{}", fixture.name);
        assert_eq!(store.metrics(), counted(|metrics| metrics.claims = 1), "{}", fixture.name);
        claim.complete(reply(201)).expect("a claim that stands");
    });
}

#[test]
fn a_claim_that_is_abandoned_while_somebody_waits_is_theirs_by_a_takeover() {
    on_every_backend(|fixture| {
        let (answer, store) = wait_while(fixture, 2, |owner, _, _| owner.abandon());
        let claim = answer.claimed();
        assert_eq!((claim.attempt(), claim.is_takeover()), (2, true), "{}", fixture.name);
        assert_eq!(
            claim.checkpoint().map(|saved| &saved[..]),
            Some(b"half-way".as_slice()),
            "{}",
            fixture.name
        );
        assert_eq!(store.metrics(), counted(|metrics| metrics.takeovers = 1), "{}", fixture.name);
        claim.complete(reply(201)).expect("a claim that stands");
    });
}

#[test]
fn a_claim_whose_lease_ends_while_somebody_waits_is_theirs_by_a_takeover() {
    on_every_backend(|fixture| {
        let (answer, _) = wait_while(fixture, 2, |owner, _, clock| {
            clock.set(owner.lease_until());
            Ok(())
        });
        let claim = answer.claimed();
        assert_eq!(
            (claim.attempt(), claim.lease_until()),
            (2, START.saturating_add(secs(180))),
            "{}",
            fixture.name
        );
    });
}

#[test]
fn an_operation_that_is_forgotten_while_somebody_waits_is_theirs_as_a_first_attempt() {
    on_every_backend(|fixture| {
        let (answer, _) =
            wait_while(fixture, 2, |owner, store, _| store.forget(owner.scope(), owner.key()).map(drop));
        assert_eq!(answer.claimed().attempt(), 1, "{}", fixture.name);
    });
}

#[test]
fn a_record_that_expires_between_two_looks_is_no_record() {
    on_every_backend(|fixture| {
        let (answer, _) = wait_while(fixture, 2, |owner, _, clock| {
            clock.set(owner.lease_until().saturating_add(secs(24 * 60 * 60)));
            Ok(())
        });
        assert_eq!(answer.claimed().attempt(), 1, "{}: a claim", fixture.name);
        fixture.store.forget(&a_scope(), &a_key()).expect("a store");

        fixture.at(0);
        let (answer, _) = wait_while(fixture, 2, |owner, _, clock| {
            let done = owner.complete(reply(201))?;
            clock.set(done.expires_at);
            Ok(())
        });
        assert_eq!(answer.claimed().attempt(), 1, "{}: a reply", fixture.name);
    });
}

#[test]
fn another_request_that_gets_the_key_while_somebody_waits_is_a_mismatch() {
    on_every_backend(|fixture| {
        let (answer, store) = wait_while(fixture, 1, |owner, store, _| {
            owner.release()?;
            drop(store.try_claim(&a_scope(), &a_key(), &asks_for("something else"))?.claimed());
            Ok(())
        });
        assert_eq!(answer.name(), "mismatch", "{}", fixture.name);
        assert_eq!(store.metrics(), counted(|metrics| metrics.mismatches = 1), "{}", fixture.name);
    });
}

/// The clock of the store stands at the lease's last millisecond, then at its end.
#[test]
fn a_claim_is_not_taken_over_a_millisecond_early() {
    on_every_backend(|fixture| {
        let owner = claim(&fixture.store);
        let (clock, end) = (fixture.clock.clone(), owner.lease_until());
        let store = staged(fixture, move |call| {
            match call {
                Call::Look(1) => clock.set(end.saturating_sub(Duration::from_millis(1))),
                Call::Look(4) => clock.set(end),
                _ => {}
            }
            Ok(())
        });
        assert_eq!(wait(&store, LONG).expect("an answer").claimed().attempt(), 2, "{}", fixture.name);
        assert_eq!((store.backend().looks(), store.backend().commands()), (4, 2), "{}", fixture.name);
    });
}

#[test]
fn a_claim_that_is_renewed_in_time_is_waited_for_however_long_it_runs() {
    on_every_backend(|fixture| {
        let (clock, mut owner) = (fixture.clock.clone(), Some(claim(&fixture.store)));
        let store = staged(fixture, move |call| {
            let Call::Look(number) = call else { return Ok(()) };
            let mut held = owner.take().expect("an owner, until the last look");
            clock.advance(secs(89));
            if number == 6 {
                held.complete(reply(201)).expect("a claim that stands");
            } else {
                held.renew().expect("a claim that stands");
                owner = Some(held);
            }
            Ok(())
        });
        let done = wait(&store, LONG).expect("an answer").completed();
        assert_eq!((done.reply, done.created_at), (reply(201), START), "{}", fixture.name);
        assert_eq!((store.backend().looks(), store.backend().commands()), (6, 1), "{}", fixture.name);
    });
}

/// Who was quicker is waited for in turn.
#[test]
fn a_claim_that_somebody_else_gets_between_look_and_claim_is_not_granted_twice() {
    on_every_backend(|fixture| {
        let (plain, mut first) = (fixture.store.clone(), Some(claim(&fixture.store)));
        let mut quicker = None;
        let store = staged(fixture, move |call| {
            match call {
                Call::Look(1) => {
                    first.take().expect("the first claim").abandon().expect("a claim that stands");
                }
                Call::Command(2) => quicker = Some(claim(&plain)),
                Call::Look(3) => {
                    let quicker: Claim = quicker.take().expect("a claim");
                    assert_eq!(quicker.attempt(), 2);
                    quicker.complete(reply(201)).expect("a claim that stands");
                }
                _ => {}
            }
            Ok(())
        });
        assert_eq!(wait(&store, LONG).expect("an answer").completed().reply, reply(201), "{}", fixture.name);
        assert_eq!((store.backend().looks(), store.backend().commands()), (3, 2), "{}", fixture.name);
        let counted = counted(|metrics| (metrics.in_progress, metrics.replays) = (2, 1));
        assert_eq!(store.metrics(), counted, "{}", fixture.name);
    });
}

#[test]
fn what_is_answered_at_once_is_not_waited_for() {
    on_every_backend(|fixture| {
        let store = staged(fixture, |_| Ok(()));
        let first = wait(&store, LONG).expect("an answer").claimed();
        assert_eq!((first.attempt(), store.backend().commands()), (1, 1), "{}: a free key", fixture.name);
        let other = store.claim_or_wait(&a_scope(), &a_key(), &asks_for("something else"), LONG);
        assert_eq!(other.expect("an answer").name(), "mismatch", "{}", fixture.name);
        fixture.at(90);
        let second = wait(&store, LONG).expect("an answer").claimed();
        assert_eq!(
            (second.attempt(), store.backend().commands()),
            (2, 3),
            "{}: a lapsed claim",
            fixture.name
        );
        second.complete(reply(201)).expect("a claim that stands");
        wait(&store, LONG).expect("an answer").completed();
        assert_eq!((store.backend().looks(), store.backend().commands()), (0, 5), "{}", fixture.name);
    });
}

/// A staged error, by what it must come out as.
type Failure = (fn() -> BackendError, fn(&Error) -> bool);

const FAILURES: [Failure; 3] = [
    (BackendError::busy, |error| matches!(error, Error::Busy(_))),
    (BackendError::unavailable, |error| matches!(error, Error::Unavailable(_))),
    (BackendError::indefinite, |error| matches!(error, Error::Indefinite(_))),
];

/// Case 59: before the waiting, at a look, and at the claim after a look.
#[test]
fn the_first_error_of_the_store_ends_the_waiting() {
    on_every_backend(|fixture| {
        for (fails_with, is_it) in FAILURES {
            for fails_at in [Call::Command(1), Call::Look(1), Call::Look(3), Call::Command(2)] {
                fixture.at(0);
                let owner = claim(&fixture.store);
                let before = stored(fixture);
                let (clock, end) = (fixture.clock.clone(), owner.lease_until());
                let store = staged(fixture, move |call| {
                    if fails_at == Call::Command(2) && call == Call::Look(1) {
                        clock.set(end); // so that there is a second command
                    }
                    if call == fails_at { Err(fails_with()) } else { Ok(()) }
                });
                let error = wait(&store, LONG).expect_err("a store that fails");
                assert!(is_it(&error), "{}, {fails_at:?}: {error:?}", fixture.name);
                assert_eq!(store.metrics().errors.total(), 1, "{}, {fails_at:?}", fixture.name);
                assert_eq!(stored(fixture), before, "{}, {fails_at:?}", fixture.name);
                fixture.store.forget(&a_scope(), &a_key()).expect("a store");
            }
        }
    });
}

/// The waiting is over, and nothing of it is left: the owner completes as if nobody had waited.
#[test]
fn a_waiter_that_gives_up_leaves_the_owner_and_its_record_as_they_were() {
    on_every_backend(|fixture| {
        let owner = claim(&fixture.store);
        let before = stored(fixture);
        let store = staged(fixture, |_| Ok(()));
        for max_wait in
            [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(1), Duration::from_millis(50)]
        {
            let answer = wait(&store, max_wait).expect("an answer");
            let ClaimOutcome::InProgress(running) = answer else { panic!("{}: {answer:?}", fixture.name) };
            assert_eq!((running.attempt, running.lease_until), (1, owner.lease_until()), "{}", fixture.name);
            assert_eq!(running.retry_after, secs(1), "{}", fixture.name);
            assert_eq!(stored(fixture), before, "{}", fixture.name);
        }
        assert_eq!(store.metrics(), counted(|metrics| metrics.in_progress = 4), "{}", fixture.name);
        owner.complete(reply(201)).expect("a claim that stands");
        assert_eq!(wait(&store, Duration::ZERO).expect("an answer").completed().reply, reply(201));
    });
}

/// Waiting and running are one operation's two sides: who was granted the claim runs it.
#[test]
fn a_waiter_may_be_the_one_who_has_to_run_it() {
    on_every_backend(|fixture| {
        let (answer, _) = wait_while(fixture, 2, |owner, _, _| owner.abandon());
        answer.claimed().abandon().expect("a claim that stands");
        must_run(&fixture.store, 3, reply(201));
    });
}
