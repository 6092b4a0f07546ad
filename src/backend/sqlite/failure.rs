//! What an error of SQLite means for the command that met it.

use crate::backend::sqlite::evidence::Verdict;
use crate::error::BackendError;
use crate::planted;
use rusqlite::ffi::SQLITE_CONSTRAINT_CHECK;
use rusqlite::{Error, ErrorCode};

/// For every error but that of a commit: nothing was done, and a transaction is rolled back.
pub(super) fn nothing_done(error: Error) -> BackendError {
    let failure = match &error {
        Error::SqliteFailure(failure, _) => match failure.code {
            _ if is_of_a_lock(&error) => BackendError::busy(),
            ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory | ErrorCode::OperationInterrupted => {
                BackendError::unavailable()
            }
            ErrorCode::ConstraintViolation if failure.extended_code == SQLITE_CONSTRAINT_CHECK => {
                BackendError::corrupt("a stored row breaks a constraint of its table")
            }
            ErrorCode::DiskFull => BackendError::full(),
            ErrorCode::ReadOnly => BackendError::read_only(),
            ErrorCode::CannotOpen | ErrorCode::PermissionDenied => BackendError::cannot_open(),
            ErrorCode::DatabaseCorrupt => BackendError::corrupt("the database file is damaged"),
            ErrorCode::NotADatabase => BackendError::foreign("the file is no SQLite database"),
            _ => return BackendError::other(error),
        },
        Error::FromSqlConversionFailure(..)
        | Error::InvalidColumnType(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::Utf8Error(..) => BackendError::corrupt("a stored value is not what its column holds"),
        Error::NulError(_) => BackendError::invalid_option("a path or a name has a NUL in it"),
        _ => return BackendError::other(error),
    };
    failure.with_source(error)
}

/// The error of a commit after which it was looked for what the transaction has written.
pub(super) struct FailedCommit(BackendError);

impl FailedCommit {
    pub(super) fn new(error: Error) -> Self {
        Self(nothing_done(error))
    }

    /// `value`, if that came of the transaction; else the error that its caller gets.
    pub(super) fn answer<T>(&self, value: T, verdict: Verdict) -> Result<T, BackendError> {
        match verdict {
            Verdict::Stands => Ok(value),
            Verdict::NotDone => Err(self.0.clone()),
            Verdict::Unclear if planted::is("doubt-called-definite") => Err(self.0.clone()),
            Verdict::Unclear => Err(self.indefinite()),
        }
    }

    /// It may stand in the file all the same.
    pub(super) fn indefinite(&self) -> BackendError {
        BackendError::indefinite().with_source(self.0.clone())
    }
}

/// For an error of asking a file for what a store of ours has: the file could not be read, or it has something
/// else, `what`.
pub(super) fn of_another_form(what: &'static str) -> impl Fn(Error) -> BackendError {
    move |error| {
        if is_of_the_file(&error) {
            nothing_done(error)
        } else {
            BackendError::foreign(what).with_source(error)
        }
    }
}

/// Whether SQLite could not read or lock the file, as opposed to finding something else in it than was asked
/// for.
pub(super) fn is_of_the_file(error: &Error) -> bool {
    matches!(error, Error::SqliteFailure(failure, _) if failure.code != ErrorCode::Unknown)
}

/// Whether another connection's lock was in the way.
pub(super) fn is_of_a_lock(error: &Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed)
    )
}
