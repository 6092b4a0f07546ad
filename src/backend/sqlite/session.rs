//! The commands, executed inside a transaction that holds the write lock.

use crate::backend::sqlite::evidence::Evidence;
use crate::backend::sqlite::failure::{is_of_a_lock, nothing_done};
use crate::backend::sqlite::row::{self, CheckpointColumns};
use crate::backend::sqlite::sql::{BACK_TO_MARK, CLEAR_MARK, SET_MARK, Statements};
#[cfg(idempotency_planted)]
use crate::backend::sqlite::wrong;
use crate::error::BackendError;
use crate::fingerprint::Fingerprint;
use crate::key::RecordId;
use crate::outcome::{Grant, Outcome};
use crate::planted;
use crate::policy::Terms;
use crate::record::{FencingToken, Record};
use crate::time::{Clock, Timestamp, read_clock};
use crate::transition::{self, Command, Transition, Write};
use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row, params};
use std::cell::Cell;
use std::ptr;

const COUNTER_GONE: BackendError = BackendError::corrupt("the store's token counter is gone");

/// One connection at work for one store, in one transaction.
pub(super) struct Session<'s> {
    pub(super) connection: &'s Connection,
    pub(super) statements: &'s Statements,
    clock: &'s dyn Clock,
    /// Stored with each claim, so that it can be told whose connection granted it.
    pub(super) writer: i64,
    counter: Cell<Counter>,
    /// The statements that were used. To look one up again would hash its whole text, which is long.
    kept: Cell<Vec<(&'s str, CachedStatement<'s>)>>,
}

/// The highest token that was granted. A transaction reads it once, and writes it once.
#[derive(Clone, Copy)]
enum Counter {
    Unread,
    Stored(i64),
    /// Higher than what is stored.
    Raised(FencingToken),
}

/// What became of the row that a claim is to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Granted {
    No,
    /// It was not there before, so all of it is known.
    Inserted,
    /// It was there, expired or lapsed.
    Replaced,
}

/// What a command came to.
pub(super) struct Done {
    pub(super) outcome: Outcome,
    /// What it has written, by which it is known again; none if it has written nothing.
    pub(super) written: Option<Evidence>,
}

impl Done {
    const fn nothing(outcome: Outcome) -> Self {
        Self { outcome, written: None }
    }
}

impl<'s> Session<'s> {
    pub(super) const fn new(
        connection: &'s Connection,
        statements: &'s Statements,
        clock: &'s dyn Clock,
        writer: i64,
    ) -> Self {
        let counter = Cell::new(Counter::Unread);
        Self { connection, statements, clock, writer, counter, kept: Cell::new(Vec::new()) }
    }

    pub(super) fn now(&self) -> Result<Timestamp, BackendError> {
        Ok(read_clock(self.clock)?)
    }

    /// Executes `command`. What it has written counts only after [`finish`](Self::finish).
    pub(super) fn execute(
        &self,
        id: &RecordId,
        command: &Command,
        now: Timestamp,
    ) -> Result<Done, BackendError> {
        match command {
            Command::Claim { fingerprint, lease, retention } => {
                self.claim(id, command, fingerprint, Terms { lease: *lease, retention: *retention }, now)
            }
            Command::Forget => self.forget(id, now),
            _ => self.read_apply_write(id, command, now),
        }
    }

    /// As [`execute`](Self::execute), and finished; on an error nothing of the command is left in the transaction, or it is
    /// indefinite.
    pub(super) fn execute_marked(
        &self,
        id: &RecordId,
        command: &Command,
        now: Timestamp,
    ) -> Result<Done, BackendError> {
        let connection = self.connection;
        // It fails if a statement of the application's own is still writing; to SQLite that is "busy", but no
        // waiting helps.
        connection.execute_batch(SET_MARK).map_err(|error| {
            if is_of_a_lock(&error) { BackendError::other(error) } else { nothing_done(error) }
        })?;
        match self.execute(id, command, now).and_then(|done| self.finish().map(|()| done)) {
            Ok(done) => {
                // A mark that is left is no harm: the end of the transaction takes it away.
                let _is_cleared = connection.execute_batch(CLEAR_MARK);
                if connection.is_autocommit() { Err(BackendError::unavailable()) } else { Ok(done) }
            }
            Err(error) if connection.is_autocommit() => Err(error),
            Err(error) => match connection.execute_batch(BACK_TO_MARK) {
                Ok(()) => Err(error),
                // Half of it may be left in there.
                Err(_) => Err(BackendError::indefinite().with_source(error)),
            },
        }
    }

