//! Where policy, limits and backend meet: [`IdempotencyStore`].

use crate::answer::{ClaimOutcome, InProgress};
use crate::backend::memory::{MemoryBackend, MemoryOptions};
#[cfg(feature = "sqlite")]
use crate::backend::sqlite::{SqliteBackend, SqliteOptions};
use crate::backend::{Backend, StoreId};
use crate::claim::{Claim, Ticket};
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::key::{IdempotencyKey, RecordId, Scope};
use crate::metrics::Metrics;
use crate::outcome::{Completed, Grant, Outcome};
use crate::policy::{Policy, Terms};
use crate::reply::Reply;
use crate::shared::Shared;
use crate::transition::Command;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A store on a file.
#[cfg(feature = "sqlite")]
pub type SqliteStore = IdempotencyStore<SqliteBackend>;
/// A store in memory.
pub type MemoryStore = IdempotencyStore<MemoryBackend>;
/// A store on a backend that is chosen at run time.
pub type DynStore = IdempotencyStore<Arc<dyn Backend>>;

/// How many operations [`IdempotencyStore::try_claim_many`] asks for at a time: others write between two
/// batches.
const MAX_BATCH: usize = 1_000;

/// An idempotency-key store: a handle on a backend, with a policy. Cheap to clone and to share between
/// threads.
///
/// ```
/// use idempotency::{ClaimOutcome, Fingerprint, IdempotencyKey, IdempotencyStore, Scope, StoredResponse};
///
/// let store = IdempotencyStore::in_memory();
/// let (scope, key) = (Scope::new("acct_1")?, IdempotencyKey::new("8e03978e-40d5")?);
/// let fingerprint = Fingerprint::of_request("POST", "/payments", "", br#"{"amount": 500}"#);
///
/// match store.try_claim(&scope, &key, &fingerprint)? {
///     ClaimOutcome::Claimed(claim) => {
///         // charge the card, with `claim.downstream_key("charge")` as the provider's idempotency key
///         let done = claim.complete(StoredResponse::new(201).with_body(r#"{"id": "pay_1"}"#))?;
///         assert_eq!(done.reply.response().map(|r| r.status()), Some(201)); // what to send
///     }
///     ClaimOutcome::Completed(done) => drop(done.reply),              // send it again
///     ClaimOutcome::InProgress(running) => drop(running.retry_after), // 409
///     ClaimOutcome::FingerprintMismatch(_) => {}                      // 422
/// }
/// # Ok::<(), idempotency::Error>(())
/// ```
pub struct IdempotencyStore<B: Backend> {
    backend: Arc<B>,
    shared: Arc<Shared>,
    policy: Policy,
    terms: Terms,
}

impl IdempotencyStore<MemoryBackend> {
    /// A store in the memory of this process, with default [`MemoryOptions`]. Gone at exit, and wrong as soon
    /// as a second instance serves the same clients.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::new(MemoryBackend::new(MemoryOptions::new()))
    }
}

#[cfg(feature = "sqlite")]
impl IdempotencyStore<SqliteBackend> {
    /// The store in the SQLite file at `path`, made if it is not there, with default [`SqliteOptions`].
    /// Durable, and shared by threads and processes.
    ///
    /// # Errors
    /// As [`SqliteBackend::open`].
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self, Error> {
        Ok(Self::new(SqliteBackend::open(path, SqliteOptions::new())?))
    }
}

impl<B: Backend> IdempotencyStore<B> {
    /// A store on `backend`, with the default [`Policy`].
    #[must_use]
    pub fn new(backend: B) -> Self {
        let backend = Arc::new(backend);
        let shared = Arc::new(Shared::new(Arc::<B>::clone(&backend)));
        Self { backend, shared, policy: Policy::new(), terms: Terms::DEFAULT }
    }

