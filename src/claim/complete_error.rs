//! A completion that failed, with all that was to be completed: [`CompleteError`].

use crate::claim::Claim;
use crate::error::Error;
use crate::reply::Reply;
use std::fmt;

/// A completion that was not recorded, or may not have been, with the claim and the reply: nothing is lost,
/// and it can be tried again. The record stays under its lease, so nobody runs the operation again before
/// that ends.
///
/// ```
/// use idempotency::{Claim, Completed, Error, StoredResponse};
///
/// /// Records the whole reply, or its status alone if it is too large to keep.
/// fn record(claim: Claim, reply: StoredResponse) -> Result<Completed, Error> {
///     let status = reply.status();
///     match claim.complete(reply) {
///         Ok(done) => Ok(done),
///         Err(failed) => match failed.into_parts() {
///             (Error::ReplyTooLarge { .. }, claim, _whole) => Ok(claim.complete(StoredResponse::new(status))?),
///             (error, _claim, _reply) => Err(error),
///         },
///     }
/// }
/// # use idempotency::*;
/// # let store = IdempotencyStore::in_memory().with_policy(Policy::new().with_max_reply_len(4))?;
/// # let (scope, key) = (Scope::new("acct_1")?, IdempotencyKey::new("8e03978e")?);
/// # let fingerprint = Fingerprint::builder().finish();
/// # let ClaimOutcome::Claimed(claim) = store.try_claim(&scope, &key, &fingerprint)? else { return Ok(()) };
/// # let done = record(claim, StoredResponse::new(200).with_body("hello"))?;
/// # assert_eq!(done.reply, StoredResponse::new(200).into());
/// # Ok::<(), Error>(())
/// ```
#[derive(thiserror::Error)]
#[error("the reply {} recorded", if error.is_indefinite() { "may not be" } else { "was not" })]
pub struct CompleteError<C = Claim> {
    #[source]
    error: Error,
    unrecorded: Box<(C, Reply)>,
}

impl<C> CompleteError<C> {
    pub(crate) fn new(error: Error, claim: C, reply: Reply) -> Self {
        Self { error, unrecorded: Box::new((claim, reply)) }
    }

    /// Why it was not recorded.
    #[must_use]
    pub const fn error(&self) -> &Error {
        &self.error
    }

    /// Why it was not recorded, the claim, and the reply.
    pub fn into_parts(self) -> (Error, C, Reply) {
        let (claim, reply) = *self.unrecorded;
        (self.error, claim, reply)
    }
}

impl<C: fmt::Debug> fmt::Debug for CompleteError<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompleteError")
            .field("error", &self.error)
            .field("claim", &self.unrecorded.0)
            .finish_non_exhaustive()
    }
}

impl<C> From<CompleteError<C>> for Error {
    fn from(error: CompleteError<C>) -> Self {
        error.error
    }
}
