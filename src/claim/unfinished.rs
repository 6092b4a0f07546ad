//! That a claim has not been ended yet: [`Unfinished`].

use crate::shared::Shared;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The store of a claim, and whether somebody is known to end the claim. If it is dropped before, its key is
/// blocked until the lease ends.
#[derive(Debug)]
pub(super) struct Unfinished {
    shared: Arc<Shared>,
    is_seen_to: AtomicBool,
}

impl Unfinished {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared, is_seen_to: AtomicBool::new(false) }
    }

    /// The claim has been ended, or whoever has its ticket will end it.
    pub(super) fn see_to(&self) {
        self.is_seen_to.store(true, Ordering::Relaxed);
    }

    /// Whether nobody is known to end the claim.
    pub(super) fn is_left(&self) -> bool {
        !self.is_seen_to.load(Ordering::Relaxed)
    }
}

impl Deref for Unfinished {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}
