//! A sweeper whose runs fail: it says so, and goes on.

use crate::common::{START, on, on_every_backend, secs};
use crate::panicking::Panicking;
use crate::support::{AT_ONCE, Hooked, claim_many, until, until_it_has_run};
use idempotency::testing::{Fault, FaultyBackend};
use idempotency::{DynStore, Error, IdempotencyStore, ManualClock, MemoryBackend, MemoryOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn runs_that_fail_are_counted_and_the_next_one_comes_as_usual() {
    on_every_backend(|fixture| {
        claim_many(&fixture.store_with(secs(10), secs(10)), "key", 12);
        fixture.at(20);
        let store = IdempotencyStore::new(FaultyBackend::new(Arc::clone(fixture.store.backend())));
        store.backend().fail(Fault::Before, 0, 3);
        let sweeper = store.spawn_sweeper(AT_ONCE);
        until("all that has expired is gone", || sweeper.removed() == 12);
        until_it_has_run(&sweeper, 2);
        assert_eq!(sweeper.failures(), 3, "{}", fixture.name);
        assert!(sweeper.runs() > 3 && sweeper.last_error().is_none() && sweeper.is_running(), "{sweeper:?}");

        store.backend().fail(Fault::Before, 0, usize::MAX);
        until_it_has_run(&sweeper, 3);
        assert!(matches!(sweeper.last_error(), Some(Error::Unavailable(Some(_)))), "{sweeper:?}");
        assert!(sweeper.failures() >= 6, "{sweeper:?}");

        store.backend().fail(Fault::Before, 0, 0);
        until("a run that succeeds", || sweeper.last_error().is_none());
        let failures = sweeper.failures();
        until_it_has_run(&sweeper, 2);
        assert_eq!(sweeper.failures(), failures, "{}", fixture.name);
    });
}

/// What was removed before is counted, and stays removed.
#[test]
fn a_run_that_fails_half_way_has_removed_what_it_had_removed_by_then() {
    on_every_backend(|fixture| {
        claim_many(&fixture.store_with(secs(10), secs(10)), "key", 1_500);
        fixture.at(20);
        let store = IdempotencyStore::new(FaultyBackend::new(Arc::clone(fixture.store.backend())));
        store.backend().fail(Fault::Before, 1, usize::MAX);
        let sweeper = store.spawn_sweeper(AT_ONCE);
        until("a failure", || sweeper.failures() > 0);
        assert_eq!(sweeper.removed(), 1_000, "{}", fixture.name);
        store.backend().fail(Fault::Before, 0, 0);
        until("all that has expired is gone", || sweeper.removed() == 1_500);
    });
}

#[test]
fn a_backend_that_panics_is_counted_and_the_thread_goes_on() {
    on_every_backend(|fixture| {
        claim_many(&fixture.store_with(secs(10), secs(10)), "key", 12);
        fixture.at(20);
        let panics = Arc::new(AtomicBool::new(true));
        let hook = {
            let panics = Arc::clone(&panics);
            move || assert!(!panics.load(Ordering::SeqCst), "on purpose")
        };
        let sweeper = on(Hooked::new(fixture.store.backend(), hook)).spawn_sweeper(AT_ONCE);
        goes_on_after_panics(&sweeper, || panics.store(false, Ordering::SeqCst));
    });
}

/// It panics in the midst of the backend, under its lock.
#[test]
fn a_clock_that_panics_is_counted_and_the_thread_goes_on() {
    let test = |open: &dyn Fn(Panicking) -> DynStore| {
        let clock = Panicking { clock: ManualClock::new(START), panics: Arc::default() };
        let store = open(clock.clone());
        let short = idempotency::Policy::new().with_lease(secs(10)).with_retention(secs(10));
        claim_many(&store.with_policy(short).expect("a usable policy"), "key", 12);
        clock.clock.advance(secs(20));
        clock.panics.store(true, Ordering::SeqCst);
        let sweeper = store.spawn_sweeper(AT_ONCE);
        goes_on_after_panics(&sweeper, || clock.panics.store(false, Ordering::SeqCst));
        assert!(store.sweep(1).is_ok());
    };
    test(&|clock| on(MemoryBackend::new(MemoryOptions::new().with_clock(clock))));
    #[cfg(feature = "sqlite")]
    {
        let folder = tempfile::tempdir().expect("a temporary folder");
        test(&|clock| {
            let options = idempotency::SqliteOptions::new().with_clock(clock);
            let path = folder.path().join("store.db");
            on(idempotency::SqliteBackend::open(path, options).expect("a fresh store"))
        });
    }
}

/// All that the store of `sweeper` has expired are 12 records.
#[track_caller]
fn goes_on_after_panics(sweeper: &idempotency::Sweeper, end: impl FnOnce()) {
    until_it_has_run(sweeper, 3);
    assert!(sweeper.failures() >= 3 && sweeper.removed() == 0, "{sweeper:?}");
    assert!(matches!(sweeper.last_error(), Some(Error::Indefinite(_))), "{sweeper:?}");
    end();
    until("all that has expired is gone", || sweeper.removed() == 12);
    until_it_has_run(sweeper, 1);
    assert!(sweeper.last_error().is_none() && sweeper.is_running(), "{sweeper:?}");
}
