//! A granted claim, and what its owner can do with it: [`Claim`], [`Ticket`].

mod complete_error;
mod ending;
mod standing;
mod ticket;
mod unfinished;

pub use self::complete_error::CompleteError;
pub use self::ticket::Ticket;

#[cfg(feature = "sqlite")]
pub(crate) use self::ending::check_reply;
pub(crate) use self::ending::unexpected;

use self::ending::check_len;
use self::standing::Standing;
use self::unfinished::Unfinished;

use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::into_bytes::IntoBytes;
use crate::key::{IdempotencyKey, RecordId, Scope};
use crate::metrics::Event;
use crate::observed::Operation;
use crate::outcome::{Completed, Grant, LostReason, Outcome};
use crate::policy::{MAX_CHECKPOINT_LEN, Terms};
use crate::record::{FencingToken, Unshown};
use crate::reply::Reply;
use crate::shared::Shared;
use crate::time::Timestamp;
use crate::transition::{self, Command};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The right to run an operation, held under a lease.
///
/// Do the work, then end the claim: [`complete`](Self::complete) with what it came to;
/// [`abandon`](Self::abandon) if it failed and the effect may have happened; [`release`](Self::release) only
/// if this attempt certainly had no effect. Every write proves itself by the fencing token, so an owner that
/// was taken over writes nothing: it gets [`Error::ClaimLost`].
///
/// A claim whose lease is over is not lost by that: as long as nobody has taken over and the record has not
/// expired, the token proves the claim, and renewing and completing succeed.
///
/// Work that may outlast its lease renews it: by [`renew`](Self::renew) or
/// [`save_checkpoint`](Self::save_checkpoint) between its steps, or by [`keep_alive`](Self::keep_alive),
/// once, where a step may be longer than the lease. A lease that is long enough needs no renewing, but after
/// a crash everybody waits until it is over.
///
/// # Differences from a lock guard
/// Dropping a `Claim` does no I/O and ends nothing but its [renewing](Self::keep_alive). The lease runs on,
/// as after a crash, and then the next claim takes over: what the work had called may still be in flight, so
/// the key must not reopen while it might arrive. A lock guard that unlocks on drop would run the operation
/// twice here.
#[must_use = "dropping a claim ends nothing: complete, abandon or release it"]
pub struct Claim {
    // Before the store, which is not to wait for a renewal of this claim.
    standing: Standing,
    store: Unfinished,
    ticket: Ticket,
    checkpoint: Option<Bytes>,
    max_reply_len: usize,
}

impl Claim {
    pub(crate) fn granted(
        shared: Arc<Shared>,
        id: RecordId,
        fingerprint: Fingerprint,
        terms: Terms,
        grant: Grant,
        max_reply_len: usize,
    ) -> Self {
        let ticket = Ticket::new(shared.backend().store_id(), id, fingerprint, terms, &grant);
        Self {
            standing: Standing::granted(grant.lease_until),
            store: Unfinished::new(shared),
            ticket,
            checkpoint: grant.checkpoint,
            max_reply_len,
        }
    }

    /// The claim that `ticket` stands for, if it still is its owner's.
    pub(crate) fn resumed(shared: Arc<Shared>, ticket: Ticket, max_reply_len: usize) -> Result<Self, Error> {
        shared.failed(Operation::Read, ticket.id(), ticket.check_store(&shared))?;
        let held = match shared.read(ticket.id())? {
            Some((record, now)) => {
                transition::lost(Some(&record), ticket.token(), now).map_or(Ok(record), Err)
            }
            None => Err(LostReason::Gone),
        };
        let record = shared.failed(Operation::Read, ticket.id(), held.map_err(Error::ClaimLost))?;
        Ok(Self {
            standing: Standing::found(record.lease_until),
            store: Unfinished::new(shared),
            ticket,
            checkpoint: record.checkpoint,
            max_reply_len,
        })
    }

