//! How long single calls take.

use crate::common::threads::time;
use hdrhistogram::Histogram;
use std::time::Duration;

/// The times of many calls, each to a part in a thousand.
#[derive(Clone, Debug)]
pub struct Waits(Histogram<u64>);

impl Waits {
    pub fn new() -> Self {
        Self(Histogram::new(3).expect("three digits"))
    }

    /// Does `call`, and notes its time.
    pub fn of<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let (took, done) = time(call);
        self.0.record(u64::try_from(took.as_nanos()).expect("a time")).expect("a histogram that grows");
        done
    }

    /// Those of all threads.
    pub fn together<'w>(all: impl IntoIterator<Item = &'w Self>) -> Self {
        let mut together = Self::new();
        all.into_iter().for_each(|waits| together.0.add(&waits.0).expect("a histogram that grows"));
        together
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// What `share` of the calls take at most, 0.5 being the median, in microseconds.
    pub fn quantile(&self, share: f64) -> f64 {
        micros(self.0.value_at_quantile(share))
    }

    /// The longest, in microseconds.
    pub fn longest(&self) -> f64 {
        micros(self.0.max())
    }
}

fn micros(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64() * 1e6
}
