//! Two sides that are measured in one run, in turns: what the machine does meanwhile falls on both.

use crate::common::spread::Spread;

/// What each side came to in each repeat, as rates or as times, but both as the same.
#[derive(Debug, Default)]
pub struct Sides {
    repeats: Vec<(f64, f64)>,
}

impl Sides {
    /// Adds a repeat.
    pub fn push(&mut self, subject: f64, baseline: f64) {
        self.repeats.push((subject, baseline));
    }

    /// Measures one side after the other; who goes first alternates. Each is to prepare afresh what it
    /// measures, and not to count that.
    pub fn measure(&mut self, subject: impl FnOnce() -> f64, baseline: impl FnOnce() -> f64) {
        let (subject, baseline) = if self.repeats.len().is_multiple_of(2) {
            let first = subject();
            (first, baseline())
        } else {
            let first = baseline();
            (subject(), first)
        };
        self.push(subject, baseline);
    }

    /// What each side has become of what it was `before`, repeat by repeat.
    pub fn growth_since(&self, before: &Self) -> Self {
        let pairs = self.repeats.iter().zip(&before.repeats);
        Self { repeats: pairs.map(|(now, then)| (now.0 / then.0, now.1 / then.1)).collect() }
    }

    /// What the subject is, in terms of the baseline of the same repeat.
    pub fn ratio(&self) -> Spread {
        Spread::of(self.repeats.iter().map(|(subject, baseline)| subject / baseline))
    }

    pub fn subject(&self) -> Spread {
        Spread::of(self.repeats.iter().map(|(subject, _)| *subject))
    }

    pub fn baseline(&self) -> Spread {
        Spread::of(self.repeats.iter().map(|(_, baseline)| *baseline))
    }
}

/// Measures both sides `repeats` times, in turns, as [`Sides::measure`] does.
pub fn compare(repeats: usize, mut subject: impl FnMut() -> f64, mut baseline: impl FnMut() -> f64) -> Sides {
    let mut sides = Sides::default();
    (0..repeats).for_each(|_| sides.measure(&mut subject, &mut baseline));
    sides
}
