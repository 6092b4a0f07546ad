//! The answer to a claim: [`ClaimOutcome`].

use crate::claim::Claim;
use crate::outcome::{Completed, FingerprintMismatch};
use crate::time::{Timestamp, whole_millis};
use std::time::Duration;

pub(crate) const IN_PROGRESS_STATUS: u16 = 409;
pub(crate) const MISMATCH_STATUS: u16 = 422;

/// What a claim was answered. Exactly one caller of many gets `Claimed`.
#[derive(Debug)]
#[must_use = "a claim that is not looked at runs on until its lease ends"]
pub enum ClaimOutcome<C = Claim> {
    /// The operation is the caller's to run.
    Claimed(C),
    /// It has run: send this reply.
    Completed(Completed),
    /// Somebody else is running it: ask again later.
    InProgress(InProgress),
    /// The key was used for another request: refuse this one.
    FingerprintMismatch(FingerprintMismatch),
}

impl<C> ClaimOutcome<C> {
    /// The answer of a caller who was not granted the claim, or the claim.
    pub(crate) fn unclaimed<D>(self) -> Result<ClaimOutcome<D>, C> {
        match self {
            Self::Claimed(claim) => Err(claim),
            Self::Completed(completed) => Ok(ClaimOutcome::Completed(completed)),
            Self::InProgress(running) => Ok(ClaimOutcome::InProgress(running)),
            Self::FingerprintMismatch(mismatch) => Ok(ClaimOutcome::FingerprintMismatch(mismatch)),
        }
    }

    /// The HTTP status that goes with the answer; none where the operation is the caller's to run, or the
    /// reply has no status.
    ///
    /// 409 in progress and 422 for a mismatch are the choice of the IETF draft
    /// `draft-ietf-httpapi-idempotency-key-header-07` (section 2.7). An API that publishes 409 for a mismatch
    /// maps the variant instead.
    #[must_use]
    pub fn suggested_status(&self) -> Option<u16> {
        match self {
            Self::Claimed(_) => None,
            Self::Completed(completed) => completed.reply.status(),
            Self::InProgress(_) => Some(IN_PROGRESS_STATUS),
            Self::FingerprintMismatch(_) => Some(MISMATCH_STATUS),
        }
    }
}

/// Another claim of the same operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InProgress {
    /// When to ask again: a hint for polling, not the rest of the lease. Whole milliseconds, rounded up, at
    /// least 1; never beyond the lease's end.
    pub retry_after: Duration,
    /// Until when the other claim stands, unless it is renewed.
    pub lease_until: Timestamp,
    /// Which attempt it is.
    pub attempt: u32,
}

impl InProgress {
    pub(crate) fn new(lease_until: Timestamp, attempt: u32, now: Timestamp, hint: Duration) -> Self {
        let left = lease_until.saturating_since(now);
        Self { retry_after: whole_millis(hint).min(left).max(Duration::from_millis(1)), lease_until, attempt }
    }

    /// `retry_after` as a `Retry-After` header has it (RFC 9110, section 10.2.3): whole seconds, rounded up,
    /// at least 1.
    #[must_use]
    pub fn retry_after_secs(&self) -> u64 {
        let part = u64::from(self.retry_after.subsec_nanos() > 0);
        self.retry_after.as_secs().saturating_add(part).max(1)
    }
}
