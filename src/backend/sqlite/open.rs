//! A connection that is open on the store's file, and what is known of it: [`Open`].

use crate::backend::StoreId;
use crate::backend::sqlite::failure::nothing_done;
use crate::backend::sqlite::place::Place;
use crate::backend::sqlite::session::Session;
use crate::backend::sqlite::sql::{ALLOW_WRITES, COUNT_TEMPORARY, DRAW_WRITER, LIST_DATABASES, LOCKING_MODE};
use crate::backend::sqlite::watch::Watch;
use crate::backend::sqlite::{connection, schema};
use crate::error::BackendError;
use rusqlite::{Connection, Result, TransactionState};

pub(super) struct Open {
    pub(super) connection: Connection,
    pub(super) store_id: StoreId,
    /// Stored with each claim, so that it can be told whose connection granted it.
    pub(super) writer: i64,
    /// The last token that had been granted before this opening.
    pub(super) last_token: i64,
    /// As it was set up.
    shape: Shape,
}

impl Open {
    /// Opens the file, and prepares the store if it may: the `expected` one, if that is known.
    pub(super) fn new(place: &Place, expected: Option<StoreId>) -> Result<Self, BackendError> {
        let mut connection = connection::connect(place, expected.is_some())?;
        // Looked at first, so that a file which is not ours stays as it was.
        let found = schema::recognise(&connection, &place.statements)?;
        if expected.is_some() && found != expected {
            return Err(BackendError::foreign("the store that was opened is not in its file any more"));
        }
        let (store_id, last_token) = if place.options.read_only {
            (found.ok_or(BackendError::foreign("there is no store in this file"))?, 0)
        } else {
            connection::prepare_to_write(&connection, &place.options)?;
            schema::prepare(&connection, &place.statements)?
        };
        place.watch.over(&mut connection).map_err(nothing_done)?;
        let writer = connection.query_row(DRAW_WRITER, [], |row| row.get(0)).map_err(nothing_done)?;
        let shape = Shape::of(&connection).map_err(nothing_done)?;
        Ok(Self { connection, store_id, writer, last_token, shape })
    }

    /// The connection at work for the store.
    pub(super) fn session<'s>(&'s self, place: &'s Place) -> Session<'s> {
        place.session(&self.connection, self.writer)
    }

    /// After work of the application's: false if the connection is not what it was, and can't be made so.
    pub(super) fn is_taken_back(&mut self, place: &Place) -> bool {
        let connection = &mut self.connection;
        connection.is_autocommit()
            // A statement that was not ended would hold its snapshot for ever.
            && !connection.is_busy()
            && connection::wait_for_locks(connection, &place.options).is_ok()
            && connection.execute_batch(ALLOW_WRITES).is_ok()
            && Shape::of(connection).is_ok_and(|shape| shape == self.shape)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        Watch::lift(&mut self.connection);
    }
}

/// What work can leave on a connection, and would stand in the way of every command after it: a file that is
/// locked along with the store's, a trigger on the store's table, a lock that is not given back.
#[derive(PartialEq)]
struct Shape {
    databases: Vec<String>,
    temporary: i64,
    locking_mode: String,
}

impl Shape {
    fn of(connection: &Connection) -> Result<Self> {
        Ok(Self {
            databases: attached(connection)?,
            temporary: connection.prepare_cached(COUNT_TEMPORARY)?.query_row([], |row| row.get(0))?,
            locking_mode: connection.prepare_cached(LOCKING_MODE)?.query_row([], |row| row.get(0))?,
        })
    }
}

fn attached(connection: &Connection) -> Result<Vec<String>> {
    connection
        .prepare_cached(LIST_DATABASES)?
        .query_map([], |row| row.get("name"))?
        .filter(|name| !name.as_deref().is_ok_and(|name| ["main", "temp"].contains(&name)))
        .collect()
}

/// Whether the connection's transaction writes to another file than the store's, too. The two are not committed
/// as one: each has a write-ahead log of its own (SQLite, "ATTACH DATABASE").
pub(super) fn writes_elsewhere(connection: &Connection) -> Result<bool> {
    for database in attached(connection)? {
        if connection.transaction_state(Some(database.as_str()))? == TransactionState::Write {
            return Ok(true);
        }
    }
    Ok(false)
}
