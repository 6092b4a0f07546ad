//! A backend whose commands are counted, measured and traced: [`Observed`].

mod operation;
mod publish;
mod trace;

pub(crate) use self::operation::Operation;
pub(crate) use self::trace::Span;
#[cfg(feature = "tokio")]
pub(crate) use self::trace::{Context, in_span};

use self::publish::Timer;
use crate::backend::{Backend, Swept};
use crate::error::{BackendError, Error};
use crate::inspection::{Stats, Stuck};
use crate::key::RecordId;
use crate::metrics::{Counters, Event, Metrics};
use crate::outcome::Outcome;
use crate::record::Record;
use crate::time::Timestamp;
use crate::transition::Command;
use std::iter;
use std::sync::Arc;

/// What all handles and claims of one store share: its backend, and the counters of what becomes of each
/// command. Whatever is counted is published and traced, too, where the features for that are on.
#[derive(Debug)]
pub(crate) struct Observed {
    backend: Arc<dyn Backend>,
    counters: Counters,
}

impl Observed {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Self {
        publish::begin();
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
        let operation = Operation::of(command);
        let span = Span::enter(operation, &id.scope, &id.key);
        let answer = answer_to(command, timed(operation, execute));
        self.note(id, command, &answer);
        span.answered(&answer);
        answer
    }

    /// Exactly one answer for each command of `batch`, whatever the backend gives.
    pub(crate) fn execute_many(&self, batch: &[(RecordId, Command)]) -> Vec<Result<Outcome, Error>> {
        let _span = Span::enter_for_many(Operation::Batch);
        let answers = timed(Operation::Batch, || self.backend.execute_many(batch));
        let answers = answers.into_iter().map(Some).chain(iter::repeat_with(|| None));
        let noted = batch.iter().zip(answers).map(|((id, command), answer)| {
            let answer =
                answer.map_or_else(|| Err(Error::wrong_answer()), |answer| answer_to(command, answer));
            self.note(id, command, &answer);
            answer
        });
        noted.collect()
    }

    pub(crate) fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, Error> {
        let span = Span::enter(Operation::Read, &id.scope, &id.key);
        let read = timed(Operation::Read, || self.backend.read(id)).map_err(Error::from);
        span.ended(match &read {
            Ok(Some(_)) => "found",
            Ok(None) => "absent",
            Err(_) => "error",
        });
        self.failed(Operation::Read, id, read)
    }

    pub(crate) fn sweep(&self, limit: usize) -> Result<Swept, Error> {
        let span = Span::enter_for_many(Operation::Sweep);
        let swept = timed(Operation::Sweep, || self.backend.sweep(limit)).map_err(Error::from);
        match &swept {
            Ok(swept) => {
                self.count_many(Event::Swept, swept.removed);
                trace::swept(swept.removed);
                span.ended("swept");
            }
            Err(error) => {
                self.count_error(Operation::Sweep, None, error);
                span.ended("error");
            }
        }
        swept
    }

    pub(crate) fn stats(&self) -> Result<Stats, Error> {
        self.look(Operation::Stats, || self.backend.stats())
    }

    pub(crate) fn stuck(&self, limit: usize) -> Result<Vec<Stuck>, Error> {
        self.look(Operation::Stuck, || self.backend.stuck(limit))
    }

    /// Looks at many records at once, and at none in particular.
    fn look<T>(
        &self,
        operation: Operation,
        look: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, Error> {
        let span = Span::enter_for_many(operation);
        let looked = timed(operation, look).map_err(Error::from);
        span.ended(if looked.is_ok() { "looked" } else { "error" });
        looked.inspect_err(|error| self.count_error(operation, None, error))
    }

    /// Counts what became of `command`.
    pub(crate) fn note(&self, id: &RecordId, command: &Command, answer: &Result<Outcome, Error>) {
        match answer {
            Ok(outcome) => self.count_outcome(id, Event::of(command, outcome), outcome),
            Err(error) => self.note_error(Operation::of(command), id, error),
        }
    }

    /// Counts `event`, which happened to the record `id`.
    pub(crate) fn count(&self, id: &RecordId, event: Event) {
        self.count_many(event, 1);
        trace::happened(event, id, None);
    }

    fn count_outcome(&self, id: &RecordId, event: Option<Event>, outcome: &Outcome) {
        if let Some(event) = event {
            self.count_many(event, 1);
            trace::happened(event, id, Some(outcome));
        }
    }

    fn count_many(&self, event: Event, times: usize) {
        let times = u64::try_from(times).unwrap_or(u64::MAX);
        self.counters.count(event, times);
        publish::count(event, times);
    }

    /// Counts that `operation` failed on the record `id`.
    pub(crate) fn note_error(&self, operation: Operation, id: &RecordId, error: &Error) {
        match error {
            Error::ClaimLost(reason) => {
                self.count_outcome(id, Event::of_loss(*reason), &Outcome::Lost(*reason));
            }
            _ => self.count_error(operation, Some(id), error),
        }
    }

    fn count_error(&self, operation: Operation, id: Option<&RecordId>, error: &Error) {
        self.counters.count_error(error.kind());
        publish::count_error(error.kind());
        trace::failed(operation, id, error);
    }

    /// Gives `answer` back, and counts it if it is an error.
    pub(crate) fn failed<T>(
        &self,
        operation: Operation,
        id: &RecordId,
        answer: Result<T, Error>,
    ) -> Result<T, Error> {
        answer.inspect_err(|error| self.note_error(operation, id, error))
    }
}

/// Does `call` and measures it, as one command.
pub(crate) fn timed<T>(operation: Operation, call: impl FnOnce() -> T) -> T {
    let _timer = Timer::start(operation);
    call()
}

/// What a backend has answered to `command`, if that is an answer to it. Else nothing can be said: neither what
/// to tell the caller, nor what to count.
fn answer_to(command: &Command, answer: Result<Outcome, BackendError>) -> Result<Outcome, Error> {
    let outcome = answer?;
    let belongs = match command {
        Command::Claim { .. } => matches!(
            outcome,
            Outcome::Claimed(_)
                | Outcome::Completed(_)
                | Outcome::InProgress { .. }
                | Outcome::FingerprintMismatch(_)
        ),
        Command::Complete { .. } => {
            matches!(outcome, Outcome::Recorded(_) | Outcome::AlreadyRecorded(_) | Outcome::Lost(_))
        }
        Command::Renew { .. } | Command::Checkpoint { .. } => {
            matches!(outcome, Outcome::Renewed { .. } | Outcome::Lost(_))
        }
        Command::Release { .. } => {
            matches!(outcome, Outcome::Released | Outcome::AlreadyGone | Outcome::Lost(_))
        }
        Command::Abandon { .. } => {
            matches!(outcome, Outcome::Abandoned | Outcome::AlreadyGone | Outcome::Lost(_))
        }
        Command::Forget => matches!(outcome, Outcome::Forgotten { .. }),
    };
    if belongs { Ok(outcome) } else { Err(Error::wrong_answer()) }
}
