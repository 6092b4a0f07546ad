//! What came of running an operation through the store: [`Ran`], [`RunError`].

use crate::answer::{ClaimOutcome, IN_PROGRESS_STATUS, InProgress, MISMATCH_STATUS};
use crate::error::Error;
#[cfg(feature = "json")]
use crate::fingerprint::{JsonError, JsonSelectionError};
use crate::key::KeyError;
use crate::outcome::{Completed, FingerprintMismatch};
use crate::reply::{Reply, StoredResponse};

/// What came of running an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "it says what to answer"]
pub enum Ran {
    /// It ran now, and its reply is recorded.
    Executed(Completed),
    /// It ran now, and its reply is a failure by the [`Policy`](crate::Policy): nothing is recorded, and a
    /// retry runs again.
    Failed(Reply),
    /// It had run before: this is what it was answered then.
    Replayed(Completed),
    /// Somebody else is running it: ask again later.
    InProgress(InProgress),
    /// The key was used for another request: refuse this one.
    FingerprintMismatch(FingerprintMismatch),
}

impl Ran {
    /// What is told to a caller who does not run the operation, or the claim of the one who does.
    pub(crate) fn instead<C>(outcome: ClaimOutcome<C>) -> Result<Self, C> {
        match outcome {
            ClaimOutcome::Claimed(claim) => Err(claim),
            ClaimOutcome::Completed(completed) => Ok(Self::Replayed(completed)),
            ClaimOutcome::InProgress(running) => Ok(Self::InProgress(running)),
            ClaimOutcome::FingerprintMismatch(mismatch) => Ok(Self::FingerprintMismatch(mismatch)),
        }
    }

    /// What came of a run in a word, for a span.
    pub(crate) const fn name_of<E>(ran: &Result<Self, RunError<E>>) -> &'static str {
        match ran {
            Ok(Self::Executed(_)) => "executed",
            Ok(Self::Failed(_)) | Err(RunError::Work(_)) => "failed",
            Ok(Self::Replayed(_)) => "replayed",
            Ok(Self::InProgress(_)) => "in_progress",
            Ok(Self::FingerprintMismatch(_)) => "mismatch",
            Err(RunError::Store(_) | RunError::NotRecorded { .. }) => "error",
        }
    }

    /// What to send to the client; none if the operation is still running, or the key is another's.
    #[must_use]
    pub const fn reply(&self) -> Option<&Reply> {
        match self {
            Self::Executed(completed) | Self::Replayed(completed) => Some(&completed.reply),
            Self::Failed(reply) => Some(reply),
            Self::InProgress(_) | Self::FingerprintMismatch(_) => None,
        }
    }

    /// As [`reply`](Self::reply), for whoever sends it.
    #[must_use]
    pub fn into_reply(self) -> Option<Reply> {
        match self {
            Self::Executed(completed) | Self::Replayed(completed) => Some(completed.reply),
            Self::Failed(reply) => Some(reply),
            Self::InProgress(_) | Self::FingerprintMismatch(_) => None,
        }
    }

    /// The response to send to the client; none if there is no reply, or it is none.
    #[must_use]
    pub fn into_response(self) -> Option<StoredResponse> {
        self.into_reply().and_then(Reply::into_response)
    }

    /// Whether the reply is an earlier one's, so that it is sent with
    /// [`IDEMPOTENT_REPLAYED`](crate::header::IDEMPOTENT_REPLAYED).
    #[must_use]
    pub const fn is_replay(&self) -> bool {
        matches!(self, Self::Replayed(_))
    }

    /// The HTTP status that goes with it, as
    /// [`ClaimOutcome::suggested_status`](crate::ClaimOutcome::suggested_status); none where the reply has no
    /// status.
    #[must_use]
    pub fn suggested_status(&self) -> Option<u16> {
        match self {
            Self::Executed(_) | Self::Failed(_) | Self::Replayed(_) => self.reply().and_then(Reply::status),
            Self::InProgress(_) => Some(IN_PROGRESS_STATUS),
            Self::FingerprintMismatch(_) => Some(MISMATCH_STATUS),
        }
    }
}

/// Why an operation was not run, or not to its end.
///
/// `E` is the error of the work itself. In a log, print the chain of [`source`](std::error::Error::source)s as
/// well: it has the cause. Where a caller has one type for all errors, use [`into_error`](Self::into_error).
#[derive(Clone, Debug, thiserror::Error)]
pub enum RunError<E> {
    /// The work failed; this is its own error.
    #[error("the work failed")]
    Work(#[source] E),
    /// The store failed before the work was run, or in a way that left no reply.
    #[error(transparent)]
    Store(#[from] Error),
    /// The work gave a reply, and it was not recorded, or may not have been if the error
    /// [is indefinite](Error::is_indefinite).
    #[error("the reply {} recorded", if error.is_indefinite() { "may not be" } else { "was not" })]
    NotRecorded {
        /// What the work gave.
        reply: Reply,
        /// Why it was not recorded.
        #[source]
        error: Error,
    },
}

macro_rules! from_refusals {
    ($($(#[$cfg:meta])* $refusal:ty),*) => {$(
        $(#[$cfg])*
        impl<E> From<$refusal> for RunError<E> {
            fn from(error: $refusal) -> Self {
                Self::Store(error.into())
            }
        }
    )*};
}

from_refusals!(
    KeyError,
    #[cfg(feature = "json")]
    JsonError,
    #[cfg(feature = "json")]
    JsonSelectionError
);

impl<E: From<Error>> RunError<E> {
    /// The error of work or store, for a caller with one type for both; a reply that was not recorded is
    /// dropped.
    ///
    /// ```
    /// # use idempotency::*;
    /// # let (scope, key) = (Scope::new("acct_1")?, IdempotencyKey::new("8e03978e")?);
    /// # let fingerprint = Fingerprint::builder().finish();
    /// # let store = IdempotencyStore::in_memory();
    /// type Any = Box<dyn std::error::Error + Send + Sync>;
    ///
    /// let work = |_: &mut Claim| -> Result<Reply, Any> {
    ///     let order = "42".parse::<u64>()?; // fails in its own way
    ///     Ok(Reply::Reference(format!("order {order}")))
    /// };
    /// let ran = store.run(&scope, &key, &fingerprint, work).map_err(RunError::into_error)?;
    /// # assert!(matches!(ran, Ran::Executed(_)));
    /// # Ok::<(), Any>(())
    /// ```
    pub fn into_error(self) -> E {
        match self {
            Self::Work(error) => error,
            Self::Store(error) | Self::NotRecorded { error, .. } => error.into(),
        }
    }
}

impl<E> RunError<E> {
    /// The store's error; none if it was the work that failed.
    #[must_use]
    pub const fn store_error(&self) -> Option<&Error> {
        match self {
            Self::Work(_) => None,
            Self::Store(error) | Self::NotRecorded { error, .. } => Some(error),
        }
    }

    /// Whether the same call may succeed if it is made again a little later; see [`Error::is_transient`].
    ///
    /// After [`run`](crate::IdempotencyStore::run) has answered [`NotRecorded`](Self::NotRecorded), the record
    /// stands under its lease, unless the reply was recorded all the same: until the lease is over, the same
    /// call is answered in progress, or with the reply.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.store_error().is_some_and(Error::is_transient)
    }

    /// Whether it may have been done all the same; see [`Error::is_indefinite`].
    #[must_use]
    pub fn is_indefinite(&self) -> bool {
        self.store_error().is_some_and(Error::is_indefinite)
    }
}
