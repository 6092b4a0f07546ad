//! Errors by kind, for counters, labels and alerts: [`ErrorKind`].

use crate::error::Error;
#[cfg(feature = "json")]
use crate::fingerprint::JsonError;
use std::fmt;

/// What kind of an error it is: fewer than there are variants of [`Error`], and each with a name that does
/// not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call itself was wrong, and refused: a bad key or policy, something over a limit, a transaction
    /// that it can't be done in, something that the backend does not do.
    Refused,
    /// The claim is not its owner's any more, or has completed before.
    ClaimLost,
    /// [`Error::Busy`].
    Busy,
    /// [`Error::Unavailable`].
    Unavailable,
    /// Whatever [`Error::is_indefinite`] says so of.
    Indefinite,
    /// [`Error::Full`].
    Full,
    /// [`Error::ReadOnly`].
    ReadOnly,
    /// [`Error::CannotOpen`].
    CannotOpen,
    /// [`Error::Corrupt`].
    Corrupt,
    /// The file is no store that this version can work with.
    Foreign,
    /// [`Error::Clock`].
    Clock,
    /// [`Error::TokensExhausted`].
    TokensExhausted,
    /// [`Error::Bug`].
    Bug,
    /// [`Error::Other`].
    Other,
}

impl ErrorKind {
    /// All of them, in the order in which they are declared.
    pub const ALL: &'static [Self] = &[
        Self::Refused,
        Self::ClaimLost,
        Self::Busy,
        Self::Unavailable,
        Self::Indefinite,
        Self::Full,
        Self::ReadOnly,
        Self::CannotOpen,
        Self::Corrupt,
        Self::Foreign,
        Self::Clock,
        Self::TokensExhausted,
        Self::Bug,
        Self::Other,
    ];

    /// Its name, as a label has it: lower case, with underscores.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::ClaimLost => "claim_lost",
            Self::Busy => "busy",
            Self::Unavailable => "unavailable",
            Self::Indefinite => "indefinite",
            Self::Full => "full",
            Self::ReadOnly => "read_only",
            Self::CannotOpen => "cannot_open",
            Self::Corrupt => "corrupt",
            Self::Foreign => "foreign",
            Self::Clock => "clock",
            Self::TokensExhausted => "tokens_exhausted",
            Self::Bug => "bug",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Error {
    /// Which kind of error it is.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        if self.is_indefinite() {
            return ErrorKind::Indefinite;
        }
        match self {
            #[cfg(feature = "json")]
            Self::Json(_) | Self::JsonSelection(_) => ErrorKind::Refused,
            Self::Key(_)
            | Self::Policy(_)
            | Self::Retention(_)
            | Self::ReplyTooLarge { .. }
            | Self::HeadersTooLarge { .. }
            | Self::CheckpointTooLarge { .. }
            | Self::InvalidOption { .. }
            | Self::Forked
            | Self::Reentrant
            | Self::NoWriteLock
            | Self::OtherDatabase(_)
            | Self::TransactionEnded { .. }
            | Self::Unsupported { .. } => ErrorKind::Refused,
            Self::ClaimLost(_) | Self::AlreadyRecorded(_) => ErrorKind::ClaimLost,
            Self::Busy(_) => ErrorKind::Busy,
            Self::Unavailable(_) => ErrorKind::Unavailable,
            Self::Indefinite(_) => ErrorKind::Indefinite,
            Self::Full(_) => ErrorKind::Full,
            Self::ReadOnly(_) => ErrorKind::ReadOnly,
            Self::CannotOpen(_) => ErrorKind::CannotOpen,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::Foreign { .. } | Self::OldLibrary { .. } | Self::NewerSchema { .. } => ErrorKind::Foreign,
            Self::Clock(_) => ErrorKind::Clock,
            Self::TokensExhausted => ErrorKind::TokensExhausted,
            Self::Bug { .. } => ErrorKind::Bug,
            Self::Other(_) => ErrorKind::Other,
        }
    }

    /// The HTTP status that goes with it: 400 for a scope, a key, or a JSON document that was refused, 413 for
    /// one that is too long (the client can mend it); 409 for a claim that was lost, since asking again tells
    /// what whoever took over has come to; 503 where asking again later may help; 500 for the rest, which is
    /// for an operator to look at.
    ///
    /// After an [indefinite](Self::is_indefinite) error asking again tells what became of it, so that is 503,
    /// too.
    #[must_use]
    pub const fn suggested_status(&self) -> u16 {
        match self.kind() {
            #[cfg(feature = "json")]
            ErrorKind::Refused if matches!(self, Self::Json(JsonError::TooLong { .. })) => 413,
            ErrorKind::Refused if self.is_of_the_request() => 400,
            ErrorKind::ClaimLost => 409,
            ErrorKind::Busy | ErrorKind::Unavailable | ErrorKind::Indefinite | ErrorKind::Full => 503,
            _ => 500,
        }
    }

    /// Whether it was refused for what the caller's own caller has sent.
    const fn is_of_the_request(&self) -> bool {
        match self {
            #[cfg(feature = "json")]
            Self::Json(error) => !matches!(error, JsonError::NotWritten),
            Self::Key(_) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_kinds_are_listed_once_each_in_order_and_have_names_of_their_own() {
        assert!(ErrorKind::ALL.is_sorted_by(|a, b| a < b));
        let names: BTreeSet<_> = ErrorKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), ErrorKind::ALL.len());
    }
}
