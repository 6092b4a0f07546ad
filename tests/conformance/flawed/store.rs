//! A store in memory behind one lock, with places where a flaw gets in.

use idempotency::testing::conformance::SuiteClock;
use idempotency::time::read_clock;
use idempotency::transition::{self, Transition, Write};
use idempotency::{
    Backend, BackendError, Clock, Command, FencingToken, Outcome, Record, RecordId, Stats, StoreId, Stuck,
    StuckList, Swept, Timestamp,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

/// What is asked of a record, and when.
pub struct Asked<'a> {
    pub record: Option<&'a Record>,
    pub command: &'a Command,
    pub now: Timestamp,
    pub token: FencingToken,
}

impl Asked<'_> {
    /// What the core decides.
    pub fn rightly(&self) -> Transition {
        transition::apply(self.record, self.command, self.now, self.token)
    }

    /// What the core decides of another record.
    pub fn with(&self, record: Option<&Record>) -> Transition {
        transition::apply(record, self.command, self.now, self.token)
    }

    /// What the core decides at another time.
    pub fn at(&self, now: Timestamp) -> Transition {
        transition::apply(self.record, self.command, now, self.token)
    }

    /// What the core decides, with `spoil` done to the record that it puts.
    pub fn spoiled(&self, spoil: impl FnOnce(&mut Record)) -> Transition {
        let mut decided = self.rightly();
        if let Write::Put(record) = &mut decided.write {
            spoil(record);
        }
        decided
    }
}

/// What is done with the clock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// As it should be.
    UnderTheLock,
    BeforeTheLock,
    /// A second one for what is written.
    Twice,
    /// Whatever it shows is believed.
    Unchecked,
    /// It is believed for a second.
    Kept,
    /// It never goes back, but to 1970, where the suite looks at what is stored.
    NeverBack,
}

pub type Answers = Vec<Result<Outcome, BackendError>>;

/// One thing that a store does wrong, and the checks that must refuse it. What is not named is done right.
pub struct Flaw {
    pub name: &'static str,
    pub refused_by: &'static [&'static str],
    /// The record that a command is taken to be about.
    pub id: fn(&RecordId) -> RecordId,
    pub decide: fn(&Asked<'_>) -> Transition,
    pub reading: Reading,
    /// The next token.
    pub token: fn(&Kept, Option<&Record>) -> i64,
    /// Whether the lock is let go between looking and writing.
    pub lets_go: bool,
    pub read: fn(&mut Kept, &RecordId, Timestamp) -> Option<(Record, Timestamp)>,
    pub sweep: fn(&Flawed, usize, Timestamp) -> Swept,
    pub batch: fn(&Flawed, &[(RecordId, Command)]) -> Answers,
    pub stats: fn(&Kept, Timestamp) -> Stats,
    pub stuck: fn(&Kept, Timestamp, usize) -> Vec<Stuck>,
    /// What opening does to what is there, at this time.
    pub open: fn(&mut Kept, Timestamp),
}

/// No flaw at all.
pub const SOUND: Flaw = Flaw {
    name: "none",
    refused_by: &[],
    id: RecordId::clone,
    decide: |asked| asked.rightly(),
    reading: Reading::UnderTheLock,
    token: |kept, _| kept.last + 1,
    lets_go: false,
    read: |kept, id, now| {
        kept.records.get(id).filter(|record| !record.is_expired(now)).map(|record| (record.clone(), now))
    },
    sweep: |store, limit, now| store.kept().sweep(limit, |_, record| record.is_expired(now)),
    batch: |store, batch| batch.iter().map(|(id, command)| store.execute(id, command)).collect(),
    stats: |kept, now| {
        let mut stats = Stats::default();
        kept.records.iter().for_each(|(id, record)| stats.count(record, now, held(id, record)));
        stats
    },
    stuck: |kept, now, limit| {
        let mut list = StuckList::new(limit);
        kept.records.iter().for_each(|(id, record)| list.offer(id, record, now));
        list.into_vec()
    },
    open: |_, _| {},
};

fn held(id: &RecordId, record: &Record) -> u64 {
    let reply = record.reply.as_ref().map_or(0, idempotency::Reply::payload_len);
    u64::try_from(id.scope.as_str().len() + id.key.as_str().len() + reply).expect("small records")
}

/// What a store keeps.
pub struct Kept {
    pub records: BTreeMap<RecordId, Record>,
    pub last: i64,
    pub id: StoreId,
    /// When each record would have expired when it was first put.
    pub first_expiries: BTreeMap<RecordId, Timestamp>,
    latest: Timestamp,
}

