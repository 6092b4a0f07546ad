//! The answers of `run` where the work is not run, and the kinds of store that it runs on.

use crate::common::{Fixture, asks_for, on, on_every_backend, secs};
use crate::support::{
    a_key, a_print, a_scope, claim, executed, must_run, no_work, replayed, reply, run, stored, watched,
};
use idempotency::testing::Fault;
use idempotency::{
    Backend, Error, IdempotencyStore, ManualClock, MemoryBackend, MemoryOptions, Policy, Ran, RunError,
    State, Timestamp,
};
use std::convert::Infallible;
use std::sync::Arc;

#[test]
fn a_key_that_is_claimed_is_in_progress_and_its_record_stays_as_it_is() {
    on_every_backend(|fixture| {
        let owner = claim(&fixture.store);
        let before = stored(fixture);
        fixture.at(89);
        let store = watched(fixture, Policy::new());
        let ran = run(&store, no_work).expect("an answer");
        assert_eq!((ran.reply(), ran.suggested_status()), (None, Some(409)), "{}", fixture.name);
        let Ran::InProgress(running) = ran else { panic!("{}: {ran:?}", fixture.name) };
        assert_eq!((running.attempt, running.lease_until), (1, owner.lease_until()), "{}", fixture.name);
        assert_eq!(running.retry_after, secs(1), "{}", fixture.name);
        assert_eq!((store.backend().calls(), stored(fixture)), (1, before), "{}", fixture.name);
        let metrics = store.metrics();
        assert_eq!((metrics.in_progress, metrics.failed_runs), (1, 0), "{}", fixture.name);
    });
}

#[test]
fn a_completed_key_is_replayed_and_its_record_stays_as_it_is() {
    on_every_backend(|fixture| {
        let done = claim(&fixture.store).complete(reply(503)).expect("a claim that stands");
        let before = stored(fixture);
        let store = watched(fixture, Policy::new());
        fixture.at(24 * 60 * 60 - 1);
        let ran = run(&store, no_work).expect("an answer");
        assert_eq!((ran.reply(), ran.suggested_status()), (Some(&reply(503)), Some(503)), "{}", fixture.name);
        assert!(matches!(&ran, Ran::Replayed(replayed) if *replayed == done), "{}: {ran:?}", fixture.name);
        assert_eq!((store.backend().calls(), stored(fixture)), (1, before), "{}", fixture.name);
        assert_eq!(store.metrics().replays, 1, "{}", fixture.name);
        fixture.at(24 * 60 * 60);
        must_run(&store, 1, reply(201));
    });
}

#[test]
fn another_request_under_the_key_is_a_mismatch_in_every_state_and_changes_nothing() {
    on_every_backend(|fixture| {
        let store = watched(fixture, Policy::new());
        let mismatch = |state| {
            let before = stored(fixture);
            let ran = store.run(&a_scope(), &a_key(), &asks_for("something else"), no_work);
            let ran = ran.expect("an answer");
            assert_eq!((ran.reply(), ran.suggested_status()), (None, Some(422)), "{}", fixture.name);
            assert!(
                matches!(&ran, Ran::FingerprintMismatch(m) if m.state == state),
                "{}: {ran:?}",
                fixture.name
            );
            assert_eq!(stored(fixture), before, "{}", fixture.name);
        };
        let owner = claim(&fixture.store);
        mismatch(State::InProgress);
        fixture.at(90);
        mismatch(State::InProgress);
        owner.complete(reply(201)).expect("a claim that nobody took over");
        mismatch(State::Completed);
        assert_eq!(store.backend().calls(), 3, "{}", fixture.name);
        assert_eq!(store.metrics().mismatches, 3, "{}", fixture.name);
    });
}

/// Case 59. Nor is the claim handed to anybody where nobody knows whether it was granted.
#[test]
fn a_store_that_fails_runs_no_work() {
    on_every_backend(|fixture| {
        let store = watched(fixture, Policy::new());
        store.backend().fail(Fault::Before, 0, 1);
        let failed = run(&store, no_work).expect_err("a store that is down");
        assert!(matches!(failed, RunError::Store(Error::Unavailable(_))), "{}: {failed:?}", fixture.name);
        assert!(failed.is_transient() && !failed.is_indefinite(), "{}", fixture.name);
        assert_eq!(stored(fixture).record, None, "{}", fixture.name);

        store.backend().fail(Fault::After, 0, 1);
        let failed = run(&store, no_work).expect_err("a lost answer");
        assert!(matches!(failed, RunError::Store(Error::Indefinite(_))), "{}: {failed:?}", fixture.name);
        assert!(failed.is_indefinite() && !failed.is_transient(), "{}", fixture.name);
        let again = run(&store, no_work);
        assert!(matches!(again, Ok(Ran::InProgress(_))), "{}: it was granted: {again:?}", fixture.name);

        fixture.at(90);
        must_run(&store, 2, reply(201));
        let metrics = store.metrics();
        assert_eq!((metrics.errors.total(), metrics.failed_runs), (2, 0), "{}", fixture.name);
    });
}

