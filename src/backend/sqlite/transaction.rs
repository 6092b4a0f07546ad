//! Transactions that the store and the application share: the store's own with the application's work in it,
//! and the application's with the store's commands in it.

use crate::backend::sqlite::SqliteBackend;
use crate::backend::sqlite::evidence::Evidence;
use crate::backend::sqlite::failure::{is_of_the_file, nothing_done};
use crate::backend::sqlite::file::{FileName, is_another_attached};
use crate::backend::sqlite::line::Turn;
use crate::backend::sqlite::session::Session;
use crate::backend::sqlite::sql::NO_WRITER;
use crate::backend::sqlite::watch::{Fate, Watch};
use crate::backend::sqlite::writer::Ending;
use crate::error::{BackendError, Error};
use crate::key::RecordId;
use crate::outcome::{Completed, Grant, Outcome};
use crate::planted;
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
    Completed {
        /// The claim.
        grant: Grant,
        /// What was recorded.
        completed: Completed,
    },
    /// The work gave this reply, and it was not recorded, or may not have been.
    NotRecorded(Reply, Error),
    /// The work gave no reply to record, and has ended the transaction by itself.
    Ended {
        /// Why there is no reply.
        stop: S,
        /// Whether what it wrote until then is kept, or may be.
        committed: bool,
    },
}

/// The writer while the application's work may have its connection: taken back at the end, by a panic too.
struct Loan<'s> {
    writer: Turn<'s>,
    watch: &'s Watch,
    lent: Lent,
}

/// Whether the work has had the connection, and whether it has ended the transaction: outside of one it may have
/// set anything.
enum Lent {
    No,
    Whole,
    Ended,
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.watch.end();
        match self.lent {
            Lent::No => {}
            Lent::Whole => self.writer.take_back(),
            Lent::Ended => self.writer.give_up(),
        }
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
        if let Some(outcome) = self.answer_without_writing(id, claim)? {
            return Ok(Atomic::Answered(outcome));
        }
        let mut unrecorded = None;
        let mut loan = Loan { writer: self.turn()?, watch: &self.place.watch, lent: Lent::No };
        let atomic = loan.writer.in_transaction(|session, transaction| {
            let grant = match session.execute(id, claim, session.now()?)?.outcome {
                Outcome::Claimed(grant) => grant,
                other => return Ok(Ending::RollBack(Atomic::Answered(other))),
            };
            // The work may claim in the same transaction.
            session.finish()?;
            loan.lent = Lent::Whole;
            loan.watch.begin();
            let worked = work(transaction);
            let fate = loan.watch.end();
            if self.place.is_forked() {
                // The child must not write another page: the parent may have committed by now.
                return Err(BackendError::forked());
            }
            let has_ended = fate != Fate::Open || transaction.is_autocommit();
            if has_ended && !planted::is("ended-transaction-unnoticed") {
                loan.lent = Lent::Ended;
                let committed = fate != Fate::RolledBack;
                return Ok(Ending::RollBack(match worked {
                    Ok(reply) => Atomic::NotRecorded(reply, Error::TransactionEnded { committed }),
                    Err(stop) => Atomic::Ended { stop, committed },
                }));
            }
            let reply = match worked {
                Ok(reply) => reply,
                Err(stop) => return Ok(Ending::RollBack(Atomic::Stopped(stop))),
            };
            unrecorded = Some(reply.clone());
            if planted::is("completion-outside") {
                transaction.execute_batch("COMMIT; BEGIN IMMEDIATE").map_err(nothing_done)?;
            }
            let complete = Command::Complete { token: grant.token, reply: reply.clone(), retention };
            Ok(match session.execute(id, &complete, session.now()?)?.outcome {
                Outcome::Recorded(completed) => {
                    // With another file beside it, this one's say is not enough.
                    let evidence = if is_another_attached(transaction).map_err(nothing_done)? {
                        Vec::new()
                    } else {
                        vec![Evidence::executed(id, grant.token, session.writer)]
                    };
                    Ending::Commit(Atomic::Completed { grant, completed }, evidence)
                }
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

    /// Executes `command` in a transaction of the application's, whose end is its own affair. On an error
    /// nothing of the command is left in there.
    pub(crate) fn execute_in(
        &self,
        transaction: &Connection,
        id: &RecordId,
        command: &Command,
    ) -> Result<Outcome, BackendError> {
        let session = self.session_in(transaction)?;
        Ok(session.execute_marked(id, command, session.now()?)?.outcome)
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
        let file = FileName::of(transaction).map_err(nothing_done)?;
        let known = self.readers.known();
        if store_id == *known.store_id.as_bytes() && known.file.is_same_file(&file) {
            Ok(session)
        } else {
            Err(BackendError::other_database())
        }
    }
}
