//! Plays a sequence on a backend and on the model, side by side.

use crate::history::{Asked, History, NEVER_ISSUED};
use crate::plain::{Plain, Told, moment};
use crate::steps::{Deadline, KEYS, Proof, Step, Want, fingerprint, reply};
use bytes::Bytes;
use idempotency::{
    Backend, Command, FencingToken, IdempotencyKey, ManualClock, MemoryBackend, MemoryOptions, Outcome,
    Period, RecordId, Scope, Swept, Timestamp,
};
use proptest::test_runner::TestCaseError;
use std::collections::BTreeMap;

/// How often each thing happened, over all cases.
pub type Tally = BTreeMap<&'static str, usize>;

type Opener = Box<dyn Fn(ManualClock) -> Box<dyn Backend>>;

/// A kind of store to play sequences on.
pub struct Kind {
    pub name: &'static str,
    open: Opener,
    survives_closing: bool,
}

impl Kind {
    pub fn memory() -> Self {
        // Shards and hash are fixed: which records a limited sweep takes must not change when a sequence is
        // replayed.
        let options = MemoryOptions::new().with_shards(4).with_hash_seed(1, 2);
        let open = move |clock| -> Box<dyn Backend> {
            Box::new(MemoryBackend::new(options.clone().with_clock(clock)))
        };
        Self { name: "memory", open: Box::new(open), survives_closing: false }
    }

    /// A store in a file of its own, which must not be there yet.
    #[cfg(feature = "sqlite")]
    pub fn sqlite(path: std::path::PathBuf) -> Self {
        use idempotency::{Durability, SqliteBackend, SqliteOptions};
        let open = move |clock| -> Box<dyn Backend> {
            let options = SqliteOptions::new().with_clock(clock).with_durability(Durability::Normal);
            Box::new(SqliteBackend::open(&path, options).expect("a store that opens"))
        };
        Self { name: "sqlite", open: Box::new(open), survives_closing: true }
    }
}

/// A backend and its model.
struct Pair {
    kind: Kind,
    backend: Option<Box<dyn Backend>>,
    clock: ManualClock,
    now: i64,
    ids: [RecordId; KEYS],
    issued: Vec<FencingToken>,
    history: History,
}

