//! Group commit: the commands of many callers, executed together by one of them ([`CommitQueue`]).
//!
//! Whoever comes while nobody leads, leads: it takes what is queued along with its own commands, has all of
//! them executed at once, and hands out the answers. Meanwhile others queue up for the next leader, the first of
//! them. So what is costly once a batch (an fsync) is shared by those who come together, and a caller that is
//! alone pays for no hand-off. There is no thread of the queue's own. (The shape of `LevelDB`'s write queue.)
//!
//! It knows nothing of what is executed, so that loom can check it alone.

#[cfg(all(test, idempotency_loom))]
#[expect(clippy::panic, reason = "a test that panics has failed")]
mod models;
#[cfg(all(test, not(idempotency_loom)))]
#[expect(clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]
mod tests;

use crate::planted;
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::iter;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// What executes the commands.
pub(crate) trait Executor {
    type Command;
    type Answer;

    /// What `command` adds to a batch.
    fn weight(command: &Self::Command) -> usize;

    /// Executes the commands of a batch in order, and gives one answer for each. No caller is answered before it
    /// is back.
    fn execute(&mut self, batch: &[Self::Command]) -> Vec<Self::Answer>;

    /// What the caller of a command hears whose leader has panicked: it may have been executed.
    fn unanswered() -> Self::Answer;

    /// Whether this process is a fork of the one whose threads are queued. None of them is here, and the locks
    /// may stand locked for ever.
    fn is_forked(&self) -> bool;
}

/// How much the queue takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The weight of one batch. A caller that comes with more has a batch of its own.
    pub(crate) batch: usize,
    /// Callers that wait.
    pub(crate) waiting: usize,
}

/// As many callers wait as may; the commands were not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueFull;

/// Callers in the order in which they came, and the executor that one of them has at a time.
pub(crate) struct CommitQueue<E: Executor> {
    line: Mutex<Line<E>>,
    /// Locked by who leads, so never waited for.
    executor: Mutex<E>,
    limits: Limits,
}

struct Line<E: Executor> {
    /// Whether there is a leader. Nobody waits while there is none.
    is_led: bool,
    waiting: VecDeque<Caller<E>>,
}

struct Caller<E: Executor> {
    /// None if it wants the executor to itself.
    commands: Vec<E::Command>,
    weight: usize,
    wants_turn: bool,
    waiter: Arc<Waiter<E>>,
}

/// Where a caller waits, and hears how it goes on.
struct Waiter<E: Executor> {
    told: Mutex<Option<Told<E>>>,
    changed: Condvar,
}

enum Told<E: Executor> {
    /// The answers to its commands.
    Answered(Vec<E::Answer>),
    /// It leads now, and is given back its commands.
    Leads(Vec<E::Command>),
}

/// What a leader has executed at once.
struct Batch<E: Executor> {
    /// Its own first.
    commands: Vec<E::Command>,
    own_len: usize,
    /// Who waits for the answers to the others, and to how many of them.
    followers: Vec<(Arc<Waiter<E>>, usize)>,
}

impl<E: Executor> CommitQueue<E> {
    pub(crate) fn new(executor: E, limits: Limits) -> Self {
        let line = Line { is_led: false, waiting: VecDeque::new() };
        Self { line: Mutex::new(line), executor: Mutex::new(executor), limits }
    }