    /// A handle on the same store with another policy: have one for each endpoint. Claims keep the lease and
    /// the retention they were made under.
    ///
    /// ```
    /// use idempotency::{IdempotencyStore, Policy};
    /// use std::time::Duration;
    ///
    /// let store = IdempotencyStore::in_memory();
    /// let payments = store.with_policy(Policy::new().with_lease(Duration::from_secs(30)))?;
    /// let imports = store.with_policy(Policy::new().with_lease(Duration::from_secs(3_600)))?;
    /// assert_eq!(payments.store_id(), imports.store_id());
    /// assert!(store.with_policy(Policy::new().with_lease(Duration::ZERO)).is_err());
    /// # Ok::<(), idempotency::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Policy`] if lease or retention are zero or longer than 36,525 days, or the reply limit is
    /// above [`MAX_REPLY_LEN`](crate::MAX_REPLY_LEN).
    pub fn with_policy(&self, policy: Policy) -> Result<Self, Error> {
        let terms = policy.terms()?;
        Ok(Self { policy, terms, ..self.clone() })
    }

    /// A handle on the same store that does not name the backend's type.
    #[must_use]
    pub fn erase(&self) -> DynStore {
        let shared = Arc::clone(&self.shared);
        let backend = Arc::new(Arc::clone(shared.backend()));
        IdempotencyStore { backend, shared, policy: self.policy, terms: self.terms }
    }

    /// This handle's policy.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The backend.
    #[must_use]
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Which store this is: what a [`Ticket`] must match.
    #[must_use]
    pub fn store_id(&self) -> StoreId {
        self.backend.store_id()
    }

    #[cfg(feature = "sqlite")]
    pub(crate) const fn terms(&self) -> Terms {
        self.terms
    }

