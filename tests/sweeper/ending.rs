//! How a sweeper ends: soon, for certain, and with the store given back.

use crate::common::{Fixture, on, on_every_backend, secs};
use crate::support::{
    AT_ONCE, Hooked, RARELY, claim_many, comes_true, let_another_sweeper_run, until, until_it_has_run,
};
use idempotency::{
    Backend, BackendError, Command, IdempotencyStore, Outcome, Record, RecordId, StoreId, Sweeper, Swept,
    Timestamp, testing::FaultyBackend,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

/// What `work` comes to on a thread of its own: if it never ends, the test fails instead of standing still.
#[track_caller]
fn ends<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = thread::spawn(work);
    until(what, || thread.is_finished());
    thread.join().expect("a thread that ends well")
}

#[test]
fn once_it_is_dropped_it_makes_no_call_and_does_not_hold_the_store_open() {
    on_every_backend(|fixture| {
        let backend = Arc::new(FaultyBackend::new(Arc::clone(fixture.store.backend())));
        for round in 0..20 {
            let store = IdempotencyStore::new(Arc::clone(&backend));
            let sweeper = store.spawn_sweeper(AT_ONCE);
            drop(store);
            let before = backend.calls();
            until("a sweep of a store that has no other handle", || backend.calls() > before);
            if round % 2 == 0 {
                drop(sweeper);
            } else {
                sweeper.stop();
            }
            let (calls, holders) = (backend.calls(), Arc::strong_count(&backend));
            assert_eq!(holders, 1, "{}, round {round}: it still holds the store", fixture.name);
            if round == 0 {
                let_another_sweeper_run();
                assert_eq!(backend.calls(), calls, "{}: it still sweeps", fixture.name);
            }
        }
    });
}

/// Keeps each batch waiting until the sweeper is being dropped, and for a while.
#[derive(Default)]
struct Held {
    is_dropping: AtomicBool,
    is_dropped: AtomicBool,
    batches: AtomicUsize,
    /// Batches that went on when the sweeper had been dropped.
    outlived: AtomicUsize,
}

impl Held {
    fn batch(&self) {
        /// Right code passes however small this is: it is how long wrong code gets to be dropped too early.
        const PATIENCE: usize = 5_000;
        self.batches.fetch_add(1, Ordering::SeqCst);
        assert!(comes_true(|| self.is_dropping.load(Ordering::SeqCst)), "nobody drops it");
        (0..PATIENCE).for_each(|_| thread::yield_now());
        self.outlived.fetch_add(usize::from(self.is_dropped.load(Ordering::SeqCst)), Ordering::SeqCst);
    }
}

#[test]
fn dropping_it_waits_for_the_batch_in_hand() {
    on_every_backend(|fixture| {
        let held = Arc::new(Held::default());
        let hook = {
            let held = Arc::clone(&held);
            move || held.batch()
        };
        let sweeper = on(Hooked::new(fixture.store.backend(), hook)).spawn_sweeper(AT_ONCE);
        until("a batch is in hand", || held.batches.load(Ordering::SeqCst) > 0);
        held.is_dropping.store(true, Ordering::SeqCst);
        drop(sweeper);
        held.is_dropped.store(true, Ordering::SeqCst);
        let batches = held.batches.load(Ordering::SeqCst);
        let_another_sweeper_run();
        assert_eq!(held.outlived.load(Ordering::SeqCst), 0, "{}", fixture.name);
        assert_eq!(held.batches.load(Ordering::SeqCst), batches, "{}: it still sweeps", fixture.name);
    });
}

/// A store whose expired records never come to an end.
#[derive(Debug)]
struct Endless {
    id: StoreId,
    batches: AtomicUsize,
    largest: AtomicUsize,
}

impl Backend for Endless {
    fn execute(&self, _: &RecordId, _: &Command) -> Result<Outcome, BackendError> {
        Err(BackendError::unavailable())
    }

    fn read(&self, _: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        Err(BackendError::unavailable())
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        self.batches.fetch_add(1, Ordering::SeqCst);
        self.largest.fetch_max(limit, Ordering::SeqCst);
        Ok(Swept { removed: limit, more: true })
    }

