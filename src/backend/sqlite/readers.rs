//! The connections that only read: a look at one record, from a snapshot that no writer is in the way of.
//!
//! In write-ahead logging a reader sees what was committed when it began, and waits for nobody. A commit can be
//! seen only once it was synced, as far as it is synced at all (`walFrames` in SQLite's `wal.c` publishes the
//! index's header, which readers begin with, after `sqlite3OsSync`): what is answered from here is as durable as
//! what the writer answers. And whatever was acknowledged before the look began, by whomever, is in it.

use crate::backend::sqlite::connection;
use crate::backend::sqlite::failure::{self, nothing_done};
use crate::backend::sqlite::inside::Inside;
use crate::backend::sqlite::open::{self, Known};
use crate::backend::sqlite::place::Place;
use crate::backend::sqlite::row::{self, CheckpointColumns};
use crate::backend::sqlite::sql::BAR_WRITES;
use crate::error::BackendError;
use crate::key::RecordId;
use crate::outcome::Outcome;
use crate::record::{FencingToken, Record};
use crate::sync::{AtomicUsize, FairMutex, FairMutexGuard, Ordering};
use crate::time::{Timestamp, read_clock};
use crate::transition::{self, Command};
use rusqlite::{Connection, Row};
use std::mem;
use std::sync::Arc;
use std::thread::available_parallelism;

/// How many connections there are at the least and at the most, where there is use for them: one a core, since a
/// look is work of the processor's; and some more than two, since one that waits for the disk must not hold up
/// those that don't. Each has two files open, and up to 2 MiB of their pages in memory.
const FEWEST: usize = 4;
const MOST: usize = 16;

/// One store's connections that read. Each is opened when it is first needed, and used by one thread at a time.
pub(super) struct Readers {
    place: Arc<Place>,
    known: Known,
    seats: Box<[Seat]>,
    /// Which seat is waited for next, where all are taken.
    queue: AtomicUsize,
}

/// A place for one connection: empty until one is needed, and after it has failed. Fair, so that who waits for
/// it gets it in the order of arrival.
type Seat = FairMutex<Option<Connection>>;

/// A connection to the store that is `known`, barred from writing. In place of opening it for reading only, which
/// a URI may forbid, and a set-up of the application's own.
pub(super) fn connect(place: &Place, known: &Known) -> Result<Connection, BackendError> {
    let (connection, ..) = open::find(place, Some(known))?;
    // The last connection that is closed writes the log back.
    connection::make_durable(&connection, &place.options)?;
    connection.execute_batch(BAR_WRITES).map_err(nothing_done)?;
    Ok(connection)
}

impl Readers {
    pub(super) fn new(place: Arc<Place>, known: Known) -> Self {
        let count = available_parallelism().map_or(FEWEST, usize::from).clamp(FEWEST, MOST);
        let seats = (0..count).map(|_| Seat::new(None)).collect();
        Self { place, known, seats, queue: AtomicUsize::new(0) }
    }

    pub(super) const fn known(&self) -> &Known {
        &self.known
    }

    /// The record, and the time read after it; none if it is absent or expired by then.
    pub(super) fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        self.look(&self.place.statements.read, id, Err, |row| {
            let now = self.now()?;
            let Some(row) = row else { return Ok(None) };
            Ok(row::read(row, id, now, CheckpointColumns::Verify)?.map(|record| (record, now)))
        })
    }

    /// What `claim` is answered, where that writes nothing. None if it may be granted, which is for the writer to
    /// say, by the time that it reads; so is what became of a damaged record, and of a claim where no connection
    /// can be opened to look: the writer's is open.
    pub(super) fn answer(&self, id: &RecordId, claim: &Command) -> Result<Option<Outcome>, BackendError> {
        self.look(
            &self.place.statements.look,
            id,
            |_not_opened| Ok(None),
            |row| {
                let Some(row) = row else { return Ok(None) };
                let now = self.now()?;
                let Ok(record) = row::read(row, id, now, CheckpointColumns::Skip) else { return Ok(None) };
                if transition::grants(record.as_ref(), claim, now) {
                    return Ok(None);
                }
                Ok(Some(transition::apply(record.as_ref(), claim, now, FencingToken::FIRST).outcome))
            },
        )
    }

    /// Read once the row is there: a record that is newer than the time would look as if its lease began later.
    fn now(&self) -> Result<Timestamp, BackendError> {
        Ok(read_clock(&*self.place.options.clock)?)
    }

    /// Shows the record's row to `look`, on a connection that nobody else uses meanwhile; or says what becomes of
    /// it if there is none, and none can be opened.
    fn look<T>(
        &self,
        sql: &str,
        id: &RecordId,
        not_opened: impl FnOnce(BackendError) -> Result<T, BackendError>,
        look: impl FnOnce(Option<&Row<'_>>) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        let _inside = Inside::enter(&self.place)?;
        let mut seat = self.seat()?;
        let connection = match &mut *seat {
            Some(connection) => connection,
            empty => match connect(&self.place, &self.known) {
                Ok(connection) => empty.insert(connection),
                Err(error) => return not_opened(error),
            },
        };
        let looked = show_row(connection, sql, id, look);
        if self.place.options.is_clock_foreign && self.place.is_forked() {
            // The clock has forked in there, and this is the child: its copy of a lock is not to be touched.
            mem::forget(seat);
            return Err(BackendError::forked());
        }
        looked.unwrap_or_else(|error| {
            // It may be the connection that is at fault: the next look opens another.
            *seat = None;
            Err(failure::of_another_form("the store's tables are not where they were")(error))
        })
    }

    /// The first seat that is free: so no more connections are opened than are used at once. If none is, the
    /// callers are spread over all.
    fn seat(&self) -> Result<FairMutexGuard<'_, Option<Connection>>, BackendError> {
        if let Some(free) = self.seats.iter().find_map(Seat::try_lock) {
            return Ok(free);
        }
        let turn = self.queue.fetch_add(1, Ordering::Relaxed).checked_rem(self.seats.len());
        let seat = turn.and_then(|turn| self.seats.get(turn));
        seat.map(Seat::lock).ok_or(BackendError::bug("a store without connections that read"))
    }
}

/// The statement is reset at the end, by a panic too, and with it its transaction ends: a reader that stays
/// would keep the log from being written back.
fn show_row<T>(
    connection: &Connection,
    sql: &str,
    id: &RecordId,
    look: impl FnOnce(Option<&Row<'_>>) -> T,
) -> rusqlite::Result<T> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([id.scope.as_str(), id.key.as_str()])?;
    Ok(look(rows.next()?))
}

impl Drop for Readers {
    fn drop(&mut self) {
        // A fork's copies must not be closed: that would drop the parent's locks.
        if self.place.is_forked() {
            self.seats.iter_mut().for_each(|seat| mem::forget(seat.get_mut().take()));
        }
    }
}
