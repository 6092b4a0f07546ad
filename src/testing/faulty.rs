//! A backend that fails when it is told to: [`FaultyBackend`].

use crate::backend::{Backend, StoreId, Swept};
use crate::error::BackendError;
use crate::inspection::{Stats, Stuck};
use crate::key::RecordId;
use crate::outcome::Outcome;
use crate::record::Record;
use crate::time::Timestamp;
use crate::transition::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// When, in a call, a [`FaultyBackend`] fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Before the backend is asked: unavailable, and nothing was done.
    Before,
    /// After the backend has answered: indefinite, and all was done.
    After,
}

/// The source of an injected error.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("injected: {0:?} the call")]
struct Injected(Fault);

/// A backend that counts its calls and fails when it is told to.
///
/// ```
/// use idempotency::testing::{Fault, FaultyBackend};
/// use idempotency::{Fingerprint, IdempotencyKey, IdempotencyStore, MemoryBackend, MemoryOptions, Scope};
///
/// let store = IdempotencyStore::new(FaultyBackend::new(MemoryBackend::new(MemoryOptions::new())));
/// store.backend().fail(Fault::Before, 0, 1);
/// let (scope, key) = (Scope::new("acct_1")?, IdempotencyKey::new("k")?);
/// let fingerprint = Fingerprint::builder().finish();
/// let error = store.try_claim(&scope, &key, &fingerprint).err();
/// assert!(error.is_some_and(|error| error.is_transient()));
/// assert!(store.try_claim(&scope, &key, &fingerprint).is_ok());
/// assert_eq!(store.backend().calls(), 2);
/// # Ok::<(), idempotency::Error>(())
/// ```
#[derive(Debug)]
pub struct FaultyBackend<B> {
    inner: B,
    plan: Mutex<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    calls: usize,
    fault: Option<Fault>,
    skip: usize,
    times: usize,
}

impl Plan {
    fn next(&mut self) -> Option<Fault> {
        self.calls = self.calls.saturating_add(1);
        if self.skip > 0 {
            self.skip = self.skip.saturating_sub(1);
            return None;
        }
        self.times = self.times.checked_sub(1)?;
        self.fault
    }
}

impl<B> FaultyBackend<B> {
    /// `inner`, counted, and without faults so far.
    #[must_use]
    pub fn new(inner: B) -> Self {
        Self { inner, plan: Mutex::new(Plan::default()) }
    }

    /// Lets `skip` calls through, then fails `times` calls, then none. Replaces what was planned before.
    pub fn fail(&self, fault: Fault, skip: usize, times: usize) {
        let mut plan = self.plan();
        (plan.fault, plan.skip, plan.times) = (Some(fault), skip, times);
    }

    /// How many calls were made, failed ones included. A batch is one call.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.plan().calls
    }

    /// The backend inside.
    #[must_use]
    pub const fn inner(&self) -> &B {
        &self.inner
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call<T>(&self, call: impl FnOnce(&B) -> Result<T, BackendError>) -> Result<T, BackendError> {
        let fault = self.plan().next();
        if fault == Some(Fault::Before) {
            return Err(BackendError::unavailable().with_source(Injected(Fault::Before)));
        }
        let answer = call(&self.inner);
        match fault {
            Some(_) => Err(BackendError::indefinite().with_source(Injected(Fault::After))),
            None => answer,
        }
    }
}

impl<B: Backend> Backend for FaultyBackend<B> {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        self.call(|inner| inner.execute(id, command))
    }

    fn execute_many(&self, batch: &[(RecordId, Command)]) -> Vec<Result<Outcome, BackendError>> {
        match self.call(|inner| Ok(inner.execute_many(batch))) {
            Ok(answers) => answers,
            Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        self.call(|inner| inner.read(id))
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        self.call(|inner| inner.sweep(limit))
    }

    fn stats(&self) -> Result<Stats, BackendError> {
        self.call(B::stats)
    }

    fn stuck(&self, limit: usize) -> Result<Vec<Stuck>, BackendError> {
        self.call(|inner| inner.stuck(limit))
    }

    fn store_id(&self) -> StoreId {
        self.inner.store_id()
    }
}
