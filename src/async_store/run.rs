//! Claim, work and completion in one future: [`run`](AsyncStore::run).

use super::AsyncStore;
use super::claim::AsyncClaim;
use crate::backend::Backend;
use crate::error::BackendError;
use crate::fingerprint::Fingerprint;
use crate::key::{IdempotencyKey, Scope};
use crate::ran::{Ran, RunError};
use crate::reply::Reply;
use crate::run::{end, end_after_panic};
use crate::sync::Mutex;
use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

impl<B: Backend> AsyncStore<B> {
    /// Runs `work` if the operation is the caller's to run, and ends the claim by what it gives, as
    /// [`IdempotencyStore::run`](crate::IdempotencyStore::run) does; its table says what becomes of the claim.
    ///
    /// # Errors
    /// As [`IdempotencyStore::run`](crate::IdempotencyStore::run).
    pub async fn run<E: Send + 'static>(
        &self,
        scope: &Scope,
        key: &IdempotencyKey,
        fingerprint: &Fingerprint,
        work: impl AsyncFnOnce(&mut AsyncClaim) -> Result<Reply, E>,
    ) -> Result<Ran, RunError<E>> {
        let mut claim = match Ran::instead(self.try_claim(scope, key, fingerprint).await?) {
            Ok(ran) => return Ok(ran),
            Err(claim) => claim,
        };
        match catch_panic(async { work(&mut claim).await }).await {
            Ok(worked) => self.end_run(claim, worked).await,
            Err(panic) => {
                let _is_ended = claim.end(end_after_panic).await;
                resume_unwind(panic)
            }
        }
    }

    /// Ends `claim` by what its work gave, on the pool.
    async fn end_run<E: Send + 'static>(
        &self,
        claim: AsyncClaim,
        worked: Result<Reply, E>,
    ) -> Result<Ran, RunError<E>> {
        // Where it can be had back from, should the pool not take it.
        let worked = Arc::new(Mutex::new(Some(worked)));
        let (policy, given) = (*self.policy(), Arc::clone(&worked));
        let ended = claim.end(move |claim| {
            let worked = given.lock().take();
            worked.map(|worked| end(claim, &policy, worked))
        });
        let error = match ended.await {
            Ok(Some(ran)) => return ran,
            Ok(None) => BackendError::unavailable().into(),
            Err(error) => error,
        };
        Err(match worked.lock().take() {
            Some(Ok(reply)) => RunError::NotRecorded { reply, error },
            Some(Err(error)) => RunError::Work(error),
            None => RunError::Store(error),
        })
    }
}

/// What `work` gives, or what it panics with.
async fn catch_panic<T>(work: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut work = pin!(work);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}
