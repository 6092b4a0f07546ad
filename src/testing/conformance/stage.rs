//! What a check is played on: one store, its clock, and the history so far.

use super::breach::Difference;
use super::show::{self, Show};
use super::{Subject, SuiteClock};
use crate::backend::{Backend, Swept};
use crate::error::{BackendError, Error};
use crate::fingerprint::Fingerprint;
use crate::inspection::{Stats, Stuck};
use crate::key::{IdempotencyKey, KeyError, RecordId, Scope};
use crate::outcome::{Grant, Outcome};
use crate::record::{FencingToken, Record, State};
use crate::reply::Reply;
use crate::time::{Period, PeriodError, Timestamp};
use crate::transition::Command;
use std::fmt::Display;

/// Where a check's clock starts: far from both ends of time, and from the machine's.
const START: i64 = 1_000_000_000_000;

/// The usual terms, in milliseconds: no two of them, nor their sums, are alike.
pub(super) const LEASE: i64 = 30_000;
pub(super) const RETENTION: i64 = 600_000;
/// When a claim that was made at 0, and not renewed, expires.
pub(super) const EXPIRY: i64 = LEASE + RETENTION;
/// The retention of a completion.
pub(super) const REPLAY: i64 = 60_000;

/// What the usual claim asks for.
pub(super) const REQUEST: Fingerprint = Fingerprint::from_stored(7, [0xa5; 32]);
/// What another request asks for: it differs in the last digit.
pub(super) const OTHER: Fingerprint = {
    let mut digest = [0xa5; 32];
    digest[31] = 0xa4;
    Fingerprint::from_stored(7, digest)
};

/// How a check ends early.
pub(super) enum Stop {
    Broken(Difference),
    Skipped(String),
}

pub(super) type Step<T = ()> = Result<T, Stop>;

impl Stop {
    pub(super) fn broken(
        what: impl Into<String>,
        expected: impl Into<String>,
        seen: impl Into<String>,
    ) -> Self {
        Self::Broken(Difference { what: what.into(), expected: expected.into(), seen: seen.into() })
    }

    fn failed(what: impl Into<String>, error: &(dyn std::error::Error + 'static)) -> Self {
        let mut seen = format!("error: {error}");
        let mut source = error.source();
        while let Some(cause) = source {
            seen = format!("{seen}: {cause}");
            source = cause.source();
        }
        Self::broken(what, "an answer", seen)
    }
}

impl From<KeyError> for Stop {
    fn from(error: KeyError) -> Self {
        Self::failed("a name of the suite's", &error)
    }
}

impl From<PeriodError> for Stop {
    fn from(error: PeriodError) -> Self {
        Self::failed("a period of the suite's", &error)
    }
}

/// The point in time so many milliseconds after the start.
pub(super) fn moment(millis: i64) -> Timestamp {
    Timestamp::from_millis(START.saturating_add(millis))
}

/// The last millisecond before `deadline`, the deadline, and the millisecond after it.
pub(super) fn around(deadline: i64) -> [(i64, bool); 3] {
    [(deadline.saturating_sub(1), false), (deadline, true), (deadline.saturating_add(1), true)]
}

pub(super) fn id(scope: &str, key: &str) -> Step<RecordId> {
    Ok(RecordId::new(Scope::new(scope)?, IdempotencyKey::new(key)?))
}

/// A record of the usual scope.
pub(super) fn key(key: &str) -> Step<RecordId> {
    id("tenant", key)
}

pub(super) fn claim_for(fingerprint: Fingerprint, lease: i64, retention: i64) -> Step<Command> {
    let (lease, retention) = (Period::from_millis(lease)?, Period::from_millis(retention)?);
    Ok(Command::Claim { fingerprint, lease, retention })
}

/// A claim on the usual terms.
pub(super) fn claim(fingerprint: Fingerprint) -> Step<Command> {
    claim_for(fingerprint, LEASE, RETENTION)
}

pub(super) fn complete(token: FencingToken, reply: impl Into<Reply>) -> Step<Command> {
    Ok(Command::Complete { token, reply: reply.into(), retention: Period::from_millis(REPLAY)? })
}

pub(super) fn checkpoint(token: FencingToken, bytes: &'static [u8]) -> Command {
    Command::Checkpoint { token, bytes: bytes.into() }
}

/// All that an owner can ask, with what tells it from the others.
pub(super) fn owner_commands(token: FencingToken) -> Step<[Command; 5]> {
    Ok([
        complete(token, Reply::Reference("late".to_owned()))?,
        Command::Renew { token },
        checkpoint(token, b"late"),
        Command::Release { token },
        Command::Abandon { token },
    ])
}

/// The record of a claim that was granted at `at` on the usual terms, by hand.
pub(super) fn claimed(grant: &Grant, created_at: i64, at: i64) -> Step<Record> {
    Ok(Record {
        fingerprint: REQUEST,
        state: State::InProgress,
        token: grant.token,
        attempt: grant.attempt,
        created_at: moment(created_at),
        lease: Period::from_millis(LEASE)?,
        retention: Period::from_millis(RETENTION)?,
        lease_until: moment(at.saturating_add(LEASE)),
        completed_at: None,
        expires_at: moment(at.saturating_add(EXPIRY)),
        checkpoint: grant.checkpoint.clone(),
        reply: None,
    })
}

/// `record`, completed at `at` with `reply` on the usual terms, by hand.
pub(super) fn completed(record: &Record, reply: impl Into<Reply>, at: i64) -> Record {
    Record {
        state: State::Completed,
        completed_at: Some(moment(at)),
        expires_at: moment(at.saturating_add(REPLAY)),
        checkpoint: None,
        reply: Some(reply.into()),
        ..record.clone()
    }
}

/// One store under a check.
pub(super) struct Stage<'s> {
    /// None while it is reopened.
    backend: Option<Box<dyn Backend>>,
    clock: SuiteClock,
    history: &'s mut Vec<String>,
    subjects: &'s dyn Fn() -> Subject,
    // Dropped after the store that it opened.
    subject: Subject,
}

