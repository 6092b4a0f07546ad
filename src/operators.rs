//! What an operator asks of a store, whoever owns its claims.

use crate::backend::Backend;
use crate::error::Error;
use crate::inspection::{Stats, Stuck};
use crate::key::{IdempotencyKey, RecordId, Scope};
use crate::outcome::Outcome;
use crate::record::Record;
use crate::store::IdempotencyStore;
use crate::transition::Command;

impl<B: Backend> IdempotencyStore<B> {
    /// The record of `key` within `scope`; none if there is none, or it has expired.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the record is damaged; any other if it could not be read.
    pub fn lookup(&self, scope: &Scope, key: &IdempotencyKey) -> Result<Option<Record>, Error> {
        let id = RecordId::new(scope.clone(), key.clone());
        Ok(self.shared().read(&id)?.map(|(record, _)| record))
    }

    /// How many records there are, by how they stand, and how much they hold.
    ///
    /// It looks at every record, so its cost grows with the store (on SQLite about a second for a million):
    /// for an operator, or a page of metrics now and then, never for each request. Claims go on meanwhile. In
    /// memory one shard after another stands still while it is counted; on SQLite the records are read on a
    /// connection of its own, and until that has ended, what others write stays in the log.
    ///
    /// ```
    /// # use idempotency::*;
    /// # let store = IdempotencyStore::in_memory();
    /// # let (scope, key) = (Scope::new("acct_1")?, IdempotencyKey::new("8e03978e")?);
    /// # let _claim = store.try_claim(&scope, &key, &Fingerprint::builder().finish())?;
    /// let stats = store.stats()?;
    /// println!("in progress {}, lapsed {}, to sweep {}", stats.in_progress, stats.lapsed, stats.expired);
    /// # assert_eq!((stats.in_progress, stats.lapsed, stats.expired), (1, 0, 0));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the backend can't; any other if the records could not be read. Nothing is
    /// changed. A single damaged record is no error: it is [counted](Stats::damaged).
    pub fn stats(&self) -> Result<Stats, Error> {
        self.shared().stats()
    }

    /// The claims that nobody seems to work on, at most `limit`: first those whose lease is over, then those
    /// whose lease is too long since the clock stepped back; each by the end of its lease, the oldest first.
    ///
    /// A lapsed claim needs no operator if its caller retries: the retry takes over. Of one that stays, find
    /// out first what its effect was; then [`forget`](Self::forget) frees the key. It looks at every record,
    /// as [`stats`](Self::stats) does.
    ///
    /// ```
    /// # use idempotency::*;
    /// # let store = IdempotencyStore::in_memory();
    /// # let (scope, key) = (Scope::new("acct_1")?, IdempotencyKey::new("8e03978e")?);
    /// # let print = Fingerprint::builder().finish();
    /// # let ClaimOutcome::Claimed(claim) = store.try_claim(&scope, &key, &print)? else { return Ok(()) };
    /// # claim.abandon()?;
    /// for claim in store.stuck(20)? {
    ///     // `id` shows digests; its scope and key have the values, by `as_str()`
    ///     eprintln!("{} since {}, attempt {}: {:?}", claim.id, claim.lease_until, claim.attempt, claim.reason);
    /// #   assert_eq!((claim.attempt, claim.reason), (1, StuckReason::Lapsed));
    /// }
    /// # assert_eq!(store.stuck(20)?.len(), 1);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`stats`](Self::stats). A damaged record is no error: it is left out, also where [`Stats::lapsed`]
    /// counts it.
    pub fn stuck(&self, limit: usize) -> Result<Vec<Stuck>, Error> {
        self.shared().stuck(limit)
    }

    /// Deletes the record of `key` within `scope`, whoever owns it: for operators. The key is free for any
    /// request at once, and an owner that is still at work loses its claim. Says whether there was a record.
    ///
    /// # Errors
    /// If it was not done, or, where [`Error::is_indefinite`], may have been.
    pub fn forget(&self, scope: &Scope, key: &IdempotencyKey) -> Result<bool, Error> {
        let id = RecordId::new(scope.clone(), key.clone());
        match self.shared().execute(&id, &Command::Forget)? {
            Outcome::Forgotten { existed } => Ok(existed),
            _ => Err(Error::wrong_answer()),
        }
    }
}
