//! What the commands cost, on each backend, from one thread and from eight: `just bench`, or `cargo bench
//! --bench claim -- FILTER`.
//!
//! Each sample runs on a fresh store, and only the commands are timed, not what prepares them. SQLite's files
//! lie in the target folder: on a disk, not in a temporary folder that may be memory. Elements a second are
//! operations of all threads together.

use criterion::{BenchmarkId, Criterion, Throughput};
use idempotency::{
    Backend, Claim, ClaimOutcome, Clock, Completed, Fingerprint, IdempotencyKey, IdempotencyStore,
    ManualClock, MemoryBackend, MemoryOptions, MonotonicClock, Scope, StoredResponse, Timestamp,
};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const THREADS: [usize; 2] = [1, 8];
/// How many completed operations the replays are spread over.
const REPLAYED_KEYS: usize = 64;
/// How many records one call of `sweep` removes.
const SWEEP_LIMIT: usize = 100;
/// How many claims of a preparation share a transaction.
const FILL_BATCH: usize = 1_000;

/// A kind of store to measure.
trait Subject {
    type Backend: Backend;

    /// An empty store, and what must outlive it.
    fn open(&self, clock: impl Clock + 'static) -> Opened<Self::Backend>;
}

struct Opened<B: Backend> {
    store: IdempotencyStore<B>,
    #[cfg(feature = "sqlite")]
    _folder: Option<tempfile::TempDir>,
}

struct Memory;

impl Subject for Memory {
    type Backend = MemoryBackend;

    fn open(&self, clock: impl Clock + 'static) -> Opened<MemoryBackend> {
        Opened {
            store: IdempotencyStore::new(MemoryBackend::new(MemoryOptions::new().with_clock(clock))),
            #[cfg(feature = "sqlite")]
            _folder: None,
        }
    }
}

#[cfg(feature = "sqlite")]
impl Subject for idempotency::Durability {
    type Backend = idempotency::SqliteBackend;

