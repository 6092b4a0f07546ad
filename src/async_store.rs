//! The store for tasks of a tokio runtime (feature `tokio`): [`AsyncStore`].

mod claim;
mod held;
mod pool;
mod run;
mod undelivered;

pub use self::claim::AsyncClaim;

use self::pool::Pool;
use self::undelivered::Undelivered;

use crate::answer::ClaimOutcome;
use crate::backend::{Backend, Swept};
use crate::claim::Ticket;
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::key::{IdempotencyKey, Scope};
use crate::outcome::Completed;
use crate::policy::Policy;
use crate::record::Record;
use crate::reply::Reply;
use crate::store::IdempotencyStore;
use crate::wait::Wait;
use std::fmt;
use std::time::Duration;
use tokio::runtime::Handle;

/// An [`IdempotencyStore`] whose calls are made on a tokio runtime's blocking pool. Cheap to clone.
pub struct AsyncStore<B: Backend> {
    store: IdempotencyStore<B>,
    pool: Pool,
}

impl<B: Backend> AsyncStore<B> {
    /// `store`, for tasks of any runtime; its calls block threads of `runtime`.
    #[must_use]
    pub const fn new(store: IdempotencyStore<B>, runtime: Handle) -> Self {
        Self { store, pool: Pool::new(runtime) }
    }

    /// The store itself, whose calls block.
    #[must_use]
    pub const fn store(&self) -> &IdempotencyStore<B> {
        &self.store
    }

    /// A handle on the same store with another policy; see [`IdempotencyStore::with_policy`].
    ///
    /// # Errors
    /// As [`IdempotencyStore::with_policy`].
    pub fn with_policy(&self, policy: Policy) -> Result<Self, Error> {
        Ok(Self { store: self.store.with_policy(policy)?, pool: self.pool.clone() })
    }

