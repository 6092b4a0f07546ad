//! How a claim is ended, by its [`Ticket`]: what is checked before the store is asked, and what its answers mean.

use crate::claim::Ticket;
use crate::error::Error;
use crate::metrics::Event;
use crate::observed::Operation;
use crate::outcome::{Completed, LostReason, Outcome};
use crate::policy::MAX_HEADERS_LEN;
use crate::reply::Reply;
use crate::shared::Shared;
use crate::time::Period;
use crate::transition::Command;
use std::time::Duration;

impl Ticket {
    /// Records `reply`, or gives it back with the reason why not.
    pub(crate) fn complete(
        &self,
        store: &Shared,
        retention: Duration,
        reply: Reply,
        max_reply_len: usize,
    ) -> Result<Completed, (Error, Reply)> {
        let completed = self.try_complete(store, retention, &reply, max_reply_len);
        completed.map_err(|error| {
            if !matches!(error, Error::ClaimLost(_)) {
                store.count(self.id(), Event::CompletionFailed);
            }
            (error, reply)
        })
    }

    fn try_complete(
        &self,
        store: &Shared,
        retention: Duration,
        reply: &Reply,
        max_reply_len: usize,
    ) -> Result<Completed, Error> {
        let checked = Period::new(retention).map_err(Error::Retention).and_then(|retention| {
            check_reply(reply, max_reply_len)?;
            self.check_store(store)?;
            Ok(retention)
        });
        let retention = store.failed(Operation::Complete, self.id(), checked)?;
        let command = Command::Complete { token: self.token(), reply: reply.clone(), retention };
        match store.execute(self.id(), &command)? {
            Outcome::Recorded(completed) | Outcome::AlreadyRecorded(completed) => Ok(completed),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) fn release(&self, store: &Shared) -> Result<(), Error> {
        self.end(store, &Command::Release { token: self.token() })
    }

    pub(crate) fn abandon(&self, store: &Shared) -> Result<(), Error> {
        self.end(store, &Command::Abandon { token: self.token() })
    }

    fn end(&self, store: &Shared, command: &Command) -> Result<(), Error> {
        store.failed(Operation::of(command), self.id(), self.check_store(store))?;
        match store.execute(self.id(), command)? {
            Outcome::Released | Outcome::Abandoned | Outcome::AlreadyGone => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Refuses a ticket of another store: its record can't be there.
    pub(crate) fn check_store(&self, store: &Shared) -> Result<(), Error> {
        if self.store_id() == store.backend().store_id() {
            Ok(())
        } else {
            Err(Error::ClaimLost(LostReason::Gone))
        }
    }
}

/// What an outcome that is none of the good ones means to the owner of a claim.
pub(crate) fn unexpected(outcome: &Outcome) -> Error {
    match outcome {
        Outcome::Lost(reason) => Error::ClaimLost(*reason),
        _ => Error::wrong_answer(),
    }
}

/// Refuses what is over a limit.
pub(crate) fn check_reply(reply: &Reply, max_reply_len: usize) -> Result<(), Error> {
    check_len(reply.headers_len(), MAX_HEADERS_LEN, |len, max| Error::HeadersTooLarge { len, max })?;
    check_len(reply.payload_len(), max_reply_len, |len, max| Error::ReplyTooLarge { len, max })
}

pub(super) fn check_len(
    len: usize,
    max: usize,
    error: impl FnOnce(usize, usize) -> Error,
) -> Result<(), Error> {
    if len > max { Err(error(len, max)) } else { Ok(()) }
}
