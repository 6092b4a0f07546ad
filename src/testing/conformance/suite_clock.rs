//! The clock that the suite gives to a backend: [`SuiteClock`].

use crate::time::{Clock, ManualClock, Timestamp};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a reading is held up once somebody else is about to overtake it. In a backend that reads its clock under
/// exclusive access nobody can, so this is what the check takes there.
const HELD_UP: Duration = Duration::from_millis(100);
/// How long the suite waits for a thread of its own to read the clock.
const PATIENCE: Duration = Duration::from_secs(10);

/// The suite's clock: it shows what the check says. Clones show the same.
#[derive(Clone, Debug)]
pub struct SuiteClock(Arc<Face>);

#[derive(Debug)]
struct Face {
    shown: ManualClock,
    /// By how much each reading moves it on.
    tick_millis: AtomicI64,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    /// The next reading is held up.
    Shut,
    /// A reading is held up.
    HoldsUp,
    /// For a while from now on.
    CountsDown,
}

impl SuiteClock {
    pub(super) fn new(start: Timestamp) -> Self {
        Self(Arc::new(Face {
            shown: ManualClock::new(start),
            tick_millis: AtomicI64::new(0),
            gate: Mutex::new(Gate::Open),
            changed: Condvar::new(),
        }))
    }

    pub(super) fn set(&self, now: Timestamp) {
        self.0.shown.set(now);
    }

    /// What it shows, without a reading.
    pub(super) fn shown(&self) -> Timestamp {
        self.0.shown.now()
    }

    /// Moves on by so many milliseconds with each reading from here on.
    pub(super) fn tick_by(&self, millis: i64) {
        self.0.tick_millis.store(millis, Ordering::SeqCst);
    }

    /// Holds up the next reading: it has seen what the clock shows, and is not told for a while.
    pub(super) fn shut(&self) {
        self.turn(Gate::Shut);
    }

    /// Whoever says so is about to overtake the reading that is held up.
    pub(super) fn count_down(&self) {
        let mut gate = self.gate();
        if *gate == Gate::HoldsUp {
            *gate = Gate::CountsDown;
            self.0.changed.notify_all();
        }
    }

    /// Lets the reading go that is held up.
    pub(super) fn open(&self) {
        self.turn(Gate::Open);
    }

    /// Waits until a reading is held up; false if none comes.
    pub(super) fn wait_for_reading(&self) -> bool {
        let waited = self.0.changed.wait_timeout_while(self.gate(), PATIENCE, |gate| *gate == Gate::Shut);
        let (gate, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *gate != Gate::Shut
    }

    fn turn(&self, to: Gate) {
        *self.gate() = to;
        self.0.changed.notify_all();
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.0.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass_gate(&self) {
        let mut gate = self.gate();
        if *gate == Gate::Shut {
            *gate = Gate::HoldsUp;
            self.0.changed.notify_all();
            for (state, time) in [(Gate::HoldsUp, PATIENCE), (Gate::CountsDown, HELD_UP)] {
                let waited = self.0.changed.wait_timeout_while(gate, time, |gate| *gate == state);
                gate = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            *gate = Gate::Open;
        }
    }
}

impl Clock for SuiteClock {
    fn now(&self) -> Timestamp {
        let now = self.0.shown.now();
        let tick = self.0.tick_millis.load(Ordering::SeqCst);
        if tick != 0 {
            self.0.shown.advance(Duration::from_millis(tick.unsigned_abs()));
        }
        self.pass_gate();
        now
    }
}
