//! The store for tasks of a tokio runtime (feature `tokio`): [`AsyncStore`].
//!
//! The engine itself blocks its thread: on a lock, on the disk, on whoever else writes to the file. A task
//! must not, so an [`AsyncStore`] has each call made on a thread of the runtime's blocking pool
//! ([`spawn_blocking`](tokio::task::spawn_blocking)), and the task waits for the answer. Nothing else is
//! different: what a call means, and what is true after its error, is said at the [`IdempotencyStore`]'s
//! method of the same name.
//!
//! # Which one to use
//! | the caller is | use |
//! | --- | --- |
//! | a task that must not block | [`AsyncStore`] |
//! | a task whose work blocks itself, or shares a transaction with the store (`atomically`) | [`AsyncStore::call`], with the blocking store inside |
//! | a thread, a batch job, a test | [`IdempotencyStore`] |
//!
//! Getters, [`AsyncClaim::ticket`] and [`IdempotencyStore::metrics`] do not block. Dropping the last handle
//! of a store does, since that closes it: keep one until the tasks have ended. A store in memory answers
//! sooner than the pool takes over, and its calls may as well be made on [`AsyncStore::store`] in the task
//! itself; those that wait (`claim_or_wait`) and those that run work (`run`) may not.
//!
//! # The pool
//! It has at most 512 threads by default
//! ([`max_blocking_threads`](tokio::runtime::Builder::max_blocking_threads)), for all that blocks in the
//! runtime. A call has one of them until the store has answered, and the store answers as slowly as its file:
//! those who write to one SQLite file wait in line, and behind another process for the busy timeout at the
//! most. So a store that is slow takes threads from everybody else, and once all are taken, calls wait in a
//! queue that has no bound. Bound the requests that a server works on at a time, or give the store a runtime
//! of its own: tasks of any runtime may use it. Calls of one claim take turns: each that was dropped while
//! another one was at work has a thread until it has had its turn, so don't ask again and again with short
//! time-outs. [`claim_or_wait`](AsyncStore::claim_or_wait) has no thread
//! while it pauses; the runtime must be running meanwhile, and have timers.
//!
//! # What a dropped future leaves
//! A future may be dropped wherever it waits: by a timeout, a `select`, an aborted task, a client that hangs
//! up. Before it is first polled, nothing has been done. After that:
//!
//! | the future of | dropped while its call waits for a thread | dropped while its call is made, or just after |
//! | --- | --- | --- |
//! | `try_claim`, `claim_or_wait`, `try_claim_many`, and `run` before its work | nothing is claimed | a claim that was granted is given back: its work has not begun. A first attempt is released, a takeover is abandoned |
//! | `run`, while its work runs | | the claim stands until its lease ends, as after a crash: the effect may have happened. Then it is taken over |
//! | `run`, once its work has ended | the claim is ended as the work said | the claim is ended as the work said |
//! | `complete`, `complete_for`, `release`, `abandon` | it is done | it is done |
//! | `renew`, `save_checkpoint`, `keep_alive` | it is done, unless the claim's next call comes first; the claim stays with its owner | it is done; the claim stays with its owner |
//! | `resume`, `into_ticket`, `lookup`, `stats`, `stuck` | | nothing has changed |
//! | `forget`, `sweep`, `sweep_all`, `call` | it is done | it is done |
//!
//! So a completion is not lost once it was asked for, and a claim whose work has begun is never given back.
//! But what the work itself does not finish stays unfinished: to have an operation run to its end although
//! the client hangs up, give it a task of its own, as the example of [`AsyncStore::run`] does.
//!
//! When the runtime shuts down, calls that are being made are made to their end. Those that still wait for a
//! thread are made, too, or fail as [`Error::Unavailable`], and then nothing was done. A claim that could not
//! be given back stands until its lease ends.
//!
//! A call that panics, in the backend or in what was given to [`AsyncStore::call`], panics in the task that
//! waits for it.

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
use crate::inspection::{Stats, Stuck};
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

