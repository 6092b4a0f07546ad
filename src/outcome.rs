//! What came of a command: [`Outcome`], and the parts of it that callers see as they are.

use crate::record::{FencingToken, Record, State, Unshown};
use crate::reply::Reply;
use crate::time::Timestamp;
use bytes::Bytes;
use std::fmt;

/// What came of one [`Command`](crate::transition::Command).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Claim: the claim is the caller's, newly or by takeover.
    Claimed(Grant),
    /// Claim: the operation has completed before; this is its reply.
    Completed(Completed),
    /// Claim: another claim stands.
    InProgress {
        /// Until when it stands, unless it is renewed.
        lease_until: Timestamp,
        /// Which attempt it is.
        attempt: u32,
        /// The time at which it was found standing.
        now: Timestamp,
    },
    /// Claim: the key is in use for another request.
    FingerprintMismatch(FingerprintMismatch),
    /// Complete: the reply is recorded.
    Recorded(Completed),
    /// Complete: this claim has completed before; its first reply stands, and is given here.
    AlreadyRecorded(Completed),
    /// Renew, checkpoint: done, and the claim stands until then.
    Renewed {
        /// Until when the claim stands now.
        lease_until: Timestamp,
    },
    /// Release: the record is gone, and the key free for any request. Or it stays, lapsed, since an earlier
    /// attempt may have had the effect.
    Released,
    /// Abandon: the lease is over, and the next claim takes over.
    Abandoned,
    /// Release, abandon: there was no record any more. Nothing to do, and nothing was done.
    AlreadyGone,
    /// Complete, renew, checkpoint, release, abandon: the claim is not the caller's any more. Nothing was
    /// written.
    Lost(LostReason),
    /// Forget: whether there was a record.
    Forgotten {
        /// Whether there was a record that had not expired.
        existed: bool,
    },
}

/// A claim that was granted.
#[derive(Clone, PartialEq, Eq)]
pub struct Grant {
    /// Proof of the claim.
    pub token: FencingToken,
    /// 1 for the first claim, more for a takeover.
    pub attempt: u32,
    /// Until when the claim stands, unless it is renewed.
    pub lease_until: Timestamp,
    /// What an earlier attempt saved.
    pub checkpoint: Option<Bytes>,
}

impl Grant {
    /// The claim that `record` carries, for the backend that has just written it.
    #[must_use]
    pub fn of(record: &Record) -> Self {
        Self {
            token: record.token,
            attempt: record.attempt,
            lease_until: record.lease_until,
            checkpoint: record.checkpoint.clone(),
        }
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant")
            .field("token", &self.token)
            .field("attempt", &self.attempt)
            .field("lease_until", &self.lease_until)
            .field("checkpoint", &self.checkpoint.as_ref().map(Unshown))
            .finish()
    }
}

/// A completed operation. The body is shared, not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completed {
    /// What the operation came to: what to send to the client.
    pub reply: Reply,
    /// When the operation was first claimed.
    pub created_at: Timestamp,
    /// When the reply was recorded.
    pub completed_at: Timestamp,
    /// Until when the reply is replayed.
    pub expires_at: Timestamp,
}

impl Completed {
    /// What `record` says of a completed operation; none if it is in progress.
    #[must_use]
    pub fn of(record: &Record) -> Option<Self> {
        match (record.state, &record.reply, record.completed_at) {
            (State::Completed, Some(reply), Some(completed_at)) => Some(Self {
                reply: reply.clone(),
                created_at: record.created_at,
                completed_at,
                expires_at: record.expires_at,
            }),
            _ => None,
        }
    }
}

/// The key is in use for a request with another fingerprint. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FingerprintMismatch {
    /// When the operation that holds the key was first claimed.
    pub created_at: Timestamp,
    /// How far that operation has come.
    pub state: State,
    /// The format of its fingerprint.
    pub stored_format: u8,
    /// The format of the fingerprint that was presented.
    pub presented_format: u8,
}

impl FingerprintMismatch {
    /// Whether the two fingerprints were made in different ways, so that they would differ for the same
    /// request too: a program that has changed how it makes them computes the old one and asks again.
    ///
    /// ```
    /// # use idempotency::*;
    /// # let store = IdempotencyStore::in_memory();
    /// # let (scope, key) = (Scope::new("acct_1")?, IdempotencyKey::new("8e03978e")?);
    /// # let body = r#"{"amount": 500}"#;
    /// let old = Fingerprint::of_request("POST", "/payments", "", body);
    /// let new = Fingerprint::builder().field("amount", "500").finish();
    /// # if let ClaimOutcome::Claimed(claim) = store.try_claim(&scope, &key, &old)? { claim.complete(Reply::Marker)?; }
    /// let answer = match store.try_claim(&scope, &key, &new)? {
    ///     ClaimOutcome::FingerprintMismatch(mismatch) if mismatch.is_format_change() => {
    ///         store.try_claim(&scope, &key, &old)?
    ///     }
    ///     answer => answer,
    /// };
    /// assert!(matches!(answer, ClaimOutcome::Completed(_)));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub const fn is_format_change(&self) -> bool {
        self.stored_format != self.presented_format
    }
}

/// Why a claim is not its owner's any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LostReason {
    /// There is no such record: released, forgotten, expired, or never in this store.
    Gone,
    /// Another claim of the same operation was granted since, and has not completed.
    Running,
    /// Another claim of the same operation was granted since, and has completed.
    Completed,
    /// This very claim has completed.
    CompletedByThisClaim,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => "its record is gone",
            Self::Running => "another claim has taken over",
            Self::Completed => "another claim has taken over and completed",
            Self::CompletedByThisClaim => "it has completed",
        })
    }
}
