//! Where records are kept: the [`Backend`] trait, and its contract.
//!
//! # The contract
//! A backend gives atomicity, durability and time; never policy. For every command it
//!
//! 1. takes exclusive access to the record,
//! 2. reads its clock, once and only now, so that a wait for access can't grant a lease that is over
//!    ([`read_clock`](crate::time::read_clock)),
//! 3. reads the record and [checks](crate::Record::check) it,
//! 4. asks [`transition::apply`](crate::transition::apply), with a token that it draws where
//!    [`transition::grants`](crate::transition::grants) says so,
//! 5. checks and stores what is to be written, and
//! 6. answers only once that is stored.
//!
//! It may get there by another way (one SQL statement, say), if outcome and stored record are the same. What writes
//! nothing may be answered from a snapshot that is taken after the call began; the clock is read after the record then.
//!
//! **Tokens** are strictly increasing over the life of the storage, and never drawn twice: not after a
//! release, a sweep, a forget, a takeover, a restart, or the restoring of an older copy. **Expired records**
//! count as absent; only a sweep removes them, and only a claim writes over them. **A storage that is down**
//! answers `Err`, never an outcome. **A forked child** is refused ([`forked`](BackendError::forked)), or has a
//! store of its own: both sides of a fork must not draw from one counter.
//!
//! The feature `testing` has a suite that tries this, and every rule of [`transition`](crate::transition), on a
//! backend that works: `idempotency::conformance!` (module `testing::conformance`). It does not show what becomes
//! of a loss of power, a restored copy, a storage that is down, or a fork, nor what a sweep costs: those need tests
//! of the backend's own. `docs/backends.md` shows how, with a backend on files.
//!
//! # A whole backend
//! In memory, behind one lock, so it need not check what it reads; its sweep looks at every record, which a
//! real one must not.
//! ```
//! use idempotency::time::{ManualClock, Timestamp, read_clock};
//! use idempotency::transition::{self, Command, Transition, Write};
//! use idempotency::{Backend, BackendError, FencingToken, Outcome, Record, RecordId, StoreId, Swept};
//! use std::collections::HashMap;
//! use std::sync::{Mutex, MutexGuard};
//!
//! #[derive(Debug)]
//! struct Map {
//!     clock: ManualClock,
//!     id: StoreId,
//!     kept: Mutex<Kept>,
//! }
//!
//! #[derive(Debug)]
//! struct Kept {
//!     records: HashMap<RecordId, Record>,
//!     last: FencingToken, // starts at `FencingToken::at_wall_clock()`: nothing else survives a restart
//! }
//!
//! impl Map {
//!     fn kept(&self) -> Result<MutexGuard<'_, Kept>, BackendError> {
//!         self.kept.lock().map_err(|_| BackendError::bug("a command panicked"))
//!     }
//! }
//!
//! impl Backend for Map {
//!     fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
//!         let mut kept = self.kept()?;
//!         let now = read_clock(&self.clock)?;
//!         if transition::grants(kept.records.get(id), command, now) {
//!             let next = kept.last.get().checked_add(1).and_then(FencingToken::new);
//!             kept.last = next.ok_or_else(BackendError::tokens_exhausted)?;
//!         }
//!         let record = kept.records.get(id);
//!         let Transition { write, outcome } = transition::apply(record, command, now, kept.last);
//!         match write {
//!             Write::Keep => {}
//!             Write::Put(record) => drop(kept.records.insert(id.clone(), record)),
//!             Write::Delete => drop(kept.records.remove(id)),
//!         }
//!         Ok(outcome)
//!     }
//!
//!     fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
//!         let kept = self.kept()?;
//!         let record = kept.records.get(id);
//!         let now = read_clock(&self.clock)?;
//!         Ok(record.filter(|record| !record.is_expired(now)).map(|record| (record.clone(), now)))
//!     }
//!
//!     fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
//!         let mut kept = self.kept()?;
//!         let now = read_clock(&self.clock)?;
//!         let expired = kept.records.iter().filter(|(_, record)| record.is_expired(now));
//!         let expired: Vec<_> = expired.map(|(id, _)| id.clone()).collect();
//!         expired.iter().take(limit).for_each(|id| drop(kept.records.remove(id)));
//!         Ok(Swept { removed: expired.len().min(limit), more: expired.len() > limit })
//!     }
//!
//!     fn store_id(&self) -> StoreId {
//!         self.id
//!     }
//! }
//! # use idempotency::{ClaimOutcome, Fingerprint, IdempotencyKey, IdempotencyStore, Scope};
//! # let kept = Mutex::new(Kept { records: HashMap::new(), last: FencingToken::at_wall_clock() });
//! # let clock = ManualClock::new(Timestamp::from_millis(0));
//! # let store = IdempotencyStore::new(Map { clock, id: StoreId::random(), kept });
//! # let (scope, key, fingerprint) = (Scope::new("a")?, IdempotencyKey::new("k")?, Fingerprint::builder().finish());
//! # assert!(matches!(store.try_claim(&scope, &key, &fingerprint)?, ClaimOutcome::Claimed(_)));
//! # assert!(matches!(store.try_claim(&scope, &key, &fingerprint)?, ClaimOutcome::InProgress(_)));
//! # Ok::<(), idempotency::Error>(())
//! ```

