//! A clock that panics when it is told to.

use idempotency::{Clock, ManualClock, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone)]
pub struct Panicking {
    pub clock: ManualClock,
    pub panics: Arc<AtomicBool>,
}

impl Clock for Panicking {
    fn now(&self) -> Timestamp {
        assert!(!self.panics.load(Ordering::SeqCst), "on purpose");
        self.clock.now()
    }
}
