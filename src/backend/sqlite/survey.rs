//! A look at every record, on a connection of its own: it takes long, and in write-ahead logging a reader is in no
//! writer's way.

use crate::backend::sqlite::failure::nothing_done;
use crate::backend::sqlite::open::Known;
use crate::backend::sqlite::place::Place;
use crate::backend::sqlite::readers;
use crate::backend::sqlite::row::{self, CheckpointColumns};
use crate::error::BackendError;
use crate::inspection::{Standing, Stats, Stuck, StuckList};
use crate::key::{IdempotencyKey, RecordId, Scope};
use crate::record::Record;
use crate::time::{Timestamp, read_clock};
use rusqlite::{Connection, Row};
use std::mem;

/// Counts all records.
pub(super) fn stats(place: &Place, known: &Known) -> Result<Stats, BackendError> {
    let mut stats = Stats::default();
    survey(place, known, &place.statements.outline, |row, now| {
        let bytes = row.get(3).ok().and_then(|bytes: i64| u64::try_from(bytes).ok()).unwrap_or(0);
        match standing(row, now) {
            Some(standing) => stats.count_standing(standing, bytes),
            None => stats.count_damaged(bytes),
        }
    })?;
    Ok(stats)
}

/// The first `limit` of the claims that look stuck.
pub(super) fn stuck(place: &Place, known: &Known, limit: usize) -> Result<Vec<Stuck>, BackendError> {
    let mut list = StuckList::new(limit);
    survey(place, known, &place.statements.list_in_progress, |row, now| {
        if let Some((id, record)) = record(row, now) {
            list.offer(&id, &record, now);
        }
    })?;
    Ok(list.into_vec())
}

/// Shows each row that `sql` selects to `look`, with the time. Nothing is kept open: a reader that stays
/// would keep the log from being written back.
fn survey(
    place: &Place,
    known: &Known,
    sql: &str,
    look: impl FnMut(&Row<'_>, Timestamp),
) -> Result<(), BackendError> {
    let connection = readers::connect(place, known)?;
    let surveyed = look_at_each(&connection, place, sql, look);
    if place.is_forked() {
        // Somebody's code has forked in there, and this is the child: closing would drop the parent's locks.
        mem::forget(connection);
        return Err(BackendError::forked());
    }
    surveyed
}

fn look_at_each(
    connection: &Connection,
    place: &Place,
    sql: &str,
    mut look: impl FnMut(&Row<'_>, Timestamp),
) -> Result<(), BackendError> {
    let mut statement = connection.prepare(sql).map_err(nothing_done)?;
    let mut rows = statement.query([]).map_err(nothing_done)?;
    let mut next = rows.next().map_err(nothing_done)?;
    // Read once the snapshot is taken: the lease of a claim that is newer than the time would look too long.
    let now = read_clock(&*place.options.clock)?;
    while let Some(row) = next {
        look(row, now);
        next = rows.next().map_err(nothing_done)?;
    }
    Ok(())
}

/// How the record in a row of the outline stands; none if that can't be told.
fn standing(row: &Row<'_>, now: Timestamp) -> Option<Standing> {
    let deadline = |column| row.get(column).ok().map(Timestamp::from_millis);
    let expires_at = deadline(0)?;
    if expires_at.is_over(now) {
        return Some(Standing::Expired);
    }
    let state = row::state(row.get_ref(1).ok()?.as_str().ok()?)?;
    Some(Standing::at(now, state, deadline(2)?, expires_at))
}

/// The record in a row of the list, and whose it is; none if it has expired, or is damaged.
fn record(row: &Row<'_>, now: Timestamp) -> Option<(RecordId, Record)> {
    let text = |column| row.get_ref(column).ok()?.as_str().ok();
    let id = RecordId::new(Scope::new(text("scope")?).ok()?, IdempotencyKey::new(text("key")?).ok()?);
    // What was selected is in the row by now, so whatever is wrong with it is damage.
    let record = row::read(row, &id, now, CheckpointColumns::Skip).ok()??;
    Some((id, record))
}
