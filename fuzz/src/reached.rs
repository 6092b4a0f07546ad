//! What inputs have led to: who runs them asserts that they did not all end at the first check.

use std::collections::BTreeMap;

/// How often something happened, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached(BTreeMap<&'static str, usize>);

impl Reached {
    /// It happened once more.
    pub fn once(&mut self, what: &'static str) {
        self.times(what, 1);
    }

    /// It happened `count` times more.
    pub fn times(&mut self, what: &'static str, count: usize) {
        *self.0.entry(what).or_default() += count;
    }

    /// What another input has led to happened as well.
    pub fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, count)| self.times(what, *count));
    }

    /// How often it happened.
    #[must_use]
    pub fn count(&self, what: &str) -> usize {
        self.0.get(what).copied().unwrap_or(0)
    }
}
