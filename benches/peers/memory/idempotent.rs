//! `idempotent`. Its memory store is a task that holds the map, and callers send it what they want done.

use crate::common::threads::{time, timed};
use crate::{BODY_LEN, Driven, Part, STATUS};
use bytes::Bytes;
use idempotency::Policy;
use idempotent::fingerprint::{DefaultFingerprintStrategy, FingerprintStrategy};
use idempotent::memory::MemoryStore;
use idempotent::{
    CachedResponse, FencedOutcome, Fingerprint, IdempotencyEntry, IdempotencyKey, IdempotencyStore,
    InsertResult, Metadata, ReplayOutcome,
};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

pub const WAYS: &[Driven] = &[
    ("tasks on one thread", on_one_thread),
    ("tasks on all cores", on_all_cores),
    ("threads, the store's task on another", by_threads),
];

/// A part in the crate's own types, made before the time is taken.
struct Own {
    keys: Vec<IdempotencyKey>,
    bodies: Vec<Vec<u8>>,
    fingerprint: Fingerprint,
}

impl From<Part> for Own {
    fn from(part: Part) -> Self {
        let keys = part.keys.iter().map(|key| IdempotencyKey::new(key.as_str()).expect("a valid key"));
        let fingerprint = DefaultFingerprintStrategy.compute(&"POST /payments".into(), br#"{"amount": 500}"#);
        Self { keys: keys.collect(), bodies: part.bodies, fingerprint }
    }
}

async fn run(store: &MemoryStore, part: &mut Own) {
    let policy = Policy::new();
    let fingerprint = part.fingerprint;
    for (key, body) in part.keys.iter().zip(part.bodies.drain(..)) {
        let entry = IdempotencyEntry::new(fingerprint, policy.lease());
        let claimed = store.try_insert(key, entry.clone()).await.expect("a working store");
        let InsertResult::Claimed { fencing_token } = claimed else {
            panic!("wanted Claimed, got {claimed:?}")
        };
        let response = CachedResponse::new(STATUS, Metadata::default(), Bytes::from(body));
        let completed =
            store.complete(key, entry.complete(response, policy.retention()), fencing_token).await;
        assert_eq!(completed.expect("a working store"), FencedOutcome::Applied);
        let entry = IdempotencyEntry::new(fingerprint, policy.lease());
        let found = store.try_insert(key, entry).await.expect("a working store");
        let InsertResult::Exists(found) = found else { panic!("wanted Exists, got {found:?}") };
        match found.replay(fingerprint) {
            ReplayOutcome::Replayed(response) => assert_eq!(response.body.len(), BODY_LEN),
            other => panic!("wanted a replay, got {other:?}"),
        }
    }
}

fn store(runtime: &Runtime) -> MemoryStore {
    MemoryStore::builder().runtime(runtime.handle().clone()).try_build().expect("a runtime with time")
}

fn by_tasks(runtime: &Runtime, parts: Vec<Part>) -> Duration {
    let store = store(runtime);
    let parts: Vec<Own> = parts.into_iter().map(Own::from).collect();
    let caller = |mut part: Own| {
        let store = store.clone();
        async move { run(&store, &mut part).await }
    };
    let (took, ()) = time(|| {
        runtime.block_on(async {
            let mut tasks: JoinSet<()> = parts.into_iter().map(caller).collect();
            while let Some(ended) = tasks.join_next().await {
                ended.expect("operations that succeed");
            }
        });
    });
    took
}

fn on_one_thread(parts: Vec<Part>) -> Duration {
    by_tasks(&Builder::new_current_thread().enable_time().build().expect("a runtime"), parts)
}

fn on_all_cores(parts: Vec<Part>) -> Duration {
    by_tasks(&Builder::new_multi_thread().enable_time().build().expect("a runtime"), parts)
}

fn by_threads(parts: Vec<Part>) -> Duration {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a runtime");
    let store = store(&runtime);
    let mut parts: Vec<Own> = parts.into_iter().map(Own::from).collect();
    timed(&mut parts, |part| runtime.block_on(run(&store, part)))
}
