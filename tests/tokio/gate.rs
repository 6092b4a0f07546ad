//! A backend that a test stops in the middle of a call.

use idempotency::{
    Backend, BackendError, Command, Outcome, Record, RecordId, Stats, StoreId, Stuck, Swept, Timestamp,
};
use std::mem;
use std::panic::resume_unwind;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// How long a test waits for what must happen: far longer than it takes.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What the backend panics with.
pub const PANIC: &str = "the backend panics";

/// Where the next call stops, before or after it has been executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Before,
    After,
}

/// A backend whose calls are written down, and stop or panic when a test says so.
#[derive(Debug)]
pub struct Gate {
    inner: Arc<dyn Backend>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    calls: Vec<&'static str>,
    stop: Option<Stop>,
    is_stopped: bool,
    panics: bool,
    refused: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
struct Stop {
    moment: Moment,
    /// Which calls; none for any.
    name: Option<&'static str>,
}

impl Gate {
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        Self { inner, state: Mutex::default(), changed: Condvar::new() }
    }

    /// What has been executed so far, in order.
    pub fn calls(&self) -> Vec<&'static str> {
        self.state().calls.clone()
    }

    /// Lets the next call stop there.
    pub fn shut(&self, moment: Moment) {
        self.state().stop = Some(Stop { moment, name: None });
    }

    /// Lets the next call of this name stop there.
    pub fn shut_for(&self, name: &'static str, moment: Moment) {
        self.state().stop = Some(Stop { moment, name: Some(name) });
    }

    pub fn is_stopped(&self) -> bool {
        self.state().is_stopped
    }

    /// Waits until a call stands at the gate.
    pub fn wait_for_call(&self) {
        let (state, waited) = self
            .changed
            .wait_timeout_while(self.state(), PATIENCE, |state| !state.is_stopped)
            .expect("no panic under this lock");
        assert!(!waited.timed_out(), "no call has come: {state:?}");
    }

    /// Lets the call that stands at the gate go on.
    pub fn open(&self) {
        let mut state = self.state();
        (state.stop, state.is_stopped) = (None, false);
        self.changed.notify_all();
    }

    /// Lets the next call panic.
    pub fn panic(&self) {
        self.state().panics = true;
    }

    /// Has calls of this name fail before they are executed.
    pub fn refuse(&self, name: &'static str) {
        self.state().refused = Some(name);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }

    fn pass(&self, moment: Moment, name: &'static str) {
        let mut state = self.state();
        if state.stop.is_some_and(|stop| stop.moment == moment && stop.name.is_none_or(|stop| stop == name)) {
            state.stop = None;
            state.is_stopped = true;
            self.changed.notify_all();
            let (_state, waited) = self
                .changed
                .wait_timeout_while(state, PATIENCE, |state| state.is_stopped)
                .expect("no panic under this lock");
            assert!(!waited.timed_out(), "nobody has opened the gate");
        }
    }

    fn call<T>(
        &self,
        name: &'static str,
        call: impl FnOnce(&dyn Backend) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        self.pass(Moment::Before, name);
        let (panics, is_refused) = {
            let mut state = self.state();
            state.calls.push(name);
            (mem::take(&mut state.panics), state.refused == Some(name))
        };
        if panics {
            // As a panic does, without the message.
            resume_unwind(Box::new(PANIC));
        }
        let answer = if is_refused { Err(BackendError::unavailable()) } else { call(&*self.inner) };
        self.pass(Moment::After, name);
        answer
    }
}

fn name(command: &Command) -> &'static str {
    match command {
        Command::Claim { .. } => "claim",
        Command::Complete { .. } => "complete",
        Command::Renew { .. } => "renew",
        Command::Checkpoint { .. } => "checkpoint",
        Command::Release { .. } => "release",
        Command::Abandon { .. } => "abandon",
        Command::Forget => "forget",
    }
}

impl Backend for Gate {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        self.call(name(command), |inner| inner.execute(id, command))
    }

    fn execute_many(&self, batch: &[(RecordId, Command)]) -> Vec<Result<Outcome, BackendError>> {
        self.call("batch", |inner| Ok(inner.execute_many(batch)))
            .unwrap_or_else(|error| batch.iter().map(|_| Err(error.clone())).collect())
    }

    fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        self.call("read", |inner| inner.read(id))
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        self.call("sweep", |inner| inner.sweep(limit))
    }

    fn stats(&self) -> Result<Stats, BackendError> {
        self.call("stats", |inner| inner.stats())
    }

    fn stuck(&self, limit: usize) -> Result<Vec<Stuck>, BackendError> {
        self.call("stuck", |inner| inner.stuck(limit))
    }

    fn store_id(&self) -> StoreId {
        self.inner.store_id()
    }
}