    /// SQL may only grant a claim; what stands in its way, the core explains.
    fn claim(
        &self,
        id: &RecordId,
        command: &Command,
        fingerprint: &Fingerprint,
        terms: Terms,
        now: Timestamp,
    ) -> Result<Done, BackendError> {
        let token = self.next_token()?;
        if let Some(token) = token {
            let granted = self.grant(id, fingerprint, terms, now, token)?;
            if granted != Granted::No {
                self.counter.set(Counter::Raised(token));
                let outcome = match granted {
                    Granted::Inserted => transition::apply(None, command, now, token).outcome,
                    _ => Outcome::Claimed(Grant::of(&self.read_back(id, now, token)?)),
                };
                return Ok(Done { outcome, written: Some(Evidence::granted(id, token, self.writer)) });
            }
        }
        let record = self.stored(id, now, CheckpointColumns::Skip)?;
        match transition::apply(record.as_ref(), command, now, FencingToken::FIRST) {
            Transition { write: Write::Keep, outcome } => Ok(Done::nothing(outcome)),
            _ if token.is_none() => Err(BackendError::tokens_exhausted()),
            _ => Err(BackendError::bug("SQL refused a claim that the core would grant")),
        }
    }

    /// The one statement that grants, if the row that is there allows it. Its changed-row count is the only
    /// witness.
    fn grant(
        &self,
        id: &RecordId,
        fingerprint: &Fingerprint,
        terms: Terms,
        now: Timestamp,
        token: FencingToken,
    ) -> Result<Granted, BackendError> {
        let lease_until = terms.lease.after(now);
        let last_inserted = self.connection.last_insert_rowid();
        let parameters = params![
            id.scope.as_str(),
            id.key.as_str(),
            token.get(),
            now.as_millis(),
            terms.lease.as_millis(),
            terms.retention.as_millis(),
            lease_until.as_millis(),
            terms.retention.after(lease_until).as_millis(),
            fingerprint.format(),
            fingerprint.digest(),
            self.writer,
        ];
        #[cfg(idempotency_planted)]
        if planted::is("grant-from-returning") {
            return wrong::grant_from_returning(self, parameters);
        }
        let changed = self.change(&self.statements.claim, parameters)?;
        Ok(match changed {
            // An update leaves that number as it is. So does a row that has the number of one which was deleted;
            // then it is read back for nothing.
            1 if self.connection.last_insert_rowid() != last_inserted => Granted::Inserted,
            1 => Granted::Replaced,
            _ => Granted::No,
        })
    }

    /// The record of a claim that was granted over an earlier one, of which it may have kept something.
    fn read_back(&self, id: &RecordId, now: Timestamp, token: FencingToken) -> Result<Record, BackendError> {
        self.stored(id, now, CheckpointColumns::Verify)?
            .filter(|record| record.token == token)
            .ok_or(BackendError::corrupt("a claim can't be read back after it was granted"))
    }

    /// A token above the last one granted; none if that was the highest there is.
    ///
    /// Never below the wall clock: the file's content may be replaced by an older one while it is open, as
    /// SQLite's backup does, and then the counter alone would grant a token again.
    fn next_token(&self) -> Result<Option<FencingToken>, BackendError> {
        let next = self.last_token()?.checked_add(1).and_then(FencingToken::new);
        let is_bounded = !planted::is("token-of-the-live-rows");
        Ok(next.map(|next| if is_bounded { next.max(FencingToken::at_wall_clock()) } else { next }))
    }

    /// The highest token that was granted, or 0.
    fn last_token(&self) -> Result<i64, BackendError> {
        match self.counter.get() {
            Counter::Stored(last) => Ok(last),
            Counter::Raised(token) => Ok(token.get()),
            Counter::Unread => {
                let last = self
                    .with_statement(&self.statements.read_last_token, |read| {
                        read.query_row([], |row| row.get(0)).optional()
                    })?
                    .ok_or(COUNTER_GONE)?;
                self.counter.set(Counter::Stored(last));
                Ok(last)
            }
        }
    }

    /// Stores how far the counter has come: once, in front of whatever else may move it, or of the commit.
    pub(super) fn finish(&self) -> Result<(), BackendError> {
        let Counter::Raised(token) = self.counter.replace(Counter::Unread) else { return Ok(()) };
        match self.change(&self.statements.write_last_token, [token.get()])? {
            1 => Ok(()),
            _ => Err(COUNTER_GONE),
        }
    }