impl Kept {
    pub fn new() -> Self {
        Self {
            records: BTreeMap::new(),
            last: FencingToken::at_wall_clock().get(),
            id: StoreId::random(),
            first_expiries: BTreeMap::new(),
            latest: Timestamp::from_millis(0),
        }
    }

    fn write(&mut self, id: &RecordId, write: Write) {
        match write {
            Write::Keep => {}
            Write::Put(record) => {
                self.first_expiries.entry(id.clone()).or_insert(record.expires_at);
                self.records.insert(id.clone(), record);
            }
            Write::Delete => drop(self.records.remove(id)),
        }
    }

    /// Removes at most `limit` of those that `is_over` names.
    pub fn sweep(&mut self, limit: usize, is_over: impl Fn(&RecordId, &Record) -> bool) -> Swept {
        let over: Vec<_> = self
            .records
            .iter()
            .filter(|(id, record)| is_over(id, record))
            .map(|(id, _)| id.clone())
            .collect();
        over.iter().take(limit).for_each(|id| {
            self.records.remove(id);
            self.first_expiries.remove(id);
        });
        Swept { removed: over.len().min(limit), more: over.len() > limit }
    }
}

/// A store with one flaw. What it keeps outlives it, as a file would.
pub struct Flawed {
    flaw: &'static Flaw,
    clock: SuiteClock,
    kept: Arc<Mutex<Kept>>,
}

impl Flawed {
    pub fn open(flaw: &'static Flaw, kept: &Arc<Mutex<Kept>>, clock: SuiteClock) -> Self {
        let store = Self { flaw, clock, kept: Arc::clone(kept) };
        (flaw.open)(&mut store.kept(), store.clock.now());
        store
    }

    pub fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("no panic under the lock")
    }

    /// Lets others in between.
    pub fn pause() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }

    pub fn now(&self, kept: &mut Kept) -> Result<Timestamp, BackendError> {
        let now = match self.flaw.reading {
            Reading::Unchecked => return Ok(self.clock.now()),
            _ => read_clock(&self.clock)?,
        };
        let is_look = now == Timestamp::from_millis(0);
        match self.flaw.reading {
            Reading::NeverBack if !is_look => kept.latest = kept.latest.max(now),
            Reading::Kept if !is_look => {
                if now.saturating_since(kept.latest).as_secs() > 0 || now < kept.latest {
                    kept.latest = now;
                }
            }
            _ => return Ok(now),
        }
        Ok(kept.latest)
    }
}

impl Backend for Flawed {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        let id = (self.flaw.id)(id);
        let early =
            (self.flaw.reading == Reading::BeforeTheLock).then(|| read_clock(&self.clock)).transpose()?;
        let mut kept = self.kept();
        let now = early.map_or_else(|| self.now(&mut kept), Ok)?;
        let record = kept.records.get(&id).cloned();
        let next = (self.flaw.token)(&kept, record.as_ref());
        if self.flaw.lets_go {
            drop(kept);
            Self::pause();
            kept = self.kept();
        }
        let token = FencingToken::new(next).ok_or_else(BackendError::tokens_exhausted)?;
        let asked = Asked { record: record.as_ref(), command, now, token };
        let Transition { mut write, outcome } = (self.flaw.decide)(&asked);
        if let (Reading::Twice, Write::Put(record)) = (self.flaw.reading, &mut write) {
            record.expires_at = record.retention.after(record.lease.after(read_clock(&self.clock)?));
        }
        if matches!(outcome, Outcome::Claimed(_)) {
            kept.last = kept.last.max(next);
        }
        kept.write(&id, write);
        Ok(outcome)
    }

    fn execute_many(&self, batch: &[(RecordId, Command)]) -> Answers {
        (self.flaw.batch)(self, batch)
    }

    fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        let mut kept = self.kept();
        let now = self.now(&mut kept)?;
        Ok((self.flaw.read)(&mut kept, &(self.flaw.id)(id), now))
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        let now = self.now(&mut self.kept())?;
        Ok((self.flaw.sweep)(self, limit, now))
    }

    fn stats(&self) -> Result<Stats, BackendError> {
        let mut kept = self.kept();
        let now = self.now(&mut kept)?;
        Ok((self.flaw.stats)(&kept, now))
    }

    fn stuck(&self, limit: usize) -> Result<Vec<Stuck>, BackendError> {
        let mut kept = self.kept();
        let now = self.now(&mut kept)?;
        Ok((self.flaw.stuck)(&kept, now, limit))
    }

    fn store_id(&self) -> StoreId {
        self.kept().id
    }
}

impl fmt::Debug for Flawed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flawed({})", self.flaw.name)
    }
}
