//! Where a store is, and how it is worked with: what does not change while it is open.

use crate::backend::sqlite::options::SqliteOptions;
use crate::backend::sqlite::process::Process;
use crate::backend::sqlite::session::Session;
use crate::backend::sqlite::sql::{Prefix, Statements};
use crate::error::BackendError;
use rusqlite::Connection;
use std::path::{Path, PathBuf};

pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) options: SqliteOptions,
    pub(super) statements: Statements,
    process: Process,
}

impl Place {
    pub(super) fn new(path: &Path, options: SqliteOptions) -> Result<Self, BackendError> {
        let statements = Statements::new(&Prefix::new(&options.prefix)?);
        Ok(Self { path: path.to_owned(), options, statements, process: Process::open()? })
    }

    /// Whether this process is a fork of the one that opened the store.
    pub(super) fn is_forked(&self) -> bool {
        self.process.is_left()
    }

    /// `connection` at work for this store, as `writer`.
    pub(super) fn session<'s>(&'s self, connection: &'s Connection, writer: i64) -> Session<'s> {
        Session { connection, statements: &self.statements, clock: &*self.options.clock, writer }
    }
}
