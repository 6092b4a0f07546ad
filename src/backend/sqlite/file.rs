//! The name that SQLite has for a file: [`FileName`].

use crate::backend::sqlite::sql::LIST_DATABASES;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result, Row};
use std::path::PathBuf;

/// As SQLite resolved it: absolute, without symbolic links. Bytes, since names need not be UTF-8.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FileName(Vec<u8>);

impl FileName {
    /// That of a connection's main database.
    pub(super) fn of(connection: &Connection) -> Result<Self> {
        let mut databases = connection.prepare_cached(LIST_DATABASES)?;
        let mut rows = databases.query([])?;
        while let Some(row) = rows.next()? {
            if row.get_ref("name")? == ValueRef::Text(b"main") {
                return Self::in_row(row);
            }
        }
        Err(rusqlite::Error::QueryReturnedNoRows)
    }

    /// Empty for a database without a file.
    fn in_row(row: &Row<'_>) -> Result<Self> {
        Ok(match row.get_ref("file")? {
            ValueRef::Text(name) => Self(name.to_owned()),
            _ => Self(Vec::new()),
        })
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

/// Whether another file than the store's is attached to the connection. A transaction takes its lock along with
/// the store's, and commits it by itself: each has a write-ahead log of its own (SQLite, "ATTACH DATABASE").
pub(super) fn is_another_attached(connection: &Connection) -> Result<bool> {
    let mut databases = connection.prepare_cached(LIST_DATABASES)?;
    let mut rows = databases.query([])?;
    while let Some(row) = rows.next()? {
        let is_of_the_store =
            [ValueRef::Text(b"main"), ValueRef::Text(b"temp")].contains(&row.get_ref("name")?);
        if !is_of_the_store && FileName::in_row(row)? != FileName(Vec::new()) {
            return Ok(true);
        }
    }
    Ok(false)
}