    fn store_id(&self) -> StoreId {
        self.id
    }
}

#[test]
fn a_run_that_finds_more_and_more_asks_for_a_thousand_at_a_time_and_ends_with_the_batch_in_hand() {
    let endless =
        Endless { id: StoreId::random(), batches: AtomicUsize::new(0), largest: AtomicUsize::new(0) };
    let store = IdempotencyStore::new(endless);
    let sweeper = store.spawn_sweeper(AT_ONCE);
    let batches = || store.backend().batches.load(Ordering::SeqCst);
    until("many batches of one run", || batches() > 1_000);
    assert_eq!(sweeper.runs(), 0);
    assert!(sweeper.removed() >= 1_000_000, "{sweeper:?}");
    ends("the sweeper's end", move || sweeper.stop());
    let at_the_end = batches();
    let_another_sweeper_run();
    assert_eq!(batches(), at_the_end);
    assert_eq!(store.backend().largest.load(Ordering::SeqCst), 1_000);
}

#[test]
fn dropping_one_that_rests_does_not_wait_for_its_next_run() {
    on_every_backend(|fixture| {
        for _ in 0..20 {
            let sweeper = fixture.store.spawn_sweeper(RARELY);
            ends("the end of a sweeper that rests", move || drop(sweeper));
        }
    });
}

/// Their ends fall everywhere: before the first wait, between two looks, in the middle of a run.
#[test]
fn sweepers_that_are_started_and_dropped_by_many_threads_all_end() {
    const THREADS: usize = 8;
    const EACH: usize = 100;
    on_every_backend(|fixture| {
        let (store, barrier) = (fixture.store.clone(), Barrier::new(THREADS));
        ends("the end of all sweepers", move || {
            thread::scope(|scope| {
                for number in 0..THREADS {
                    let (store, barrier) = (&store, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        for round in 0..EACH {
                            let sweeper =
                                store.spawn_sweeper(if (number + round) % 2 == 0 { RARELY } else { AT_ONCE });
                            assert!(sweeper.is_running(), "{sweeper:?}");
                            if round % 10 == 0 && (number + round) % 2 == 1 {
                                until_it_has_run(&sweeper, 1);
                            }
                        }
                    });
                }
            });
        });
    });
}

#[test]
fn one_that_is_dropped_on_its_own_thread_ends_by_itself() {
    on_every_backend(|fixture| {
        claim_many(&fixture.store_with(secs(10), secs(10)), "key", 3);
        fixture.at(20);
        let kept: Arc<Mutex<Option<Sweeper>>> = Arc::default();
        let dropped = Arc::new(AtomicUsize::new(0));
        let hook = {
            let (kept, dropped) = (Arc::clone(&kept), Arc::clone(&dropped));
            move || {
                let sweeper = kept.lock().expect("nobody panics while it is held").take();
                let is_there = sweeper.is_some();
                drop(sweeper);
                dropped.fetch_add(usize::from(is_there), Ordering::SeqCst);
            }
        };
        let backend = Arc::new(Hooked::new(fixture.store.backend(), hook));
        let store = IdempotencyStore::new(Arc::clone(&backend));
        let mut slot = kept.lock().expect("nobody panics while it is held");
        *slot = Some(store.spawn_sweeper(AT_ONCE));
        drop((slot, store));
        until("the thread has ended, and let go of the store", || Arc::strong_count(&backend) == 1);
        assert_eq!(dropped.load(Ordering::SeqCst), 1, "{}: it has come back from there", fixture.name);
        assert_eq!(fixture.store.sweep(10).expect("a sweep").removed, 0, "the batch in hand was finished");
    });
}

#[test]
fn one_that_is_dropped_while_its_thread_panics_ends_as_well() {
    let fixture = Fixture::in_memory();
    let sweeper = fixture.store.spawn_sweeper(RARELY);
    let unwound = thread::spawn(move || {
        let _held = sweeper;
        panic!("on purpose");
    });
    until("the end of a thread that held a sweeper", || unwound.is_finished());
    assert!(unwound.join().is_err());
    assert!(fixture.store.sweep(1).is_ok());
}