    /// This handle's policy.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        self.store.policy()
    }

    /// As [`IdempotencyStore::try_claim`].
    ///
    /// # Errors
    /// As [`IdempotencyStore::try_claim`]; [`Error::Unavailable`], too, if the runtime is shutting down.
    pub async fn try_claim(
        &self,
        scope: &Scope,
        key: &IdempotencyKey,
        fingerprint: &Fingerprint,
    ) -> Result<ClaimOutcome<AsyncClaim>, Error> {
        let (scope, key, fingerprint) = (scope.clone(), key.clone(), *fingerprint);
        self.claim_one(move |store| store.try_claim(&scope, &key, &fingerprint)).await
    }

    /// As [`IdempotencyStore::claim_or_wait`]: waits while somebody else is running the operation, for at most
    /// `max_wait`. It holds no thread while it pauses between two looks.
    ///
    /// # Errors
    /// As [`try_claim`](Self::try_claim); the first error ends the waiting.
    ///
    /// # Panics
    /// If it has to wait and the runtime has no timers
    /// ([`enable_time`](tokio::runtime::Builder::enable_time)).
    pub async fn claim_or_wait(
        &self,
        scope: &Scope,
        key: &IdempotencyKey,
        fingerprint: &Fingerprint,
        max_wait: Duration,
    ) -> Result<ClaimOutcome<AsyncClaim>, Error> {
        let mut wait = Wait::new(max_wait);
        let mut outcome = self.try_claim(scope, key, fingerprint).await?;
        while let Some(pause) = wait.pause(&outcome) {
            self.pool.pause(pause).await?;
            let (scope, key, fingerprint) = (scope.clone(), key.clone(), *fingerprint);
            outcome = self.claim_one(move |store| store.look_then_claim(&scope, &key, &fingerprint)).await?;
        }
        Ok(outcome)
    }

    /// As [`IdempotencyStore::try_claim_many`].
    ///
    /// # Errors
    /// Each answer has its own, as [`try_claim`](Self::try_claim); one that fails does not undo the others.
    #[must_use = "each claim that was granted runs on until its lease ends"]
    pub async fn try_claim_many(
        &self,
        operations: &[(Scope, IdempotencyKey, Fingerprint)],
    ) -> Vec<Result<ClaimOutcome<AsyncClaim>, Error>> {
        let asked = operations.to_vec();
        match self.claim_all(move |store| store.try_claim_many(&asked)).await {
            Ok(answers) => answers,
            Err(error) => operations.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn claim_one(
        &self,
        ask: impl FnOnce(&IdempotencyStore<B>) -> Result<ClaimOutcome, Error> + Send + 'static,
    ) -> Result<ClaimOutcome<AsyncClaim>, Error> {
        let answers = self.claim_all(move |store| vec![ask(store)]).await?;
        answers.into_iter().next().unwrap_or_else(|| Err(Error::wrong_answer()))
    }

    /// What `ask` is answered, with the claims for the task that waits for it.
    async fn claim_all(
        &self,
        ask: impl FnOnce(&IdempotencyStore<B>) -> Vec<Result<ClaimOutcome, Error>> + Send + 'static,
    ) -> Result<Vec<Result<ClaimOutcome<AsyncClaim>, Error>>, Error> {
        let (store, pool) = (self.store.clone(), self.pool.clone());
        let answers = self.pool.ask(move || Undelivered::new(ask(&store), pool)).await?.deliver();
        let deliver = |answer: ClaimOutcome| match answer.unclaimed() {
            Ok(other) => other,
            Err(claim) => ClaimOutcome::Claimed(AsyncClaim::new(claim, self.pool.clone())),
        };
        Ok(answers.into_iter().map(|answer| answer.map(deliver)).collect())
    }

    /// Completes the claim that `ticket` stands for; see [`IdempotencyStore::complete`].
    ///
    /// # Errors
    /// As [`IdempotencyStore::complete`].
    pub async fn complete(&self, ticket: &Ticket, reply: impl Into<Reply>) -> Result<Completed, Error> {
        let (ticket, reply) = (ticket.clone(), reply.into());
        self.call(move |store| store.complete(&ticket, reply)).await?
    }

    /// Releases the claim that `ticket` stands for; see [`IdempotencyStore::release`].
    ///
    /// # Errors
    /// As [`IdempotencyStore::release`].
    pub async fn release(&self, ticket: &Ticket) -> Result<(), Error> {
        let ticket = ticket.clone();
        self.call(move |store| store.release(&ticket)).await?
    }

    /// Abandons the claim that `ticket` stands for; see [`IdempotencyStore::abandon`].
    ///
    /// # Errors
    /// As [`IdempotencyStore::abandon`].
    pub async fn abandon(&self, ticket: &Ticket) -> Result<(), Error> {
        let ticket = ticket.clone();
        self.call(move |store| store.abandon(&ticket)).await?
    }

    /// Turns `ticket` into a claim again; see [`IdempotencyStore::resume`].
    ///
    /// # Errors
    /// As [`IdempotencyStore::resume`].
    pub async fn resume(&self, ticket: Ticket) -> Result<AsyncClaim, Error> {
        let claim = self.call(move |store| store.resume(ticket)).await??;
        Ok(AsyncClaim::new(claim, self.pool.clone()))
    }

    /// The record of `key` within `scope`; see [`IdempotencyStore::lookup`].
    ///
    /// # Errors
    /// As [`IdempotencyStore::lookup`].
    pub async fn lookup(&self, scope: &Scope, key: &IdempotencyKey) -> Result<Option<Record>, Error> {
        let (scope, key) = (scope.clone(), key.clone());
        self.call(move |store| store.lookup(&scope, &key)).await?
    }

    /// Deletes the record of `key` within `scope`, whoever owns it; see [`IdempotencyStore::forget`].
    ///
    /// # Errors
    /// As [`IdempotencyStore::forget`].
    pub async fn forget(&self, scope: &Scope, key: &IdempotencyKey) -> Result<bool, Error> {
        let (scope, key) = (scope.clone(), key.clone());
        self.call(move |store| store.forget(&scope, &key)).await?
    }

    /// Deletes at most `limit` expired records; see [`IdempotencyStore::sweep`].
    ///
    /// # Errors
    /// As [`IdempotencyStore::sweep`].
    pub async fn sweep(&self, limit: usize) -> Result<Swept, Error> {
        self.call(move |store| store.sweep(limit)).await?
    }

    /// Deletes expired records until there are no more; see [`IdempotencyStore::sweep_all`].
    ///
    /// # Errors
    /// As [`IdempotencyStore::sweep_all`].
    pub async fn sweep_all(&self) -> Result<Swept, Error> {
        self.call(IdempotencyStore::sweep_all).await?
    }

    /// Calls `f` with the store on the pool: for whatever else blocks. It runs to its end even if the future is dropped.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: the runtime is shutting down, and `f` was not called.
    pub async fn call<T: Send + 'static>(
        &self,
        f: impl FnOnce(&IdempotencyStore<B>) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let store = self.store.clone();
        self.pool.call(move || f(&store)).await
    }
}

impl<B: Backend> Clone for AsyncStore<B> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), pool: self.pool.clone() }
    }
}

impl<B: Backend> fmt::Debug for AsyncStore<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncStore").field("store", &self.store).finish_non_exhaustive()
    }
}
