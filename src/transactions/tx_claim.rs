//! A claim that exists once its transaction is committed: [`TxClaim`].

use crate::claim::{Ticket, unexpected};
use crate::error::Error;
use crate::outcome::{Completed, Outcome};
use crate::record::Unshown;
use crate::reply::Reply;
use crate::store::SqliteStore;
use crate::transition::Command;
use bytes::Bytes;
use rusqlite::Connection;
use std::fmt;

/// A claim inside a transaction of the application's: it exists once that is committed, and never did if it is
/// rolled back.
///
/// It has no token, lease or ticket to hand out, since nobody else can see it yet. Dropping it does nothing.
#[must_use = "a commit without `complete` leaves the record in progress until its lease ends"]
pub struct TxClaim<'t> {
    pub(super) store: SqliteStore,
    pub(super) transaction: &'t Connection,
    pub(super) ticket: Ticket,
    pub(super) checkpoint: Option<Bytes>,
}

impl TxClaim<'_> {
    /// 1 for the first claim of the record, one more for each takeover.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.ticket.attempt()
    }

    /// Whether an earlier attempt ended without an answer, so that its effect may have happened already.
    #[must_use]
    pub const fn is_takeover(&self) -> bool {
        self.ticket.is_takeover()
    }

    /// What an earlier attempt saved.
    #[must_use]
    pub const fn checkpoint(&self) -> Option<&Bytes> {
        self.checkpoint.as_ref()
    }

    /// What to send to the next provider as its idempotency key; see [`Ticket::downstream_key`].
    #[must_use]
    pub fn downstream_key(&self, label: &str) -> String {
        self.ticket.downstream_key(label)
    }

    /// Records what the operation came to, in the same transaction. After a reply that was too large it can be
    /// called again with less.
    ///
    /// # Errors
    /// As [`complete_in`](crate::IdempotencyStore#method.complete_in). Do not commit then: your rows would be kept without
    /// the completion, and written again by a takeover.
    pub fn complete(&self, reply: impl Into<Reply>) -> Result<Completed, Error> {
        self.store.complete_in(self.transaction, &self.ticket, reply)
    }

    /// Ends the claim, in the same transaction: this attempt certainly had no effect. After a first attempt
    /// there is no record then; after a takeover it stands lapsed, as after
    /// [`Claim::release`](crate::Claim::release). A rollback does as much, and better: the record is as it was.
    ///
    /// # Errors
    /// Nothing was written: roll back.
    pub fn release(self) -> Result<(), Error> {
        let command = Command::Release { token: self.ticket.token() };
        match self.store.execute_in(self.transaction, self.ticket.id(), &command)? {
            Outcome::Released | Outcome::AlreadyGone => Ok(()),
            other => Err(unexpected(&other)),
        }
    }
}

impl fmt::Debug for TxClaim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TxClaim")
            .field("ticket", &self.ticket)
            .field("checkpoint", &self.checkpoint.as_ref().map(Unshown))
            .finish_non_exhaustive()
    }
}
