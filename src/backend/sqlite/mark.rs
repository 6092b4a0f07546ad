//! A mark inside a transaction, which is gone when the transaction is, whatever has begun since: [`Mark`].

use crate::backend::sqlite::session::Session;
use crate::backend::sqlite::sql::{BACK_TO_MARK, CLEAR_MARK, SET_MARK};
use rusqlite::{Connection, Result};

/// A savepoint. Savepoints of one name are told apart by their order, the newest first; so that none of the
/// application's passes for one that was set before its work, the name has the connection's number in it.
pub(super) struct Mark(String);

impl Mark {
    pub(super) fn of(session: &Session<'_>) -> Self {
        Self(format!("idempotency_{:016x}", session.writer))
    }

    pub(super) fn set(&self, transaction: &Connection) -> Result<()> {
        self.execute(SET_MARK, transaction)
    }

    /// Undoes what was written since the mark, and keeps the mark.
    pub(super) fn go_back(&self, transaction: &Connection) -> Result<()> {
        self.execute(BACK_TO_MARK, transaction)
    }

    /// An error if it is not there any more.
    pub(super) fn clear(&self, transaction: &Connection) -> Result<()> {
        self.execute(CLEAR_MARK, transaction)
    }

    fn execute(&self, statement: &str, transaction: &Connection) -> Result<()> {
        transaction.execute_batch(&statement.replace("{mark}", &self.0))
    }
}