    fn read_apply_write(
        &self,
        id: &RecordId,
        command: &Command,
        now: Timestamp,
    ) -> Result<Done, BackendError> {
        let stored = self.stored(id, now, CheckpointColumns::Skip)?;
        let Transition { write, outcome } =
            transition::apply(stored.as_ref(), command, now, FencingToken::FIRST);
        let (changed, written) = match (write, stored) {
            (Write::Keep, _) => return Ok(Done::nothing(outcome)),
            (Write::Put(record), Some(before)) => {
                (self.put(id, command, &record)?, Evidence::put(id, before, record))
            }
            (Write::Delete, Some(before)) => {
                let token = before.token.get();
                let deleted =
                    self.change(&self.statements.delete, params![id.scope.as_str(), id.key.as_str(), token])?;
                (deleted, Evidence::deleted(id, Value::Integer(token)))
            }
            (_, None) => return Err(BackendError::bug("a command other than a claim made a record")),
        };
        match changed {
            1 => Ok(Done { outcome, written: Some(written) }),
            _ => Err(BackendError::corrupt("a row can't be written after it was read")),
        }
    }

    /// Writes what `command` has made of the record; says how many rows that were.
    fn put(&self, id: &RecordId, command: &Command, record: &Record) -> Result<usize, BackendError> {
        record.check().map_err(|_| BackendError::bug("a record that breaks an invariant"))?;
        match command {
            // The others replace the checkpoint, or drop it.
            Command::Complete { .. } | Command::Checkpoint { .. } => {
                self.with_statement(&self.statements.update, |update| row::update(update, id, record))
            }
            _ => self.change(
                &self.statements.extend,
                params![
                    id.scope.as_str(),
                    id.key.as_str(),
                    record.token.get(),
                    record.lease_until.as_millis(),
                    record.expires_at.as_millis(),
                ],
            ),
        }
    }

    /// Deletes the record without reading more of it than who owns it, as the core does with one that it
    /// reads whole: damage is not in the way.
    fn forget(&self, id: &RecordId, now: Timestamp) -> Result<Done, BackendError> {
        let owner = self.owner(id)?;
        let deleted = self
            .change(&self.statements.forget, params![id.scope.as_str(), id.key.as_str(), now.as_millis()])?;
        let existed = deleted > 0;
        let written = owner.filter(|_| existed).map(|(token, _)| Evidence::deleted(id, token));
        Ok(Done { outcome: Outcome::Forgotten { existed }, written })
    }

    pub(super) fn stored(
        &self,
        id: &RecordId,
        now: Timestamp,
        checkpoint: CheckpointColumns,
    ) -> Result<Option<Record>, BackendError> {
        self.with_row(id, |row| row.map_or(Ok(None), |row| row::read(row, id, now, checkpoint)))
    }

    /// The record's row, as it is, for as long as `read` looks at it.
    pub(super) fn with_row<T>(
        &self,
        id: &RecordId,
        read: impl FnOnce(Option<&Row<'_>>) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        self.with_statement(&self.statements.read, |select| {
            let mut rows = select.query([id.scope.as_str(), id.key.as_str()])?;
            rows.next().map(read)
        })?
    }

    /// Token and writer of the record's row, whatever they are; none if there is no row.
    pub(super) fn owner(&self, id: &RecordId) -> Result<Option<(Value, Value)>, BackendError> {
        self.with_statement(&self.statements.read_owner, |select| {
            select
                .query_row([id.scope.as_str(), id.key.as_str()], |row| {
                    Ok((row::whatever(row, 0)?, row::whatever(row, 1)?))
                })
                .optional()
        })
    }

    /// Runs `sql`, and says how many rows it has changed.
    pub(super) fn change(&self, sql: &'s str, parameters: impl Params) -> Result<usize, BackendError> {
        self.with_statement(sql, |statement| statement.execute(parameters))
    }

    pub(super) fn with_statement<T>(
        &self,
        sql: &'s str,
        work: impl FnOnce(&mut CachedStatement<'s>) -> rusqlite::Result<T>,
    ) -> Result<T, BackendError> {
        let mut others = self.kept.take();
        let place = others.iter().position(|(kept, _)| ptr::eq(*kept, sql));
        let kept = place.map(|place| others.swap_remove(place));
        self.kept.set(others);
        let (_, mut statement) = match kept {
            Some(kept) => kept,
            None => (sql, self.connection.prepare_cached(sql).map_err(nothing_done)?),
        };
        let worked = work(&mut statement).map_err(nothing_done);
        let mut all = self.kept.take();
        all.push((sql, statement));
        self.kept.set(all);
        worked
    }
}
