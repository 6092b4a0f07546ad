//! Transactions that the store and the application share: the store's own with the application's work in it,
//! and the application's with the store's commands in it.

use crate::backend::sqlite::SqliteBackend;
use crate::backend::sqlite::evidence::{Evidence, Verdict};
use crate::backend::sqlite::failure::{is_of_the_file, nothing_done};
use crate::backend::sqlite::session::Session;
use crate::backend::sqlite::sql::{BACK_TO_MARK, CLEAR_MARK, NO_WRITER, SET_MARK};
use crate::backend::sqlite::writer::Ending;
use crate::error::{BackendError, Error};
use crate::key::RecordId;
use crate::outcome::{Completed, Outcome};
use crate::reply::Reply;
use crate::time::Period;
use crate::transition::Command;
use rusqlite::{Transaction, TransactionState};

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
        let atomic = self.writer()?.in_transaction(|session, transaction, now| {
            let claimed = session.execute(id, claim, now)?;
            let (Outcome::Claimed(grant), Some(evidence)) = (&claimed.outcome, claimed.written) else {
                return Ok(Ending::RollBack(Atomic::Answered(claimed.outcome)));
            };
            // Ending the transaction takes the mark away, even if the work begins another one.
            transaction.execute_batch(SET_MARK).map_err(nothing_done)?;
            let worked = work(transaction);
            if transaction.execute_batch(CLEAR_MARK).is_err() {
                let committed = !matches!(Evidence::judge(&[evidence], session), Ok(Verdict::NotDone));
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
                Outcome::Recorded(completed) => Ending::Commit(Atomic::Completed(completed), vec![evidence]),
                Outcome::Lost(reason) => {
                    Ending::RollBack(Atomic::NotRecorded(reply, Error::ClaimLost(reason)))
                }
                _ => return Err(BackendError::bug("a completion was answered as another command")),
            })
        });
        match (atomic, unrecorded) {
            (Err(error), Some(reply)) => Ok(Atomic::NotRecorded(reply, error.into())),
            (atomic, _) => atomic,
        }
    }

    /// Executes `command` in a transaction of the application's, which ends it. On an error nothing of it is
    /// left in there.
    pub(crate) fn execute_in(
        &self,
        transaction: &Transaction<'_>,
        id: &RecordId,
        command: &Command,
    ) -> Result<Outcome, BackendError> {
        let session = self.session_in(transaction)?;
        transaction.execute_batch(SET_MARK).map_err(nothing_done)?;
        let done = session.now().and_then(|now| session.execute(id, command, now));
        if done.is_err() && !transaction.is_autocommit() {
            transaction.execute_batch(BACK_TO_MARK).map_err(nothing_done)?;
        }
        let cleared = transaction.execute_batch(CLEAR_MARK).map_err(nothing_done);
        done.and_then(|done| cleared.map(|()| done.outcome))
    }

    /// This store on the connection of `transaction`, if that is on the store's database and holds its write
    /// lock.
    fn session_in<'s>(&'s self, transaction: &'s Transaction<'_>) -> Result<Session<'s>, BackendError> {
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
