//! Threads that draw what they do to a few keys, and what they saw.

use crate::arena::Arena;
use crate::checker::{self, Doubts, Perhaps, Seen, Terms, What};
use crate::dice::Dice;
use crate::flaky::{Fate, Flaky};
use crate::terms::{LEASE, RETENTION, fingerprint, key, reply_of, scope};
use idempotency::{Backend, Command, DynStore, FencingToken, Period, RecordId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const KEYS: usize = 2;

fn id(round: usize, number: usize) -> RecordId {
    RecordId::new(scope(), key(&format!("{round} {number}")))
}

/// Lets threads make so many calls each, drawn, with stale tokens too; gives all that they saw. Every second thread may lose
/// answers.
pub fn of(
    arena: &Arena,
    threads: usize,
    calls: usize,
    round: usize,
    loses: bool,
    dice: &mut Dice,
) -> Vec<Seen> {
    let ticks = AtomicU64::new(0);
    let dice: Vec<_> = (0..threads).map(|_| dice.deal()).collect();
    let seen = arena.at_once(threads, |number, store| {
        let mut worker = Worker {
            store,
            backend: Flaky::new(Arc::clone(store.backend())),
            loses_answers: loses && number % 2 == 1,
            arena,
            round,
            ticks: &ticks,
            tokens: Vec::new(),
            seen: Vec::new(),
        };
        let mut dice = dice[number].clone();
        for _ in 0..calls {
            worker.call(&mut dice);
        }
        worker.seen
    });
    seen.into_iter().flatten().collect()
}

struct Worker<'a> {
    store: &'a DynStore,
    backend: Flaky,
    loses_answers: bool,
    arena: &'a Arena,
    round: usize,
    ticks: &'a AtomicU64,
    /// Every token that this thread was granted, and for which key: most are stale.
    tokens: Vec<(usize, FencingToken)>,
    seen: Vec<Seen>,
}

impl Worker<'_> {
    fn call(&mut self, dice: &mut Dice) {
        let at = dice.between(0, KEYS - 1);
        if self.loses_answers && dice.between(0, 7) == 0 {
            return self.lose_an_answer(at, dice);
        }
        match dice.between(0, 15) {
            0 => self.arena.clock.advance(Duration::from_secs(12)),
            1 => self.arena.clock.advance(Duration::from_millis(1)),
            2 => drop(self.store.sweep(1).expect("a sweep")),
            3 if dice.between(0, 1) == 0 => self.execute(at, &Command::Forget),
            3..=9 => self.claim(at),
            _ => self.show_a_token(dice),
        }
    }

    fn claim(&mut self, at: usize) {
        let period = |length| Period::new(length).expect("a period");
        let (lease, retention) = (period(LEASE), period(RETENTION));
        self.execute(at, &Command::Claim { fingerprint: fingerprint(), lease, retention });
    }

    /// Of a claim, and then a look shows whether it was granted; or of what is done with a token, of the newest
    /// claim's completion above all, and then a claim may show it.
    fn lose_an_answer(&mut self, at: usize, dice: &mut Dice) {
        let is_done = dice.between(0, 1) == 0;
        self.backend.next_is(if is_done { Fate::DoneUnheard } else { Fate::NotDoneUnheard });
        match (self.tokens.last().copied(), dice.between(0, 3)) {
            (Some((at, token)), 0) => {
                self.complete(at, token);
                self.claim(at);
            }
            (Some(_), 1) => {
                self.show_a_token(dice);
                self.claim(at);
            }
            _ => {
                self.claim(at);
                self.look(at);
            }
        }
    }

    fn complete(&mut self, at: usize, token: FencingToken) {
        let retention = Period::new(RETENTION).expect("a period");
        self.execute(at, &Command::Complete { token, reply: reply_of(token), retention });
    }

    /// Looks at the record, and takes the claim that it finds for its own.
    fn look(&mut self, at: usize) {
        let began = self.ticks.fetch_add(1, Ordering::SeqCst);
        let read = self.backend.read(&id(self.round, at)).expect("a look");
        let ended = self.ticks.fetch_add(1, Ordering::SeqCst);
        let what = What::found(read.as_ref().map(|(record, _)| record));
        if let What::Found { token, .. } = what {
            self.tokens.push((at, token));
        }
        self.seen.push(Seen { began, ended, key: at, what });
    }

    /// The newest token as often as all the others.
    fn show_a_token(&mut self, dice: &mut Dice) {
        let Some(last) = self.tokens.len().checked_sub(1) else { return };
        let chosen = if dice.between(0, 1) == 0 { last } else { dice.between(0, last) };
        let (at, token) = self.tokens[chosen];
        let command = match dice.between(0, 9) {
            0..=2 => Command::Renew { token },
            3..=4 => Command::Checkpoint { token, bytes: "half way".into() },
            5..=7 => return self.complete(at, token),
            8 => Command::Abandon { token },
            _ => Command::Release { token },
        };
        self.execute(at, &command);
    }

    fn execute(&mut self, at: usize, command: &Command) {
        let began = self.ticks.fetch_add(1, Ordering::SeqCst);
        let outcome = self.backend.execute(&id(self.round, at), command);
        let ended = self.ticks.fetch_add(1, Ordering::SeqCst);
        let what = match outcome {
            Ok(outcome) => What::of(command, outcome),
            Err(error) if error.is_indefinite() && self.loses_answers => What::Perhaps(Perhaps::of(command)),
            Err(error) => panic!("{}: {command:?}: {error:?}", self.arena.name),
        };
        if let What::Granted { token, .. } = what {
            self.tokens.push((at, token));
        }
        self.seen.push(Seen { began, ended, key: at, what });
    }
}

/// Judges what was seen in `round`, and what it left behind.
pub fn check(about: &str, arena: &Arena, round: usize, seen: &[Seen]) -> Doubts {
    let terms = Terms { lease: LEASE, retention: RETENTION };
    checker::check(about, terms, seen, |number| {
        let id = id(round, number);
        arena.store().lookup(&id.scope, &id.key).expect("a look-up")
    })
}
