//! Command sequences over the memory backend, held against a small model of what each command answers and
//! leaves behind.
//!
//! Depends on nothing but the crate, so that a test can include this file as it is.

mod model;

use bytes::Bytes;
use idempotency::{
    Backend, Command, FencingToken, Fingerprint, IdempotencyKey, ManualClock, MemoryBackend, MemoryOptions,
    Outcome, Period, Record, RecordId, Reply, Scope, StoredResponse,
};
use model::{Answer, Model, at};

const KEYS: u8 = 4;
const START_MILLIS: i64 = 1 << 20;

/// What a sequence came to: a test asserts that its sequences did not all run idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Commands of any kind, sweeps included.
    pub commands: usize,
    /// Claims that were granted.
    pub granted: usize,
    /// Those of them that took a lapsed claim over.
    pub taken_over: usize,
    /// Replies that were recorded.
    pub recorded: usize,
    /// Claims that were answered with a recorded reply.
    pub replayed: usize,
    /// Commands that were refused for the token they came with.
    pub lost: usize,
    /// Records that were swept.
    pub swept: usize,
}

/// Decodes `data` as a sequence of commands and runs it. Every byte string is one.
///
/// # Panics
/// If the backend answers or stores anything else than the model.
pub fn run(data: &[u8]) -> Tally {
    let mut input = Input(data);
    let mut run = Run::new(input.next());
    while !input.0.is_empty() {
        run.step(&mut input);
    }
    run.tally
}

/// The bytes that are left; zeros when there are none.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Mostly short, now and then long: 1 ms to about four hours.
    fn millis(&mut self) -> i64 {
        let byte = i64::from(self.next());
        (byte & 15).max(1) << ((byte >> 4) & 15).min(20)
    }

    fn period(&mut self) -> Period {
        Period::from_millis(self.millis()).expect("between a millisecond and a day")
    }
}

struct Run {
    backend: MemoryBackend,
    clock: ManualClock,
    now: i64,
    model: Model,
    tokens: Vec<FencingToken>,
    tally: Tally,
}

