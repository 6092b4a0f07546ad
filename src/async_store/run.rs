//! Claim, work and completion in one future: [`run`](AsyncStore::run).

use super::AsyncStore;
use super::claim::AsyncClaim;
use crate::backend::Backend;
use crate::error::BackendError;
use crate::fingerprint::Fingerprint;
use crate::key::{IdempotencyKey, Scope};
use crate::observed::{Operation, in_span};
use crate::policy::Judged;
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
    /// Runs `work` if the operation is the caller's to run, and ends the claim by what it gives; see
    /// [`IdempotencyStore::run`](crate::IdempotencyStore::run). A panic of the work abandons the claim, and
    /// then goes on.
    ///
    /// If the future is dropped while the work runs, the claim stands until its lease ends: nobody knows what
    /// the work had done by then. So give it a task of its own where a client may hang up:
    ///
    /// ```
    /// use idempotency::{AsyncClaim, AsyncStore, IdempotencyStore, Ran, Reply, StoredResponse};
    /// # use idempotency::{Error, Fingerprint, IdempotencyKey, Scope};
    /// # use tokio::runtime::{Builder, Handle};
    /// # async fn charge(provider_key: &str) -> std::io::Result<String> { Ok(provider_key.to_owned()) }
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # let store = AsyncStore::new(IdempotencyStore::in_memory(), Handle::current());
    /// # let (scope, key) = (Scope::new("acct_1")?, IdempotencyKey::new("8e03978e")?);
    /// # let fingerprint = Fingerprint::builder().field("amount", "500").finish();
    ///
    /// let paid = tokio::spawn(async move {
    ///     let pay = async |claim: &mut AsyncClaim| -> std::io::Result<Reply> {
    ///         let charged = charge(&claim.downstream_key("charge")).await?;
    ///         Ok(StoredResponse::new(201).with_body(charged).into())
    ///     };
    ///     store.run(&scope, &key, &fingerprint, pay).await
    /// });
    /// let ran = paid.await??; // whoever waits for it may go away
    /// assert!(matches!(ran, Ran::Executed(_)));
    /// # Ok(())
    /// # }
    /// # Builder::new_current_thread().build()?.block_on(example())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`IdempotencyStore::run`](crate::IdempotencyStore::run). If the runtime is shutting down:
    /// [`RunError::Store`] with [`Error::Unavailable`](crate::Error::Unavailable) before the work was run;
    /// afterwards the work's own error, or [`RunError::NotRecorded`], and the record stands under its lease.
    ///
    /// # Panics
    /// If `work` does.
    pub async fn run<E: Send + 'static>(
        &self,
        scope: &Scope,
        key: &IdempotencyKey,
        fingerprint: &Fingerprint,
        work: impl AsyncFnOnce(&mut AsyncClaim) -> Result<Reply, E>,
    ) -> Result<Ran, RunError<E>> {
        let run = self.claim_and_run(scope, key, fingerprint, work);
        in_span(Operation::Run, (scope, key), Ran::name_of, run).await
    }

    async fn claim_and_run<E: Send + 'static>(
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
        let own = claim.as_ticket().clone();
        let worked =
            catch_panic(async { work(&mut claim).await.map(|reply| self.policy().judge(reply)) }).await;
        if *claim.as_ticket() != own {
            claim = AsyncClaim::new(self.store.exchanged(own), self.pool.clone());
        }
        match worked {
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
        worked: Result<Judged, E>,
    ) -> Result<Ran, RunError<E>> {
        // Where it can be had back from, should the pool not take it.
        let worked = Arc::new(Mutex::new(Some(worked)));
        let (failures, given) = (self.policy().failures(), Arc::clone(&worked));
        let ended = claim.end(move |claim| {
            let worked = given.lock().take();
            worked.map(|worked| end(claim, failures, worked))
        });
        let error = match ended.await {
            Ok(Some(ran)) => return ran,
            Ok(None) => BackendError::unavailable().into(),
            Err(error) => error,
        };
        Err(match worked.lock().take() {
            Some(Ok(Judged::ToRecord(reply) | Judged::Failure(reply))) => {
                RunError::NotRecorded { reply, error }
            }
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
