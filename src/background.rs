//! Threads of the store's own, beside those of the application: [`Background`].

use crate::error::{BackendError, Error};
use crate::sync::timed::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{mem, process};

/// A thread that works by itself, can be woken, and is stopped and joined when this is dropped.
///
/// It is not joined where that would never end: on the thread itself, which stops when it is back from there;
/// and in a fork of the process that started it, where it does not exist.
#[derive(Debug)]
pub(crate) struct Background {
    signal: Arc<Signal>,
    /// None once it is dropped.
    thread: Option<JoinHandle<()>>,
    process: u32,
}

impl Background {
    /// Starts a thread that does `work`, which must end soon after [`Signal::wait`] or [`Signal::is_stopped`]
    /// has told it to.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: the system gives no thread now.
    pub(crate) fn start(name: &str, work: impl FnOnce(&Signal) + Send + 'static) -> Result<Self, Error> {
        let signal = Arc::new(Signal::default());
        let work = {
            let signal = Arc::clone(&signal);
            move || work(&signal)
        };
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)
            .map_err(|error| BackendError::unavailable().with_source(error))?;
        Ok(Self { signal, thread: Some(thread), process: process::id() })
    }

    /// Ends the thread's wait, or its next one if it does not wait now.
    pub(crate) fn wake(&self) {
        // A fork's copy of the lock may stand locked for ever.
        if !self.is_forked() {
            self.signal.wake();
        }
    }

    /// Whether the thread still works, in this process.
    pub(crate) fn is_running(&self) -> bool {
        !self.is_forked() && self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Whether this process is a fork of the one that started the thread.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != process::id()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.is_forked() {
            mem::forget(thread);
            return;
        }
        self.signal.is_stopped.store(true, Ordering::SeqCst);
        self.wake();
        if thread.thread().id() != thread::current().id() {
            // Work that has panicked is over as well.
            let _is_over = thread.join();
        }
    }
}

/// What a [`Background`] thread hears from its owner.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    is_stopped: AtomicBool,
    is_woken: Mutex<bool>,
    woken: Condvar,
}

impl Signal {
    /// Waits until the thread is woken or stopped, `at_most` so long. Whoever wakes it while it does not wait
    /// ends its next wait at once. False once it is stopped.
    #[must_use]
    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let mut is_woken = self.is_woken.lock();
        let waits = |is_woken: &mut bool| !*is_woken && !self.is_stopped();
        let _has_timed_out = self.woken.wait_while_for(&mut is_woken, waits, at_most);
        *is_woken = false;
        !self.is_stopped()
    }

    /// Whether the thread is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    fn wake(&self) {
        // Under the lock, so that it does not fall between a look at this and the wait that follows.
        *self.is_woken.lock() = true;
        self.woken.notify_one();
    }
}

#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("it panicked")]
struct Panicked;

/// What `work` answers. A panic of it, the backend's or the clock's, is an error: the thread goes on.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(BackendError::indefinite().with_source(Panicked).into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::resume_unwind;
    use std::sync::mpsc::channel;

    /// Right code passes however long this is.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// What `work` comes to, on a thread of its own, since wrong code waits for ever; none if it panics, or does
    /// not come back.
    fn soon<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (say, said) = channel();
        thread::spawn(move || say.send(work()));
        said.recv_timeout(PATIENCE).ok()
    }

    #[test]
    fn each_call_to_a_thread_that_rests_gives_it_a_turn_and_none_is_lost() {
        const CALLS: usize = 10_000;
        let turns = soon(|| {
            let (turn, turns) = channel();
            let background = Background::start("test", move |signal| {
                while signal.wait(Duration::MAX) {
                    let _nobody_listens = turn.send(());
                }
            });
            let called = (0..CALLS).filter(|_| {
                background.iter().for_each(Background::wake);
                turns.recv().is_ok()
            });
            let called = called.count();
            drop(background);
            (called, turns.try_iter().count())
        });
        assert_eq!(turns, Some((CALLS, 0)), "a turn for each call, and none that nobody called for");
    }

    #[test]
    fn a_call_to_a_thread_that_is_at_work_ends_its_next_rest_at_once_and_only_that() {
        let is_woken_still = soon(|| {
            let signal = Signal::default();
            signal.wake();
            signal.wake();
            assert!(signal.wait(Duration::MAX) && signal.wait(Duration::ZERO), "it was not stopped");
            *signal.is_woken.lock()
        });
        assert_eq!(is_woken_still, Some(false));
    }

    #[test]
    fn a_thread_that_was_stopped_rests_no_more() {
        let goes_on = soon(|| {
            let signal = Signal::default();
            signal.is_stopped.store(true, Ordering::SeqCst);
            [signal.wait(Duration::MAX), signal.wait(Duration::MAX)]
        });
        assert_eq!(goes_on, Some([false, false]));
    }

    #[test]
    fn a_thread_bears_its_name_and_runs_until_its_work_is_done() {
        let name = soon(|| {
            let (say, said) = channel();
            let (end, ended) = channel::<()>();
            let background = Background::start("idempotency test", move |_| {
                let _nobody_listens = say.send(thread::current().name().map(str::to_owned));
                let _is_over = ended.recv();
            });
            let name = said.recv();
            assert!(background.as_ref().is_ok_and(Background::is_running));
            drop(end);
            while background.as_ref().is_ok_and(Background::is_running) {
                thread::yield_now();
            }
            name.ok().flatten()
        });
        assert_eq!(name.flatten().as_deref(), Some("idempotency test"));
    }

    #[test]
    fn a_panic_is_an_error_and_whatever_else_comes_is_given_back() {
        let panic = || -> Result<(), Error> { resume_unwind(Box::new("on purpose")) };
        assert!(matches!(caught(panic), Err(Error::Indefinite(Some(_)))));
        assert!(matches!(caught(|| Err::<(), _>(Error::TokensExhausted)), Err(Error::TokensExhausted)));
        assert!(matches!(caught(|| Ok(7)), Ok(7)));
    }
}
