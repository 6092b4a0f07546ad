//! Random numbers for tests.

use crate::seed::next_number;

/// Random numbers from a seed (`SplitMix64`).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// More dice, for a thread.
    pub fn deal(&mut self) -> Self {
        Self(self.next())
    }

    fn next(&mut self) -> u64 {
        next_number(&mut self.0)
    }

    /// Between `least` and `most`, both possible.
    pub fn between(&mut self, least: usize, most: usize) -> usize {
        let span = u64::try_from(most - least + 1).expect("a small range");
        least + usize::try_from(self.next() % span).expect("a small range")
    }
}
