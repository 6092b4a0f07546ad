//! Who claims: a store, and a way to drive it.

use crate::common::plan::Plan;
use crate::common::threads::{per_second, time, timed_each};
use crate::contest::Way;
use idempotency::IdempotencyKey;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// A durable store, driven in one way.
pub trait Claimant {
    /// The way, in words.
    fn way(&self) -> String;

    /// Forgets all claims, then has `callers` claim all of `keys`, each waiting for its answer before it asks
    /// again. How long that takes, without the preparation.
    fn claim_all(&mut self, callers: usize, keys: &Arc<[IdempotencyKey]>) -> Duration;
}

impl<C: Claimant> Way for C {
    fn name(&self) -> String {
        self.way()
    }

    fn rate(&mut self, plan: Plan, callers: usize, claims: usize) -> f64 {
        let keys: Arc<[IdempotencyKey]> = plan.keys().take(claims).into();
        per_second(claims, self.claim_all(callers, &keys))
    }
}

/// Callers that are threads: `claim` blocks.
pub fn by_threads(
    callers: usize,
    keys: &[IdempotencyKey],
    claim: impl Fn(usize, &IdempotencyKey) + Sync,
) -> Duration {
    let mut callers: Vec<usize> = (0..callers).collect();
    timed_each(&mut callers, keys.len(), |caller, n| claim(*caller, &keys[n]))
}

/// Where callers are tasks.
pub struct Tasks {
    pub name: &'static str,
    pub runtime: Runtime,
}

impl Tasks {
    /// All on one thread, which leaves the other cores to the server, and on as many threads as there are cores.
    pub fn all() -> [Rc<Self>; 2] {
        let here = Builder::new_current_thread().enable_all().build();
        let on_all_cores = Builder::new_multi_thread().enable_all().build();
        [("tasks on one thread", here), ("tasks on all cores", on_all_cores)]
            .map(|(name, runtime)| Rc::new(Self { name, runtime: runtime.expect("a runtime") }))
    }

    /// `claim` is told the caller's number and the key.
    pub fn claim_all<F: Future<Output = ()> + Send + 'static>(
        &self,
        callers: usize,
        keys: &Arc<[IdempotencyKey]>,
        claim: impl Fn(usize, IdempotencyKey) -> F + Clone + Send + 'static,
    ) -> Duration {
        let next = Arc::new(AtomicUsize::new(0));
        let caller = |number| {
            let (keys, next, claim) = (Arc::clone(keys), Arc::clone(&next), claim.clone());
            async move {
                while let Some(key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
                    claim(number, key.clone()).await;
                }
            }
        };
        let (took, ()) = time(|| {
            self.runtime.block_on(async {
                let mut tasks: JoinSet<()> = (0..callers).map(caller).collect();
                while let Some(ended) = tasks.join_next().await {
                    ended.expect("claims that succeed");
                }
            });
        });
        took
    }
}
