//! What can go wrong: [`Error`] for callers, [`BackendError`] for those who write a backend.
//!
//! Ordinary answers are no errors. An `Err` means that it was not done, or, where [`Error::is_indefinite`],
//! that it may have been.

mod kind;

pub use self::kind::ErrorKind;

#[cfg(feature = "json")]
use crate::fingerprint::{JsonError, JsonSelectionError};
use crate::key::KeyError;
use crate::outcome::{Completed, LostReason};
use crate::policy::PolicyError;
use crate::time::{ClockOutOfRange, PeriodError};
use std::error::Error as StdError;
use std::ops::Deref;
use std::sync::Arc;

/// The error underneath, whatever the backend's library calls it: [`std::error::Error::source`] gives it for
/// downcasting. Shared, so that one failure can be told to many callers.
#[derive(Clone, Debug)]
pub struct Source(Arc<dyn StdError + Send + Sync>);

impl Source {
    fn new(error: impl StdError + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }
}

// Not an error itself: what `source()` gives must be the one inside.
impl Deref for Source {
    type Target = dyn StdError + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// A result of the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation of the store was not done, or may not have been.
///
/// Nothing was written, unless [`is_indefinite`](Self::is_indefinite). In a log, print the chain of
/// [`source`](std::error::Error::source)s as well: it has the cause.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A scope or a key was refused before the store was asked.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A JSON document was refused before the store was asked.
    #[cfg(feature = "json")]
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A selection of what counts of JSON was refused.
    #[cfg(feature = "json")]
    #[error(transparent)]
    JsonSelection(#[from] JsonSelectionError),
    /// A policy was refused.
    #[error("unusable policy")]
    Policy(#[from] PolicyError),
    /// A retention for one reply was refused.
    #[error("unusable retention")]
    Retention(#[source] PeriodError),
    /// The claim is not its owner's any more; nothing was written.
    #[error("the claim is lost: {0}")]
    ClaimLost(LostReason),
    /// Only from [`complete_in`](crate::IdempotencyStore#method.complete_in) and the like: this claim has
    /// completed before, in a transaction that was committed, or earlier in this very one, and this is its
    /// reply. Nothing was written; roll back.
    #[error("this claim has completed before")]
    AlreadyRecorded(Completed),
    /// The reply's payload is over the policy's limit. The claim stands.
    #[error("a reply of {len} bytes is larger than {max} bytes")]
    ReplyTooLarge {
        /// Its length in bytes.
        len: usize,
        /// The most it may have.
        max: usize,
    },
    /// The reply's headers are over the limit. The claim stands.
    #[error("reply headers of {len} bytes are larger than {max} bytes")]
    HeadersTooLarge {
        /// What they come to; see [`StoredResponse::headers_len`](crate::StoredResponse::headers_len).
        len: usize,
        /// The most they may have.
        max: usize,
    },
    /// The checkpoint is over the limit. The claim stands, with the checkpoint it had.
    #[error("a checkpoint of {len} bytes is larger than {max} bytes")]
    CheckpointTooLarge {
        /// Its length in bytes.
        len: usize,
        /// The most it may have.
        max: usize,
    },
    /// The store could not be had in time: another connection has the file's lock, or a transaction of your own
    /// that is still open. Nothing was done; try again.
    #[error("the store is busy")]
    Busy(#[source] Option<Source>),
    /// The store can't be reached. Nothing was done; try again.
    #[error("the store is unavailable")]
    Unavailable(#[source] Option<Source>),
    /// It may have been done, or not. Ask again: a claim that was granted answers "in progress" until its
    /// lease ends.
    #[error("the outcome is unknown")]
    Indefinite(#[source] Option<Source>),
    /// The store's limit, or its disk, leaves no room. Records that exist can still be completed, if that
    /// needs no room.
    #[error("the store is full")]
    Full(#[source] Option<Source>),
    /// The store was opened for reading only, or its file or folder can't be written.
    #[error("the store is read-only")]
    ReadOnly(#[source] Option<Source>),
    /// The file can't be opened.
    #[error("the store's file can't be opened")]
    CannotOpen(#[source] Option<Source>),
    /// What is stored is damaged. It is never replayed, and never run again by itself.
    #[error("Corrupt: {what}")]
    Corrupt {
        /// What is damaged.
        what: &'static str,
        /// How it was found.
        source: Option<Source>,
    },
    /// The file is something else than a store of this crate.
    #[error("not a store of this crate: {what}")]
    Foreign {
        /// What was found.
        what: &'static str,
        /// How it was found.
        source: Option<Source>,
    },
    /// The store was written by a newer version of this crate.
    #[error("the store has schema version {found}; this version of the crate knows versions up to {known}")]
    NewerSchema {
        /// The version found.
        found: i64,
        /// The newest version known.
        known: i64,
    },
    /// An option that the backend can't work with.
    #[error("unusable option: {what}")]
    InvalidOption {
        /// What is wrong with it.
        what: &'static str,
    },
    /// The linked SQLite library can lose committed transactions; nothing was opened. 3.51.3 or newer is
    /// needed, or 3.50.7 or 3.44.6 of their lines; the feature `bundled` brings one.
    #[error("SQLite {found} can lose committed transactions; 3.51.3 or newer is needed")]
    OldLibrary {
        /// The version that is linked.
        found: &'static str,
    },
    /// This process is a fork of one that has a store open. What is open can't be used on both sides of a fork
    /// (SQLite, for one), and the threads of the store are not there; nothing was done. Fork first and open afterwards, in the
    /// process that uses the store, and the same for connections of the application's own; or run another
    /// program (`exec`) in the fork.
    #[error("the process was forked while a store was open; fork before opening one")]
    Forked,
    /// The store was used from inside its own
    /// [`atomically`](crate::IdempotencyStore#method.atomically), where it would wait for itself. Nothing was
    /// done.
    #[error("the store was used from inside its own transaction")]
    Reentrant,
    /// The caller's transaction does not hold the write lock of its main database, so that what it reads may
    /// change before it writes. Nothing was done; begin it as `IMMEDIATE`.
    #[error("the transaction does not hold the write lock; begin it as IMMEDIATE")]
    NoWriteLock,
    /// The main database of the caller's transaction is not the one that this store is in. Nothing was done.
    #[error("the transaction is on another database than the store")]
    OtherDatabase(#[source] Option<Source>),
    /// The work inside [`atomically`](crate::IdempotencyStore#method.atomically) ended the transaction, or
    /// made SQLite end it. No reply was recorded.
    #[error("the transaction was ended by the work inside it")]
    TransactionEnded {
        /// Whether what was written until then was committed, or may have been, the claim with it: then the
        /// claim stands until its lease ends, and what the work wrote afterwards is its own. Else it was rolled
        /// back, and nothing that the work wrote is kept: whatever it would have committed after that was
        /// denied.
        committed: bool,
    },
    /// The backend's clock can't be believed.
    #[error(transparent)]
    Clock(#[from] ClockOutOfRange),
    /// Every fencing token up to `i64::MAX` has been granted.
    #[error("the store's fencing tokens are exhausted")]
    TokensExhausted,
    /// The backend did what its contract rules out: a bug of this crate, or of the backend. Nothing was
    /// granted.
    #[error("bug in the backend: {what}")]
    Bug {
        /// What it did.
        what: &'static str,
    },
    /// The backend has no way to do what was asked. Nothing was done, and asking again does not help.
    #[error("this backend can't {what}")]
    Unsupported {
        /// What it can't do.
        what: &'static str,
    },
    /// Anything else that the backend failed with. Nothing was done.
    #[error("the store failed")]
    Other(#[source] Source),
}

impl Error {
    /// A backend's answer that belongs to another command: whatever was asked may have been done.
    pub(crate) fn wrong_answer() -> Self {
        Self::Indefinite(Some(Source::new(WrongAnswer)))
    }

    /// Whether the same call may succeed if it is made again a little later: [`Busy`](Self::Busy) and
    /// [`Unavailable`](Self::Unavailable). Where it is [indefinite](Self::is_indefinite), asking again tells
    /// more, too.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::Unavailable(_))
    }

    /// Whether it may have been done all the same: [`Indefinite`](Self::Indefinite), and
    /// [`TransactionEnded`](Self::TransactionEnded) by a commit.
    #[must_use]
    pub const fn is_indefinite(&self) -> bool {
        matches!(self, Self::Indefinite(_) | Self::TransactionEnded { committed: true })
    }
}

#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the backend gave an answer that does not belong to the command, or none")]
struct WrongAnswer;

/// What a [`Backend`](crate::Backend) fails with: the part of [`Error`] that is about the storage.
///
/// Each constructor says what the caller may rely on afterwards; what matters most is not to call something
/// definite that is not.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct BackendError(Error);

impl BackendError {
    /// The storage could not be had in time; nothing was done.
    #[must_use]
    pub const fn busy() -> Self {
        Self(Error::Busy(None))
    }

    /// The storage can't be reached; nothing was done.
    #[must_use]
    pub const fn unavailable() -> Self {
        Self(Error::Unavailable(None))
    }

    /// The command may have been executed, or not.
    #[must_use]
    pub const fn indefinite() -> Self {
        Self(Error::Indefinite(None))
    }

    /// There is no room; nothing was done.
    #[must_use]
    pub const fn full() -> Self {
        Self(Error::Full(None))
    }

    /// The storage can't be written; nothing was done.
    #[must_use]
    pub const fn read_only() -> Self {
        Self(Error::ReadOnly(None))
    }

    /// The storage can't be opened.
    #[must_use]
    pub const fn cannot_open() -> Self {
        Self(Error::CannotOpen(None))
    }

    /// What is stored is damaged; nothing was done.
    #[must_use]
    pub const fn corrupt(what: &'static str) -> Self {
        Self(Error::Corrupt { what, source: None })
    }

    /// The storage belongs to something else; nothing was done.
    #[must_use]
    pub const fn foreign(what: &'static str) -> Self {
        Self(Error::Foreign { what, source: None })
    }

    /// The storage was written by a newer version.
    #[must_use]
    pub const fn newer_schema(found: i64, known: i64) -> Self {
        Self(Error::NewerSchema { found, known })
    }

    /// An option that the backend can't work with.
    #[must_use]
    pub const fn invalid_option(what: &'static str) -> Self {
        Self(Error::InvalidOption { what })
    }

    #[cfg(feature = "sqlite")]
    pub(crate) const fn old_library(found: &'static str) -> Self {
        Self(Error::OldLibrary { found })
    }

    /// This process is a fork of the one that opened the storage, and must not use it; nothing was done.
    #[must_use]
    pub const fn forked() -> Self {
        Self(Error::Forked)
    }

    #[cfg(feature = "sqlite")]
    pub(crate) const fn reentrant() -> Self {
        Self(Error::Reentrant)
    }

    #[cfg(feature = "sqlite")]
    pub(crate) const fn no_write_lock() -> Self {
        Self(Error::NoWriteLock)
    }

    #[cfg(feature = "sqlite")]
    pub(crate) const fn other_database() -> Self {
        Self(Error::OtherDatabase(None))
    }

    /// No token is left; nothing was granted.
    #[must_use]
    pub const fn tokens_exhausted() -> Self {
        Self(Error::TokensExhausted)
    }

    /// The backend itself did what must not happen; nothing was granted.
    #[must_use]
    pub const fn bug(what: &'static str) -> Self {
        Self(Error::Bug { what })
    }

    /// The backend can't do `what`: "count its records", say. Nothing was done.
    #[must_use]
    pub const fn unsupported(what: &'static str) -> Self {
        Self(Error::Unsupported { what })
    }

    /// Anything else; nothing was done.
    #[must_use]
    pub fn other(source: impl StdError + Send + Sync + 'static) -> Self {
        Self(Error::Other(Source::new(source)))
    }

    /// The same, with the error underneath, where there is room for one.
    #[must_use]
    pub fn with_source(mut self, error: impl StdError + Send + Sync + 'static) -> Self {
        match &mut self.0 {
            Error::Busy(source)
            | Error::Unavailable(source)
            | Error::Indefinite(source)
            | Error::Full(source)
            | Error::ReadOnly(source)
            | Error::CannotOpen(source)
            | Error::OtherDatabase(source)
            | Error::Corrupt { source, .. }
            | Error::Foreign { source, .. } => *source = Some(Source::new(error)),
            Error::Other(source) => *source = Source::new(error),
            _ => {}
        }
        self
    }

    /// See [`Error::is_transient`].
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        self.0.is_transient()
    }

    /// See [`Error::is_indefinite`].
    #[must_use]
    pub const fn is_indefinite(&self) -> bool {
        self.0.is_indefinite()
    }
}

impl From<BackendError> for Error {
    fn from(error: BackendError) -> Self {
        error.0
    }
}

impl From<ClockOutOfRange> for BackendError {
    fn from(error: ClockOutOfRange) -> Self {
        Self(error.into())
    }
}
