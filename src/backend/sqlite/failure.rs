//! What an error of SQLite means for the command that met it.

use crate::error::{BackendError, Source};
use rusqlite::ErrorCode;
use std::sync::Arc;

/// For errors before a commit: the transaction is rolled back, and nothing was done.
pub(super) fn before_commit(error: rusqlite::Error) -> BackendError {
    let Some(code) = error.sqlite_error_code() else {
        // Not SQLite's word but rusqlite's, about a value: a column does not hold what the schema says it holds.
        return BackendError::corrupt("a stored value has the wrong type", Some(Arc::new(error)));
    };
    let make: fn(Option<Source>) -> BackendError = match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            BackendError::busy
        }
        ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory | ErrorCode::OperationInterrupted => {
            BackendError::unavailable
        }
        ErrorCode::DiskFull => BackendError::full,
        ErrorCode::ReadOnly => BackendError::read_only,
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied => BackendError::cannot_open,
        ErrorCode::DatabaseCorrupt => |source| BackendError::corrupt("the database file is damaged", source),
        ErrorCode::NotADatabase => |source| BackendError::foreign("the file is no SQLite database", source),
        _ => return BackendError::other(error),
    };
    make(Some(Arc::new(error)))
}

/// For an error of the commit itself: it may stand in the file all the same.
pub(super) fn of_commit(error: rusqlite::Error) -> BackendError {
    BackendError::indefinite(Some(Arc::new(error)))
}

/// Whether SQLite could not read or lock the file, as opposed to finding something else in it than was asked for.
pub(super) fn is_of_the_file(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code().is_some_and(|code| code != ErrorCode::Unknown)
}
