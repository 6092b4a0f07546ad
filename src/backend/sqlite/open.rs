//! A connection that is open on the store's file, and what is known of it: [`Open`].

use crate::backend::StoreId;
use crate::backend::sqlite::failure::nothing_done;
use crate::backend::sqlite::file::{self, FileName, TEMPORARY};
use crate::backend::sqlite::place::Place;
use crate::backend::sqlite::session::Session;
use crate::backend::sqlite::sql::{
    BARS_TO_WRITES, DRAW_WRITER, LIST_TEMPORARY, LOCKING_MODE, MAX_PAGE_COUNT,
};
use crate::backend::sqlite::watch::Watch;
use crate::backend::sqlite::{connection, schema};
use crate::error::BackendError;
use rusqlite::types::FromSql;
use rusqlite::{Connection, Result};

pub(super) struct Open {
    pub(super) connection: Connection,
    pub(super) known: Known,
    /// Stored with each claim, so that it can be told whose connection granted it.
    pub(super) writer: i64,
    /// The last token that had been granted before this opening.
    pub(super) last_token: i64,
    /// As it was set up.
    shape: Shape,
}

/// Which store a file has, and which file that is.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) store_id: StoreId,
    pub(super) file: FileName,
}

const NO_STORE: BackendError = BackendError::foreign("there is no store in this file");
const NOT_THERE: BackendError =
    BackendError::foreign("the store that was opened is not in its file any more");

/// A connection to the file, and what is there: the id of the store, if there is one, and the name of the
/// file. It is the store that is `known`, if it was open before. Nothing is changed, so that a file which is
/// not ours stays as it was.
pub(super) fn find(
    place: &Place,
    known: Option<&Known>,
) -> Result<(Connection, Option<StoreId>, FileName), BackendError> {
    let connection = connection::connect(place, known.map(|known| &known.file))?;
    let found = schema::recognise(&connection, &place.statements)?;
    let file = FileName::of(&connection).map_err(nothing_done)?;
    match known {
        Some(known) if found != Some(known.store_id) || file != known.file => Err(NOT_THERE),
        _ => Ok((connection, found, file)),
    }
}

impl Open {
    /// Opens the file, and prepares the store if it may: the one that is `known`, if it was open before.
    pub(super) fn new(place: &Place, known: Option<&Known>) -> Result<Self, BackendError> {
        let (mut connection, found, file) = find(place, known)?;
        let (store_id, last_token) = if place.options.read_only {
            (found.ok_or(NO_STORE)?, 0)
        } else {
            if place.options.must_exist && found.is_none() {
                return Err(NO_STORE);
            }
            connection::prepare_to_write(&connection, &place.options)?;
            schema::prepare(&connection, &place.statements)?
        };
        place.watch.over(&mut connection).map_err(nothing_done)?;
        let writer = connection.query_row(DRAW_WRITER, [], |row| row.get(0)).map_err(nothing_done)?;
        let shape = Shape::of(&connection).map_err(nothing_done)?;
        Ok(Self { connection, known: Known { store_id, file }, writer, last_token, shape })
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
            && allow_writes(connection).is_ok()
            && Shape::of(connection).is_ok_and(|shape| shape == self.shape)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        Watch::lift(&mut self.connection);
    }
}

/// What work can leave on a connection, and would stand in the way of commands after it: a file that is locked
/// along with the store's, a trigger on the store's table, a lock that is not given back, a bound on the file.
#[derive(PartialEq)]
struct Shape {
    databases: Vec<(String, FileName)>,
    temporary: Option<String>,
    locking_mode: String,
    max_page_count: i64,
}

impl Shape {
    fn of(connection: &Connection) -> Result<Self> {
        let mut databases = file::databases(connection)?;
        // It is there from when it is first asked for.
        databases.retain(|(name, _)| name != TEMPORARY);
        Ok(Self {
            databases,
            temporary: ask(connection, LIST_TEMPORARY)?,
            locking_mode: ask(connection, LOCKING_MODE)?,
            max_page_count: ask(connection, MAX_PAGE_COUNT)?,
        })
    }
}

fn ask<T: FromSql>(connection: &Connection, question: &str) -> Result<T> {
    connection.prepare_cached(question)?.query_row([], |row| row.get(0))
}

fn allow_writes(connection: &Connection) -> Result<()> {
    for (is_barred, unbar) in BARS_TO_WRITES {
        if ask(connection, is_barred)? {
            connection.execute_batch(unbar)?;
        }
    }
    Ok(())
}
