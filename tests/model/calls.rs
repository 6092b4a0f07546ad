//! How a step's calls are given to a store, and their answers told alike.

#[cfg(feature = "sqlite")]
mod inside;
mod methods;

pub use self::methods::{Resumed, Surveyed};

use crate::flaky::Fate;
use crate::history::Asked;
use crate::plain::{Plain, Told};
use crate::steps::{Handle, Inside, KEYS, Way, fingerprint};
use crate::stores::{Kind, Opened};
use bytes::Bytes;
use idempotency::{
    Backend, BackendError, ClaimOutcome, Command, DynStore, Error, FencingToken, IdempotencyKey,
    IdempotencyStore, ManualClock, Outcome, Period, RecordId, Scope, Ticket, Timestamp,
};
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// In place of the token of a claim that was not granted.
const NONE: i64 = i64::MAX;

pub struct Caller<K> {
    opened: Option<Opened>,
    folder: tempfile::TempDir,
    pub clock: ManualClock,
    ids: [RecordId; KEYS],
    /// By their numbers.
    tokens: Vec<FencingToken>,
    tickets: BTreeMap<usize, Ticket>,
    foreign: Vec<Ticket>,
    kind: PhantomData<K>,
}

impl Way {
    /// What can be told of an answer by a caller who asked in this way.
    pub fn as_told(self, told: Told) -> Told {
        match (self, told) {
            (Self::Method(_), Told::AlreadyGone | Told::Abandoned) => Told::Released,
            (Self::Method(_), Told::AlreadyRecorded(done)) => Told::Recorded(done),
            (_, told) => told,
        }
    }
}

impl Inside {
    /// As [`Way::as_told`]: a claim in a transaction shows no token and no lease.
    pub fn as_told(self, told: Told) -> Told {
        match told {
            Told::Claimed { attempt, checkpoint, .. } => {
                Told::Claimed { token: 0, attempt, lease_until: 0, checkpoint }
            }
            told => told,
        }
    }
}

fn period(millis: i64) -> Period {
    Period::from_millis(millis).expect("a period")
}

fn say(error: &dyn std::error::Error) -> String {
    error.to_string()
}

/// An error, by what its caller may go by.
struct Failure {
    is_transient: bool,
    is_indefinite: bool,
    message: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (is_transient, is_indefinite) = (error.is_transient(), error.is_indefinite());
        Self { is_transient, is_indefinite, message: say(&error) }
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        let (is_transient, is_indefinite) = (error.is_transient(), error.is_indefinite());
        Self { is_transient, is_indefinite, message: say(&error) }
    }
}

/// An answer, or none if the call came to what was drawn for it.
fn with_fate<T>(fate: Fate, answer: Result<T, impl Into<Failure>>) -> Result<Option<T>, String> {
    match (fate, answer.map_err(Into::into)) {
        (Fate::Answered, Ok(answer)) => Ok(Some(answer)),
        (Fate::Refused, Err(Failure { is_transient: true, is_indefinite: false, .. }))
        | (Fate::DoneUnheard | Fate::NotDoneUnheard, Err(Failure { is_indefinite: true, .. })) => Ok(None),
        (_, Err(Failure { message, .. })) => Err(format!("with fate {fate:?}: {message}")),
        (_, Ok(_)) => Err(format!("answered in spite of its fate, {fate:?}")),
    }
}

impl<K: Kind> Caller<K> {
    pub fn new(clock: ManualClock) -> Self {
        let id = |scope: &str, key: &str| {
            RecordId::new(Scope::new(scope).expect("a scope"), IdempotencyKey::new(key).expect("a key"))
        };
        let ids = [id("a", "1"), id("a", "2"), id("b", "2")];
        let elsewhere = IdempotencyStore::in_memory();
        let foreign = ids.iter().map(|id| {
            match elsewhere.try_claim(&id.scope, &id.key, &fingerprint(0)).expect("an answer") {
                ClaimOutcome::Claimed(claim) => claim.into_ticket(),
                other => panic!("{other:?}"),
            }
        });
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self {
            opened: Some(K::open(folder.path(), &clock)),
            foreign: foreign.collect(),
            folder,
            clock,
            ids,
            tokens: Vec::new(),
            tickets: BTreeMap::new(),
            kind: PhantomData,
        }
    }

    fn opened(&self) -> &Opened {
        self.opened.as_ref().expect("a store that is open")
    }

    fn store(&self, handle: Handle) -> &DynStore {
        match handle {
            Handle::First => &self.opened().first,
            Handle::Second => &self.opened().second,
        }
    }

    pub fn reopen(&mut self) {
        self.opened = None;
        self.opened = Some(K::open(self.folder.path(), &self.clock));
    }

