//! Opening a connection to the file, and setting it up.

use crate::backend::sqlite::busy::{self, Naps};
use crate::backend::sqlite::failure::{self, nothing_done};
use crate::backend::sqlite::file::FileName;
use crate::backend::sqlite::library;
use crate::backend::sqlite::options::{Durability, SqliteOptions};
use crate::backend::sqlite::place::{NOT_A_FILE, Place};
use crate::backend::sqlite::sql::{LOCKING_MODE, USE_WRITE_AHEAD_LOG};
use crate::error::BackendError;
use crate::planted;
use rusqlite::{Connection, OpenFlags};
use std::mem;
use std::path::PathBuf;

/// Room for every statement of the store, and for some of the application's own.
const CACHED_STATEMENTS: usize = 32;

/// How many pages the log has, at least, when a commit writes it back. A page that was written often is written
/// back once, and each time the database file is synced; but all of the log is read by a recovery after a crash.
/// SQLite's own choice is 1,000.
const LOG_PAGES: i64 = 4_000;

/// What the log is cut back to, in bytes, once a reader that held it open has ended and it starts anew: twice what
/// `LOG_PAGES` come to, so that it is not cut in ordinary work.
const LOG_SIZE_LIMIT: i64 = 32 * 1024 * 1024;

/// A connection that waits for locks as its options say, with the application's own set-up. Nothing of the
/// file is looked at, and no setting of it changed. A `known` file is not made if it is gone, and not looked for
/// by links that may lead elsewhere now.
pub(super) fn connect(place: &Place, known: Option<&FileName>) -> Result<Connection, BackendError> {
    let options = &place.options;
    library::check()?;
    let path = &path_to_open(place, known)?;
    // Opened for reading only, it would be read, and that is an error like any of a disk.
    if path.is_dir() {
        return Err(BackendError::cannot_open());
    }
    let access = if options.read_only {
        OpenFlags::SQLITE_OPEN_READ_ONLY
    } else if options.must_exist || known.is_some() && !place.is_uri() {
        OpenFlags::SQLITE_OPEN_READ_WRITE
    } else {
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
    };
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let mut connection = match &options.vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs.as_str()),
        None => Connection::open_with_flags(path, flags),
    }
    .map_err(nothing_done)?;
    // Whatever spelling asked for it (a URI, say): SQLite names no file for a database in memory.
    if connection.path() == Some("") {
        return Err(BackendError::invalid_option(NOT_A_FILE));
    }
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES).map_err(nothing_done)?;
    if let Some(setup) = &options.connection_setup {
        setup(&connection).map_err(|error| match error {
            rusqlite::Error::SqliteFailure(..) => nothing_done(error),
            of_the_callers_own => BackendError::other(of_the_callers_own),
        })?;
        if place.is_forked() {
            // The set-up has forked, and this is the child: closing would drop the parent's locks.
            mem::forget(connection);
            return Err(BackendError::forked());
        }
        let locking_mode: String =
            connection.query_row(LOCKING_MODE, [], |row| row.get(0)).map_err(nothing_done)?;
        if locking_mode != "normal" {
            // The store's other connections would wait for this one for ever.
            return Err(BackendError::invalid_option("the file can't be shared in this locking mode"));
        }
    }
    wait_for_locks(&mut connection, options)?;
    Ok(connection)
}

/// The path to open, or to open again: by the name that SQLite resolved then.
fn path_to_open(place: &Place, known: Option<&FileName>) -> Result<PathBuf, BackendError> {
    let resolved = known.map(FileName::path);
    let is_gone = resolved.as_ref().is_some_and(|resolved| !resolved.exists());
    if place.is_uri() {
        // It says more than a path, and stays what it is; but it may say that the file is to be made.
        return if is_gone && place.options.vfs.is_none() {
            Err(BackendError::cannot_open())
        } else {
            Ok(place.path.clone())
        };
    }
    // A name that is no UTF-8 may not have come back as it was.
    Ok(resolved.filter(|_| !is_gone).unwrap_or_else(|| place.path.clone()))
}

pub(super) fn wait_for_locks(
    connection: &mut Connection,
    options: &SqliteOptions,
) -> Result<(), BackendError> {
    let mut naps = Naps::new(options.busy_timeout);
    connection.busy_handler(Some(move |earlier| naps.nap(earlier))).map_err(nothing_done)
}

/// Turns the file to write-ahead logging, and prepares the connection to write to it.
pub(super) fn prepare_to_write(connection: &Connection, options: &SqliteOptions) -> Result<(), BackendError> {
    // SQLite does not ask the busy handler here.
    let mode: String = busy::retried(options.busy_timeout, failure::is_of_a_lock, || {
        connection.query_row(USE_WRITE_AHEAD_LOG, [], |row| row.get(0))
    })
    .map_err(nothing_done)?;
    if mode != "wal" {
        return Err(BackendError::invalid_option("the file can't be turned to write-ahead logging"));
    }
    make_durable(connection, options)?;
    connection.pragma_update(Some("main"), "journal_size_limit", LOG_SIZE_LIMIT).map_err(nothing_done)
}

/// Makes the connection as durable as `options` say, in what it writes back, too.
pub(super) fn make_durable(connection: &Connection, options: &SqliteOptions) -> Result<(), BackendError> {
    let synchronous = match options.durability {
        _ if planted::is("sync-off") => "OFF",
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    let set = |name: &str, value: &dyn rusqlite::ToSql| {
        connection.pragma_update(Some("main"), name, value).map_err(nothing_done)
    };
    set("synchronous", &synchronous)?;
    // On Apple's systems a plain fsync stops at the drive's cache (SQLite, "PRAGMA fullfsync"); elsewhere
    // this changes nothing.
    set("fullfsync", &(options.durability == Durability::Full))
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test that panics has failed")]
mod tests {
    use super::*;

    #[test]
    fn the_connection_is_as_durable_as_was_asked() {
        for (durability, synchronous) in [(Durability::Full, 2), (Durability::Normal, 1)] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let options = SqliteOptions::new().with_durability(durability);
            let place = Place::new(&folder.path().join("store.db"), options).expect("a place");
            let connection = connect(&place, None).expect("a connection");
            prepare_to_write(&connection, &place.options).expect("a file of our own");
            let set = |pragma: &str| -> i64 {
                connection.query_row(pragma, [], |row| row.get(0)).expect("a setting")
            };
            assert_eq!(set("PRAGMA main.synchronous"), synchronous, "{durability:?}");
            assert_eq!(set("PRAGMA main.fullfsync"), i64::from(durability == Durability::Full));
        }
    }

    #[test]
    fn the_log_is_written_back_at_the_stores_number_of_pages_or_the_applications_own() {
        let own = SqliteOptions::new()
            .with_connection_setup(|connection| connection.pragma_update(None, "wal_autocheckpoint", 7));
        for (options, pages) in [(SqliteOptions::new(), LOG_PAGES), (own, 7)] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let place = Place::new(&folder.path().join("store.db"), options).expect("a place");
            let connection = connect(&place, None).expect("a connection");
            prepare_to_write(&connection, &place.options).expect("a file of our own");
            let set: i64 =
                connection.query_row("PRAGMA wal_autocheckpoint", [], |row| row.get(0)).expect("a setting");
            assert_eq!(set, pages);
        }
    }
}