/// An [`IdempotencyStore`] whose calls are made on the blocking pool of a tokio runtime, and waited for.
/// Cheap to clone and to share between tasks.
///
/// ```
/// use idempotency::{AsyncStore, ClaimOutcome, IdempotencyStore, StoredResponse};
/// # use idempotency::{Error, Fingerprint, IdempotencyKey, Scope};
/// use tokio::runtime::Handle;
/// # async fn example() -> Result<(), Error> {
/// # let (scope, key) = (Scope::new("acct_1")?, IdempotencyKey::new("8e03978e")?);
/// # let fingerprint = Fingerprint::of_request("POST", "/payments", "", br#"{"amount": 500}"#);
///
/// let store = AsyncStore::new(IdempotencyStore::in_memory(), Handle::current());
/// match store.try_claim(&scope, &key, &fingerprint).await? {
///     ClaimOutcome::Claimed(claim) => {
///         // charge the card, with `claim.downstream_key("charge")` as the provider's idempotency key
///         let done = claim.complete(StoredResponse::new(201).with_body(r#"{"id": "pay_1"}"#)).await?;
///         assert_eq!(done.reply.response().map(|r| r.status()), Some(201)); // what to send
///     }
///     ClaimOutcome::Completed(done) => drop(done.reply),              // send it again
///     ClaimOutcome::InProgress(running) => drop(running.retry_after), // 409
///     ClaimOutcome::FingerprintMismatch(_) => {}                      // 422
/// }
/// # assert_eq!(store.store().metrics().completions, 1);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(example())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AsyncStore<B: Backend> {
    store: IdempotencyStore<B>,
    pool: Pool,
}

impl<B: Backend> AsyncStore<B> {
    /// `store`, for tasks of any runtime. Its calls are made on the blocking pool of `runtime`, which this
    /// does not keep running.
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

    /// Asks to run the operation `key` of `scope`; see [`IdempotencyStore::try_claim`].
    ///
    /// If the future is dropped, a claim that was granted meanwhile is given back.
    ///
    /// # Errors
    /// As [`IdempotencyStore::try_claim`], and as [`call`](Self::call).
    pub async fn try_claim(
        &self,
        scope: &Scope,
        key: &IdempotencyKey,
        fingerprint: &Fingerprint,
    ) -> Result<ClaimOutcome<AsyncClaim>, Error> {
        let (scope, key, fingerprint) = (scope.clone(), key.clone(), *fingerprint);
        self.claim_one(move |store| store.try_claim(&scope, &key, &fingerprint)).await
    }

    /// As [`try_claim`](Self::try_claim), but waits while somebody else is running the operation, for at most
    /// `max_wait`; see [`IdempotencyStore::claim_or_wait`]. No thread is held between two looks at the
    /// record.
    ///
    /// # Errors
    /// As [`try_claim`](Self::try_claim); the first error ends the waiting.
    ///
    /// # Panics
    /// If it has to wait, and the runtime was built without timers
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

    /// Asks for many operations at once; see [`IdempotencyStore::try_claim_many`].
    ///
    /// If the future is dropped, all that was granted meanwhile is given back.
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
    /// As [`IdempotencyStore::complete`], and as [`call`](Self::call).
    pub async fn complete(&self, ticket: &Ticket, reply: impl Into<Reply>) -> Result<Completed, Error> {
        let (ticket, reply) = (ticket.clone(), reply.into());
        self.call(move |store| store.complete(&ticket, reply)).await?
    }

    /// Releases the claim that `ticket` stands for; see [`IdempotencyStore::release`].
    ///
    /// # Errors
    /// As [`IdempotencyStore::release`], and as [`call`](Self::call).
    pub async fn release(&self, ticket: &Ticket) -> Result<(), Error> {
        let ticket = ticket.clone();
        self.call(move |store| store.release(&ticket)).await?
    }

    /// Abandons the claim that `ticket` stands for; see [`IdempotencyStore::abandon`].
    ///
    /// # Errors
    /// As [`IdempotencyStore::abandon`], and as [`call`](Self::call).
    pub async fn abandon(&self, ticket: &Ticket) -> Result<(), Error> {
        let ticket = ticket.clone();
        self.call(move |store| store.abandon(&ticket)).await?
    }

