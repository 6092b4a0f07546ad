//! The one connection that writes: each command in a transaction of its own.

use crate::backend::StoreId;
use crate::backend::sqlite::failure::{self, nothing_done};
use crate::backend::sqlite::options::{Durability, SqliteOptions};
use crate::backend::sqlite::row::CheckpointColumns;
use crate::backend::sqlite::sql::{DRAW_WRITER, Prefix, Statements, USE_WRITE_AHEAD_LOG};
use crate::backend::sqlite::{row, schema};
use crate::error::BackendError;
use crate::fingerprint::Fingerprint;
use crate::key::RecordId;
use crate::outcome::{Grant, Outcome};
use crate::policy::Terms;
use crate::record::{FencingToken, Record};
use crate::time::{Clock, Timestamp, read_clock};
use crate::transition::{self, Command, Transition, Write};
use rusqlite::{
    CachedStatement, Connection, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior, params,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Room for every statement of the store, and for some of the application's set-up.
const CACHED_STATEMENTS: usize = 32;

const COUNTER_GONE: BackendError = BackendError::corrupt("the store's token counter is gone");

/// SQLite counts in an `int` of milliseconds; this is below its end.
const LONGEST_BUSY_TIMEOUT: Duration = Duration::from_secs(24 * 24 * 60 * 60);

pub(super) struct Writer {
    connection: Connection,
    statements: Statements,
    clock: Arc<dyn Clock>,
    /// Stored with each claim, so that it can be told whose connection granted it.
    writer: i64,
    read_only: bool,
}

/// What a transaction came to, and whether there is anything to commit.
enum Ending<T> {
    Commit(T),
    RollBack(T),
}

impl Writer {
    /// Opens the file, prepares the store, and says which one it is.
    pub(super) fn open(path: &Path, options: SqliteOptions) -> Result<(Self, StoreId), BackendError> {
        let statements = Statements::new(&Prefix::new(&options.prefix)?);
        let connection = connect(path, &options)?;
        // Looked at first, so that a file which is not ours stays as it was.
        let found = schema::recognise(&connection, &statements)?;
        let store_id = if options.read_only {
            found.ok_or(BackendError::foreign("there is no store in this file"))?
        } else {
            use_write_ahead_log(&connection, options.durability)?;
            schema::prepare(&connection, &statements)?
        };
        let writer = connection.query_row(DRAW_WRITER, [], |row| row.get(0)).map_err(nothing_done)?;
        let SqliteOptions { clock, read_only, .. } = options;
        Ok((Self { connection, statements, clock, writer, read_only }, store_id))
    }

    pub(super) fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        self.in_transaction(|now| self.decide(id, command, now))
    }

    /// All of `batch` in one transaction; nothing, and no answer, if one of its records is damaged: none may
    /// fail for another's sake.
    pub(super) fn execute_together(
        &self,
        batch: &[(RecordId, Command)],
    ) -> Result<Option<Vec<Outcome>>, BackendError> {
        self.in_transaction(|now| {
            let mut outcomes = Vec::with_capacity(batch.len());
            let mut written = false;
            for (id, command) in batch {
                match self.decide(id, command, now) {
                    Ok(Ending::Commit(outcome)) => {
                        written = true;
                        outcomes.push(outcome);
                    }
                    Ok(Ending::RollBack(outcome)) => outcomes.push(outcome),
                    Err(error) if is_of_one_record(&error) => return Ok(Ending::RollBack(None)),
                    Err(error) => return Err(error),
                }
            }
            Ok(if written { Ending::Commit(Some(outcomes)) } else { Ending::RollBack(Some(outcomes)) })
        })
    }

    /// The record, and the time read after it; none if it is absent or expired by then.
    pub(super) fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        self.with_row(id, |row| {
            let now = read_clock(&*self.clock)?;
            let Some(row) = row else { return Ok(None) };
            Ok(row::read(row, id, now, CheckpointColumns::Verify)?.map(|record| (record, now)))
        })
    }

    /// Deletes at most `limit` expired records in one transaction; gives how many, and whether there are
    /// more.
    pub(super) fn sweep(&self, limit: usize) -> Result<(usize, bool), BackendError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.in_transaction(|now| {
            let now = now.as_millis();
            let removed =
                self.statement(&self.statements.sweep)?.execute([now, limit]).map_err(nothing_done)?;
            let more = self
                .statement(&self.statements.has_expired)?
                .query_row([now], |row| row.get(0))
                .map_err(nothing_done)?;
            Ok(Ending::Commit((removed, more)))
        })
    }

    /// Runs `work` in a transaction that holds the write lock from its start, with the time read once the
    /// lock is held.
    fn in_transaction<T>(
        &self,
        work: impl FnOnce(Timestamp) -> Result<Ending<T>, BackendError>,
    ) -> Result<T, BackendError> {
        if self.read_only {
            return Err(BackendError::read_only());
        }
        // Dropped without a commit, by an error or a panicking clock, it rolls back unless SQLite already
        // has.
        let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
            .map_err(nothing_done)?;
        match work(read_clock(&*self.clock)?)? {
            Ending::Commit(value) => transaction.commit().map(|()| value).map_err(failure::of_commit),
            Ending::RollBack(value) => transaction.finish().map(|()| value).map_err(nothing_done),
        }
    }

    fn decide(
        &self,
        id: &RecordId,
        command: &Command,
        now: Timestamp,
    ) -> Result<Ending<Outcome>, BackendError> {
        match command {
            Command::Claim { fingerprint, lease, retention } => {
                self.claim(id, command, fingerprint, Terms { lease: *lease, retention: *retention }, now)
            }
            Command::Forget => self.forget(id, now),
            _ => self.read_apply_write(id, command, now),
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
    ) -> Result<Ending<Outcome>, BackendError> {
        let token = self.next_token()?;
        if let Some(token) = token
            && self.grant(id, fingerprint, terms, now, token)?
        {
            self.count_token(token)?;
            return match self.stored(id, now, CheckpointColumns::Verify)? {
                Some(record) if record.token == token => {
                    Ok(Ending::Commit(Outcome::Claimed(Grant::of(&record))))
                }
                _ => Err(BackendError::corrupt("a claim can't be read back after it was granted")),
            };
        }
        let record = self.stored(id, now, CheckpointColumns::Skip)?;
        match transition::apply(record.as_ref(), command, now, FencingToken::FIRST) {
            Transition { write: Write::Keep, outcome } => Ok(Ending::RollBack(outcome)),
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
        let last: Option<i64> = self
            .statement(&self.statements.read_last_token)?
            .query_row([], |row| row.get(0))
            .optional()
            .map_err(nothing_done)?;
        let next = last.ok_or(COUNTER_GONE)?.checked_add(1).and_then(FencingToken::new);
        Ok(next.map(|next| next.max(FencingToken::at_wall_clock())))
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
    ) -> Result<Ending<Outcome>, BackendError> {
        let stored = self.stored(id, now, CheckpointColumns::Skip)?;
        let Transition { write, outcome } =
            transition::apply(stored.as_ref(), command, now, FencingToken::FIRST);
        let changed = match (&write, &stored) {
            (Write::Keep, _) => return Ok(Ending::RollBack(outcome)),
            (Write::Put(record), Some(_)) => self.put(id, command, record)?,
            (Write::Delete, Some(stored)) => self
                .statement(&self.statements.delete)?
                .execute(params![id.scope.as_str(), id.key.as_str(), stored.token.get()])
                .map_err(nothing_done)?,
            (_, None) => return Err(BackendError::bug("a command other than a claim made a record")),
        };
        match changed {
            1 => Ok(Ending::Commit(outcome)),
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

    /// Deletes the record without reading it, as the core does with one that it reads.
    fn forget(&self, id: &RecordId, now: Timestamp) -> Result<Ending<Outcome>, BackendError> {
        let deleted = self
            .statement(&self.statements.forget)?
            .execute(params![id.scope.as_str(), id.key.as_str(), now.as_millis()])
            .map_err(nothing_done)?;
        let existed = deleted > 0;
        let outcome = Outcome::Forgotten { existed };
        Ok(if existed { Ending::Commit(outcome) } else { Ending::RollBack(outcome) })
    }

    fn stored(
        &self,
        id: &RecordId,
        now: Timestamp,
        checkpoint: CheckpointColumns,
    ) -> Result<Option<Record>, BackendError> {
        self.with_row(id, |row| row.map_or(Ok(None), |row| row::read(row, id, now, checkpoint)))
    }

    fn with_row<T>(
        &self,
        id: &RecordId,
        read: impl FnOnce(Option<&Row<'_>>) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        let mut statement = self.statement(&self.statements.read)?;
        let mut rows = statement.query([id.scope.as_str(), id.key.as_str()]).map_err(nothing_done)?;
        read(rows.next().map_err(nothing_done)?)
    }

    fn statement(&self, sql: &str) -> Result<CachedStatement<'_>, BackendError> {
        self.connection.prepare_cached(sql).map_err(nothing_done)
    }
}

/// Whether the command would fail alone as it has failed in company: its record is damaged, or no token is
/// left for it.
fn is_of_one_record(error: &BackendError) -> bool {
    use std::error::Error as _;
    let source = error.source().and_then(|source| source.downcast_ref());
    !error.is_transient() && !source.is_some_and(failure::is_of_the_file)
}

fn connect(path: &Path, options: &SqliteOptions) -> Result<Connection, BackendError> {
    const NOT_A_FILE: &str =
        "a database without a file would be a store of each connection's own; use in_memory()";
    if path.as_os_str() == ":memory:" || path.as_os_str().is_empty() {
        return Err(BackendError::invalid_option(NOT_A_FILE));
    }
    let access = if options.read_only {
        OpenFlags::SQLITE_OPEN_READ_ONLY
    } else {
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
    };
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = match &options.vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs.as_str()),
        None => Connection::open_with_flags(path, flags),
    }
    .map_err(nothing_done)?;
    // Whatever spelling asked for it (a URI, say): SQLite names no file for a database in memory.
    if connection.path() == Some("") {
        return Err(BackendError::invalid_option(NOT_A_FILE));
    }
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    connection.busy_timeout(options.busy_timeout.min(LONGEST_BUSY_TIMEOUT)).map_err(nothing_done)?;
    if let Some(setup) = &options.connection_setup {
        setup(&connection).map_err(|error| match error {
            rusqlite::Error::SqliteFailure(..) => nothing_done(error),
            of_the_callers_own => BackendError::other(of_the_callers_own),
        })?;
    }
    Ok(connection)
}

fn use_write_ahead_log(connection: &Connection, durability: Durability) -> Result<(), BackendError> {
    let mode: String =
        connection.query_row(USE_WRITE_AHEAD_LOG, [], |row| row.get(0)).map_err(nothing_done)?;
    if mode != "wal" {
        return Err(BackendError::invalid_option("the file can't be turned to write-ahead logging"));
    }
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    connection.pragma_update(Some("main"), "synchronous", synchronous).map_err(nothing_done)?;
    // On Apple's systems a plain fsync stops at the drive's cache (SQLite, "PRAGMA fullfsync"); elsewhere
    // this changes nothing.
    connection.pragma_update(Some("main"), "fullfsync", durability == Durability::Full).map_err(nothing_done)
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test that panics has failed")]
mod tests {
    use super::*;

    #[test]
    fn the_connection_is_as_durable_as_was_asked() {
        for (durability, synchronous) in [(Durability::Full, 2), (Durability::Normal, 1)] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let options = SqliteOptions::new().with_durability(durability);
            let (writer, _) = Writer::open(&folder.path().join("store.db"), options).expect("a fresh store");
            let set = |pragma: &str| -> i64 {
                writer.connection.query_row(pragma, [], |row| row.get(0)).expect("a setting")
            };
            assert_eq!(set("PRAGMA main.synchronous"), synchronous, "{durability:?}");
            assert_eq!(set("PRAGMA main.fullfsync"), i64::from(durability == Durability::Full));
        }
    }
}