impl<'s> Stage<'s> {
    pub(super) fn open(subjects: &'s dyn Fn() -> Subject, history: &'s mut Vec<String>) -> Step<Self> {
        let mut subject = subjects();
        let clock = SuiteClock::new(moment(0));
        let backend =
            subject.open(clock.clone()).map_err(|error| Stop::failed("opening the store", &*error))?;
        Ok(Self { backend: Some(backend), clock, history, subjects, subject })
    }

    /// Another store of the same kind, which shares nothing with this one.
    pub(super) fn another(&mut self) -> Step<Stage<'_>> {
        self.note("another store is opened");
        Stage::open(self.subjects, self.history)
    }

    /// Closes the store, lets so many milliseconds since the start pass, and opens it again.
    pub(super) fn reopen_at(&mut self, millis: i64) -> Step {
        if !self.subject.is_durable() {
            return Err(Stop::Skipped("it can't be reopened".to_owned()));
        }
        self.backend = None;
        self.note("closed");
        self.at(millis);
        let opened = self.subject.open(self.clock.clone());
        self.backend = Some(opened.map_err(|error| Stop::failed("opening the store again", &*error))?);
        self.note("opened again");
        Ok(())
    }

    pub(super) fn backend(&self) -> Step<&dyn Backend> {
        self.backend.as_deref().ok_or_else(|| Stop::broken("the store", "open", "closed"))
    }

    pub(super) const fn clock(&self) -> &SuiteClock {
        &self.clock
    }

    /// Moves the clock to so many milliseconds after its start.
    pub(super) fn at(&mut self, millis: i64) {
        self.set_clock(moment(millis));
        self.note(format!("the clock shows {millis} ms after its start"));
    }

    pub(super) fn set_clock(&self, now: Timestamp) {
        self.clock.set(now);
    }

    pub(super) fn note(&mut self, line: impl Into<String>) {
        self.history.push(line.into());
    }

    /// Breaks the check unless the two are the same.
    pub(super) fn same<T: PartialEq + Show>(&self, what: impl Display, expected: &T, seen: &T) -> Step {
        if expected == seen {
            return Ok(());
        }
        Err(Stop::broken(what.to_string(), expected.show(), seen.show()))
    }

    /// What `command` is answered, or the error.
    pub(super) fn try_ask(
        &mut self,
        id: &RecordId,
        command: &Command,
    ) -> Step<Result<Outcome, BackendError>> {
        let answer = self.backend()?.execute(id, command);
        self.note_answer(id, command, &answer);
        Ok(answer)
    }

    fn note_answer(&mut self, id: &RecordId, command: &Command, answer: &Result<Outcome, BackendError>) {
        let answer = answer.as_ref().map_or_else(|error| format!("error: {error}"), Show::show);
        self.note(format!("{} -> {answer}", show::asked(id, command)));
    }

    /// What `command` is answered; an error breaks the check.
    pub(super) fn ask(&mut self, id: &RecordId, command: &Command) -> Step<Outcome> {
        self.try_ask(id, command)?.map_err(|error| Stop::failed(format!("{command:?}"), &error))
    }

    /// Asks, and breaks the check unless the answer is `expected`.
    pub(super) fn wants(&mut self, id: &RecordId, command: &Command, expected: &Outcome) -> Step {
        let seen = self.ask(id, command)?;
        self.same(format_args!("the answer to {command:?}"), expected, &seen)
    }

    /// Asks for a claim, which must be granted.
    pub(super) fn granted(&mut self, id: &RecordId, command: &Command) -> Step<Grant> {
        match self.ask(id, command)? {
            Outcome::Claimed(grant) => Ok(grant),
            other => Err(Stop::broken(format!("the answer to {command:?}"), "a granted claim", other.show())),
        }
    }

    /// As [`granted`](Self::granted), and it must be a first attempt that knows of none before it.
    pub(super) fn granted_first(&mut self, id: &RecordId, command: &Command) -> Step<Grant> {
        let grant = self.granted(id, command)?;
        let expected = Grant { attempt: 1, checkpoint: None, ..grant.clone() };
        self.same("the grant", &Outcome::Claimed(expected), &Outcome::Claimed(grant.clone()))?;
        Ok(grant)
    }

    /// The usual claim, which must be granted.
    pub(super) fn claim(&mut self, id: &RecordId) -> Step<Grant> {
        self.granted(id, &claim(REQUEST)?)
    }

    /// Completes with `reply`, which must be recorded.
    pub(super) fn complete(&mut self, id: &RecordId, token: FencingToken, reply: impl Into<Reply>) -> Step {
        let command = complete(token, reply)?;
        match self.ask(id, &command)? {
            Outcome::Recorded(_) => Ok(()),
            other => Err(Stop::broken(format!("the answer to {command:?}"), "recorded", other.show())),
        }
    }

    /// What a batch is answered, one answer for each command.
    pub(super) fn batch(&mut self, batch: &[(RecordId, Command)]) -> Step<Vec<Outcome>> {
        let answers = self.backend()?.execute_many(batch);
        self.note(format!("a batch of {} commands, {} answers", batch.len(), answers.len()));
        self.same("the number of answers to a batch", &batch.len(), &answers.len())?;
        let mut outcomes = Vec::new();
        for ((id, command), answer) in batch.iter().zip(answers) {
            // A long batch is of one kind, and its lines would hide the others.
            if batch.len() <= 20 {
                self.note_answer(id, command, &answer);
            }
            outcomes.push(answer.map_err(|error| Stop::failed(format!("{command:?} in a batch"), &error))?);
        }
        Ok(outcomes)
    }

    /// What reading gives now.
    pub(super) fn read(&mut self, id: &RecordId) -> Step<Option<(Record, Timestamp)>> {
        self.backend()?.read(id).map_err(|error| Stop::failed("reading", &error))
    }

    /// What is stored, expired or not: it is read with the clock set back to 1970, where nothing has expired.
    pub(super) fn stored(&mut self, id: &RecordId) -> Step<Option<Record>> {
        let now = self.clock.shown();
        self.set_clock(Timestamp::from_millis(0));
        let read = self.read(id);
        self.set_clock(now);
        Ok(read?.map(|(record, _)| record))
    }

    /// The record, which must be there.
    pub(super) fn record(&mut self, id: &RecordId) -> Step<Record> {
        self.stored(id)?.ok_or_else(|| Stop::broken("what is stored", "a record", "none"))
    }

    /// Breaks the check unless exactly `expected` is stored, expired or not.
    pub(super) fn holds(&mut self, id: &RecordId, expected: Option<&Record>) -> Step {
        let seen = self.stored(id)?;
        self.same("what is stored", &expected.cloned(), &seen)
    }

    pub(super) fn sweep(&mut self, limit: usize) -> Step<Swept> {
        let swept = self.backend()?.sweep(limit).map_err(|error| Stop::failed("a sweep", &error))?;
        self.note(format!("a sweep of at most {limit} -> {swept:?}"));
        Ok(swept)
    }

    /// Sweeps until there is no more, and gives how many records were removed.
    pub(super) fn sweep_all(&mut self) -> Step<usize> {
        let mut removed: usize = 0;
        loop {
            let swept = self.sweep(1_000)?;
            removed = removed.saturating_add(swept.removed);
            if !swept.more {
                return Ok(removed);
            }
            if swept.removed == 0 {
                return Err(Stop::broken("a sweep that says there is more", "one that removes some", "none"));
            }
        }
    }

    pub(super) fn stats(&mut self) -> Step<Stats> {
        let stats = self.backend()?.stats();
        optional(stats, "counting records")
    }

    pub(super) fn stuck(&mut self, limit: usize) -> Step<Vec<Stuck>> {
        let stuck = self.backend()?.stuck(limit);
        optional(stuck, "listing claims")
    }
}

/// What a backend need not offer.
fn optional<T>(answer: Result<T, BackendError>, what: &str) -> Step<T> {
    answer.map_err(|error| match Error::from(error.clone()) {
        Error::Unsupported { .. } => Stop::Skipped(error.to_string()),
        _ => Stop::failed(what, &error),
    })
}
