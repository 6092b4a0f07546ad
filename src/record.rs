//! What a store keeps of one operation: [`Record`], and the invariants it always meets.

use crate::fingerprint::Fingerprint;
use crate::reply::Reply;
use crate::time::{Period, Timestamp, wall_clock_nanos};
use bytes::Bytes;
use std::fmt;

/// The number that proves a claim: strictly increasing over the store's whole life, from 1 to `i64::MAX`,
/// never reused.
///
/// A resource that keeps the highest token it has seen and refuses lower ones is safe from an owner that was
/// taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    /// The first token of all. Also what to hand to [`apply`](crate::transition::apply) where it can't grant
    /// a claim.
    pub const FIRST: Self = Self(1);

    /// The token `value`, or none if it is below 1.
    #[must_use]
    pub const fn new(value: i64) -> Option<Self> {
        if value >= 1 { Some(Self(value)) } else { None }
    }

    /// Nanoseconds since 1970 on the machine's wall clock: what a store's counter is raised to, at least,
    /// whenever it is opened, so that neither a restart nor an older copy makes it grant a token again.
    #[must_use]
    pub fn at_wall_clock() -> Self {
        Self(wall_clock_nanos())
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How far an operation has come. "Lapsed" and "expired" are relations to the time, not states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Claimed, and not completed.
    InProgress,
    /// Completed, with a reply.
    Completed,
}

/// One operation as it is stored under its [`RecordId`](crate::RecordId).
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// What the operation asks for.
    pub fingerprint: Fingerprint,
    /// How far it has come.
    pub state: State,
    /// Proof of the newest claim.
    pub token: FencingToken,
    /// 1 for the first claim, one more for each takeover.
    pub attempt: u32,
    /// When the first claim was made.
    pub created_at: Timestamp,
    /// The newest claim's lease.
    pub lease: Period,
    /// The newest claim's retention.
    pub retention: Period,
    /// Until when the newest claim stands; after it the operation may be taken over.
    pub lease_until: Timestamp,
    /// When it was completed.
    pub completed_at: Option<Timestamp>,
    /// From when on the record counts as absent.
    pub expires_at: Timestamp,
    /// What the owner saved mid-way.
    pub checkpoint: Option<Bytes>,
    /// What the operation came to.
    pub reply: Option<Reply>,
}

impl Record {
    /// Whether the record counts as absent at `now`.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_over(now)
    }

    /// Whether the operation is claimed but its lease is over at `now`, so that it may be taken over.
    #[must_use]
    pub fn is_lapsed(&self, now: Timestamp) -> bool {
        self.state == State::InProgress && self.lease_until.is_over(now)
    }

    /// Checks what every record meets. A backend calls it on what it is about to write and on what it has
    /// read.
    ///
    /// # Errors
    /// The first [`Violation`]: the record must not be stored, or the storage is damaged.
    pub fn check(&self) -> Result<(), Violation> {
        let completed = self.state == State::Completed;
        let broken = if completed != self.reply.is_some() {
            "completed if and only if there is a reply"
        } else if completed != self.completed_at.is_some() {
            "completed if and only if there is a time of completion"
        } else if completed && self.checkpoint.is_some() {
            "no checkpoint once completed"
        } else if !completed && self.expires_at < self.lease_until {
            "in progress, it expires no earlier than its lease"
        } else if self.attempt == 0 {
            "the first attempt is number 1"
        } else {
            return Ok(());
        };
        Err(Violation { broken })
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("fingerprint", &self.fingerprint)
            .field("state", &self.state)
            .field("token", &self.token)
            .field("attempt", &self.attempt)
            .field("created_at", &self.created_at)
            .field("lease", &self.lease)
            .field("retention", &self.retention)
            .field("lease_until", &self.lease_until)
            .field("completed_at", &self.completed_at)
            .field("expires_at", &self.expires_at)
            .field("checkpoint", &self.checkpoint.as_ref().map(Unshown))
            .field("reply", &self.reply)
            .finish()
    }
}

/// Bytes of the caller's that must not end in a log: personal data more often than not. `Debug` shows how
/// many they are.
pub(crate) struct Unshown<'a>(pub(crate) &'a Bytes);

impl fmt::Debug for Unshown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// An invariant that a record does not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record breaks an invariant: {broken}")]
pub struct Violation {
    broken: &'static str,
}
