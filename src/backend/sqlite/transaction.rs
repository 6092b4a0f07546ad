//! Transactions that the store and the application share: the store's own with the application's work in it,
//! and the application's with the store's commands in it.

use crate::backend::sqlite::SqliteBackend;
use crate::backend::sqlite::exclusive::Turn;
use crate::backend::sqlite::failure::{is_of_the_file, nothing_done};
use crate::backend::sqlite::mark::Mark;
use crate::backend::sqlite::session::Session;
use crate::backend::sqlite::sql::{NO_WRITER, ROLL_BACK};
use crate::backend::sqlite::writer::{Ending, Writer};
use crate::error::{BackendError, Error};
use crate::key::RecordId;
use crate::outcome::{Completed, Outcome};
use crate::record::FencingToken;
use crate::reply::Reply;
use crate::time::Period;
use crate::transition::Command;
use rusqlite::{Connection, Transaction, TransactionState};

/// What came of a claim, the work under it, and its completion, in one transaction.
pub(crate) enum Atomic<S> {
    /// The claim was not granted, and the work not run.
    Answered(Outcome),
    /// The work gave no reply to record, and nothing was kept.
    Stopped(S),
    /// All of it was committed.
    Completed(Completed),
    /// The work gave this reply, and it was not recorded, or may not have been.
    NotRecorded(Reply, Error),
    /// The work gave no reply to record, and has committed what it wrote by itself.
    Committed(S),
}

/// The writer while its connection is at the work's disposal: taken back at the end, by a panic too.
struct Loan<'w>(Turn<'w, Writer>);

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.0.take_back();
    }
}

impl SqliteBackend {
    /// Claims by `claim`, runs `work`, and completes with what it gives, all in one transaction. All others
    /// wait meanwhile.
    pub(crate) fn atomically<S>(
        &self,
        id: &RecordId,
        claim: &Command,
        retention: Period,
        work: impl FnOnce(&Transaction<'_>) -> Result<Reply, S>,
    ) -> Result<Atomic<S>, BackendError> {
        let mut unrecorded = None;
        let mut is_ended = false;
        let mut loan = Loan(self.writer()?);
        let atomic = loan.0.in_transaction(|session, transaction, now| {
            let before = session.owner(id)?.map(|(token, _)| token);
            let claimed = session.execute(id, claim, now)?;
            let (Outcome::Claimed(grant), Some(evidence)) = (&claimed.outcome, claimed.written) else {
                return Ok(Ending::RollBack(Atomic::Answered(claimed.outcome)));
            };
            // Ending the transaction takes the mark away, even if the work begins another one.
            let mark = Mark::of(session);
            mark.set(transaction).map_err(nothing_done)?;
            let worked = work(transaction);
            if mark.clear(transaction).is_err() {
                is_ended = true;
                let committed = is_committed(session, transaction, grant.token);
                return Ok(Ending::RollBack(match worked {
                    Ok(reply) => Atomic::NotRecorded(reply, Error::TransactionEnded { committed }),
                    Err(stop) if committed => Atomic::Committed(stop),
                    Err(stop) => Atomic::Stopped(stop),
                }));
            }
            let reply = match worked {
                Ok(reply) => reply,
                Err(stop) => return Ok(Ending::RollBack(Atomic::Stopped(stop))),
            };
            unrecorded = Some(reply.clone());
            let complete = Command::Complete { token: grant.token, reply: reply.clone(), retention };
            Ok(match session.execute(id, &complete, session.now()?)?.outcome {
                Outcome::Recorded(completed) => {
                    let evidence = evidence.completed_at_once(before);
                    Ending::Commit(Atomic::Completed(completed), vec![evidence])
                }
                Outcome::Lost(reason) => {
                    Ending::RollBack(Atomic::NotRecorded(reply, Error::ClaimLost(reason)))
                }
                _ => return Err(BackendError::bug("a completion was answered as another command")),
            })
        });
        if is_ended {
            // Outside of a transaction the work may have set anything.
            loan.0.give_up();
        }
        match (atomic, unrecorded) {
            (Err(error), Some(reply)) => Ok(Atomic::NotRecorded(reply, error.into())),
            (atomic, _) => atomic,
        }
    }

    /// Executes `command` in a transaction of the application's, whose end is its own affair. On an error
    /// nothing of the command is left in there.
    pub(crate) fn execute_in(
        &self,
        transaction: &Connection,
        id: &RecordId,
        command: &Command,
    ) -> Result<Outcome, BackendError> {
        let session = self.session_in(transaction)?;
        let mark = Mark::of(&session);
        // It fails if a statement of the application's own is still writing; to SQLite that is "busy", but no
        // waiting helps.
        mark.set(transaction).map_err(BackendError::other)?;
        let done = session.now().and_then(|now| session.execute(id, command, now));
        if done.is_err() && !transaction.is_autocommit() {
            mark.go_back(transaction).map_err(nothing_done)?;
        }
        let cleared = mark.clear(transaction).map_err(nothing_done);
        done.and_then(|done| cleared.map(|()| done.outcome))
    }

    /// This store on the connection of `transaction`, if that is on the store's database and holds its write
    /// lock.
    fn session_in<'s>(&'s self, transaction: &'s Connection) -> Result<Session<'s>, BackendError> {
        self.refuse_a_fork()?;
        if self.place.options.read_only {
            return Err(BackendError::read_only());
        }
        match transaction.transaction_state(Some("main")).map_err(nothing_done)? {
            TransactionState::Write => {}
            _ => return Err(BackendError::no_write_lock()),
        }
        let session = self.place.session(transaction, NO_WRITER);
        let store_id: [u8; 16] = session
            .connection
            .prepare_cached(&self.place.statements.read_store_id)
            .and_then(|mut read| read.query_row([], |row| row.get(0)))
            .map_err(|error| {
                if is_of_the_file(&error) {
                    nothing_done(error)
                } else {
                    BackendError::other_database().with_source(error)
                }
            })?;
        if store_id == *self.store_id.as_bytes() { Ok(session) } else { Err(BackendError::other_database()) }
    }
}

/// Whether a transaction that its work has ended was committed, or may have been. What the work has begun since
/// is rolled back.
fn is_committed(session: &Session<'_>, transaction: &Transaction<'_>, granted: FencingToken) -> bool {
    let is_over = transaction.is_autocommit() || transaction.execute_batch(ROLL_BACK).is_ok();
    // The counter has moved with the claim, and never goes back.
    let is_undone = is_over && session.last_token().is_ok_and(|last| last < granted.get());
    !is_undone
}
