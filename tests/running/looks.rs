//! How often a waiter asks the store: counted, since a spin is an outage of everybody else's.

use crate::common::{Fixture, on_every_backend};
use crate::support::{Call, a_key, a_print, a_scope, claim, staged, stored};
use idempotency::{BackendError, ClaimOutcome, Policy};
use std::time::Duration;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The most looks that fit into `max_wait`: each pause is at least half of a bound that is 4 ms at first, then
/// twice the one before, up to 250 ms; and one begins only while there is time.
fn most_looks(max_wait: Duration) -> usize {
    let (mut looks, mut began, mut bound) = (0, Duration::ZERO, ms(4));
    while began < max_wait {
        looks += 1;
        began += bound / 2;
        bound = (bound * 2).min(ms(250));
    }
    looks
}

/// As a stage before looks: refuses more of them than fit into `max_wait`, so that a spin ends.
fn no_more_than_fit(max_wait: Duration, call: Call) -> Result<(), BackendError> {
    match call {
        Call::Look(number) if number > most_looks(max_wait) => Err(BackendError::bug("looked at too often")),
        _ => Ok(()),
    }
}

/// Waits for `max_wait` in vain; the store's clock stands still.
fn wait_in_vain(fixture: &Fixture, policy: Policy, max_wait: Duration) {
    let before = stored(fixture);
    let store = staged(fixture, move |call| no_more_than_fit(max_wait, call));
    let store = store.with_policy(policy).expect("a usable policy");
    let answer = store.claim_or_wait(&a_scope(), &a_key(), &a_print(), max_wait).expect("few enough looks");
    assert!(matches!(answer, ClaimOutcome::InProgress(_)), "{}: {answer:?}", fixture.name);
    assert_eq!(store.backend().commands(), 1, "{}: only the first question is a command", fixture.name);
    assert_eq!(stored(fixture), before, "{}", fixture.name);
}

#[test]
fn the_bound_on_looks_is_that_of_a_back_off() {
    assert_eq!([0, 1, 2, 3, 6, 7, 30].map(|max| most_looks(ms(max))), [0, 1, 1, 2, 2, 3, 4]);
    assert_eq!([126, 127, 251, 252, 1_000].map(|max| most_looks(ms(max))), [6, 7, 7, 8, 13]);
}

#[test]
fn a_wait_of_no_time_asks_once() {
    on_every_backend(|fixture| {
        let _owner = claim(&fixture.store);
        let store = staged(fixture, |call| no_more_than_fit(Duration::ZERO, call));
        let answer =
            store.claim_or_wait(&a_scope(), &a_key(), &a_print(), Duration::ZERO).expect("an answer");
        assert!(matches!(answer, ClaimOutcome::InProgress(_)), "{}: {answer:?}", fixture.name);
        assert_eq!((store.backend().commands(), store.backend().looks()), (1, 0), "{}", fixture.name);
    });
}

#[test]
fn a_waiter_backs_off_and_only_looks() {
    on_every_backend(|fixture| {
        let _owner = claim(&fixture.store);
        for max_wait in [ms(1), ms(20), ms(400)] {
            wait_in_vain(fixture, Policy::new(), max_wait);
        }
    });
}

/// Hints are for clients.
#[test]
fn a_policy_that_has_clients_ask_again_at_once_does_not_make_a_waiter_spin() {
    on_every_backend(|fixture| {
        let _owner = claim(&fixture.store);
        for hint in [Duration::ZERO, ms(1), Duration::MAX] {
            wait_in_vain(fixture, Policy::new().with_retry_after(hint), ms(300));
        }
    });
}

/// By the machine's time it is long over: only the store's clock counts, and it does not make a waiter spin.
#[test]
fn a_lease_that_is_about_to_end_by_a_clock_that_stands_does_not_make_a_waiter_spin() {
    on_every_backend(|fixture| {
        let owner = claim(&fixture.store);
        fixture.clock.set(owner.lease_until().saturating_sub(ms(1)));
        wait_in_vain(fixture, Policy::new(), ms(300));
    });
}

#[test]
fn a_lease_that_is_shorter_than_the_pauses_does_not_make_a_waiter_spin() {
    on_every_backend(|fixture| {
        let hasty = fixture.store_with(ms(1), ms(1_000));
        let mut owner = claim(&hasty);
        // Renewed at each look, just in time.
        let clock = fixture.clock.clone();
        let store = staged(fixture, move |call| {
            if matches!(call, Call::Look(_)) {
                clock.advance(ms(1));
                owner.renew().expect("a claim that stands");
            }
            no_more_than_fit(ms(300), call)
        });
        let answer =
            store.claim_or_wait(&a_scope(), &a_key(), &a_print(), ms(300)).expect("few enough looks");
        assert!(matches!(answer, ClaimOutcome::InProgress(_)), "{}: {answer:?}", fixture.name);
        assert_eq!(store.backend().commands(), 1, "{}", fixture.name);
    });
}

/// Whoever is always too late asks to write once for each look that found the claim to be had.
#[test]
fn a_waiter_that_is_always_too_late_does_not_ask_more_often_for_it() {
    on_every_backend(|fixture| {
        let (plain, mut owner) = (fixture.store.clone(), Some(claim(&fixture.store)));
        let store = staged(fixture, move |call| {
            match call {
                Call::Look(_) => owner.take().expect("an owner").abandon().expect("a claim that stands"),
                Call::Command(1) => {}
                Call::Command(_) => owner = Some(claim(&plain)),
            }
            no_more_than_fit(ms(300), call)
        });
        let answer =
            store.claim_or_wait(&a_scope(), &a_key(), &a_print(), ms(300)).expect("few enough looks");
        let ClaimOutcome::InProgress(running) = answer else { panic!("{}: {answer:?}", fixture.name) };
        let (looks, commands) = (store.backend().looks(), store.backend().commands());
        assert_eq!(commands, looks + 1, "{}", fixture.name);
        assert_eq!(usize::try_from(running.attempt), Ok(commands), "{}", fixture.name);
    });
}