impl Run {
    fn new(shards: u8) -> Self {
        let clock = ManualClock::new(at(START_MILLIS));
        let options = MemoryOptions::new()
            .with_clock(clock.clone())
            .with_shards(usize::from(shards % 4) + 1)
            .with_hash_seed(1, 2)
            .with_first_token(FencingToken::FIRST);
        Self {
            backend: MemoryBackend::new(options),
            clock,
            now: START_MILLIS,
            model: Model::default(),
            tokens: vec![FencingToken::FIRST],
            tally: Tally::default(),
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let (kind, key) = (input.next() % 16, input.next());
        let token = self.tokens[usize::from(key >> 2) % self.tokens.len()];
        // The newest token half the time, else one of all that were ever granted, for this key or another.
        let token = if key & 128 == 0 { self.tokens[self.tokens.len() - 1] } else { token };
        let key = key % KEYS;
        match kind {
            0..=3 => {
                let what = [input.next() % 8 / 7];
                let fingerprint = Fingerprint::builder().field("what", what).finish();
                self.execute(
                    key,
                    Command::Claim { fingerprint, lease: input.period(), retention: input.period() },
                );
            }
            4 | 5 => {
                let reply = reply(input.next());
                self.execute(key, Command::Complete { token, reply, retention: input.period() });
            }
            6 => self.execute(key, Command::Renew { token }),
            7 => {
                let bytes = Bytes::from(vec![input.next()]);
                self.execute(key, Command::Checkpoint { token, bytes });
            }
            8 => self.execute(key, Command::Release { token }),
            9 => self.execute(key, Command::Abandon { token }),
            10 => self.execute(key, Command::Forget),
            11 => self.sweep(usize::from(input.next() % (KEYS + 2))),
            12 => self.move_to(self.now + input.millis()),
            13 => self.move_to(self.now - input.millis()),
            _ => {
                // To a deadline that is stored, or a millisecond beside it.
                let choice = input.next();
                if let Some(record) = self.model.records.get(&key) {
                    let deadline = if choice & 1 == 0 { record.lease_until } else { record.expires_at };
                    self.move_to(deadline.as_millis() + i64::from(choice / 2 % 3) - 1);
                }
            }
        }
    }

    fn execute(&mut self, key: u8, command: Command) {
        let outcome = self.backend.execute(&id(key), &command).expect("a backend that nothing is wrong with");
        let granted = match &outcome {
            Outcome::Claimed(grant) => Some(grant.token),
            _ => None,
        };
        if let Some(token) = granted {
            let newest = self.tokens.last().filter(|_| self.tally.granted > 0);
            assert!(newest < Some(&token), "{token:?} after {newest:?}");
            self.tokens.push(token);
        }
        let answer = Answer::of(outcome);
        let expected = self.model.execute(key, &command, self.now, granted);
        assert_eq!(answer, expected, "{command:?} on key {key} at {}", self.now);
        self.count(&answer);
        for key in 0..KEYS {
            assert_eq!(
                self.stored(key).as_ref(),
                self.model.records.get(&key),
                "key {key} after {command:?}"
            );
        }
    }

    fn count(&mut self, answer: &Answer) {
        let one_if = |counts: bool| usize::from(counts);
        self.tally.commands += 1;
        self.tally.granted += one_if(matches!(answer, Answer::Claimed { .. }));
        self.tally.taken_over += one_if(matches!(answer, Answer::Claimed { attempt: 2.., .. }));
        self.tally.recorded += one_if(matches!(answer, Answer::Recorded(_)));
        self.tally.replayed += one_if(matches!(answer, Answer::Completed(_)));
        self.tally.lost += one_if(matches!(answer, Answer::Lost(_)));
    }

    /// Which of the expired records a sweep takes is its own choice: only how many, and that it takes no
    /// other.
    fn sweep(&mut self, limit: usize) {
        let now = self.now;
        let is_expired = |record: &Record| record.expires_at.as_millis() <= now;
        let expired = self.model.records.values().filter(|record| is_expired(record)).count();
        let swept = self.backend.sweep(limit).expect("a backend that nothing is wrong with");
        assert_eq!(
            (swept.removed, swept.more),
            (expired.min(limit), expired > limit),
            "limit {limit} at {now}"
        );
        let before = self.model.records.len();
        for key in 0..KEYS {
            match (self.stored(key), self.model.records.get(&key)) {
                (None, Some(record)) if is_expired(record) => drop(self.model.records.remove(&key)),
                (stored, expected) => {
                    assert_eq!(stored.as_ref(), expected, "key {key} after a sweep at {now}")
                }
            }
        }
        assert_eq!(before - self.model.records.len(), swept.removed, "limit {limit} at {now}");
        self.tally.commands += 1;
        self.tally.swept += swept.removed;
    }

    fn move_to(&mut self, millis: i64) {
        self.now = millis.max(1);
        self.clock.set(at(self.now));
    }

    /// What is stored for `key`, expired or not: every record stands at time 0.
    fn stored(&self, key: u8) -> Option<Record> {
        self.clock.set(at(0));
        let read = self.backend.read(&id(key)).expect("a backend that nothing is wrong with");
        self.clock.set(at(self.now));
        read.map(|(record, _)| record)
    }
}

/// Two scopes, two keys.
fn id(key: u8) -> RecordId {
    let scope = Scope::new(format!("acct_{}", key / 2)).expect("a valid scope");
    RecordId::new(scope, IdempotencyKey::new(format!("k{}", key % 2)).expect("a valid key"))
}

fn reply(kind: u8) -> Reply {
    match kind % 4 {
        0 => Reply::Marker,
        1 => Reply::Reference(format!("payments/{kind}")),
        _ => StoredResponse::new(200 + u16::from(kind))
            .with_header("n", vec![kind])
            .with_body(vec![kind; 3])
            .into(),
    }
}
