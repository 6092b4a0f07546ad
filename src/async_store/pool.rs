//! The runtime's pool of threads that may block: [`Pool`].

use crate::error::{BackendError, Error};
use crate::observed::Context;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::sleep;

/// Where calls of the store block, in place of the tasks that make them.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    runtime: Handle,
}

impl Pool {
    pub(super) const fn new(runtime: Handle) -> Self {
        Self { runtime }
    }

    /// What `work` gives. It is done even if nobody waits for it any more.
    ///
    /// # Errors
    /// - [`Error::Unavailable`]: the runtime is shutting down; the work was not begun, and never will be.
    /// - [`Error::Indefinite`]: the system has no thread for the pool; the work may be done once it has.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        outcome(self.spawn(work)?.await)
    }

    /// As [`call`](Self::call), but is not begun any more once nobody waits for it.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        awaited(self.spawn(work)?).await
    }

    /// Has `work` done. Waits for nothing, so it may be called wherever something is dropped.
    pub(super) fn leave(&self, work: impl FnOnce() + Send + 'static) {
        // Whoever drops something can't be told. What the pool does not take is dropped, too.
        let _task = self.spawn(work);
    }

    /// Waits without a thread.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: the runtime is shutting down.
    ///
    /// # Panics
    /// If the runtime has no timers.
    pub(super) async fn pause(&self, pause: Duration) -> Result<(), Error> {
        // As a task of the runtime: a timer panics if it is polled elsewhere, or after the shutdown.
        awaited(self.runtime.spawn(async move { sleep(pause).await })).await
    }

    fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, Error> {
        let context = Context::of_the_caller();
        let work = move || context.within(work);
        // tokio puts the work into its queue, and then panics if there is no thread to look there.
        catch_unwind(AssertUnwindSafe(|| self.runtime.spawn_blocking(work)))
            .map_err(|_no_thread| BackendError::indefinite().with_source(NoThread).into())
    }
}

#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the system has no thread for the runtime's blocking pool")]
struct NoThread;

/// What `task` gives; it is not begun any more once nobody waits for it.
async fn awaited<T>(task: JoinHandle<T>) -> Result<T, Error> {
    struct Awaited<T>(JoinHandle<T>);

    impl<T> Drop for Awaited<T> {
        fn drop(&mut self) {
            self.0.abort();
        }
    }

    let mut task = Awaited(task);
    outcome((&mut task.0).await)
}

/// What a task came to. Its panic goes on where it is waited for, as if the work had been done there.
fn outcome<T>(ended: Result<T, JoinError>) -> Result<T, Error> {
    ended.map_err(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(not_begun) => BackendError::unavailable().with_source(not_begun).into(),
    })
}
