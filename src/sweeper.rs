//! Removing expired records: when the caller says so, or in the background by a [`Sweeper`].

use crate::backend::{Backend, Swept};
use crate::background::{self, Background};
use crate::error::Error;
use crate::jitter::Jitter;
use crate::shared::Shared;
use crate::store::IdempotencyStore;
use crate::sync::timed::Mutex;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How many expired records the backend is asked to remove at a time: a sweeper that is stopped removes no
/// more than these before it ends.
const SWEEP_STEP: usize = 1_000;
/// The shortest time between two runs of a sweeper.
const SHORTEST_EVERY: Duration = Duration::from_millis(1);

impl<B: Backend> IdempotencyStore<B> {
    /// Deletes at most `limit` expired records. Nothing is swept but by this,
    /// [`sweep_all`](Self::sweep_all) and [`spawn_sweeper`](Self::spawn_sweeper): expired records answer as
    /// absent, and stay.
    ///
    /// ```
    /// # let store = idempotency::IdempotencyStore::in_memory();
    /// let swept = store.sweep(1_000)?; // every few minutes, say
    /// if swept.more {
    ///     // once more, sooner
    /// }
    /// # Ok::<(), idempotency::Error>(())
    /// ```
    ///
    /// # Errors
    /// It stopped; what it had removed stays removed, and so may the last of it if [`Error::is_indefinite`].
    pub fn sweep(&self, limit: usize) -> Result<Swept, Error> {
        self.shared().sweep(limit)
    }

    /// Deletes expired records, a bounded number at a time, until the backend finds no more.
    ///
    /// # Errors
    /// As [`sweep`](Self::sweep).
    pub fn sweep_all(&self) -> Result<Swept, Error> {
        let mut removed: usize = 0;
        let more = sweep_by_steps(self.shared(), |step| {
            removed = removed.saturating_add(step);
            true
        })?;
        Ok(Swept { removed, more })
    }

    /// Deletes expired records in the background, about every `every`, until the [`Sweeper`] is dropped. The
    /// first time is about `every` from now.
    ///
    /// ```
    /// use idempotency::IdempotencyStore;
    /// use std::time::Duration;
    ///
    /// let store = IdempotencyStore::in_memory();
    /// let sweeper = store.spawn_sweeper(Duration::from_secs(300));
    /// // … serve, and look at it now and then, where the service's health is looked at …
    /// assert!(sweeper.is_running());
    /// if let Some(error) = sweeper.last_error() {
    ///     eprintln!("what has expired stays until a sweep succeeds: {error}");
    /// }
    /// sweeper.stop();
    /// ```
    ///
    /// Every few minutes suits most: what has expired costs only its room, and beside what is kept for 24
    /// hours that of five minutes is little. `every` is real time, whatever the store's clock shows. Each
    /// time it is up to a tenth longer or shorter, so that processes that start together don't sweep
    /// together. Below one millisecond it is one.
    ///
    /// If nothing has expired, a run costs about nothing. Else it costs what it removes, in small batches
    /// between which claims have their turn; on SQLite each batch is a transaction of its own. One sweeper is
    /// enough for a store; any number of processes and handles may have one.
    ///
    /// If the system has no thread to give, the sweeper [does not run](Sweeper::is_running), and has the
    /// reason as its [`last_error`](Sweeper::last_error).
    pub fn spawn_sweeper(&self, every: Duration) -> Sweeper {
        let tally = Arc::new(Tally::default());
        let thread = Background::start("idempotency sweeper", {
            let (store, tally) = (Arc::clone(self.shared()), Arc::clone(&tally));
            move |signal| {
                let mut jitter = Jitter::new();
                while signal.wait(jittered(every, &mut jitter)) {
                    let run = background::caught(|| {
                        sweep_by_steps(&store, |step| {
                            tally.add_removed(step);
                            !signal.is_stopped()
                        })
                    });
                    tally.add_run(run.err());
                }
            }
        });
        Sweeper { thread, tally }
    }
}

/// Sweeps step by step, as long as there is more and `goes_on`, which hears how many records a step has
/// removed, says so. Gives whether there is more.
fn sweep_by_steps(store: &Shared, mut goes_on: impl FnMut(usize) -> bool) -> Result<bool, Error> {
    loop {
        let swept = store.sweep(SWEEP_STEP)?;
        // A backend that removes nothing and still says "more" must not hold its caller for ever.
        if !goes_on(swept.removed) || !swept.more || swept.removed == 0 {
            return Ok(swept.more);
        }
    }
}