    /// Turns `ticket` into a claim again; see [`IdempotencyStore::resume`].
    ///
    /// # Errors
    /// As [`IdempotencyStore::resume`], and as [`call`](Self::call).
    pub async fn resume(&self, ticket: Ticket) -> Result<AsyncClaim, Error> {
        let claim = self.call(move |store| store.resume(ticket)).await??;
        Ok(AsyncClaim::new(claim, self.pool.clone()))
    }

    /// The record of `key` within `scope`; see [`IdempotencyStore::lookup`].
    ///
    /// # Errors
    /// As [`IdempotencyStore::lookup`], and as [`call`](Self::call).
    pub async fn lookup(&self, scope: &Scope, key: &IdempotencyKey) -> Result<Option<Record>, Error> {
        let (scope, key) = (scope.clone(), key.clone());
        self.call(move |store| store.lookup(&scope, &key)).await?
    }

    /// How many records there are, and how they stand; see [`IdempotencyStore::stats`]. It has a thread of
    /// the pool for as long as it looks at all of them.
    ///
    /// # Errors
    /// As [`IdempotencyStore::stats`], and as [`call`](Self::call).
    pub async fn stats(&self) -> Result<Stats, Error> {
        self.call(IdempotencyStore::stats).await?
    }

    /// The claims that nobody seems to work on, at most `limit`; see [`IdempotencyStore::stuck`]. It has a
    /// thread of the pool for as long as it looks at all records.
    ///
    /// # Errors
    /// As [`IdempotencyStore::stuck`], and as [`call`](Self::call).
    pub async fn stuck(&self, limit: usize) -> Result<Vec<Stuck>, Error> {
        self.call(move |store| store.stuck(limit)).await?
    }

    /// Deletes the record of `key` within `scope`, whoever owns it; see [`IdempotencyStore::forget`].
    ///
    /// # Errors
    /// As [`IdempotencyStore::forget`], and as [`call`](Self::call).
    pub async fn forget(&self, scope: &Scope, key: &IdempotencyKey) -> Result<bool, Error> {
        let (scope, key) = (scope.clone(), key.clone());
        self.call(move |store| store.forget(&scope, &key)).await?
    }

    /// Deletes at most `limit` expired records; see [`IdempotencyStore::sweep`].
    ///
    /// # Errors
    /// As [`IdempotencyStore::sweep`], and as [`call`](Self::call).
    pub async fn sweep(&self, limit: usize) -> Result<Swept, Error> {
        self.call(move |store| store.sweep(limit)).await?
    }

    /// Deletes expired records until there are no more; see [`IdempotencyStore::sweep_all`].
    ///
    /// # Errors
    /// As [`IdempotencyStore::sweep_all`], and as [`call`](Self::call).
    pub async fn sweep_all(&self) -> Result<Swept, Error> {
        self.call(IdempotencyStore::sweep_all).await?
    }

    /// Has `work` done with the store itself, on the pool: for whatever else blocks. It is done even if the
    /// future is dropped.
    ///
    /// ```
    /// # use idempotency::*;
    /// # #[cfg(feature = "sqlite")]
    /// # async fn example(
    /// #     store: AsyncStore<SqliteBackend>,
    /// #     (scope, key, fingerprint): (Scope, IdempotencyKey, Fingerprint),
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let ran = store.call(move |store| {
    ///     store.atomically(&scope, &key, &fingerprint, |transaction| {
    ///         transaction.execute("INSERT INTO orders (amount) VALUES (?1)", [500])?;
    ///         Ok::<_, rusqlite::Error>(Reply::Marker)
    ///     })
    /// });
    /// let _reply = ran.await??.reply();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`Error::Unavailable`]: the runtime is shutting down, and `work` was not begun.
    /// - [`Error::Indefinite`]: the system had no thread for the pool. `work` is done once it has.
    ///
    /// # Panics
    /// If `work` does.
    pub async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&IdempotencyStore<B>) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let store = self.store.clone();
        self.pool.call(move || work(&store)).await
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
