//! The name that SQLite has for a file: [`FileName`].

use crate::backend::sqlite::sql::LIST_DATABASES;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};
use std::path::PathBuf;

/// As SQLite resolved it: absolute, without symbolic links. Bytes, since names need not be UTF-8.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FileName(Vec<u8>);

impl FileName {
    /// That of a connection's main database.
    pub(super) fn of(connection: &Connection) -> Result<Self> {
        let main = databases(connection)?.into_iter().find(|(name, _)| name == MAIN);
        main.map(|(_, file)| file).ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    /// Whether there is none: the database is in memory, or temporary.
    fn is_of_no_file(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn path(&self) -> PathBuf {
        #[cfg(unix)]
        return PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&self.0));
        #[cfg(not(unix))]
        return PathBuf::from(String::from_utf8_lossy(&self.0).into_owned());
    }

    /// Whether it is the name of the same file: a copy of a store has the same store id. Another spelling is no
    /// other file; another hard link is, since the log is named by it.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        let canonical = |name: &Self| name.path().canonicalize().ok();
        self == other || canonical(self).is_some_and(|this| canonical(other) == Some(this))
    }
}

const MAIN: &str = "main";
pub(super) const TEMPORARY: &str = "temp";

/// The databases of a connection, by name, each with its file.
pub(super) fn databases(connection: &Connection) -> Result<Vec<(String, FileName)>> {
    let mut list = connection.prepare_cached(LIST_DATABASES)?;
    list.query_map([], |row| {
        let file = match row.get_ref("file")? {
            ValueRef::Text(name) => name.to_owned(),
            _ => Vec::new(),
        };
        Ok((row.get("name")?, FileName(file)))
    })?
    .collect()
}

/// Whether another file than the store's is attached to the connection. A transaction takes its lock along with
/// the store's, and commits it by itself: each has a write-ahead log of its own (SQLite, "ATTACH DATABASE").
pub(super) fn is_another_attached(connection: &Connection) -> Result<bool> {
    let is_another = |(name, file): &(String, FileName)| {
        ![MAIN, TEMPORARY].contains(&name.as_str()) && !file.is_of_no_file()
    };
    Ok(databases(connection)?.iter().any(is_another))
}