    fn open(&self, clock: impl Clock + 'static) -> Opened<Self::Backend> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder for the file");
        let options = idempotency::SqliteOptions::new().with_clock(clock).with_durability(*self);
        let backend = Self::Backend::open(folder.path().join("bench.db"), options).expect("a fresh store");
        Opened { store: IdempotencyStore::new(backend), _folder: Some(folder) }
    }
}

/// A request as a service would have it: what is claimed, over and over.
struct Request {
    scope: Scope,
    fingerprint: Fingerprint,
}

impl Request {
    fn new() -> Self {
        Self {
            scope: Scope::new("acct_1/payments").expect("a valid scope"),
            fingerprint: Fingerprint::of_request("POST", "/payments", "", br#"{"amount": 500}"#),
        }
    }

    fn claim<B: Backend>(&self, store: &IdempotencyStore<B>, key: &IdempotencyKey) -> ClaimOutcome {
        store.try_claim(&self.scope, key, &self.fingerprint).expect("a working store")
    }

    fn claim_free<B: Backend>(&self, store: &IdempotencyStore<B>, key: &IdempotencyKey) -> Claim {
        match self.claim(store, key) {
            ClaimOutcome::Claimed(claim) => claim,
            other => panic!("wanted Claimed, got {other:?}"),
        }
    }

    /// Claims `keys` before the time is taken.
    fn fill<B: Backend>(&self, store: &IdempotencyStore<B>, keys: &[IdempotencyKey]) {
        for batch in keys.chunks(FILL_BATCH) {
            let batch: Vec<_> =
                batch.iter().map(|key| (self.scope.clone(), key.clone(), self.fingerprint)).collect();
            let claimed = store.try_claim_many(&batch);
            assert!(claimed.iter().all(|claim| matches!(claim, Ok(ClaimOutcome::Claimed(_)))));
        }
    }
}

/// Keys of the length of a UUID.
fn keys(count: usize) -> Vec<IdempotencyKey> {
    let key = |n| IdempotencyKey::new(format!("8e03978e-40d5-43dd-bc93-{n:012x}")).expect("a valid key");
    (0..count).map(key).collect()
}

fn reply() -> StoredResponse {
    StoredResponse::new(201).with_header("content-type", "application/json").with_body(vec![b'x'; 200])
}

/// How long it takes until each of `threads` threads has done its part of `work`, which is told the thread's
/// number.
#[expect(clippy::disallowed_methods, reason = "a benchmark takes the machine's time")]
fn timed(threads: usize, work: impl Fn(usize) + Sync) -> Duration {
    let ready = Barrier::new(threads + 1);
    let started = std::thread::scope(|scope| {
        for thread in 0..threads {
            let (ready, work) = (&ready, &work);
            scope.spawn(move || {
                ready.wait();
                work(thread);
            });
        }
        let started = Instant::now();
        ready.wait();
        started
    });
    started.elapsed()
}

/// As [`timed`], for `count` operations that are dealt out to the threads.
fn timed_each(threads: usize, count: usize, operation: impl Fn(usize) + Sync) -> Duration {
    timed(threads, |thread| (thread..count).step_by(threads).for_each(&operation))
}

fn claim<S: Subject>(subject: &S, threads: usize, count: usize) -> Duration {
    let (opened, request, keys) = (subject.open(MonotonicClock::new()), Request::new(), keys(count));
    timed_each(threads, count, |n| drop(request.claim_free(&opened.store, &keys[n])))
}

fn claim_and_complete<S: Subject>(subject: &S, threads: usize, count: usize) -> Duration {
    let (opened, request, keys) = (subject.open(MonotonicClock::new()), Request::new(), keys(count));
    let reply = reply();
    timed_each(threads, count, |n| {
        let claim = request.claim_free(&opened.store, &keys[n]);
        let Completed { .. } = claim.complete(reply.clone()).expect("the owner's completion");
    })
}

fn replay<S: Subject>(subject: &S, threads: usize, count: usize) -> Duration {
    let (opened, request, keys) = (subject.open(MonotonicClock::new()), Request::new(), keys(REPLAYED_KEYS));
    for key in &keys {
        request.claim_free(&opened.store, key).complete(reply()).expect("the owner's completion");
    }
    timed_each(threads, count, |n| match request.claim(&opened.store, &keys[n % REPLAYED_KEYS]) {
        ClaimOutcome::Completed(done) => drop(done),
        other => panic!("wanted Completed, got {other:?}"),
    })
}

/// All threads want one key. Who is granted it gives it back; the others hear that it is in progress.
fn contended_key<S: Subject>(subject: &S, threads: usize, count: usize) -> Duration {
    let (opened, request, keys) = (subject.open(MonotonicClock::new()), Request::new(), keys(1));
    let granted = AtomicUsize::new(0);
    let elapsed = timed_each(threads, count, |_| match request.claim(&opened.store, &keys[0]) {
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
fn sweep<S: Subject>(subject: &S, threads: usize, count: usize) -> Duration {
    let clock = ManualClock::new(Timestamp::from_millis(0));
    let (opened, request) = (subject.open(clock.clone()), Request::new());
    request.fill(&opened.store, &keys(count));
    clock.advance(opened.store.policy().lease() + opened.store.policy().retention());
    let removed = AtomicUsize::new(0);
    let elapsed = timed(threads, |_| {
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

/// Runs every operation on `subject`.
fn measure<S: Subject>(criterion: &mut Criterion, name: &str, subject: &S) {
    type Run<S> = fn(&S, usize, usize) -> Duration;
    let operations: [(&str, Run<S>); 5] = [
        ("claim", claim),
        ("claim_and_complete", claim_and_complete),
        ("replay", replay),
        ("contended_key", contended_key),
        ("sweep", sweep),
    ];
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(1));
    for (operation, run) in operations {
        for threads in THREADS {
            group.bench_function(BenchmarkId::new(operation, threads), |bencher| {
                bencher.iter_custom(|count| {
                    run(subject, threads, usize::try_from(count).expect("a count of 64 bits"))
                });
            });
        }
    }
    group.finish();
}

fn main() {
    // Short, so that all of it takes a minute or two; `--measurement-time` and `--sample-size` ask for more.
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    measure(&mut criterion, "memory", &Memory);
    #[cfg(feature = "sqlite")]
    {
        measure(&mut criterion, "sqlite_full", &idempotency::Durability::Full);
        measure(&mut criterion, "sqlite_normal", &idempotency::Durability::Normal);
    }
    criterion.final_summary();
}
