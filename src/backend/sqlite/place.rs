//! Where a store is, and how it is worked with: what does not change while it is open.

use crate::backend::sqlite::options::SqliteOptions;
use crate::backend::sqlite::process::Process;
use crate::backend::sqlite::session::Session;
use crate::backend::sqlite::sql::{Prefix, Statements};
use crate::backend::sqlite::watch::Watch;
use crate::error::BackendError;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

pub(super) const NOT_A_FILE: &str =
    "a database without a file would be a store of each connection's own; use in_memory()";

pub(super) struct Place {
    /// Absolute, since the program may change its working directory before the file is opened again; a URI
    /// stays as it is.
    pub(super) path: PathBuf,
    pub(super) options: SqliteOptions,
    pub(super) statements: Statements,
    pub(super) watch: Watch,
    /// Whether a commit has failed whose pages may lie in the log, and nothing was committed since: a crash could
    /// bring to life what no look shows.
    pub(super) is_in_doubt: AtomicBool,
    process: Process,
}

impl Place {
    pub(super) fn new(path: &Path, options: SqliteOptions) -> Result<Self, BackendError> {
        let statements = Statements::new(&Prefix::new(&options.prefix)?);
        if path.as_os_str() == ":memory:" || path.as_os_str().is_empty() {
            return Err(BackendError::invalid_option(NOT_A_FILE));
        }
        let path = if is_uri(path) {
            path.to_owned()
        } else {
            std::path::absolute(path).map_err(|error| BackendError::cannot_open().with_source(error))?
        };
        let (watch, is_in_doubt) = (Watch::default(), AtomicBool::new(false));
        Ok(Self { path, options, statements, watch, is_in_doubt, process: Process::open()? })
    }

    pub(super) fn is_uri(&self) -> bool {
        is_uri(&self.path)
    }

    /// Whether this process is a fork of the one that opened the store.
    pub(super) fn is_forked(&self) -> bool {
        self.process.is_left()
    }

    /// `connection` at work for this store, as `writer`.
    pub(super) fn session<'s>(&'s self, connection: &'s Connection, writer: i64) -> Session<'s> {
        Session::new(connection, &self.statements, &*self.options.clock, writer)
    }
}

fn is_uri(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().starts_with(b"file:")
}
