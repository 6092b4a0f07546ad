//! A backend whose commands are counted: [`Observed`].

use crate::backend::{Backend, Swept};
use crate::error::{BackendError, Error};
use crate::key::RecordId;
use crate::metrics::{Counters, Event, Metrics};
use crate::outcome::Outcome;
use crate::record::Record;
use crate::time::Timestamp;
use crate::transition::Command;
use std::sync::Arc;

/// What all handles and claims of one store share: its backend, and the counters of what becomes of each
/// command.
#[derive(Debug)]
pub(crate) struct Observed {
    backend: Arc<dyn Backend>,
    counters: Counters,
}

impl Observed {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend, counters: Counters::new() }
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    pub(crate) fn metrics(&self) -> Metrics {
        self.counters.sum()
    }

    pub(crate) fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, Error> {
        self.observe(id, command, || self.backend.execute(id, command))
    }

    /// As [`execute`](Self::execute), where something else than the backend's own method executes it.
    pub(crate) fn observe(
        &self,
        id: &RecordId,
        command: &Command,
        execute: impl FnOnce() -> Result<Outcome, BackendError>,
    ) -> Result<Outcome, Error> {
        let answer = execute().map_err(Error::from);
        self.note(id, command, &answer);
        answer
    }

    pub(crate) fn execute_many(&self, batch: &[(RecordId, Command)]) -> Vec<Result<Outcome, Error>> {
        let answers = self.backend.execute_many(batch);
        let answers: Vec<_> = answers.into_iter().map(|answer| answer.map_err(Error::from)).collect();
        batch.iter().zip(&answers).for_each(|((id, command), answer)| self.note(id, command, answer));
        answers
    }

    pub(crate) fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, Error> {
        self.failed(self.backend.read(id).map_err(Error::from))
    }

    pub(crate) fn sweep(&self, limit: usize) -> Result<Swept, Error> {
        let swept = self.failed(self.backend.sweep(limit).map_err(Error::from))?;
        self.counters.count_many(Event::Swept, swept.removed);
        Ok(swept)
    }

    /// Counts what became of `command`.
    fn note(&self, _id: &RecordId, command: &Command, answer: &Result<Outcome, Error>) {
        match answer {
            Ok(outcome) => Event::of(command, outcome).into_iter().for_each(|event| self.count(event)),
            Err(error) => self.note_error(error),
        }
    }

    pub(crate) fn count(&self, event: Event) {
        self.counters.count(event);
    }

    pub(crate) fn note_error(&self, error: &Error) {
        match error {
            Error::ClaimLost(reason) => {
                Event::of_loss(*reason).into_iter().for_each(|event| self.count(event));
            }
            Error::AlreadyRecorded(_) => {}
            _ => self.counters.count_error(error.kind()),
        }
    }

    /// Gives `answer` back, and counts it if it is an error.
    pub(crate) fn failed<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        answer.inspect_err(|error| self.note_error(error))
    }
}
