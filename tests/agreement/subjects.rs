//! The executors that must agree: the core alone, and every backend.

use crate::plain::{Plain, Told, moment};
use crate::rules::{Asked, LEASE, REPLAY, RETENTION, Token};
use crate::story::{Class, Deed, REQUEST};
use bytes::Bytes;
use idempotency::{
    Backend, BackendError, Command, FencingToken, IdempotencyKey, ManualClock, MemoryBackend, MemoryOptions,
    Outcome, Period, Record, RecordId, Scope, Stats, StoreId, Stuck, StuckList, Swept, Timestamp, Write,
    transition,
};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

/// The core and nothing else: a map, and [`transition::apply`] under its lock.
#[derive(Debug)]
struct Core {
    state: Mutex<CoreState>,
    clock: ManualClock,
    store_id: StoreId,
}

#[derive(Debug, Default)]
struct CoreState {
    records: HashMap<RecordId, Record>,
    last_token: i64,
}

impl Core {
    fn new(clock: ManualClock) -> Self {
        Self { state: Mutex::default(), clock, store_id: StoreId::random() }
    }

    fn locked(&self) -> (MutexGuard<'_, CoreState>, Timestamp) {
        use idempotency::Clock;
        (self.state.lock().expect("no panic under the lock"), self.clock.now())
    }
}

impl Backend for Core {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        let (mut state, now) = self.locked();
        let record = state.records.get(id);
        let granted = transition::grants(record, command, now);
        let next = FencingToken::new(state.last_token + 1).ok_or_else(BackendError::tokens_exhausted)?;
        let decided =
            transition::apply(record, command, now, if granted { next } else { FencingToken::FIRST });
        state.last_token += i64::from(granted);
        match decided.write {
            Write::Keep => {}
            Write::Put(record) => drop(state.records.insert(id.clone(), record)),
            Write::Delete => drop(state.records.remove(id)),
        }
        Ok(decided.outcome)
    }

    fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        let (state, now) = self.locked();
        Ok(state.records.get(id).filter(|record| !record.is_expired(now)).map(|record| (record.clone(), now)))
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        let (mut state, now) = self.locked();
        let expired: Vec<_> = state
            .records
            .iter()
            .filter(|(_, record)| record.is_expired(now))
            .map(|(id, _)| id.clone())
            .collect();
        let removed = expired.len().min(limit);
        for id in expired.iter().take(limit) {
            state.records.remove(id);
        }
        Ok(Swept { removed, more: expired.len() > limit })
    }

    fn stats(&self) -> Result<Stats, BackendError> {
        let (state, now) = self.locked();
        let mut stats = Stats::default();
        state.records.values().for_each(|record| stats.count(record, now, 0));
        Ok(stats)
    }

    fn stuck(&self, limit: usize) -> Result<Vec<Stuck>, BackendError> {
        let (state, now) = self.locked();
        let mut list = StuckList::new(limit);
        state.records.iter().for_each(|(id, record)| list.offer(id, record, now));
        Ok(list.into_vec())
    }

    fn store_id(&self) -> StoreId {
        self.store_id
    }
}

/// One executor, the record that the table is played on, and two more records that nothing must touch.
pub struct Subject {
    pub name: &'static str,
    backend: Box<dyn Backend>,
    /// Whether each command is a batch of its own.
    in_batches: bool,
    clock: ManualClock,
    id: RecordId,
    bystanders: Vec<(RecordId, Record)>,
    /// Every token granted since the last reset, behind that of the first bystander.
    issued: Vec<FencingToken>,
    highest: FencingToken,
    #[cfg(feature = "sqlite")]
    _file: Option<tempfile::TempDir>,
}

/// How many there are.
pub const COUNT: usize = if cfg!(feature = "sqlite") { 4 } else { 2 };

pub fn all() -> Vec<Subject> {
    vec![
        Subject::new("core", |clock| Box::new(Core::new(clock))),
        Subject::new("memory", |clock| Box::new(MemoryBackend::new(MemoryOptions::new().with_clock(clock)))),
        #[cfg(feature = "sqlite")]
        Subject::on_sqlite("sqlite"),
        // A claim alone is looked up first, and answered from there if it can't be granted. What its SQL
        // says to such a claim, which it meets when somebody was quicker, is heard from a batch.
        #[cfg(feature = "sqlite")]
        Subject { in_batches: true, ..Subject::on_sqlite("batches on sqlite") },
    ]
}

