//! The operations of a store, on each backend.

use crate::common::keys::Keys;
use crate::common::request::{Request, reply};
use crate::common::subjects::{Memory, Subject};
use crate::common::threads::{timed, timed_each};
use crate::{Run, THREADS, measure};
use criterion::Criterion;
use idempotency::{
    ClaimOutcome, Clock, Durability, ManualClock, MonotonicClock, Ran, Reply, RunError, SystemClock,
    Timestamp,
};
use std::convert::Infallible;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How many completed or running operations those that ask for them are spread over.
const ASKED_KEYS: usize = 64;
/// How many records one call of `sweep` removes.
const SWEEP_LIMIT: usize = 100;

pub fn measure_all(criterion: &mut Criterion, seed: u64) {
    measure_subject(
        criterion,
        "memory",
        &Operations { subject: &Memory, clock: MonotonicClock::new(), seed },
    );
    for (name, durability) in [("sqlite_full", Durability::Full), ("sqlite_normal", Durability::Normal)] {
        let operations = Operations { subject: &durability, clock: SystemClock, seed };
        measure_subject(criterion, name, &operations);
    }
}

fn measure_subject<S: Subject, C: Clock + Copy + 'static>(
    criterion: &mut Criterion,
    name: &str,
    operations: &Operations<'_, S, C>,
) {
    let runs: [(&str, &[usize], Run<'_>); 7] = [
        ("claim", &THREADS, Box::new(|threads, count| operations.claim(threads, count))),
        ("claim_and_complete", &THREADS, Box::new(|threads, count| operations.complete(threads, count))),
        ("run", &THREADS, Box::new(|threads, count| operations.run(threads, count))),
        ("replay", &THREADS, Box::new(|threads, count| operations.replay(threads, count))),
        ("in_progress", &THREADS, Box::new(|threads, count| operations.in_progress(threads, count))),
        ("contended_key", &THREADS, Box::new(|threads, count| operations.contended_key(threads, count))),
        ("sweep", &THREADS, Box::new(|threads, count| operations.sweep(threads, count))),
    ];
    measure(criterion, name, &runs);
}

/// Each of its methods says how long `threads` threads take for `count` operations on a fresh store.
struct Operations<'a, S, C> {
    subject: &'a S,
    /// What this backend has by default.
    clock: C,
    seed: u64,
}

impl<S: Subject, C: Clock + Copy + 'static> Operations<'_, S, C> {
    fn claim(&self, threads: usize, count: usize) -> Duration {
        let (opened, request, keys) = (self.subject.open(self.clock), Request::new(), self.keys(count));
        each(threads, count, |n| drop(request.claim(&opened.store, &keys[n])))
    }

    fn complete(&self, threads: usize, count: usize) -> Duration {
        let (opened, request, keys) = (self.subject.open(self.clock), Request::new(), self.keys(count));
        let reply = reply();
        each(threads, count, |n| drop(request.complete(&opened.store, &keys[n], reply.clone())))
    }

    /// Work that does nothing.
    fn run(&self, threads: usize, count: usize) -> Duration {
        let (opened, request, keys) = (self.subject.open(self.clock), Request::new(), self.keys(count));
        let reply = reply();
        each(threads, count, |n| {
            let ran: Result<Ran, RunError<Infallible>> =
                opened.store.run(&request.scope, &keys[n], &request.fingerprint, |_claim| {
                    Ok(Reply::from(reply.clone()))
                });
            assert!(matches!(ran, Ok(Ran::Executed(_))));
        })
    }

    fn replay(&self, threads: usize, count: usize) -> Duration {
        let (opened, request, keys) = (self.subject.open(self.clock), Request::new(), self.keys(ASKED_KEYS));
        keys.iter().for_each(|key| drop(request.complete(&opened.store, key, reply())));
        each(threads, count, |n| drop(black_box(request.replay(&opened.store, &keys[n % ASKED_KEYS]))))
    }

    fn in_progress(&self, threads: usize, count: usize) -> Duration {
        let (opened, request, keys) = (self.subject.open(self.clock), Request::new(), self.keys(ASKED_KEYS));
        request.fill(&opened.store, &keys);
        each(threads, count, |n| match request.ask(&opened.store, &keys[n % ASKED_KEYS]) {
            ClaimOutcome::InProgress(running) => drop(black_box(running)),
            other => panic!("wanted InProgress, got {other:?}"),
        })
    }

    /// All threads want one key. Who is granted it gives it back; the others hear that it is in progress.
    fn contended_key(&self, threads: usize, count: usize) -> Duration {
        let (opened, request, keys) = (self.subject.open(self.clock), Request::new(), self.keys(1));
        let granted = AtomicUsize::new(0);
        let elapsed = each(threads, count, |_| match request.ask(&opened.store, &keys[0]) {
            ClaimOutcome::Claimed(claim) => {
                granted.fetch_add(1, Ordering::Relaxed);
                claim.release().expect("the owner's release");
            }
            ClaimOutcome::InProgress(_) => {}
            other => panic!("neither Claimed nor InProgress: {other:?}"),
        });
        assert!(granted.into_inner() > 0);
        elapsed
    }

    /// `count` is the number of expired records. They are all swept, by all threads at once.
    fn sweep(&self, threads: usize, count: usize) -> Duration {
        let clock = ManualClock::new(Timestamp::from_millis(0));
        let (opened, request) = (self.subject.open(clock.clone()), Request::new());
        request.fill(&opened.store, &self.keys(count));
        clock.advance(opened.store.policy().lease() + opened.store.policy().retention());
        let removed = AtomicUsize::new(0);
        let elapsed = timed(&mut vec![(); threads], |()| {
            loop {
                let swept = opened.store.sweep(SWEEP_LIMIT).expect("a working store");
                removed.fetch_add(swept.removed, Ordering::Relaxed);
                if !swept.more {
                    break;
                }
            }
        });
        assert_eq!(removed.into_inner(), count);
        elapsed
    }

    fn keys(&self, count: usize) -> Vec<idempotency::IdempotencyKey> {
        Keys::new(self.seed).take(count)
    }
}

fn each(threads: usize, count: usize, operation: impl Fn(usize) + Sync) -> Duration {
    timed_each(&mut vec![(); threads], count, |(), number| operation(number))
}