    /// A handle on the claim of `ticket` without a look at its record, for whoever is going to end it.
    pub(crate) fn to_end(shared: Arc<Shared>, ticket: Ticket, max_reply_len: usize) -> Self {
        Self {
            standing: Standing::found(Timestamp::from_millis(0)),
            store: Unfinished::new(shared),
            ticket,
            checkpoint: None,
            max_reply_len,
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

    /// Proof of this claim, higher than that of every claim granted before.
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

    /// What was saved last, by this attempt or an earlier one.
    #[must_use]
    pub const fn checkpoint(&self) -> Option<&Bytes> {
        self.checkpoint.as_ref()
    }

    /// What to send to the next provider as its idempotency key; see [`Ticket::downstream_key`].
    #[must_use]
    pub fn downstream_key(&self, label: &str) -> String {
        self.ticket.downstream_key(label)
    }

    /// The claim as plain data, for work that ends in another thread, task or process. This handle stays
    /// usable.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.store.see_to();
        self.ticket.clone()
    }

    /// The claim as plain data, for those who hand none of it on.
    pub(crate) const fn as_ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Whoever has the ticket will end the claim.
    #[cfg(feature = "tokio")]
    pub(crate) fn see_to(&self) {
        self.store.see_to();
    }

    /// A call of the owner's has failed.
    fn hear(&mut self, error: &Error) {
        match error {
            // By another handle, or a ticket: it has ended, and nothing is lost.
            Error::ClaimLost(LostReason::CompletedByThisClaim) => self.store.see_to(),
            Error::ClaimLost(_) => self.standing.lose(),
            _ => {}
        }
    }

    pub(crate) fn count(&self, event: Event) {
        self.store.count(self.ticket.id(), event);
    }

    /// Turns the claim into plain data. Nobody renews it any more.
    #[must_use]
    pub fn into_ticket(self) -> Ticket {
        self.standing.end_renewing(&self.store);
        self.ticket()
    }

    /// Stands for one more lease from now. Never shortens what is left.
    ///
    /// # Errors
    /// - [`Error::ClaimLost`]: the claim is not its owner's any more. Stop the work if it can be stopped.
    /// - Any other: the lease was not renewed, or may have been if [`Error::is_indefinite`]; it ends no
    ///   earlier than [`lease_until`](Self::lease_until) says. The claim is not lost by it; try again.
    pub fn renew(&mut self) -> Result<(), Error> {
        let command = Command::Renew { token: self.token() };
        self.extend(&command)
    }

    /// Saves `bytes` (at most [`MAX_CHECKPOINT_LEN`]) for whoever takes over, in place of what was saved
    /// before, and renews.
    ///
    /// ```
    /// # use idempotency::*;
    /// # let store = IdempotencyStore::in_memory();
    /// # let (scope, key) = (Scope::new("acct_1")?, IdempotencyKey::new("8e03978e")?);
    /// # let fingerprint = Fingerprint::builder().field("amount", "500").finish();
    /// # let ClaimOutcome::Claimed(mut claim) = store.try_claim(&scope, &key, &fingerprint)? else { return Ok(()) };
    /// claim.save_checkpoint("charged")?;
    /// claim.abandon()?; // or a crash, and the end of the lease
    ///
    /// let ClaimOutcome::Claimed(next) = store.try_claim(&scope, &key, &fingerprint)? else { return Ok(()) };
    /// assert!(next.is_takeover());
    /// assert_eq!(next.checkpoint().map(|saved| &saved[..]), Some(b"charged".as_slice()));
    /// # next.abandon()?;
    /// # Ok::<(), idempotency::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::CheckpointTooLarge`]: nothing was saved or renewed.
    /// - [`Error::ClaimLost`]: nothing was saved; the claim is not its owner's any more.
    /// - Any other: it was not saved, or may have been if [`Error::is_indefinite`]; the claim is not lost by
    ///   it.
    pub fn save_checkpoint(&mut self, bytes: impl IntoBytes) -> Result<(), Error> {
        let bytes = bytes.into_bytes();
        let checked =
            check_len(bytes.len(), MAX_CHECKPOINT_LEN, |len, max| Error::CheckpointTooLarge { len, max });
        self.store.failed(Operation::Checkpoint, self.ticket.id(), checked)?;
        let command = Command::Checkpoint { token: self.token(), bytes: bytes.clone() };
        self.extend(&command)?;
        self.checkpoint = Some(bytes);
        Ok(())
    }

    fn extend(&mut self, command: &Command) -> Result<(), Error> {
        match self.store.execute(self.ticket.id(), command)? {
            Outcome::Renewed { lease_until } => {
                self.standing.extend(lease_until);
                Ok(())
            }
            other => {
                let error = unexpected(&other);
                self.hear(&error);
                Err(error)
            }
        }
    }

    /// Records what the operation came to and ends the claim. Every retry gets `reply` from now on, for the
    /// claim's retention.
    ///
    /// Gives what stands: send its `reply` to the client. If this very claim had completed before, that is
    /// the first reply.
    ///
    /// Whatever `reply` says is recorded, a failure too: it is the caller who looks at
    /// [`Policy::is_failure`](crate::Policy::is_failure) before, and abandons or releases instead.
    ///
    /// # Errors
    /// [`CompleteError`], with the claim, which is not [kept alive](Self::keep_alive) any more, and the
    /// reply:
    /// - [`Error::ReplyTooLarge`], [`Error::HeadersTooLarge`]: nothing was recorded, and the claim stands;
    ///   complete with less.
    /// - [`Error::ClaimLost`]: nothing was recorded, and the claim is not its owner's any more; the effect
    ///   happened all the same.
    /// - Any other: it may or may not be recorded if [`Error::is_indefinite`], else it is not. The record
    ///   stays under its lease, and nobody runs the operation again before that ends: complete again.
    pub fn complete(self, reply: impl Into<Reply>) -> Result<Completed, CompleteError> {
        let retention = self.ticket.retention();
        self.complete_within(retention, reply.into())
    }

    /// As [`complete`](Self::complete), for a reply with a retention of its own: a decline for a minute, a
    /// success for a day.
    ///
    /// ```
    /// # use idempotency::*;
    /// # use std::time::Duration;
    /// # fn end(claim: Claim, declined: bool) -> Result<Completed, Error> {
    /// let done = if declined {
    ///     claim.complete_for(Duration::from_secs(60), StoredResponse::new(402))?
    /// } else {
    ///     claim.complete(StoredResponse::new(201))?
    /// };
    /// # Ok(done)
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`complete`](Self::complete), and [`Error::Retention`] if `retention` is zero or longer than 36,525
    /// days: nothing was recorded, and the claim stands.
    pub fn complete_for(
        self,
        retention: Duration,
        reply: impl Into<Reply>,
    ) -> Result<Completed, CompleteError> {
        self.complete_within(retention, reply.into())
    }

