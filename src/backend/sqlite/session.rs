//! The commands, executed inside a transaction that holds the write lock.

use crate::backend::sqlite::evidence::Evidence;
use crate::backend::sqlite::failure::nothing_done;
use crate::backend::sqlite::row::{self, CheckpointColumns};
use crate::backend::sqlite::sql::{BACK_TO_MARK, CLEAR_MARK, SET_MARK, Statements};
use crate::error::BackendError;
use crate::fingerprint::Fingerprint;
use crate::key::RecordId;
use crate::outcome::{Grant, Outcome};
use crate::policy::Terms;
use crate::record::{FencingToken, Record};
use crate::time::{Clock, Timestamp, read_clock};
use crate::transition::{self, Command, Transition, Write};
use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

const COUNTER_GONE: BackendError = BackendError::corrupt("the store's token counter is gone");

/// One connection at work for one store.
#[derive(Clone, Copy)]
pub(super) struct Session<'s> {
    pub(super) connection: &'s Connection,
    pub(super) statements: &'s Statements,
    pub(super) clock: &'s dyn Clock,
    /// Stored with each claim, so that it can be told whose connection granted it.
    pub(super) writer: i64,
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
    pub(super) fn now(&self) -> Result<Timestamp, BackendError> {
        Ok(read_clock(self.clock)?)
    }

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

    /// As [`execute`](Self::execute); on an error nothing of the command is left in the transaction, or it is
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
        connection.execute_batch(SET_MARK).map_err(BackendError::other)?;
        match self.execute(id, command, now) {
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
        if let Some(token) = token
            && self.grant(id, fingerprint, terms, now, token)?
        {
            self.count_token(token)?;
            return match self.stored(id, now, CheckpointColumns::Verify)? {
                Some(record) if record.token == token => Ok(Done {
                    outcome: Outcome::Claimed(Grant::of(&record)),
                    written: Some(Evidence::granted(id, token, self.writer)),
                }),
                _ => Err(BackendError::corrupt("a claim can't be read back after it was granted")),
            };
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
    ) -> Result<bool, BackendError> {
        let lease_until = terms.lease.after(now);
        let changed = self
            .statement(&self.statements.claim)?
            .execute(params![
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
            ])
            .map_err(nothing_done)?;
        Ok(changed == 1)
    }

    /// A token above the last one granted; none if that was the highest there is.
    ///
    /// Never below the wall clock: the file's content may be replaced by an older one while it is open, as
    /// SQLite's backup does, and then the counter alone would grant a token again.
    fn next_token(&self) -> Result<Option<FencingToken>, BackendError> {
        let next = self.last_token()?.checked_add(1).and_then(FencingToken::new);
        Ok(next.map(|next| next.max(FencingToken::at_wall_clock())))
    }

    /// The highest token that was granted, or 0.
    pub(super) fn last_token(&self) -> Result<i64, BackendError> {
        self.statement(&self.statements.read_last_token)?
            .query_row([], |row| row.get(0))
            .optional()
            .map_err(nothing_done)?
            .ok_or(COUNTER_GONE)
    }

    fn count_token(&self, token: FencingToken) -> Result<(), BackendError> {
        let counted = self
            .statement(&self.statements.write_last_token)?
            .execute([token.get()])
            .map_err(nothing_done)?;
        if counted == 1 { Ok(()) } else { Err(COUNTER_GONE) }
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
                let deleted = self
                    .statement(&self.statements.delete)?
                    .execute(params![id.scope.as_str(), id.key.as_str(), token])
                    .map_err(nothing_done)?;
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
                row::update(&mut *self.statement(&self.statements.update)?, id, record)
            }
            _ => self.statement(&self.statements.extend)?.execute(params![
                id.scope.as_str(),
                id.key.as_str(),
                record.token.get(),
                record.lease_until.as_millis(),
                record.expires_at.as_millis(),
            ]),
        }
        .map_err(nothing_done)
    }

    /// Deletes the record without reading more of it than who owns it, as the core does with one that it
    /// reads whole: damage is not in the way.
    fn forget(&self, id: &RecordId, now: Timestamp) -> Result<Done, BackendError> {
        let owner = self.owner(id)?;
        let deleted = self
            .statement(&self.statements.forget)?
            .execute(params![id.scope.as_str(), id.key.as_str(), now.as_millis()])
            .map_err(nothing_done)?;
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
        let mut statement = self.statement(&self.statements.read)?;
        let mut rows = statement.query([id.scope.as_str(), id.key.as_str()]).map_err(nothing_done)?;
        read(rows.next().map_err(nothing_done)?)
    }

    /// Token and writer of the record's row, whatever they are; none if there is no row.
    pub(super) fn owner(&self, id: &RecordId) -> Result<Option<(Value, Value)>, BackendError> {
        self.statement(&self.statements.read_owner)?
            .query_row([id.scope.as_str(), id.key.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(nothing_done)
    }

    pub(super) fn statement(&self, sql: &str) -> Result<CachedStatement<'s>, BackendError> {
        self.connection.prepare_cached(sql).map_err(nothing_done)
    }
}
