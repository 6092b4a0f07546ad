//! Removing expired records.

use crate::backend::{Backend, Swept};
use crate::error::Error;
use crate::store::IdempotencyStore;

/// How many expired records [`IdempotencyStore::sweep_all`] asks the backend to remove at a time.
const SWEEP_STEP: usize = 10_000;

impl<B: Backend> IdempotencyStore<B> {
    /// Deletes at most `limit` expired records. Nothing is swept unless this is called: expired records
    /// answer as absent, and stay.
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
        loop {
            let swept = self.sweep(SWEEP_STEP)?;
            removed = removed.saturating_add(swept.removed);
            // A backend that removes nothing and still says "more" must not hold its caller for ever.
            if !swept.more || swept.removed == 0 {
                return Ok(Swept { removed, more: swept.more });
            }
        }
    }
}
