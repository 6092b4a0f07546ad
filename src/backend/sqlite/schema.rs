//! The store's tables: made, recognised, or refused.

use crate::backend::StoreId;
use crate::backend::sqlite::failure::{self, FailedCommit, nothing_done};
use crate::backend::sqlite::sql::{AUTO_VACUUM, COUNT_SCHEMA, FREE_PAGE_COUNT, PAGE_COUNT, Statements};
use crate::error::BackendError;
use crate::record::FencingToken;
use rusqlite::{Connection, Transaction, TransactionBehavior};

/// The version that this crate writes, and the newest that it reads.
const VERSION: i64 = 1;

/// Makes the tables if they are not there, and moves the token counter to the wall clock at least: a restored
/// older copy of the file must not grant a token again. All in one transaction, so that of many processes one
/// does it.
///
/// It always commits a change, which proves that the store is writable, and settles what may be left of a
/// commit that failed. Gives the store's id, and the counter as it was before.
pub(super) fn prepare(
    connection: &Connection,
    statements: &Statements,
) -> Result<(StoreId, i64), BackendError> {
    let transaction =
        Transaction::new_unchecked(connection, TransactionBehavior::Immediate).map_err(nothing_done)?;
    let found = recognise(connection, statements)?;
    let prepared = renew_meta(connection, statements, found).map_err(nothing_done)?;
    match transaction.commit() {
        Ok(()) => Ok(prepared),
        // The tables may be there now, or not.
        Err(error) if found.is_none() => Err(FailedCommit::new(error).indefinite()),
        // They were there before; the counter's place is nobody's concern but the next opening's.
        Err(error) => Err(nothing_done(error)),
    }
}

/// Refuses a file that has pages in use and no table that they would belong to: its first page is damaged, and
/// a store that was in there must not begin afresh.
fn refuse_a_lost_schema(connection: &Connection) -> Result<(), BackendError> {
    // Without a table there is the first page, and beyond 1 GiB the one that SQLite keeps its locks at.
    const PAGES_OF_NO_TABLE: i64 = 2;
    let ask = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(nothing_done);
    let used = ask(PAGE_COUNT)?.saturating_sub(ask(FREE_PAGE_COUNT)?);
    // The pages of an auto-vacuum's map belong to no table either.
    if used > PAGES_OF_NO_TABLE && ask(COUNT_SCHEMA)? == 0 && ask(AUTO_VACUUM)? == 0 {
        return Err(BackendError::corrupt("the file has pages in use and no table"));
    }
    Ok(())
}

fn renew_meta(
    connection: &Connection,
    statements: &Statements,
    found: Option<StoreId>,
) -> rusqlite::Result<(StoreId, i64)> {
    let (store_id, last_token) = match found {
        Some(store_id) => {
            let counted: i64 = connection.query_row(&statements.read_last_token, [], |row| row.get(0))?;
            // An update to the same value would leave the page as it is, and write nothing.
            connection.execute(&statements.delete_meta, [])?;
            (store_id, counted)
        }
        None => {
            let tables =
                [&statements.create_record, &statements.create_expiry_index, &statements.create_meta];
            for statement in tables {
                connection.execute(statement, [])?;
            }
            (StoreId::random(), 0)
        }
    };
    let raised = last_token.max(FencingToken::at_wall_clock().get());
    connection.execute(&statements.insert_meta, (VERSION, raised, store_id.as_bytes()))?;
    Ok((store_id, last_token))
}

/// The id of the store that is there, none if none is; an error if it is one that this version can't work
/// with.
pub(super) fn recognise(
    connection: &Connection,
    statements: &Statements,
) -> Result<Option<StoreId>, BackendError> {
    let tables: i64 = connection
        .query_row(&statements.count_tables, [], |row| row.get(0))
        .map_err(failure::of_another_form("the file's schema can't be read"))?;
    match tables {
        0 => return refuse_a_lost_schema(connection).map(|()| None),
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

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test that panics has failed")]
mod tests {
    use super::*;
    use crate::backend::sqlite::sql::Prefix;

    #[test]
    fn preparing_a_store_commits_a_change_even_where_its_counter_can_not_rise() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let connection = Connection::open(folder.path().join("store.db")).expect("a file");
        let statements = Statements::new(&Prefix::new("t_").expect("a prefix"));
        let frames_in_the_log = || -> i64 {
            connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1)).expect("a number")
        };
        connection.pragma_update(None, "journal_mode", "wal").expect("a log");
        let (made, _) = prepare(&connection, &statements).expect("a fresh store");
        connection.execute("UPDATE t_meta SET last_token = ?1", [i64::MAX]).expect("a counter");
        let emptied: i64 = connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(1))
            .expect("an empty log");
        assert_eq!(emptied, 0);

        assert_eq!(prepare(&connection, &statements).ok(), Some((made, i64::MAX)));
        assert!(frames_in_the_log() > 0);
        let counter: i64 =
            connection.query_row("SELECT last_token FROM t_meta", [], |row| row.get(0)).expect("a counter");
        assert_eq!(counter, i64::MAX);
    }
}