/// `every`, up to a tenth longer or shorter.
fn jittered(every: Duration, jitter: &mut Jitter) -> Duration {
    let nanos = u64::try_from(every.max(SHORTEST_EVERY).as_nanos()).unwrap_or(u64::MAX);
    let tenth = nanos / 10;
    let random = jitter.below(tenth.saturating_mul(2).saturating_add(1));
    Duration::from_nanos(nanos.saturating_sub(tenth).saturating_add(random))
}

/// A thread that deletes expired records, until this is dropped: see
/// [`spawn_sweeper`](IdempotencyStore::spawn_sweeper).
///
/// It keeps the store open. A run that fails is counted, and the next one comes as usual; so is one in which
/// the backend or its clock panics, as [`Error::Indefinite`].
///
/// Dropping it waits until the thread has ended: for the batch in hand, of at most 1,000 records, which may
/// wait as long as the backend waits for a storage that is busy (on SQLite, the busy timeout). Afterwards it
/// makes no call any more. So don't drop it inside
/// [`atomically`](IdempotencyStore#method.atomically) of its own store: each would wait for the other. Where
/// it is dropped on its own thread, by a backend, that ends soon after.
///
/// The thread does not come along into a fork of the process: fork first, and start the sweeper in the
/// process that uses the store. What a fork inherits does not run, has [`Error::Forked`] as its
/// [`last_error`](Self::last_error), and is dropped at once.
#[derive(Debug)]
#[must_use = "dropping it ends the sweeping"]
pub struct Sweeper {
    /// Or why there is none.
    thread: Result<Background, Error>,
    tally: Arc<Tally>,
}

impl Sweeper {
    /// Whether its thread is there: not if the system had none to give, and not in a fork of the process.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_ok_and(Background::is_running)
    }

    /// How many runs have ended, failed ones included.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.tally.runs.load(Ordering::SeqCst)
    }

    /// How many records it has removed, not counting those of a batch that failed half-way.
    #[must_use]
    pub fn removed(&self) -> u64 {
        self.tally.removed.load(Ordering::SeqCst)
    }

    /// How many runs have failed; 1 if there is no thread to run.
    #[must_use]
    pub fn failures(&self) -> u64 {
        if self.thread.is_err() { 1 } else { self.tally.failures.load(Ordering::SeqCst) }
    }

    /// What the last run failed with, or why there is no thread; none once a run succeeded.
    #[must_use]
    pub fn last_error(&self) -> Option<Error> {
        match &self.thread {
            Err(error) => Some(error.clone()),
            // A fork's copy of the lock may stand locked for ever.
            Ok(thread) if thread.is_forked() => Some(Error::Forked),
            Ok(_) => self.tally.last_error.lock().clone(),
        }
    }

    /// Stops it and waits until it has ended, as dropping it does.
    pub fn stop(self) {
        drop(self);
    }
}

/// What a sweeper has done so far.
#[derive(Debug, Default)]
struct Tally {
    runs: AtomicU64,
    removed: AtomicU64,
    failures: AtomicU64,
    last_error: Mutex<Option<Error>>,
}

impl Tally {
    fn add_removed(&self, records: usize) {
        self.removed.fetch_add(u64::try_from(records).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Counts the run last: whoever sees that it has ended sees what it came to.
    fn add_run(&self, error: Option<Error>) {
        self.failures.fetch_add(u64::from(error.is_some()), Ordering::SeqCst);
        // The error before may be of the backend's own making, so it is dropped without the lock.
        let _before = mem::replace(&mut *self.last_error.lock(), error);
        self.runs.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_up_to_a_tenth_more_or_less_apart_and_never_all_the_same() {
        let mut jitter = Jitter::new();
        let mut rests =
            |every| -> Vec<Duration> { (0..1_000).map(|_| jittered(every, &mut jitter)).collect() };
        for (every, least, most) in [
            (Duration::from_secs(300), Duration::from_secs(270), Duration::from_secs(330)),
            (Duration::ZERO, Duration::from_micros(900), Duration::from_micros(1_100)),
            (Duration::from_nanos(1), Duration::from_micros(900), Duration::from_micros(1_100)),
        ] {
            let rests = rests(every);
            assert!(rests.iter().all(|rest| (least..=most).contains(rest)), "{every:?}: {rests:?}");
            let (early, late) = (least + (most - least) / 4, most - (most - least) / 4);
            assert!(
                rests.iter().any(|rest| *rest < early) && rests.iter().any(|rest| *rest > late),
                "{every:?}"
            );
        }
        let century = Duration::from_secs(36_525 * 86_400);
        assert!(rests(Duration::MAX).iter().all(|rest| *rest > century));
    }
}
