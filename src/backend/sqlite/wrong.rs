//! What some planted faults do in place of the store's own code.

use crate::backend::Swept;
use crate::backend::sqlite::SqliteBackend;
use crate::backend::sqlite::failure::nothing_done;
use crate::backend::sqlite::session::{Granted, Session};
use crate::backend::sqlite::sql::COMMIT;
use crate::backend::sqlite::writer::Ending;
use crate::error::BackendError;
use crate::planted;
use rusqlite::{OptionalExtension, ToSql};
use std::thread;

/// Claims outside of the transaction: the statement commits when it is reset, and `query_row` does not look at
/// what comes of that.
pub(super) fn grant_from_returning(
    session: &Session<'_>,
    parameters: &[&dyn ToSql],
) -> Result<Granted, BackendError> {
    let connection = session.connection;
    connection.execute_batch(COMMIT).map_err(nothing_done)?;
    let claim = format!("{} RETURNING attempt", session.statements.claim);
    let attempt = connection.query_row(&claim, parameters, |row| row.get(0)).optional();
    connection.execute_batch("BEGIN IMMEDIATE").map_err(nothing_done)?;
    Ok(match attempt.map_err(nothing_done)? {
        None => Granted::No,
        Some(1_u32) => Granted::Inserted,
        Some(_) => Granted::Replaced,
    })
}

/// Chooses in one transaction, and deletes in another one.
pub(super) fn sweep_by_key(store: &SqliteBackend, limit: usize) -> Result<Swept, BackendError> {
    let table = format!("main.{}record", store.place.options.prefix);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let chosen = store.turn()?.in_transaction(|session, transaction| {
        let now = session.now()?.as_millis();
        let expired = format!("SELECT rowid FROM {table} WHERE expires_at_ms <= ?1 LIMIT ?2");
        let mut chosen = transaction.prepare(&expired).map_err(nothing_done)?;
        let rows = chosen.query_map([now, limit], |row| row.get(0)).map_err(nothing_done)?;
        Ok(Ending::RollBack(rows.collect::<rusqlite::Result<Vec<i64>>>().map_err(nothing_done)?))
    })?;
    thread::sleep(planted::GAP);
    store.turn()?.in_transaction(|_, transaction| {
        let mut removed: usize = 0;
        for row in &chosen {
            let delete = format!("DELETE FROM {table} WHERE rowid = ?1");
            removed = removed.saturating_add(transaction.execute(&delete, [row]).map_err(nothing_done)?);
        }
        Ok(Ending::Commit(Swept { removed, more: false }, Vec::new()))
    })
}
