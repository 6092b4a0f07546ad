//! The runtime's pool of threads that may block: [`Pool`].

use crate::error::{BackendError, Error};
use std::panic::resume_unwind;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};

/// Where calls of the store block instead of the tasks that make them.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    runtime: Handle,
}

impl Pool {
    pub(super) const fn new(runtime: Handle) -> Self {
        Self { runtime }
    }

    /// What `work` gives. It runs to its end even if nobody waits for it any more.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: the runtime is shutting down, and the work was never begun.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        outcome(self.runtime.spawn_blocking(work).await)
    }

    /// As [`call`](Self::call), for work that is not worth beginning once nobody waits for it.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let mut asked = Asked(self.runtime.spawn_blocking(work));
        outcome((&mut asked.0).await)
    }

    /// Has `work` run, whoever looks after it.
    pub(super) fn leave(&self, work: impl FnOnce() + Send + 'static) {
        drop(self.runtime.spawn_blocking(work));
    }

    /// Waits without a thread.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub(super) async fn pause(&self, pause: Duration) -> Result<(), Error> {
        // As a task, because a timer that is polled after its runtime was shut down panics.
        let mut asked = Asked(self.runtime.spawn(async move { tokio::time::sleep(pause).await }));
        outcome((&mut asked.0).await)
    }
}

/// A task that is not begun any more once nobody waits for it.
struct Asked<T>(JoinHandle<T>);

impl<T> Drop for Asked<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a task came to. A panic goes on in the task that waits for it, as it would where it blocks itself.
fn outcome<T>(ended: Result<T, JoinError>) -> Result<T, Error> {
    ended.map_err(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(never_begun) => BackendError::unavailable().with_source(never_begun).into(),
    })
}
