//! Random waits, so that those who wait for one thing do not wake in step.

use std::hash::{BuildHasher, RandomState};

/// Marsaglia's xorshift, seeded by the system's randomness: it must only differ from its neighbours'.
#[derive(Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn new() -> Self {
        // Odd, since the generator stays at zero.
        Self(RandomState::new().hash_one(()) | 1)
    }

    /// A number below `bound`; 0 if that is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.checked_rem(bound).unwrap_or(0)
    }
}