    /// Has `commands` executed, with those of others; gives one answer for each.
    ///
    /// It panics as the executor did, if this caller led; those whose commands were executed along with it get
    /// [`Executor::unanswered`].
    ///
    /// # Errors
    /// [`QueueFull`]: nothing was executed.
    pub(crate) fn submit(&self, commands: Vec<E::Command>) -> Result<Vec<E::Answer>, QueueFull> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        Ok(match self.enter(commands, false)? {
            Told::Answered(answers) => answers,
            Told::Leads(commands) => self.lead(commands),
        })
    }

    /// The executor for this caller alone, once it is its turn, until what is given is dropped.
    ///
    /// # Errors
    /// [`QueueFull`]: there is no turn to be had.
    pub(crate) fn turn(&self) -> Result<Turn<'_, E>, QueueFull> {
        self.enter(Vec::new(), true)?;
        Ok(Turn { executor: self.executor.lock(), _end: TurnEnd(self) })
    }

    /// Leads if nobody does, else waits to be told.
    fn enter(&self, commands: Vec<E::Command>, wants_turn: bool) -> Result<Told<E>, QueueFull> {
        let waiter = {
            let mut line = self.line.lock();
            if !line.is_led {
                line.is_led = true;
                return Ok(Told::Leads(commands));
            }
            if line.waiting.len() >= self.limits.waiting {
                return Err(QueueFull);
            }
            let waiter = Arc::new(Waiter { told: Mutex::new(None), changed: Condvar::new() });
            let weight = weight::<E>(&commands);
            line.waiting.push_back(Caller { commands, weight, wants_turn, waiter: Arc::clone(&waiter) });
            waiter
        };
        Ok(waiter.wait())
    }

    /// Executes the leader's own commands and those that are queued behind it.
    fn lead(&self, own: Vec<E::Command>) -> Vec<E::Answer> {
        let mut executor = self.executor.lock();
        let Batch { commands, own_len, followers } = self.gather(own);
        // Caught, so that nobody is left behind, and no lock given back while unwinding.
        let executed = catch_unwind(AssertUnwindSafe(|| executor.execute(&commands)));
        let is_forked = executor.is_forked();
        drop(executor);
        // Before their callers are told, who still have the originals: so it is never here that the last of what an
        // application has given is dropped.
        drop(commands);
        let (answers, panic) = match executed {
            Ok(answers) => (answers, None),
            Err(panic) => (Vec::new(), Some(panic)),
        };
        let mut answers = answers.into_iter().chain(iter::repeat_with(E::unanswered));
        let own_answers = answers.by_ref().take(own_len).collect();
        if !is_forked {
            // First, so that the next batch is on its way while the answers are handed out.
            self.hand_over();
            let is_silent = panic.is_some() && planted::is("stranded-followers");
            for (waiter, len) in followers.into_iter().filter(|_| !is_silent) {
                waiter.tell(Told::Answered(answers.by_ref().take(len).collect()));
            }
        }
        match panic {
            None => own_answers,
            Some(panic) => resume_unwind(panic),
        }
    }

    /// The leader's `own` commands, and those of the callers that come next, up to the limit or to one that wants
    /// a turn.
    fn gather(&self, own: Vec<E::Command>) -> Batch<E> {
        let mut total = weight::<E>(&own);
        let mut batch = Batch { own_len: own.len(), commands: own, followers: Vec::new() };
        let mut line = self.line.lock();
        while let Some(caller) = line.waiting.pop_front_if(|caller| {
            !caller.wants_turn && total.saturating_add(caller.weight) <= self.limits.batch
        }) {
            total = total.saturating_add(caller.weight);
            batch.followers.push((caller.waiter, caller.commands.len()));
            batch.commands.extend(caller.commands);
        }
        batch
    }

    /// Makes the first that waits the leader, if one does.
    fn hand_over(&self) {
        let next = {
            let mut line = self.line.lock();
            let next = line.waiting.pop_front();
            line.is_led = next.is_some();
            next
        };
        if let Some(next) = next.filter(|_| !planted::is("turn-not-passed-on")) {
            next.waiter.tell(Told::Leads(next.commands));
        }
    }
}

fn weight<E: Executor>(commands: &[E::Command]) -> usize {
    commands.iter().map(E::weight).fold(0, usize::saturating_add)
}

impl<E: Executor> Waiter<E> {
    fn tell(&self, told: Told<E>) {
        *self.told.lock() = Some(told);
        self.changed.notify_one();
    }

    fn wait(&self) -> Told<E> {
        let mut told = self.told.lock();
        loop {
            match told.take() {
                Some(told) => return told,
                None => told = self.changed.wait(told),
            }
        }
    }
}

/// A caller's turn with the executor; ends when it is dropped.
pub(crate) struct Turn<'q, E: Executor> {
    executor: MutexGuard<'q, E>,
    // Behind the guard, which is dropped first: the next leader is not to wait for it.
    _end: TurnEnd<'q, E>,
}

struct TurnEnd<'q, E: Executor>(&'q CommitQueue<E>);

impl<E: Executor> Drop for TurnEnd<'_, E> {
    fn drop(&mut self) {
        let is_forked = self.0.executor.lock().is_forked();
        if !is_forked {
            self.0.hand_over();
        }
    }
}

impl<E: Executor> Deref for Turn<'_, E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.executor
    }
}

impl<E: Executor> DerefMut for Turn<'_, E> {
    fn deref_mut(&mut self) -> &mut E {
        &mut self.executor
    }
}
