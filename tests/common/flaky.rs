//! A backend whose next call comes to what the test has drawn. Unlike `testing::FaultyBackend` it can say
//! "perhaps" of a command that it has not passed on: only then are both states possible to who hears it.

use idempotency::{
    Backend, BackendError, Command, Outcome, Record, RecordId, Stats, StoreId, Stuck, Swept, Timestamp,
};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

/// What becomes of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    #[default]
    Answered,
    /// Refused: nothing is done, and the caller is told so.
    Refused,
    /// Done, and the caller is told that it may have been.
    DoneUnheard,
    /// Not done, and the caller is told that it may have been.
    NotDoneUnheard,
}

impl Fate {
    pub const fn is_done(self) -> bool {
        matches!(self, Self::Answered | Self::DoneUnheard)
    }

    pub const fn is_unheard(self) -> bool {
        matches!(self, Self::DoneUnheard | Self::NotDoneUnheard)
    }
}

#[derive(Debug)]
pub struct Flaky {
    inner: Arc<dyn Backend>,
    next: Mutex<Fate>,
}

impl Flaky {
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        Self { inner, next: Mutex::default() }
    }

    /// The next call comes to this; those after it are answered.
    pub fn next_is(&self, fate: Fate) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = fate;
    }

    fn call<T>(&self, call: impl FnOnce(&dyn Backend) -> Result<T, BackendError>) -> Result<T, BackendError> {
        let fate = mem::take(&mut *self.next.lock().unwrap_or_else(PoisonError::into_inner));
        let answer = fate.is_done().then(|| call(&*self.inner));
        match answer {
            Some(answer) if fate == Fate::Answered => answer,
            _ if fate.is_unheard() => Err(BackendError::indefinite()),
            _ => Err(BackendError::unavailable()),
        }
    }
}

impl Backend for Flaky {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        self.call(|inner| inner.execute(id, command))
    }

    fn execute_many(&self, batch: &[(RecordId, Command)]) -> Vec<Result<Outcome, BackendError>> {
        let answers = self.call(|inner| Ok(inner.execute_many(batch)));
        answers.unwrap_or_else(|error| batch.iter().map(|_| Err(error.clone())).collect())
    }

    fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        self.call(|inner| inner.read(id))
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        self.call(|inner| inner.sweep(limit))
    }

    fn stats(&self) -> Result<Stats, BackendError> {
        self.call(|inner| inner.stats())
    }

    fn stuck(&self, limit: usize) -> Result<Vec<Stuck>, BackendError> {
        self.call(|inner| inner.stuck(limit))
    }

    fn store_id(&self) -> StoreId {
        self.inner.store_id()
    }
}
