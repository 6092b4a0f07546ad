//! A claim whose calls do not block: [`AsyncClaim`].

use super::held::Held;
use super::pool::Pool;
use crate::claim::{Claim, CompleteError, Ticket};
use crate::error::Error;
use crate::into_bytes::IntoBytes;
use crate::key::{IdempotencyKey, Scope};
use crate::outcome::Completed;
use crate::record::{FencingToken, Unshown};
use crate::reply::Reply;
use crate::time::Timestamp;
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The right to run an operation, held under a lease: a [`Claim`] whose calls are made on the runtime's
/// blocking pool.
///
/// As with a [`Claim`], dropping it does no I/O and ends nothing: the lease runs on, as after a crash, and
/// then the next claim takes over. That is what happens to a task that is aborted in the middle of its work.
///
/// Any of the futures may be dropped; see [the table](super#what-a-dropped-future-leaves).
#[must_use = "dropping a claim ends nothing: complete, abandon or release it"]
pub struct AsyncClaim {
    held: Arc<Held>,
    pool: Pool,
    ticket: Ticket,
    /// As of the last call that was waited for.
    known: Known,
    calls: u64,
}

/// What a claim shows that changes with time.
#[derive(Debug)]
struct Known {
    checkpoint: Option<Bytes>,
    lease_until: Timestamp,
    is_lost: bool,
}

impl Known {
    fn of(claim: &Claim) -> Self {
        Self {
            checkpoint: claim.checkpoint().cloned(),
            lease_until: claim.lease_until(),
            is_lost: claim.is_lost(),
        }
    }
}

impl AsyncClaim {
    pub(super) fn new(claim: Claim, pool: Pool) -> Self {
        Self {
            ticket: claim.as_ticket().clone(),
            known: Known::of(&claim),
            held: Arc::new(Held::new(claim)),
            pool,
            calls: 0,
        }
    }

    /// Who the key belongs to.
    #[must_use]
    pub const fn scope(&self) -> &Scope {
        self.ticket.scope()
    }

    /// The name of the operation.
    #[must_use]
    pub const fn key(&self) -> &IdempotencyKey {
        self.ticket.key()
    }

    /// Proof of this claim; see [`Claim::token`].
    #[must_use]
    pub const fn token(&self) -> FencingToken {
        self.ticket.token()
    }

