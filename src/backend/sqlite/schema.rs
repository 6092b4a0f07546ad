//! The store's tables: made, recognised, or refused.

use crate::backend::StoreId;
use crate::backend::sqlite::failure::{self, nothing_done};
use crate::backend::sqlite::sql::Statements;
use crate::error::BackendError;
use crate::record::FencingToken;
use rusqlite::{Connection, Transaction, TransactionBehavior};

/// The version that this crate writes, and the newest that it reads.
const VERSION: i64 = 1;

/// Makes the tables if they are not there, and moves the token counter to the wall clock at least: a restored
/// older copy of the file must not grant a token again. All in one transaction, so that of many processes one
/// does it.
pub(super) fn prepare(connection: &Connection, statements: &Statements) -> Result<StoreId, BackendError> {
    let transaction =
        Transaction::new_unchecked(connection, TransactionBehavior::Immediate).map_err(nothing_done)?;
    let store_id = match recognise(connection, statements)? {
        Some(store_id) => store_id,
        None => create(connection, statements).map_err(nothing_done)?,
    };
    transaction
        .execute(&statements.raise_last_token, [FencingToken::at_wall_clock().get()])
        .map_err(nothing_done)?;
    transaction.commit().map_err(failure::of_commit)?;
    Ok(store_id)
}

/// The id of the store that is there, none if none is; an error if it is one that this version can't work
/// with.
pub(super) fn recognise(
    connection: &Connection,
    statements: &Statements,
) -> Result<Option<StoreId>, BackendError> {
    let tables: i64 =
        connection.query_row(&statements.count_tables, [], |row| row.get(0)).map_err(nothing_done)?;
    match tables {
        0 => return Ok(None),
        2 => {}
        _ => return Err(BackendError::foreign("one of the store's two tables is missing")),
    }
    let (version, store_id) = connection
        .query_row(&statements.read_meta, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 16]>(1)?)))
        .map_err(failure::of_another_form("the store's meta table has another form"))?;
    if version > VERSION {
        return Err(BackendError::newer_schema(version, VERSION));
    }
    if version < VERSION {
        return Err(BackendError::foreign("the store's schema version is below the first"));
    }
    // Compiled, not run: it names every column that the store writes.
    for statement in [&statements.claim, &statements.read, &statements.update] {
        connection
            .prepare_cached(statement)
            .map_err(failure::of_another_form("the store's record table has another form"))?;
    }
    Ok(Some(StoreId::from_bytes(store_id)))
}

fn create(connection: &Connection, statements: &Statements) -> rusqlite::Result<StoreId> {
    let store_id = StoreId::random();
    for statement in [&statements.create_record, &statements.create_expiry_index, &statements.create_meta] {
        connection.execute(statement, [])?;
    }
    connection.execute(&statements.insert_meta, (VERSION, store_id.as_bytes()))?;
    Ok(store_id)
}
