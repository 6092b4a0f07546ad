//! The one connection that writes: each command in a transaction of its own, and what became of a commit that
//! failed.

use crate::backend::sqlite::evidence::{Evidence, Verdict};
use crate::backend::sqlite::failure::{self, nothing_done};
use crate::backend::sqlite::open::{Known, Open};
use crate::backend::sqlite::place::Place;
use crate::backend::sqlite::row::{self, CheckpointColumns};
use crate::backend::sqlite::session::Session;
use crate::backend::sqlite::sql::{COMMIT, ROLL_BACK};
use crate::error::BackendError;
use crate::key::RecordId;
use crate::outcome::Outcome;
use crate::record::Record;
use crate::time::{Stopwatch, Timestamp};
use crate::transition::Command;
use rusqlite::{Connection, DropBehavior, ErrorCode, Transaction, TransactionBehavior};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

/// How long one transaction of a sweep goes on deleting.
const SWEEP_TIME: Duration = Duration::from_millis(5);
/// How many rows are deleted between two looks at the time. Few, since one row may have a large reply.
const SWEEP_STEP: usize = 32;

/// The store's own connection.
pub(super) struct Writer {
    place: Arc<Place>,
    /// Which store it is, and where.
    known: Known,
    /// None after a failed commit, until it can be opened again.
    open: Option<Open>,
}

/// What a transaction came to, and whether there is anything to commit.
pub(super) enum Ending<T> {
    /// With what it has written, by which it is known again.
    Commit(T, Vec<Evidence>),
    RollBack(T),
}

/// Rolls a transaction back that was not committed, after an error or a panic too; but for a fork's copy of it,
/// which is the parent's to end.
struct RollBack<'w> {
    connection: &'w Connection,
    place: &'w Place,
}

impl Drop for RollBack<'_> {
    fn drop(&mut self) {
        if !self.place.is_forked() && !self.connection.is_autocommit() {
            // A transaction that can't even be rolled back ends when its connection is closed.
            let _is_rolled_back = self.connection.execute_batch(ROLL_BACK);
        }
    }
}

impl Writer {
    /// Opens the file, and prepares the store.
    pub(super) fn new(place: Arc<Place>) -> Result<Self, BackendError> {
        let open = Open::new(&place, None)?;
        Ok(Self { place, known: open.known.clone(), open: Some(open) })
    }

    pub(super) const fn known(&self) -> &Known {
        &self.known
    }

    pub(super) fn execute(&mut self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        self.in_transaction(|session, _, now| {
            let done = session.execute(id, command, now)?;
            Ok(match done.written {
                Some(written) => Ending::Commit(done.outcome, vec![written]),
                None => Ending::RollBack(done.outcome),
            })
        })
    }

    /// All of `batch` in one transaction; nothing, and no answer, if one of its records is damaged: none may
    /// fail for another's sake.
    pub(super) fn execute_together(
        &mut self,
        batch: &[(RecordId, Command)],
    ) -> Result<Option<Vec<Outcome>>, BackendError> {
        self.in_transaction(|session, _, now| {
            let mut outcomes = Vec::with_capacity(batch.len());
            let mut written = Vec::new();
            for (id, command) in batch {
                match session.execute(id, command, now) {
                    Ok(done) => {
                        written.extend(done.written);
                        outcomes.push(done.outcome);
                    }
                    Err(error) if is_of_one_record(&error) => return Ok(Ending::RollBack(None)),
                    Err(error) => return Err(error),
                }
            }
            Ok(if written.is_empty() {
                Ending::RollBack(Some(outcomes))
            } else {
                Ending::Commit(Some(outcomes), written)
            })
        })
    }

    /// The record, and the time read after it; none if it is absent or expired by then.
    pub(super) fn read(&mut self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        let place = Arc::clone(&self.place);
        let session = self.opened()?.session(&place);
        session.with_row(id, |row| {
            let now = session.now()?;
            let Some(row) = row else { return Ok(None) };
            Ok(row::read(row, id, now, CheckpointColumns::Verify)?.map(|record| (record, now)))
        })
    }