#[test]
fn a_clock_that_can_not_be_believed_runs_no_work() {
    on_every_backend(|fixture| {
        fixture.clock.set(Timestamp::from_millis(-1));
        let failed = run(&fixture.store, no_work).expect_err("a clock before 1970");
        assert!(matches!(failed, RunError::Store(Error::Clock(_))), "{}: {failed:?}", fixture.name);
    });
}

#[test]
fn a_full_store_runs_no_new_work_and_takes_the_replies_of_what_runs() {
    let store = IdempotencyStore::new(MemoryBackend::new(MemoryOptions::new().with_max_records(1)));
    let ran = run(&store, |_| {
        let other = crate::common::key("other");
        let full = store.run(&a_scope(), &other, &a_print(), no_work).expect_err("a store that is full");
        assert!(matches!(full, RunError::Store(Error::Full(_))), "{full:?}");
        Ok::<_, Infallible>(reply(201))
    });
    assert_eq!(executed(ran).reply, reply(201));
}

#[cfg(feature = "sqlite")]
#[test]
fn inside_atomic_work_of_the_same_store_nothing_is_run_and_nothing_waits() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = IdempotencyStore::open(folder.path().join("store.db")).expect("a store");
    let (outer, max_wait) = (crate::common::key("outer"), std::time::Duration::MAX);
    let ran = store.atomically(&a_scope(), &outer, &a_print(), |_| {
        let inner = run(&store, no_work).expect_err("it would wait for itself");
        assert!(matches!(inner, RunError::Store(Error::Reentrant)), "{inner:?}");
        let waited = store.claim_or_wait(&a_scope(), &outer, &a_print(), max_wait);
        assert!(matches!(waited, Err(Error::Reentrant)), "{waited:?}");
        Ok::<_, Infallible>(reply(201))
    });
    assert_eq!(executed(ran).reply, reply(201));
}

fn runs_once<B: Backend>(store: &IdempotencyStore<B>) {
    let done = must_run(store, 1, reply(201));
    assert_eq!(replayed(run(store, no_work)), done);
    assert_eq!(replayed(run(&store.clone(), no_work)), done);
    assert_eq!(replayed(run(&store.erase(), no_work)), done);
    let waited = store.claim_or_wait(&a_scope(), &a_key(), &a_print(), secs(1));
    assert!(matches!(waited, Ok(idempotency::ClaimOutcome::Completed(waited)) if waited == done));
}

#[test]
fn work_is_run_on_stores_of_every_kind() {
    let clock = ManualClock::new(crate::common::START);
    let memory = || MemoryBackend::new(MemoryOptions::new().with_clock(clock.clone()));
    runs_once(&IdempotencyStore::in_memory());
    runs_once(&IdempotencyStore::new(memory()));
    runs_once(&IdempotencyStore::new(Arc::new(memory())));
    runs_once(&IdempotencyStore::new(Box::new(memory()) as Box<dyn Backend>));
    runs_once(&IdempotencyStore::new(Arc::new(memory()) as Arc<dyn Backend>));
    runs_once(&on(memory()).erase());
    on_every_backend(|fixture| runs_once(&fixture.store));
    #[cfg(feature = "sqlite")]
    {
        let file = Fixture::on_sqlite();
        let path = file.path().expect("a file");
        runs_once(&IdempotencyStore::open(path).expect("a store"));
    }
}

/// What the work captures and gives need not outlive the call, nor be shared between threads.
#[test]
fn work_may_borrow_and_give_whatever_it_likes() {
    on_every_backend(|fixture: &mut Fixture| {
        let local = std::rc::Rc::new(std::cell::Cell::new(0));
        let failed = run(&fixture.store, |_| {
            local.set(local.get() + 1);
            Err(std::rc::Rc::clone(&local))
        });
        let Err(RunError::Work(given)) = failed else { panic!("{}", fixture.name) };
        assert_eq!((given.get(), std::rc::Rc::strong_count(&local)), (1, 2), "{}", fixture.name);
    });
}