fn id(scope: &str, key: &str) -> RecordId {
    RecordId::new(Scope::new(scope).expect("a scope"), IdempotencyKey::new(key).expect("a key"))
}

pub fn period(millis: i64) -> Period {
    Period::from_millis(millis).expect("a period")
}

impl Subject {
    fn new(name: &'static str, backend: impl FnOnce(ManualClock) -> Box<dyn Backend>) -> Self {
        let clock = ManualClock::new(moment(0));
        let mut subject = Self {
            name,
            backend: backend(clock.clone()),
            in_batches: false,
            clock,
            id: id("scope", "key"),
            bystanders: Vec::new(),
            issued: Vec::new(),
            highest: FencingToken::FIRST,
            #[cfg(feature = "sqlite")]
            _file: None,
        };
        for bystander in [id("scope", "other key"), id("other scope", "key")] {
            let command = Command::Claim { fingerprint: REQUEST, lease: period(1), retention: period(1) };
            // So late that no story sees it expire.
            subject.set_clock(10_000_000_000_000);
            let outcome = subject.backend.execute(&bystander, &command);
            assert!(matches!(outcome, Ok(Outcome::Claimed(_))), "{name}: {outcome:?}");
            let record = subject.read_back(&bystander).expect("a bystander");
            subject.highest = record.token;
            subject.bystanders.push((bystander, record));
        }
        subject.reset();
        subject
    }

    #[cfg(feature = "sqlite")]
    fn on_sqlite(name: &'static str) -> Self {
        use idempotency::{Durability, SqliteBackend, SqliteOptions};
        let file = tempfile::tempdir().expect("a temporary folder");
        let path = file.path().join("store.db");
        // Durability plays no part here, and thousands of rows wait for it otherwise.
        let options = SqliteOptions::new().with_durability(Durability::Normal);
        let mut subject = Self::new(name, |clock| {
            Box::new(SqliteBackend::open(path, options.with_clock(clock)).expect("a fresh store"))
        });
        subject._file = Some(file);
        subject
    }

    pub fn set_clock(&self, millis: i64) {
        self.clock.set(moment(millis));
    }

    /// Plays the story that leads to a class of records.
    pub fn play(&mut self, class: &Class) {
        for (at, deed) in class.story {
            self.set_clock(*at);
            let outcome = self.execute(&self.command_of(*deed));
            let done = matches!(
                outcome,
                Ok(Outcome::Claimed(_)
                    | Outcome::Recorded(_)
                    | Outcome::Renewed { .. }
                    | Outcome::Released
                    | Outcome::Abandoned
                    | Outcome::Forgotten { existed: true })
            );
            assert!(done, "{}: {}: {deed:?} at {at} was answered {outcome:?}", self.name, class.name);
        }
    }

    fn command_of(&self, deed: Deed) -> Command {
        let token = |by: usize| self.issued[by];
        match deed {
            Deed::Claim { lease, retention } => {
                Command::Claim { fingerprint: REQUEST, lease: period(lease), retention: period(retention) }
            }
            Deed::Renew { by } => Command::Renew { token: token(by) },
            Deed::Checkpoint { by, bytes } => {
                Command::Checkpoint { token: token(by), bytes: Bytes::from_static(bytes) }
            }
            Deed::Complete { by, with, retention } => {
                Command::Complete { token: token(by), reply: with.reply(), retention: period(retention) }
            }
            Deed::Release { by } => Command::Release { token: token(by) },
            Deed::Abandon { by } => Command::Abandon { token: token(by) },
            Deed::Forget => Command::Forget,
        }
    }

