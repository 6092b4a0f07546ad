//! Waiting for a lock that another connection has.

use crate::jitter::Jitter;
use crate::time::Stopwatch;
use std::thread;
use std::time::Duration;

/// Short naps of random length, until it has been long enough.
///
/// SQLite's own busy wait naps longer and longer, so whoever has waited long asks seldom, and starves behind
/// those who have just come.
pub(super) struct Naps {
    timeout: Duration,
    waiting: Stopwatch,
    jitter: Jitter,
}

impl Naps {
    const SHORTEST_MICROS: u64 = 200;
    const JITTER_MICROS: u64 = 600;

    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, waiting: Stopwatch::start(), jitter: Jitter::new() }
    }

    /// Naps once, the first time for a lock if there were no `earlier` naps for it; false if it has been long
    /// enough. The form of SQLite's busy handler.
    pub(super) fn nap(&mut self, earlier: i32) -> bool {
        if earlier == 0 {
            self.waiting = Stopwatch::start();
        }
        let Some(left) = self.timeout.checked_sub(self.waiting.elapsed()).filter(|left| !left.is_zero())
        else {
            return false;
        };
        let micros = Self::SHORTEST_MICROS.saturating_add(self.jitter.below(Self::JITTER_MICROS));
        thread::sleep(Duration::from_micros(micros).min(left));
        true
    }
}

/// Tries again while `is_locked` says that a lock was in the way, and it has not been `timeout` long.
pub(super) fn retried<T, E>(
    timeout: Duration,
    is_locked: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let mut naps = Naps::new(timeout);
    let mut earlier = 0;
    loop {
        match attempt() {
            Err(error) if is_locked(&error) && naps.nap(earlier) => earlier = 1,
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_time_does_not_nap() {
        assert!(!Naps::new(Duration::ZERO).nap(0));
    }

    #[test]
    fn a_new_lock_is_waited_for_as_long_as_the_one_before() {
        let mut naps = Naps::new(Duration::from_millis(200));
        while naps.nap(1) {}
        assert!(!naps.nap(1), "long enough for one lock");
        assert!(naps.nap(0), "and not for the next");
    }

    #[test]
    fn what_no_lock_was_in_the_way_of_is_tried_once_and_what_one_was_until_it_is_gone() {
        let mut attempts = 0;
        let answer = retried(
            Duration::from_secs(60),
            |error: &bool| *error,
            || {
                attempts += 1;
                if attempts < 5 { Err(true) } else { Err::<(), _>(false) }
            },
        );
        assert_eq!((answer, attempts), (Err(false), 5));
    }
}