    fn complete_within(mut self, retention: Duration, reply: Reply) -> Result<Completed, CompleteError> {
        self.standing.end_renewing(&self.store);
        match self.ticket.complete(&self.store, retention, reply, self.max_reply_len) {
            Ok(completed) => {
                self.store.see_to();
                Ok(completed)
            }
            Err((error, reply)) => {
                self.hear(&error);
                Err(CompleteError::new(error, self, reply))
            }
        }
    }

    /// Ends the claim: this attempt certainly had no effect. After a first attempt the key is free at once,
    /// for any request; after a takeover it is as after [`abandon`](Self::abandon), since an earlier attempt
    /// may have had the effect.
    ///
    /// # Errors
    /// - [`Error::ClaimLost`]: nothing was written; the claim was not its owner's any more.
    /// - Any other: it may or may not have ended if [`Error::is_indefinite`], else it stands until its lease
    ///   is over.
    pub fn release(self) -> Result<(), Error> {
        self.standing.end_renewing(&self.store);
        self.store.see_to();
        self.ticket.release(&self.store)
    }

    /// Ends the lease: the work stops, and its effect may have happened. The next claim takes over at once,
    /// knows that it does, and gets the checkpoint; the key stays bound to its request. Until then a
    /// [`Ticket`] of this claim can still complete it.
    ///
    /// # Errors
    /// As [`release`](Self::release). It costs no more than the rest of the lease: log it, and go on with
    /// what the work failed with.
    pub fn abandon(self) -> Result<(), Error> {
        self.standing.end_renewing(&self.store);
        self.store.see_to();
        self.ticket.abandon(&self.store)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // One that a renewal has found lost blocks nobody either.
        if self.store.is_left() && !self.is_lost() {
            self.count(Event::DroppedUnfinished);
        }
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("ticket", &self.ticket)
            .field("checkpoint", &self.checkpoint.as_ref().map(Unshown))
            .field("lease_until", &self.lease_until())
            .finish_non_exhaustive()
    }
}