    /// An error comes as its text, so that it can be compared with what is expected.
    fn execute(&mut self, command: &Command) -> Result<Outcome, String> {
        let answer = if self.in_batches {
            self.backend.execute_many(&[(self.id.clone(), command.clone())]).pop().expect("an answer")
        } else {
            self.backend.execute(&self.id, command)
        };
        let outcome = answer.map_err(|error| error.to_string())?;
        if let Outcome::Claimed(grant) = &outcome {
            assert!(grant.token > self.highest, "{}: {} after {}", self.name, grant.token, self.highest);
            self.highest = grant.token;
            self.issued.push(grant.token);
        }
        Ok(outcome)
    }

    pub fn ask(&mut self, asked: Asked) -> Result<Told, String> {
        match (command(asked, &self.issued), asked) {
            (Some(command), _) => self.execute(&command).map(|outcome| Told::of(outcome, &self.issued)),
            (None, Asked::Sweep(limit)) => {
                let swept = self.backend.sweep(limit).map_err(|error| error.to_string())?;
                Ok(Told::Swept { removed: swept.removed, more: swept.more })
            }
            (None, _) => {
                let read = self.backend.read(&self.id).map_err(|error| error.to_string())?;
                Ok(Told::seen(read, &self.issued))
            }
        }
    }

    /// What is stored, expired or not.
    pub fn stored(&self) -> Option<Plain> {
        self.read_back(&self.id).map(|record| Plain::of(&record, &self.issued))
    }

    /// Reads with the clock set back to where nothing has expired.
    fn read_back(&self, id: &RecordId) -> Option<Record> {
        self.clock.set(Timestamp::from_millis(0));
        self.backend.read(id).expect("a readable record").map(|(record, _)| record)
    }

    pub fn stats(&self) -> Stats {
        self.backend.stats().expect(self.name)
    }

    pub fn stuck(&self, limit: usize) -> Vec<Stuck> {
        self.backend.stuck(limit).expect(self.name)
    }

    pub fn id(&self) -> &RecordId {
        &self.id
    }

    pub fn bystanders(&self) -> Vec<&RecordId> {
        self.bystanders.iter().map(|(id, _)| id).collect()
    }

    pub fn issued(&self) -> &[FencingToken] {
        &self.issued
    }

    pub fn assert_bystanders_untouched(&self, row: &str) {
        for (id, record) in &self.bystanders {
            assert_eq!(self.read_back(id).as_ref(), Some(record), "{}: {row}: another record", self.name);
        }
    }

    /// Makes room for the next row.
    pub fn reset(&mut self) {
        if self.read_back(&self.id).is_some() {
            let forgotten = self.execute(&Command::Forget);
            assert_eq!(forgotten, Ok(Outcome::Forgotten { existed: true }), "{}", self.name);
        }
        assert_eq!(self.stored(), None, "{}", self.name);
        self.issued.clear();
        self.issued.extend(self.bystanders.first().map(|(_, record)| record.token));
    }
}

/// The command that puts a question, if it takes one. `issued` is the tokens granted, the bystander's first.
pub fn command(asked: Asked, issued: &[FencingToken]) -> Option<Command> {
    let token = |token| shown(token, issued);
    Some(match asked {
        Asked::Claim(asks) => Command::Claim {
            fingerprint: asks.fingerprint(),
            lease: period(LEASE),
            retention: period(RETENTION),
        },
        Asked::Complete(by, content) => {
            Command::Complete { token: token(by), reply: content.reply(), retention: period(REPLAY) }
        }
        Asked::Renew(by) => Command::Renew { token: token(by) },
        Asked::Checkpoint(by, bytes) => {
            Command::Checkpoint { token: token(by), bytes: Bytes::from_static(bytes) }
        }
        Asked::Release(by) => Command::Release { token: token(by) },
        Asked::Abandon(by) => Command::Abandon { token: token(by) },
        Asked::Forget => Command::Forget,
        Asked::Read | Asked::Sweep(_) => return None,
    })
}

fn shown(token: Token, issued: &[FencingToken]) -> FencingToken {
    match token {
        Token::Elsewhere => issued[0],
        Token::Mine => issued[issued.len() - 1],
        Token::Superseded => issued[issued.len() - 2],
        Token::NeverIssued => {
            FencingToken::new(issued[issued.len() - 1].get() + 1).expect("a token above the highest")
        }
    }
}