pub(crate) mod memory;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use crate::error::BackendError;
use crate::hex::Hex;
use crate::inspection::{Stats, Stuck};
use crate::key::RecordId;
use crate::outcome::Outcome;
use crate::record::Record;
use crate::time::{Timestamp, wall_clock_nanos};
use crate::transition::Command;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::process;
use std::sync::Arc;

/// Storage for records; see the [module's](self) contract. Object-safe, and implemented for `Arc` and `Box`
/// of a backend.
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// Executes one command, atomically.
    ///
    /// # Errors
    /// [`BackendError`]: nothing was done, unless it is indefinite.
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError>;

    /// Executes commands in order and gives exactly one answer for each, in the same order. A command's
    /// failure does not undo those before it.
    fn execute_many(&self, batch: &[(RecordId, Command)]) -> Vec<Result<Outcome, BackendError>> {
        batch.iter().map(|(id, command)| self.execute(id, command)).collect()
    }

    /// The record, and the time read after it; none if it is absent or expired by then.
    ///
    /// # Errors
    /// [`BackendError`]: it could not be read.
    fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError>;

    /// Deletes at most `limit` expired records. Costs what it removes, and never holds up other commands for
    /// long.
    ///
    /// # Errors
    /// [`BackendError`]: it stopped; what it had removed by then stays removed, and so may the last of it if
    /// it is indefinite.
    fn sweep(&self, limit: usize) -> Result<Swept, BackendError>;

    /// Counts all records, expired ones too. It may look at each of them, and must not hold up other commands
    /// for long. The clock is read when what is counted can't change any more: no record is newer than it.
    ///
    /// # Errors
    /// [`BackendError`]: they could not be counted. A backend that does not implement it is
    /// [unsupported](BackendError::unsupported).
    fn stats(&self) -> Result<Stats, BackendError> {
        Err(BackendError::unsupported("count its records"))
    }

    /// The claims that look stuck, in the order of [`Stuck`], at most `limit` of them, found as
    /// [`stats`](Self::stats) counts. [`StuckList`](crate::StuckList) collects them in bounded memory.
    ///
    /// # Errors
    /// [`BackendError`]: they could not be listed. A backend that does not implement it is
    /// [unsupported](BackendError::unsupported).
    fn stuck(&self, limit: usize) -> Result<Vec<Stuck>, BackendError> {
        let _ = limit;
        Err(BackendError::unsupported("list its claims"))
    }

    /// Which store this is, the same for every handle, process and restart.
    fn store_id(&self) -> StoreId;
}

macro_rules! delegate_to_the_inside {
    ($($pointer:ident),*) => {$(
        impl<B: Backend + ?Sized> Backend for $pointer<B> {
            fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
                (**self).execute(id, command)
            }

            fn execute_many(&self, batch: &[(RecordId, Command)]) -> Vec<Result<Outcome, BackendError>> {
                (**self).execute_many(batch)
            }

            fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
                (**self).read(id)
            }

            fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
                (**self).sweep(limit)
            }

            fn stats(&self) -> Result<Stats, BackendError> {
                (**self).stats()
            }

            fn stuck(&self, limit: usize) -> Result<Vec<Stuck>, BackendError> {
                (**self).stuck(limit)
            }

            fn store_id(&self) -> StoreId {
                (**self).store_id()
            }
        }
    )*};
}

delegate_to_the_inside!(Arc, Box);

/// What a sweep did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// How many expired records it removed.
    pub removed: usize,
    /// Whether there were more when it stopped.
    pub more: bool,
}

/// Which store a ticket belongs to: a random number, made when the store is made.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreId([u8; 16]);

impl StoreId {
    /// A new one. Random enough to tell stores apart; no secret.
    #[must_use]
    pub fn random() -> Self {
        // std keys its hash from the operating system's randomness, once a thread. The process and the time
        // keep a forked child, which inherits the key, from making the same.
        let half = |n: u8| RandomState::new().hash_one((n, process::id(), wall_clock_nanos())).to_le_bytes();
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(half(0).into_iter().chain(half(1))).for_each(|(byte, random)| *byte = random);
        Self(bytes)
    }

    /// The id whose bytes were stored.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreId({})", Hex(&self.0))
    }
}