    /// 1 for the first claim of the record, one more for each takeover.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.ticket.attempt()
    }

    /// Whether an earlier attempt ended without an answer, so that the effect may have happened already.
    #[must_use]
    pub const fn is_takeover(&self) -> bool {
        self.ticket.is_takeover()
    }

    /// What was saved last, by this attempt or an earlier one, as far as this handle knows.
    #[must_use]
    pub const fn checkpoint(&self) -> Option<&Bytes> {
        self.known.checkpoint.as_ref()
    }

    /// Until when the claim stands unless it is renewed, as far as this handle knows.
    #[must_use]
    pub fn lease_until(&self) -> Timestamp {
        self.held.peek(Claim::lease_until).unwrap_or(self.known.lease_until)
    }

    /// Whether the claim is known not to be its owner's any more; see [`Claim::is_lost`].
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.held.peek(Claim::is_lost).unwrap_or(self.known.is_lost)
    }

    /// What the latest renewal in the background failed with; see [`Claim::renewal_error`]. None, too, while
    /// a call of the claim whose future was dropped is still being made.
    #[must_use]
    pub fn renewal_error(&self) -> Option<Error> {
        self.held.peek(Claim::renewal_error).flatten()
    }

    /// What to send to the next provider as its idempotency key; see [`Ticket::downstream_key`].
    #[must_use]
    pub fn downstream_key(&self, label: &str) -> String {
        self.ticket.downstream_key(label)
    }

    /// The claim as plain data, for work that ends in another task, thread or process. This handle stays
    /// usable.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.held.see_to();
        self.ticket.clone()
    }

    /// The claim as plain data, for those who hand none of it on.
    pub(super) const fn as_ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Turns the claim into plain data. Nobody renews it any more: it waits for a renewal that is on its way.
    pub async fn into_ticket(mut self) -> Ticket {
        // What the pool does not do is done when the claim is dropped, but for the waiting.
        let _is_ended = self.with(|claim| claim.end_renewing()).await;
        self.ticket()
    }

    /// Has the claim renewed in the background from now on, for at most `max_age`, while its work waits or
    /// computes; see [`Claim::keep_alive`]. Dropping the claim, as an aborted task does, ends the renewing.
    ///
    /// If the future is dropped, the claim may be kept alive.
    ///
    /// # Errors
    /// As [`Claim::keep_alive`], and as [`AsyncStore::call`](super::AsyncStore::call).
    pub async fn keep_alive(&mut self, max_age: Duration) -> Result<(), Error> {
        self.with(move |claim| claim.keep_alive(max_age)).await?
    }

    /// Stands for one more lease from now; see [`Claim::renew`].
    ///
    /// If the future is dropped, the claim stays usable, and may have been renewed.
    ///
    /// # Errors
    /// As [`Claim::renew`], and as [`AsyncStore::call`](super::AsyncStore::call).
    pub async fn renew(&mut self) -> Result<(), Error> {
        self.with(Claim::renew).await?
    }

    /// Saves `bytes` for whoever takes over, and renews; see [`Claim::save_checkpoint`].
    ///
    /// If the future is dropped, the claim stays usable, and the checkpoint may have been saved. It is never
    /// saved after one that is given later.
    ///
    /// # Errors
    /// As [`Claim::save_checkpoint`], and as [`AsyncStore::call`](super::AsyncStore::call).
    pub async fn save_checkpoint(&mut self, bytes: impl IntoBytes) -> Result<(), Error> {
        let bytes = bytes.into_bytes();
        self.with(move |claim| claim.save_checkpoint(bytes)).await?
    }

    /// What `call` gives for the claim, on the pool.
    async fn with<T: Send + 'static>(
        &mut self,
        call: impl FnOnce(&mut Claim) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (held, number) = self.next_call();
        let called = self.pool.call(move || {
            held.with(number, |claim| {
                let answer = call(claim);
                (answer, Known::of(claim))
            })
        });
        let (answer, known) = called.await??;
        self.known = known;
        Ok(answer)
    }

    /// Records what the operation came to, ends the claim, and gives what stands; see [`Claim::complete`].
    ///
    /// Once the future has been polled, the reply is recorded whether or not anybody waits for it.
    ///
    /// # Errors
    /// As [`Claim::complete`], and as [`AsyncStore::call`](super::AsyncStore::call), with the claim and the
    /// reply. The record stays under its lease.
    pub async fn complete(self, reply: impl Into<Reply>) -> Result<Completed, CompleteError<Self>> {
        self.complete_by(reply.into(), Claim::complete).await
    }

    /// As [`complete`](Self::complete), for a reply with a retention of its own; see [`Claim::complete_for`].
    ///
    /// # Errors
    /// As [`complete`](Self::complete), and [`Error::Retention`] if `retention` is zero or longer than 36,525
    /// days: nothing was recorded, and the claim stands.
    pub async fn complete_for(
        self,
        retention: Duration,
        reply: impl Into<Reply>,
    ) -> Result<Completed, CompleteError<Self>> {
        self.complete_by(reply.into(), move |claim, reply| claim.complete_for(retention, reply)).await
    }

    async fn complete_by(
        mut self,
        reply: Reply,
        complete: impl FnOnce(Claim, Reply) -> Result<Completed, CompleteError> + Send + 'static,
    ) -> Result<Completed, CompleteError<Self>> {
        let (held, number) = self.next_call();
        // Shared with what is recorded, not copied.
        let unrecorded = reply.clone();
        let completed = self.pool.call(move || {
            complete(held.take(number)?, reply).map_err(|failed| {
                let (error, claim, _reply) = failed.into_parts();
                held.put_back(claim);
                error
            })
        });
        match completed.await {
            Ok(Ok(completed)) => Ok(completed),
            Ok(Err(error)) | Err(error) => Err(CompleteError::new(error, self, unrecorded)),
        }
    }

    /// Ends the claim: this attempt certainly had no effect; see [`Claim::release`].
    ///
    /// Once the future has been polled, the claim is released whether or not anybody waits for it.
    ///
    /// # Errors
    /// As [`Claim::release`], and as [`AsyncStore::call`](super::AsyncStore::call).
    pub async fn release(self) -> Result<(), Error> {
        self.end(Claim::release).await?
    }

    /// Ends the lease: the work stops, and its effect may have happened; see [`Claim::abandon`].
    ///
    /// Once the future has been polled, the claim is abandoned whether or not anybody waits for it.
    ///
    /// # Errors
    /// As [`release`](Self::release).
    pub async fn abandon(self) -> Result<(), Error> {
        self.end(Claim::abandon).await?
    }

    /// Ends the claim by `end`, on the pool.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the runtime is shutting down: `end` was dropped, and not called.
    pub(super) async fn end<T: Send + 'static>(
        mut self,
        end: impl FnOnce(Claim) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (held, number) = self.next_call();
        self.pool.call(move || Ok(end(held.take(number)?))).await?
    }

    /// Where the next call finds the claim, and its number.
    fn next_call(&mut self) -> (Arc<Held>, u64) {
        self.calls = self.calls.saturating_add(1);
        (Arc::clone(&self.held), self.calls)
    }
}

impl fmt::Debug for AsyncClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncClaim")
            .field("ticket", &self.ticket)
            .field("checkpoint", &self.checkpoint().map(Unshown))
            .field("lease_until", &self.lease_until())
            .finish_non_exhaustive()
    }
}
