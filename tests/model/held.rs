//! What a caller who has heard all answers can hold to be true.
//!
//! A call that may have been done leaves two possible states: one in which it was, and one in which it was
//! not. Each later answer decides: a state that would have answered otherwise was not the true one.

use crate::history::History;
use std::fmt::Debug;

#[derive(Debug)]
pub struct Held {
    possible: Vec<History>,
    /// Whether what is in doubt was done, if it is one call.
    in_doubt: Option<bool>,
}

/// How a doubt ended.
#[derive(Clone, Copy, Debug)]
pub enum Decided {
    Done,
    NotDone,
}

impl Held {
    pub fn nothing_happened() -> Self {
        Self { possible: vec![History::default()], in_doubt: None }
    }

    /// A call was answered `told`, and `answer` says what a state answers to it and how it changes.
    pub fn answered<T: PartialEq + Debug>(
        &mut self,
        told: &T,
        answer: impl Fn(&mut History) -> T,
    ) -> Result<Option<Decided>, String> {
        let before = self.possible.len();
        let mut explained = Vec::new();
        self.possible.retain_mut(|state| {
            explained.push(answer(state));
            explained.last() == Some(told)
        });
        if self.possible.is_empty() {
            return Err(format!("no state that is held explains\n  {told:?}\nbut only\n  {explained:?}"));
        }
        self.merge();
        Ok(if before > 1 && self.possible.len() == 1 {
            self.in_doubt.take().map(|done| if done { Decided::Done } else { Decided::NotDone })
        } else {
            None
        })
    }

    /// A call may have been done; `change` does it. Says whether that leaves more states than before.
    pub fn perhaps(&mut self, done: bool, change: impl Fn(&mut History)) -> bool {
        let before = self.possible.len();
        let mut changed = self.possible.clone();
        changed.iter_mut().for_each(change);
        self.possible.extend(changed);
        self.merge();
        let more = self.possible.len() > before;
        if more {
            self.in_doubt = (before == 1).then_some(done);
        }
        more
    }

    fn merge(&mut self) {
        let mut apart: Vec<History> = Vec::new();
        for state in self.possible.drain(..) {
            if !apart.iter().any(|other| other.amounts_to(&state)) {
                apart.push(state);
            }
        }
        self.possible = apart;
    }

    pub fn holds(&self, state: &History) -> bool {
        self.possible.iter().any(|held| held.amounts_to(state))
    }

    pub const fn count(&self) -> usize {
        self.possible.len()
    }
}
