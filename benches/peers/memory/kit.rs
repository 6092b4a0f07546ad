//! `idempotency-kit`. Its functions are async, and those of its memory store never wait.

use crate::common::threads::timed;
use crate::{BODY_LEN, Driven, OPERATIONS, Part};
use idempotency::Policy;
use idempotency_kit::{Claim, IdempotencyKey, IdempotencyStore, MemoryStore};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub const WAYS: &[Driven] = &[("threads, each call polled once", by_threads)];

/// The result of a future that has no need to wait: cheaper than any executor.
fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the memory store waits"),
    }
}

/// Its keys are digests, so they are longer than ours; they are made before the time is taken.
fn by_threads(parts: Vec<Part>) -> Duration {
    // Twice what is claimed: a store that is full looks through all that it holds.
    let store = MemoryStore::with_capacity(2 * OPERATIONS);
    let ttl = Policy::new().retention();
    let mut parts: Vec<(Vec<IdempotencyKey>, Vec<Vec<u8>>)> = parts
        .into_iter()
        .map(|part| {
            let derive = |key: &idempotency::IdempotencyKey| {
                IdempotencyKey::derive("acct_001", key.as_str().as_bytes()).expect("a valid scope")
            };
            (part.keys.iter().map(derive).collect(), part.bodies)
        })
        .collect();
    timed(&mut parts, |(keys, bodies)| {
        for (key, body) in keys.iter().zip(bodies.drain(..)) {
            assert_eq!(ready(store.claim(key, ttl)), Ok(Claim::First));
            ready(store.complete(key, body)).expect("the owner's completion");
            match ready(store.claim(key, ttl)) {
                Ok(Claim::Replay(body)) => assert_eq!(body.len(), BODY_LEN),
                other => panic!("wanted a replay, got {other:?}"),
            }
        }
    })
}