    /// What is stored, expired or not. Leaves the clock set back to where nothing has expired.
    pub fn stored(&self, key: usize) -> Option<Plain> {
        self.clock.set(Timestamp::from_millis(0));
        let read = self.opened().second.backend().read(&self.ids[key]).expect("a readable record");
        read.map(|(record, _)| Plain::of(&record, &self.tokens))
    }

    /// That claim `number` was granted: its token is higher than all before.
    fn note(&mut self, number: usize, token: FencingToken) -> Result<(), String> {
        let none = FencingToken::new(NONE).expect("a token");
        let highest = self.tokens.iter().filter(|known| **known != none).max();
        if let Some(highest) = highest.filter(|highest| **highest >= token) {
            return Err(format!("token {token} was granted after {highest}"));
        }
        self.tokens.resize(self.tokens.len().max(number), none);
        self.tokens.push(token);
        Ok(())
    }

    /// What claim `number` was granted, if nobody was told: it is in the record.
    pub fn learn(&mut self, number: usize, key: usize) -> Result<(), String> {
        if number < self.tokens.len() {
            return Ok(());
        }
        self.clock.set(Timestamp::from_millis(0));
        let read = self.opened().second.backend().read(&self.ids[key]).map_err(|error| say(&error))?;
        let (record, _) = read.ok_or("a claim that was granted left no record")?;
        self.note(number, record.token)
    }

    fn token(&self, number: usize) -> FencingToken {
        // One that was never granted is far above the highest: a claim in the same batch must not get it.
        let none = FencingToken::new(NONE).expect("a token");
        let highest = self.tokens.iter().filter(|known| **known != none).max();
        let beyond = FencingToken::new(highest.map_or(1, |highest| highest.get() + 1_000)).expect("a token");
        self.tokens.get(number).copied().unwrap_or(beyond)
    }

    fn command(&self, asked: &Asked) -> Command {
        let token = |number: &usize| self.token(*number);
        match asked {
            Asked::Claim { request, lease, retention, .. } => Command::Claim {
                fingerprint: fingerprint(*request),
                lease: period(*lease),
                retention: period(*retention),
            },
            Asked::Complete { token: by, reply, retention } => {
                Command::Complete { token: token(by), reply: reply.clone(), retention: period(*retention) }
            }
            Asked::Renew { token: by } => Command::Renew { token: token(by) },
            Asked::Save { token: by, bytes } => {
                Command::Checkpoint { token: token(by), bytes: Bytes::from(bytes.clone()) }
            }
            Asked::Release { token: by } => Command::Release { token: token(by) },
            Asked::Abandon { token: by } => Command::Abandon { token: token(by) },
            Asked::Forget => Command::Forget,
        }
    }

    fn told(&mut self, asked: &Asked, outcome: Outcome) -> Result<Told, String> {
        if let (Asked::Claim { token, .. }, Outcome::Claimed(grant)) = (asked, &outcome) {
            self.note(*token, grant.token)?;
        }
        Ok(Told::of(outcome, &self.tokens))
    }

    /// Gives one command; none if the call was to fail, and did.
    pub fn give(
        &mut self,
        call: &(usize, Asked),
        way: Way,
        fate: Fate,
        now: i64,
    ) -> Result<Option<Told>, String> {
        let (key, asked) = call;
        self.opened().flaky.next_is(fate);
        match way {
            Way::Method(handle) => self.by_method(*key, asked, handle, fate, now),
            Way::Command(handle) => {
                let outcome = self.store(handle).backend().execute(&self.ids[*key], &self.command(asked));
                let outcome = with_fate(fate, outcome)?;
                outcome.map(|outcome| self.told(asked, outcome)).transpose()
            }
        }
    }

    pub fn give_together(&mut self, calls: &[(usize, Asked)]) -> Result<Vec<Told>, String> {
        let batch: Vec<_> =
            calls.iter().map(|(key, asked)| (self.ids[*key].clone(), self.command(asked))).collect();
        let outcomes = self.store(Handle::First).backend().execute_many(&batch);
        if outcomes.len() != batch.len() {
            return Err(format!("{} answers to a batch of {}", outcomes.len(), batch.len()));
        }
        let told = calls
            .iter()
            .zip(outcomes)
            .map(|((_, asked), outcome)| self.told(asked, outcome.map_err(|error| say(&error))?));
        told.collect()
    }
}

#[cfg(not(feature = "sqlite"))]
impl<K: Kind> Caller<K> {
    pub fn inside(&mut self, _: &(usize, Asked), what: Inside, _: i64) -> Result<Option<Told>, String> {
        Err(format!("{what:?}, without SQLite"))
    }
}
