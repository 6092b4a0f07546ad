//! The one connection that writes: its transactions, and what became of a commit that failed.

use crate::backend::sqlite::evidence::{Evidence, Verdict};
use crate::backend::sqlite::failure::{FailedCommit, nothing_done};
use crate::backend::sqlite::open::{Known, Open};
use crate::backend::sqlite::place::Place;
use crate::backend::sqlite::session::Session;
use crate::backend::sqlite::sql::{COMMIT, ROLL_BACK};
use crate::error::BackendError;
use crate::planted;
use crate::time::Stopwatch;
use rusqlite::{Connection, DropBehavior, ErrorCode, Transaction, TransactionBehavior};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
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

/// How a transaction has ended.
pub(super) enum Ended<T> {
    /// Committed, or rolled back as it was asked to be.
    Well(T),
    /// The commit failed, and it was found out what became of each trace.
    Settled { value: T, verdicts: Vec<Verdict>, failed: FailedCommit },
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

    /// Whether this process is a fork of the one that opened the store.
    pub(super) fn is_in_a_fork(&self) -> bool {
        self.place.is_forked()
    }

    /// Ends the doubt that a failed commit has left.
    pub(super) fn end_doubt(&mut self) -> Result<(), BackendError> {
        self.opened().map(drop)
    }

    /// Deletes at most `limit` expired records in one transaction, or fewer if it takes long; gives how many,
    /// and whether there are more.
    pub(super) fn sweep(&mut self, limit: usize) -> Result<(usize, bool), BackendError> {
        self.in_transaction(|session, _| {
            let now = session.now()?;
            let begun = Stopwatch::start();
            let mut removed: usize = 0;
            loop {
                let step = limit.saturating_sub(removed).min(SWEEP_STEP);
                let deleted = session.change(
                    &session.statements.sweep,
                    [now.as_millis(), i64::try_from(step).unwrap_or(i64::MAX)],
                )?;
                removed = removed.saturating_add(deleted);
                if deleted < step || removed >= limit || begun.elapsed() >= SWEEP_TIME {
                    break;
                }
            }
            let more = session.with_statement(&session.statements.has_expired, |select| {
                select.query_row([now.as_millis()], |row| row.get(0))
            })?;
            Ok(if removed == 0 {
                Ending::RollBack((0, more))
            } else {
                Ending::Commit((removed, more), Vec::new())
            })
        })
    }

    /// As [`transact`](Self::transact), for what was written as a whole: an error says that nothing was done,
    /// unless it is indefinite.
    pub(super) fn in_transaction<T>(
        &mut self,
        work: impl FnOnce(&Session<'_>, &Transaction<'_>) -> Result<Ending<T>, BackendError>,
    ) -> Result<T, BackendError> {
        match self.transact(work)? {
            Ended::Well(value) => Ok(value),
            Ended::Settled { value, verdicts, failed } => {
                let same = verdicts.first().filter(|first| verdicts.iter().all(|verdict| verdict == *first));
                failed.answer(value, same.copied().unwrap_or(Verdict::Unclear))
            }
        }
    }

    /// Runs `work` in a transaction that holds the write lock from its start.
    ///
    /// An error says that nothing was done.
    pub(super) fn transact<T>(
        &mut self,
        work: impl FnOnce(&Session<'_>, &Transaction<'_>) -> Result<Ending<T>, BackendError>,
    ) -> Result<Ended<T>, BackendError> {
        if self.place.options.read_only {
            return Err(BackendError::read_only());
        }
        let place = Arc::clone(&self.place);
        let session = self.opened()?.session(&place);
        let mut transaction = Transaction::new_unchecked(session.connection, TransactionBehavior::Immediate)
            .map_err(nothing_done)?;
        transaction.set_drop_behavior(DropBehavior::Ignore);
        let rolled_back_at_the_end = RollBack { connection: session.connection, place: &place };
        let ending = work(&session, &transaction);
        if place.is_forked() {
            // Somebody's code has forked in there, and this is the child.
            return Err(BackendError::forked());
        }
        let ending = ending?;
        if matches!(ending, Ending::Commit(..)) {
            session.finish()?;
        }
        match ending {
            Ending::Commit(value, written) => match transaction.execute_batch(COMMIT) {
                Ok(()) => Ok(Ended::Well(value)),
                Err(_) if planted::is("commit-unchecked") => Ok(Ended::Well(value)),
                Err(error) if is_refused(&transaction, &error) => Err(nothing_done(error)),
                Err(error) => {
                    drop(session);
                    drop(rolled_back_at_the_end);
                    drop(transaction);
                    let verdicts = self.settle(&written);
                    Ok(Ended::Settled { value, verdicts, failed: FailedCommit::new(error) })
                }
            },
            Ending::RollBack(value) => Ok(Ended::Well(value)),
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

    /// Finds out what became of a commit that failed, having `written` that.
    ///
    /// Its pages may lie in the write-ahead log all the same, behind the last commit that counts, and come to
    /// life by a recovery. A new commit overwrites them, or stands behind them if they have come to life
    /// already; what is read after it is what stays.
    fn settle(&mut self, written: &[Evidence]) -> Vec<Verdict> {
        if planted::is("commit-not-settled") {
            return vec![Verdict::NotDone; written.len()];
        }
        self.place.is_in_doubt.store(true, Ordering::SeqCst);
        self.give_up();
        let place = Arc::clone(&self.place);
        // Opening makes that commit.
        match self.opened() {
            Ok(open) => Evidence::judge(written, &open.session(&place), open.last_token),
            Err(_) => vec![Verdict::Unclear; written.len()],
        }
    }

    /// The connection, opened again if it was given up.
    fn opened(&mut self) -> Result<&Open, BackendError> {
        let open = match self.open.take().filter(|open| open.connection.is_autocommit()) {
            Some(open) => open,
            None => {
                let open = Open::new(&self.place, Some(&self.known))?;
                self.place.is_in_doubt.store(false, Ordering::SeqCst);
                open
            }
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