    /// Deletes at most `limit` expired records in one transaction, or fewer if it takes long; gives how many,
    /// and whether there are more.
    pub(super) fn sweep(&mut self, limit: usize) -> Result<(usize, bool), BackendError> {
        self.in_transaction(|session, _, now| {
            let begun = Stopwatch::start();
            let mut removed: usize = 0;
            loop {
                let step = limit.saturating_sub(removed).min(SWEEP_STEP);
                let deleted = session
                    .statement(&session.statements.sweep)?
                    .execute([now.as_millis(), i64::try_from(step).unwrap_or(i64::MAX)])
                    .map_err(nothing_done)?;
                removed = removed.saturating_add(deleted);
                if deleted < step || removed >= limit || begun.elapsed() >= SWEEP_TIME {
                    break;
                }
            }
            let more = session
                .statement(&session.statements.has_expired)?
                .query_row([now.as_millis()], |row| row.get(0))
                .map_err(nothing_done)?;
            Ok(if removed == 0 {
                Ending::RollBack((0, more))
            } else {
                Ending::Commit((removed, more), Vec::new())
            })
        })
    }

    /// Runs `work` in a transaction that holds the write lock from its start, with the time read once the
    /// lock is held.
    ///
    /// An error says what became of it: nothing was done, unless it is indefinite.
    pub(super) fn in_transaction<T>(
        &mut self,
        work: impl FnOnce(&Session<'_>, &Transaction<'_>, Timestamp) -> Result<Ending<T>, BackendError>,
    ) -> Result<T, BackendError> {
        if self.place.options.read_only {
            return Err(BackendError::read_only());
        }
        let place = Arc::clone(&self.place);
        let session = self.opened()?.session(&place);
        let mut transaction = Transaction::new_unchecked(session.connection, TransactionBehavior::Immediate)
            .map_err(nothing_done)?;
        transaction.set_drop_behavior(DropBehavior::Ignore);
        let rolled_back_at_the_end = RollBack { connection: session.connection, place: &place };
        let ending = session.now().and_then(|now| work(&session, &transaction, now));
        if place.is_forked() {
            // Somebody's code has forked in there, and this is the child.
            return Err(BackendError::forked());
        }
        match ending? {
            Ending::Commit(value, written) => match transaction.execute_batch(COMMIT) {
                Ok(()) => Ok(value),
                Err(error) if is_refused(&transaction, &error) => Err(nothing_done(error)),
                Err(error) => {
                    drop(rolled_back_at_the_end);
                    drop(transaction);
                    self.settle(&written, error).map(|()| value)
                }
            },
            Ending::RollBack(value) => Ok(value),
        }
    }

    /// Takes the connection back from work of the application's, or gives it up.
    pub(super) fn take_back(&mut self) {
        if !self.place.is_forked() {
            let place = &self.place;
            self.open = self.open.take().and_then(|mut open| open.is_taken_back(place).then_some(open));
        }
    }

    /// Closes the connection: the next command opens another one.
    pub(super) fn give_up(&mut self) {
        let open = self.open.take();
        // A fork's copy must not be closed: that would write to the parent's file, and drop its locks (SQLite,
        // "How To Corrupt An SQLite Database File", section 2.7).
        if self.place.is_forked() {
            mem::forget(open);
        }
    }

    /// Finds out what became of a commit that failed with `error`, having `written` that.
    ///
    /// Its pages may lie in the write-ahead log all the same, behind the last commit that counts, and come to
    /// life by a recovery. A new commit overwrites them, or stands behind them if they have come to life
    /// already; what is read after it is what stays.
    fn settle(&mut self, written: &[Evidence], error: rusqlite::Error) -> Result<(), BackendError> {
        self.give_up();
        let place = Arc::clone(&self.place);
        // Opening makes that commit.
        let verdict = self.opened().and_then(|open| {
            let session = open.session(&place);
            Evidence::judge(written, &session, open.last_token)
        });
        match verdict {
            Ok(Verdict::Stands) => Ok(()),
            Ok(Verdict::NotDone) => Err(nothing_done(error)),
            Ok(Verdict::Unclear) | Err(_) => Err(failure::of_commit(error)),
        }
    }

    /// The connection, opened again if it was given up.
    fn opened(&mut self) -> Result<&Open, BackendError> {
        let open = match self.open.take().filter(|open| open.connection.is_autocommit()) {
            Some(open) => open,
            None => Open::new(&self.place, Some(&self.known))?,
        };
        Ok(self.open.insert(open))
    }
}

/// Whether a commit was refused, and nothing of it done: for a deferred constraint of the application's. The
/// transaction is open then, as it was.
fn is_refused(transaction: &Transaction<'_>, error: &rusqlite::Error) -> bool {
    !transaction.is_autocommit() && error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Whether the command would fail alone as it has failed in company: its record is damaged, or no token is
/// left for it.
fn is_of_one_record(error: &BackendError) -> bool {
    use std::error::Error as _;
    let source = error.source().and_then(|source| source.downcast_ref::<rusqlite::Error>());
    !error.is_transient()
        && source.is_none_or(|source| {
            source.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
                || !failure::is_of_the_file(source)
        })
}
