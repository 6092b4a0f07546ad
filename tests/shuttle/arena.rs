//! Where shuttle's threads race: the arena of the tests with threads of the machine, with one store in memory.

use crate::terms;
use idempotency::{DynStore, FencingToken, ManualClock, MemoryBackend, MemoryOptions};
use shuttle::sync::Barrier;
use shuttle::thread;
use std::sync::Arc;

pub struct Arena {
    pub name: &'static str,
    store: DynStore,
    pub clock: ManualClock,
}

impl Arena {
    pub fn new() -> Self {
        let clock = terms::clock();
        Self {
            name: "memory",
            store: terms::handle(MemoryBackend::new(options().with_clock(clock.clone()))),
            clock,
        }
    }

    pub fn store(&self) -> &DynStore {
        &self.store
    }

    /// Lets `threads` threads go at once; gives what each came to, in order.
    pub fn at_once<T: Send + 'static>(
        &self,
        threads: usize,
        act: impl Fn(usize, &DynStore) -> T + Send + Sync,
    ) -> Vec<T> {
        at_once(&self.store, threads, act)
    }
}

/// Parameters that must be the same in each run: else a schedule could not be played again. Two shards, so that
/// threads meet in one and pass each other in two.
pub fn options() -> MemoryOptions {
    MemoryOptions::new().with_shards(2).with_hash_seed(1, 2).with_first_token(FencingToken::FIRST)
}

/// Lets `threads` threads use `store` at once; gives what each came to, in order.
pub fn at_once<T: Send + 'static>(
    store: &DynStore,
    threads: usize,
    act: impl Fn(usize, &DynStore) -> T + Send + Sync,
) -> Vec<T> {
    let barrier = Arc::new(Barrier::new(threads));
    thread::scope(|scope| {
        let act = &act;
        let started: Vec<_> = (0..threads)
            .map(|number| {
                let (barrier, store) = (Arc::clone(&barrier), store.clone());
                scope.spawn(move || {
                    barrier.wait();
                    act(number, &store)
                })
            })
            .collect();
        started.into_iter().map(|thread| thread.join().expect("a thread that ends well")).collect()
    })
}