    /// The backend, with the counters that all handles and claims of the store share.
    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// What the handles of this store have done so far.
    ///
    /// ```
    /// # use idempotency::*;
    /// # let store = IdempotencyStore::in_memory();
    /// # let (scope, key) = (Scope::new("acct_1")?, IdempotencyKey::new("8e03978e")?);
    /// # let fingerprint = Fingerprint::builder().field("amount", "500").finish();
    /// if let ClaimOutcome::Claimed(claim) = store.try_claim(&scope, &key, &fingerprint)? {
    ///     claim.complete(Reply::Marker)?;
    /// }
    /// let _replay = store.try_claim(&scope, &key, &fingerprint)?;
    /// let metrics = store.metrics();
    /// assert_eq!((metrics.claims, metrics.completions, metrics.replays), (1, 1, 1));
    /// assert_eq!(metrics.errors.total(), 0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.shared.metrics()
    }

    /// Asks to run the operation `key` of `scope`. Of any number of callers at once, exactly one is granted
    /// the claim.
    ///
    /// # Errors
    /// - [`Error::is_transient`]: nothing was granted; try again.
    /// - [`Error::is_indefinite`]: it may have been granted. Ask again: it answers in progress until that
    ///   lease ends.
    /// - [`Error::Full`]: no room for a new record; nothing was granted.
    /// - [`Error::Corrupt`]: the record is damaged; it is neither replayed nor run again.
    /// - Any other: nothing was granted.
    pub fn try_claim(
        &self,
        scope: &Scope,
        key: &IdempotencyKey,
        fingerprint: &Fingerprint,
    ) -> Result<ClaimOutcome, Error> {
        let (id, command) = self.claim_command(scope, key, fingerprint);
        let outcome = self.shared.execute(&id, &command)?;
        self.claim_outcome(outcome, |grant| self.claim(id, fingerprint, grant))
    }

    /// Asks for many operations at once, as [`try_claim`](Self::try_claim) does for one; answers in the same
    /// order. On SQLite it is one transaction, up to 1,000 operations; more are several. Two equal keys in
    /// one call give one claim and one "in progress".
    ///
    /// All leases start now. If the batch may take longer than a lease, [`renew`](Claim::renew) each claim
    /// before its turn, and leave out those that are lost.
    ///
    /// ```
    /// # use idempotency::*;
    /// # let store = IdempotencyStore::in_memory();
    /// # let (scope, fingerprint) = (Scope::new("orders queue")?, Fingerprint::builder().finish());
    /// let mut messages = vec!["event 1", "event 2", "event 1", ""];
    /// let mut operations = Vec::new();
    /// messages.retain(|id| match IdempotencyKey::new(id) {
    ///     Ok(key) => {
    ///         operations.push((scope.clone(), key, fingerprint));
    ///         true
    ///     }
    ///     Err(_refused) => false, // it never gets better: to the dead letters
    /// });
    /// let mut handled = 0;
    /// for (_message, answer) in messages.iter().zip(store.try_claim_many(&operations)) {
    ///     match answer {
    ///         Ok(ClaimOutcome::Claimed(mut claim)) => {
    ///             if claim.renew().is_err() {
    ///                 continue; // not ours any more, or not now: it is delivered again
    ///             }
    ///             handled += 1; // handle the message, then
    ///             if let Err(_failed) = claim.complete(Reply::Marker) {
    ///                 // say so in the log; the others go on
    ///             }
    ///         }
    ///         Ok(_) => {}       // handled before, or being handled
    ///         Err(_error) => {} // not acknowledged: it is delivered again
    ///     }
    /// }
    /// assert_eq!(handled, 2);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// Each answer has its own, as [`try_claim`](Self::try_claim); one that fails does not undo the others.
    #[must_use = "each claim that was granted runs on until its lease ends"]
    pub fn try_claim_many(
        &self,
        operations: &[(Scope, IdempotencyKey, Fingerprint)],
    ) -> Vec<Result<ClaimOutcome, Error>> {
        operations.chunks(MAX_BATCH).flat_map(|batch| self.try_claim_batch(batch)).collect()
    }

    fn try_claim_batch(
        &self,
        operations: &[(Scope, IdempotencyKey, Fingerprint)],
    ) -> Vec<Result<ClaimOutcome, Error>> {
        let batch: Vec<_> = operations
            .iter()
            .map(|(scope, key, fingerprint)| self.claim_command(scope, key, fingerprint))
            .collect();
        let outcomes = self.shared.execute_many(&batch);
        batch
            .into_iter()
            .zip(operations)
            .zip(outcomes)
            .map(|(((id, _), (_, _, fingerprint)), outcome)| {
                self.claim_outcome(outcome?, |grant| self.claim(id, fingerprint, grant))
            })
            .collect()
    }

    pub(crate) fn claim_command(
        &self,
        scope: &Scope,
        key: &IdempotencyKey,
        fingerprint: &Fingerprint,
    ) -> (RecordId, Command) {
        let Terms { lease, retention } = self.terms;
        let command = Command::Claim { fingerprint: *fingerprint, lease, retention };
        (RecordId::new(scope.clone(), key.clone()), command)
    }

    fn claim(&self, id: RecordId, fingerprint: &Fingerprint, grant: Grant) -> Claim {
        let max_reply_len = self.policy.max_reply_len();
        Claim::granted(Arc::clone(&self.shared), id, *fingerprint, self.terms, grant, max_reply_len)
    }

    /// What a backend's answer to a claim is to the caller, with what `claimed` makes of a grant.
    pub(crate) fn claim_outcome<C>(
        &self,
        outcome: Outcome,
        claimed: impl FnOnce(Grant) -> C,
    ) -> Result<ClaimOutcome<C>, Error> {
        Ok(match outcome {
            Outcome::Claimed(grant) => ClaimOutcome::Claimed(claimed(grant)),
            Outcome::Completed(completed) => ClaimOutcome::Completed(completed),
            Outcome::InProgress { lease_until, attempt, now } => {
                let hint = self.policy.retry_after();
                ClaimOutcome::InProgress(InProgress::new(lease_until, attempt, now, hint))
            }
            Outcome::FingerprintMismatch(mismatch) => ClaimOutcome::FingerprintMismatch(mismatch),
            _ => return Err(Error::wrong_answer()),
        })
    }

    /// Completes the claim that `ticket` stands for, as [`Claim::complete`], with the ticket's own retention.
    ///
    /// # Errors
    /// As [`Claim::complete`], without the claim and the reply: keep a clone of `reply` (it is shared) to try
    /// again with. A ticket of another store is [`Error::ClaimLost`], and nothing is written.
    pub fn complete(&self, ticket: &Ticket, reply: impl Into<Reply>) -> Result<Completed, Error> {
        self.complete_for(ticket, ticket.retention(), reply)
    }

    /// As [`complete`](Self::complete), for a reply with a retention of its own, as
    /// [`Claim::complete_for`]. Work that [`run`](Self::run) runs records a decline for a minute like this, by
    /// its [`Claim::ticket`].
    ///
    /// # Errors
    /// As [`complete`](Self::complete), and [`Error::Retention`] if `retention` is zero or longer than 36,525
    /// days.
    pub fn complete_for(
        &self,
        ticket: &Ticket,
        retention: Duration,
        reply: impl Into<Reply>,
    ) -> Result<Completed, Error> {
        ticket
            .complete(&self.shared, retention, reply.into(), self.policy.max_reply_len())
            .map_err(|(error, _)| error)
    }

    /// Releases the claim that `ticket` stands for, as [`Claim::release`].
    ///
    /// # Errors
    /// As [`Claim::release`]; a ticket of another store is [`Error::ClaimLost`], and nothing is written.
    pub fn release(&self, ticket: &Ticket) -> Result<(), Error> {
        ticket.release(&self.shared)
    }

    /// Abandons the claim that `ticket` stands for, as [`Claim::abandon`].
    ///
    /// # Errors
    /// As [`release`](Self::release).
    pub fn abandon(&self, ticket: &Ticket) -> Result<(), Error> {
        ticket.abandon(&self.shared)
    }

    /// Turns `ticket` into a claim again, with the checkpoint and the lease's end as they are stored now. One
    /// read.
    ///
    /// A lapsed claim that nobody has taken over is resumed, too: [`renew`](Claim::renew) first if the
    /// hand-over may have taken long. It proves ownership and does not make it exclusive: a ticket that is
    /// delivered twice is resumed twice.
    ///
    /// ```
    /// # use idempotency::*;
    /// # let store = IdempotencyStore::in_memory();
    /// # let (scope, key) = (Scope::new("acct_1")?, IdempotencyKey::new("8e03978e")?);
    /// # let fingerprint = Fingerprint::builder().field("amount", "500").finish();
    /// # let ClaimOutcome::Claimed(claim) = store.try_claim(&scope, &key, &fingerprint)? else { return Ok(()) };
    /// let ticket = claim.into_ticket(); // plain data: send it to the worker that ends the job
    /// let worker = std::thread::spawn({
    ///     let store = store.clone();
    ///     move || Ok::<_, Error>(store.resume(ticket)?.complete(Reply::Reference("job 7".into()))?)
    /// });
    /// # assert!(worker.join().is_ok_and(|done| done.is_ok()));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ClaimLost`] if the claim's record is gone, completed, superseded, or in another store; any
    /// other if it could not be read. Nothing is written.
    pub fn resume(&self, ticket: Ticket) -> Result<Claim, Error> {
        Claim::resumed(Arc::clone(&self.shared), ticket, self.policy.max_reply_len())
    }
}

impl<B: Backend> Clone for IdempotencyStore<B> {
    fn clone(&self) -> Self {
        Self {
            backend: Arc::clone(&self.backend),
            shared: Arc::clone(&self.shared),
            policy: self.policy,
            terms: self.terms,
        }
    }
}

impl<B: Backend> fmt::Debug for IdempotencyStore<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyStore")
            .field("backend", &self.backend)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
