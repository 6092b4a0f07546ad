//! A child that gives commands to the store, and what it saw.

use crate::crew::Parent;
use crate::dice::Dice;
use crate::flaky::{Fate, Flaky};
use crate::history::{Perhaps, Seen, Terms, What};
use crate::report::{Ticks, id, line, reply_of, request};
use idempotency::{
    Backend, Command, Durability, FencingToken, IdempotencyStore, Period, Policy, SqliteBackend,
    SqliteOptions, SqliteStore,
};
use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The store in `file`. A loss of power plays no part here.
fn backend(file: &Path) -> SqliteBackend {
    // Nobody is to give up on a machine that is busy with other things.
    let options =
        SqliteOptions::new().with_durability(Durability::Normal).with_busy_timeout(Duration::from_secs(60));
    SqliteBackend::open(file, options).expect("a store that opens")
}

pub fn open(file: &Path, terms: Terms) -> SqliteStore {
    let policy = Policy::new().with_lease(terms.lease).with_retention(terms.retention);
    IdempotencyStore::new(backend(file)).with_policy(policy).expect("a usable policy")
}

/// The numbers below `count`, each once.
pub fn shuffled(count: usize, dice: &mut Dice) -> Vec<usize> {
    let mut numbers: Vec<_> = (0..count).collect();
    for at in 1..count {
        numbers.swap(at, dice.between(0, at));
    }
    numbers
}

pub struct Worker<'a> {
    parent: &'a Parent,
    backend: Flaky,
    terms: Terms,
    ticks: Ticks,
    is_unheard: bool,
    /// Every claim that it was granted: the key and the token.
    pub granted: Vec<(usize, FencingToken)>,
    /// Told at the end, so that telling does not pace the work.
    report: Vec<String>,
}

impl<'a> Worker<'a> {
    pub fn new(parent: &'a Parent, terms: Terms) -> Self {
        Self::on(parent, terms, backend(&parent.file))
    }

    /// With a store of its own on the file.
    pub fn on(parent: &'a Parent, terms: Terms, backend: SqliteBackend) -> Self {
        let (backend, ticks) = (Flaky::new(Arc::new(backend)), Ticks::beside(&parent.file));
        Self { parent, backend, terms, ticks, is_unheard: false, granted: Vec::new(), report: Vec::new() }
    }

    pub fn claim(&mut self, key: usize, asked: usize) {
        let period = |length| Period::new(length).expect("a period");
        let (lease, retention) = (period(self.terms.lease), period(self.terms.retention));
        let fingerprint = request(asked);
        self.execute(key, &Command::Claim { fingerprint, lease, retention });
    }

    pub fn complete(&mut self, key: usize, token: FencingToken) {
        let retention = Period::new(self.terms.retention).expect("a period");
        self.execute(key, &Command::Complete { token, reply: reply_of(token), retention });
    }

    pub fn execute(&mut self, key: usize, command: &Command) {
        let began = self.ticks.tick();
        let is_unheard = mem::take(&mut self.is_unheard);
        let outcome = self.backend.execute(&id(key), command);
        let ended = self.ticks.tick();
        match outcome {
            Ok(outcome) => {
                let seen = Seen { began, ended, key, what: What::of(command, outcome) };
                if let What::Granted { token, .. } = seen.what {
                    self.granted.push((key, token));
                }
                self.report.push(line(&seen));
            }
            Err(error) if error.is_indefinite() && is_unheard => {
                let what = What::Perhaps(Perhaps::of(command));
                self.report.push(line(&Seen { began, ended, key, what }));
            }
            Err(error) => self.report.push(format!("error of {command:?}: {error:?}")),
        }
    }

    /// The next command may be done, and its answer is not heard.
    pub fn next_is_unheard(&mut self, is_done: bool) {
        self.backend.next_is(if is_done { Fate::DoneUnheard } else { Fate::NotDoneUnheard });
        self.is_unheard = true;
    }

    /// Looks at the record, and takes the claim that it finds for its own.
    pub fn look(&mut self, key: usize) {
        let began = self.ticks.tick();
        let read = self.backend.read(&id(key));
        let ended = self.ticks.tick();
        match read {
            Ok(read) => {
                let what = What::found(read.as_ref().map(|(record, _)| record));
                if let What::Found { token, .. } = what {
                    self.granted.push((key, token));
                }
                self.report.push(line(&Seen { began, ended, key, what }));
            }
            Err(error) => self.report.push(format!("error of a look: {error:?}")),
        }
    }

    pub fn sweep(&mut self, limit: usize) {
        if let Err(error) = self.backend.sweep(limit) {
            self.report.push(format!("error of a sweep: {error:?}"));
        }
    }

    /// Tells all that it has seen since the last time, and waits to be let go.
    pub fn report_and_wait(&mut self) {
        self.report();
        self.parent.wait();
    }

    pub fn report(&mut self) {
        self.report.drain(..).for_each(|line| self.parent.hears(line));
    }
}
