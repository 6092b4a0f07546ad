//! Command sequences over the memory backend and over SQLite, held against a small model of what each command answers
//! and leaves behind.

mod model;
mod subject;

use super::input::Input;
use super::reached::Reached;
use bytes::Bytes;
use idempotency::{
    Command, FencingToken, Fingerprint, IdempotencyKey, Outcome, Period, Record, RecordId, Reply, Scope,
    StoredResponse,
};
use model::{Answer, Model, at};
use subject::Subject;

const KEYS: u8 = 4;
const START_MILLIS: i64 = 1 << 20;

/// Decodes `data` as a sequence of commands and runs it on each backend. Every byte string is one.
///
/// # Panics
/// If a backend answers or stores anything else than the model.
#[must_use]
pub fn run(data: &[u8]) -> Reached {
    let mut input = Input::new(data);
    let shards = input.next();
    let mut reached = run_on(Subject::in_memory(shards), data);
    reached.add(&run_on(Subject::on_sqlite(), data));
    reached
}

fn run_on(subject: Subject, data: &[u8]) -> Reached {
    let mut input = Input::new(data);
    input.next();
    let mut run = Run::new(subject);
    while !input.is_empty() {
        run.step(&mut input);
    }
    run.subject.put_back();
    run.reached
}

/// Mostly short, now and then long: 1 ms to about four hours.
fn millis(input: &mut Input<'_>) -> i64 {
    let byte = i64::from(input.next());
    (byte & 15).max(1) << ((byte >> 4) & 15).min(20)
}

fn period(input: &mut Input<'_>) -> Period {
    Period::from_millis(millis(input)).expect("between a millisecond and a day")
}

struct Run {
    subject: Subject,
    now: i64,
    model: Model,
    tokens: Vec<FencingToken>,
    reached: Reached,
}

impl Run {
    fn new(subject: Subject) -> Self {
        subject.clock.set(at(START_MILLIS));
        Self {
            subject,
            now: START_MILLIS,
            model: Model::default(),
            tokens: vec![FencingToken::FIRST],
            reached: Reached::default(),
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let (kind, key) = (input.next(), input.next());
        let token = self.tokens[usize::from(key >> 2) % self.tokens.len()];
        // The newest token half the time, else one of all that were ever granted, for this key or another.
        let token = if key & 128 == 0 { self.tokens[self.tokens.len() - 1] } else { token };
        let key = key % KEYS;
        let in_a_batch = kind & 16 != 0;
        let command = match kind % 16 {
            0..=3 => {
                let what = [input.next() % 8 / 7];
                let fingerprint = Fingerprint::builder().field("what", what).finish();
                Command::Claim { fingerprint, lease: period(input), retention: period(input) }
            }
            4 | 5 => {
                let reply = reply(input.next());
                Command::Complete { token, reply, retention: period(input) }
            }
            6 => Command::Renew { token },
            7 => Command::Checkpoint { token, bytes: Bytes::from(vec![input.next()]) },
            8 => Command::Release { token },
            9 => Command::Abandon { token },
            10 => Command::Forget,
            11 => return self.sweep(usize::from(input.next() % (KEYS + 2))),
            12 => return self.move_to(self.now + millis(input)),
            13 => return self.move_to(self.now - millis(input)),
            14 => return self.move_to_a_deadline(key, input.next()),
            // Seldom, since it takes longer than all else.
            _ if input.next() == 0 => return self.reopen(),
            _ => return,
        };
        self.execute(key, &command, in_a_batch);
    }

    fn execute(&mut self, key: u8, command: &Command, in_a_batch: bool) {
        let outcome = self.subject.execute(&id(key), command, in_a_batch);
        let granted = match &outcome {
            Outcome::Claimed(grant) => Some(grant.token),
            _ => None,
        };
        if let Some(token) = granted {
            let newest = self.tokens.last().filter(|_| self.tokens.len() > 1);
            assert!(newest < Some(&token), "{token:?} after {newest:?}");
            self.tokens.push(token);
        }
        let answer = Answer::of(outcome);
        let expected = self.model.execute(key, command, self.now, granted);
        assert_eq!(answer, expected, "{}: {command:?} on key {key} at {}", self.subject.name, self.now);
        self.count(&answer);
        self.everything_is_as_expected(&format!("{command:?}"));
    }

    fn everything_is_as_expected(&self, after: &str) {
        for key in 0..KEYS {
            let (stored, expected) = (self.stored(key), self.model.records.get(&key));
            assert_eq!(stored.as_ref(), expected, "{}: key {key} after {after}", self.subject.name);
        }
    }

    fn count(&mut self, answer: &Answer) {
        self.reached.once("commands");
        self.reached.once(match answer {
            Answer::Claimed { attempt: 1, .. } => "first claims",
            Answer::Claimed { .. } => "takeovers",
            Answer::Completed(_) => "replays",
            Answer::InProgress { .. } => "in progress",
            Answer::Mismatch { .. } => "mismatches",
            Answer::Recorded(_) => "completions",
            Answer::AlreadyRecorded(_) => "repeated completions",
            Answer::Renewed { .. } => "renewals",
            Answer::Released => "releases",
            Answer::Abandoned => "abandonments",
            Answer::AlreadyGone => "already gone",
            Answer::Lost(_) => "lost claims",
            Answer::Forgotten { .. } => "forgotten records",
        });
    }

    /// Which of the expired records a sweep takes is its own choice: only how many, and that it takes no
    /// other.
    fn sweep(&mut self, limit: usize) {
        let now = self.now;
        let is_expired = |record: &Record| record.expires_at.as_millis() <= now;
        let expired = self.model.records.values().filter(|record| is_expired(record)).count();
        let swept = self.subject.sweep(limit);
        let expected = (expired.min(limit), expired > limit);
        assert_eq!((swept.removed, swept.more), expected, "{}: limit {limit} at {now}", self.subject.name);
        let before = self.model.records.len();
        for key in 0..KEYS {
            if self.stored(key).is_none() && self.model.records.get(&key).is_some_and(is_expired) {
                self.model.records.remove(&key);
            }
        }
        self.everything_is_as_expected("a sweep");
        assert_eq!(before - self.model.records.len(), swept.removed, "limit {limit} at {now}");
        self.reached.times("records swept", swept.removed);
    }

    fn move_to(&mut self, millis: i64) {
        self.now = millis.max(1);
        self.subject.clock.set(at(self.now));
    }

    /// To a deadline that is stored, or a millisecond beside it.
    fn move_to_a_deadline(&mut self, key: u8, choice: u8) {
        if let Some(record) = self.model.records.get(&key) {
            let deadline = if choice & 1 == 0 { record.lease_until } else { record.expires_at };
            self.move_to(deadline.as_millis() + i64::from(choice / 2 % 3) - 1);
            self.reached.once("jumps to a deadline");
        }
    }

    fn reopen(&mut self) {
        if self.subject.reopen() {
            self.everything_is_as_expected("a reopening");
            self.reached.once("reopenings");
        }
    }

    /// What is stored for `key`, expired or not: every record stands at time 0.
    fn stored(&self, key: u8) -> Option<Record> {
        self.subject.clock.set(at(0));
        let record = self.subject.read(&id(key));
        self.subject.clock.set(at(self.now));
        record
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