/// Plays `steps` on a fresh store; the first difference is the error.
pub fn play(kind: Kind, steps: &[Step], tally: &mut Tally) -> Result<(), TestCaseError> {
    let clock = ManualClock::new(moment(0));
    let id = |scope: &str, key: &str| {
        RecordId::new(Scope::new(scope).expect("a scope"), IdempotencyKey::new(key).expect("a key"))
    };
    let mut pair = Pair {
        backend: Some((kind.open)(clock.clone())),
        kind,
        clock,
        now: 0,
        ids: [id("a", "1"), id("a", "2"), id("b", "2")],
        issued: Vec::new(),
        history: History::default(),
    };
    for (number, step) in steps.iter().enumerate() {
        pair.step(step, tally).and_then(|()| pair.compare_records()).map_err(|difference| {
            TestCaseError::fail(format!("{}, step {number}, {step:?}: {difference}", pair.kind.name))
        })?;
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, store: &T, model: &T) -> Result<(), String> {
    if store == model { Ok(()) } else { Err(format!("{what}:\n  store {store:?}\n  model {model:?}")) }
}

impl Pair {
    fn backend(&self) -> &dyn Backend {
        &**self.backend.as_ref().expect("a store that is open")
    }

    fn step(&mut self, step: &Step, tally: &mut Tally) -> Result<(), String> {
        match step {
            Step::Do(key, want) => {
                let asked = self.resolve(*key, want);
                let outcome = self.backend().execute(&self.ids[*key], &self.command(&asked));
                self.compare_answer(*key, &asked, outcome.map_err(|error| error.to_string())?, tally)
            }
            Step::Together(wants) => self.together(wants, tally),
            Step::Read(key) => {
                let read = self.backend().read(&self.ids[*key]).map_err(|error| error.to_string())?;
                let model = self.history.standing(*key, self.now).map(|record| (record, self.now));
                same("read", &Told::seen(read, &self.issued), &Told::Seen(model))
            }
            Step::Sweep(limit) => self.sweep(*limit, tally),
            Step::Jump { key, deadline, by } => {
                if let Some(record) = self.history.stored(*key) {
                    let deadline = match deadline {
                        Deadline::Lease => record.lease_until,
                        Deadline::Expiry => record.expires_at,
                    };
                    self.now = deadline + by;
                    count(tally, "jumps to a deadline");
                }
                Ok(())
            }
            Step::Shift(by) => {
                self.now += by;
                Ok(())
            }
            Step::Reopen => {
                if self.kind.survives_closing {
                    self.backend = None;
                    self.backend = Some((self.kind.open)(self.clock.clone()));
                    count(tally, "reopenings");
                }
                Ok(())
            }
        }?;
        self.clock.set(moment(self.now));
        Ok(())
    }

    fn together(&mut self, wants: &[(usize, Want)], tally: &mut Tally) -> Result<(), String> {
        let asked: Vec<_> = wants.iter().map(|(key, want)| (*key, self.resolve(*key, want))).collect();
        let batch: Vec<_> =
            asked.iter().map(|(key, asked)| (self.ids[*key].clone(), self.command(asked))).collect();
        let outcomes = self.backend().execute_many(&batch);
        same("answers to a batch", &outcomes.len(), &batch.len())?;
        for ((key, asked), outcome) in asked.iter().zip(outcomes) {
            self.compare_answer(*key, asked, outcome.map_err(|error| error.to_string())?, tally)?;
            count(tally, "commands in batches");
        }
        Ok(())
    }

    fn compare_answer(
        &mut self,
        key: usize,
        asked: &Asked,
        outcome: Outcome,
        tally: &mut Tally,
    ) -> Result<(), String> {
        if let Outcome::Claimed(grant) = &outcome {
            if let Some(highest) = self.issued.last().filter(|highest| **highest >= grant.token) {
                return Err(format!("token {} was granted after {highest}", grant.token));
            }
            self.issued.push(grant.token);
        }
        let store = Told::of(outcome, &self.issued);
        let model = self.history.ask(key, self.now, asked);
        count(tally, name(&store));
        same("answer", &store, &model)
    }

    /// Which of the expired records a limited sweep takes is the backend's choice: the model follows it.
    fn sweep(&mut self, limit: usize, tally: &mut Tally) -> Result<(), String> {
        let Swept { removed, more } = self.backend().sweep(limit).map_err(|error| error.to_string())?;
        let expired = self.history.expired(self.now);
        let model = Told::Swept { removed: expired.len().min(limit), more: expired.len() > limit };
        same("sweep", &Told::Swept { removed, more }, &model)?;
        let gone: Vec<_> = expired.into_iter().filter(|key| self.stored(*key).is_none()).collect();
        same("records gone", &gone.len(), &removed)?;
        for key in gone {
            self.history.remove(key);
            count(tally, "records swept");
        }
        Ok(())
    }

    fn compare_records(&self) -> Result<(), String> {
        let compared =
            (0..KEYS).try_for_each(|key| same("record", &self.stored(key), &self.history.stored(key)));
        self.clock.set(moment(self.now));
        compared
    }

    /// What is stored, expired or not. Leaves the clock set back to where nothing has expired.
    fn stored(&self, key: usize) -> Option<Plain> {
        self.clock.set(Timestamp::from_millis(0));
        let read = self.backend().read(&self.ids[key]).expect("a readable record");
        read.map(|(record, _)| Plain::of(&record, &self.issued))
    }

    fn resolve(&self, key: usize, want: &Want) -> Asked {
        let token = |proof| self.rank(key, proof);
        match want.clone() {
            Want::Claim { request, lease, retention } => Asked::Claim { request, lease, retention },
            Want::Complete { by, reply: number, retention } => {
                Asked::Complete { token: token(by), reply: reply(number), retention }
            }
            Want::Renew(by) => Asked::Renew { token: token(by) },
            Want::Save(by, bytes) => Asked::Save { token: token(by), bytes },
            Want::Release(by) => Asked::Release { token: token(by) },
            Want::Abandon(by) => Asked::Abandon { token: token(by) },
            Want::Forget => Asked::Forget,
        }
    }

    fn rank(&self, key: usize, proof: Proof) -> usize {
        let rank = match proof {
            Proof::Newest => self.history.tokens_of(key).next(),
            Proof::Older(back) => self.history.tokens_of(key).nth(back),
            Proof::Any(number) => number.checked_rem(self.history.granted()),
            Proof::NeverIssued => None,
        };
        rank.unwrap_or(NEVER_ISSUED)
    }

    fn command(&self, asked: &Asked) -> Command {
        let period = |millis| Period::from_millis(millis).expect("a period");
        let token = |rank: usize| {
            // Far above the highest: a claim in the same batch must not be granted it.
            let beyond = self.issued.last().map_or(1, |highest| highest.get() + 1_000);
            self.issued.get(rank).copied().or(FencingToken::new(beyond)).expect("a token")
        };
        match asked.clone() {
            Asked::Claim { request, lease, retention } => Command::Claim {
                fingerprint: fingerprint(request),
                lease: period(lease),
                retention: period(retention),
            },
            Asked::Complete { token: rank, reply, retention } => {
                Command::Complete { token: token(rank), reply, retention: period(retention) }
            }
            Asked::Renew { token: rank } => Command::Renew { token: token(rank) },
            Asked::Save { token: rank, bytes } => {
                Command::Checkpoint { token: token(rank), bytes: Bytes::from(bytes) }
            }
            Asked::Release { token: rank } => Command::Release { token: token(rank) },
            Asked::Abandon { token: rank } => Command::Abandon { token: token(rank) },
            Asked::Forget => Command::Forget,
        }
    }
}

fn count(tally: &mut Tally, what: &'static str) {
    *tally.entry(what).or_default() += 1;
}

fn name(told: &Told) -> &'static str {
    match told {
        Told::Claimed { attempt: 1, .. } => "first claims",
        Told::Claimed { .. } => "takeovers",
        Told::Completed(_) => "replays",
        Told::InProgress { .. } => "in progress",
        Told::Mismatch { .. } => "mismatches",
        Told::Recorded(_) => "completions",
        Told::AlreadyRecorded(_) => "repeated completions",
        Told::Renewed { .. } => "renewals",
        Told::Released => "releases",
        Told::Abandoned => "abandonments",
        Told::AlreadyGone => "ends of what was gone",
        Told::Lost(_) => "lost claims",
        Told::Forgotten { existed: true } => "forgotten records",
        Told::Forgotten { existed: false } => "nothing forgotten",
        Told::Seen(_) | Told::Swept { .. } => "looks and sweeps",
    }
}
