//! What happens on a thread of the store's own is published and logged there.

use crate::common::{Answer, on_every_backend};
use crate::events::RENEWAL_FAILED;
use crate::log::Log;
use crate::recorder::Recorder;
use crate::stage::{operation, until};
use idempotency::testing::{Fault, FaultyBackend};
use idempotency::{
    Backend, BackendError, Command, IdempotencyStore, Outcome, Policy, Record, RecordId, StoreId, Swept,
    Timestamp,
};
use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::Level;

/// A backend that has whoever asks for a batch told to a recorder and a log, from its first batch on.
struct Told {
    inner: FaultyBackend<Arc<dyn Backend>>,
    recorder: Recorder,
    log: Arc<Mutex<Log>>,
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Backend for Told {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        self.inner.execute(id, command)
    }

    fn execute_many(&self, batch: &[(RecordId, Command)]) -> Vec<Result<Outcome, BackendError>> {
        thread_local! {
            static IS_TOLD: Cell<bool> = const { Cell::new(false) };
        }
        if !IS_TOLD.replace(true) {
            self.recorder.keep_for_this_thread();
            Log::keep_for_this_thread(Level::DEBUG, &self.log);
        }
        self.inner.execute_many(batch)
    }

    fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        self.inner.read(id)
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        self.inner.sweep(limit)
    }

    fn store_id(&self) -> StoreId {
        self.inner.store_id()
    }
}

#[test]
fn a_renewal_in_the_background_that_fails_is_published_and_logged() {
    on_every_backend(|fixture| {
        let (recorder, log) = (Recorder::default(), Arc::default());
        let inner = FaultyBackend::new(Arc::clone(fixture.store.backend()));
        let store = IdempotencyStore::new(Told { inner, recorder: recorder.clone(), log: Arc::clone(&log) });
        let store = store.with_policy(Policy::new().with_lease(Duration::from_millis(60))).expect("a policy");
        let (scope, key, fingerprint) = operation();
        let claim = store.try_claim(&scope, &key, &fingerprint).expect("an answer").claimed();
        claim.keep_alive(Duration::MAX).expect("a thread");
        until("it is renewed", || store.metrics().renewals > 0);
        store.backend().inner.fail(Fault::Before, 0, 1);
        until("a renewal fails", || store.metrics().renewal_failures > 0);
        let _ticket = claim.into_ticket();
        drop(store); // and its thread with it
        let recorded = recorder.recorded();
        for series in ["idempotency_renewal_failures_total", "idempotency_errors_total{kind=\"unavailable\"}"]
        {
            assert_eq!(recorded.counters.get(series), Some(&1), "{series} on {}", fixture.name);
        }
        let batches = &recorded.samples["idempotency_command_duration_seconds{command=\"batch\"}"];
        assert!(batches.len() >= 2, "one that succeeded and one that failed");
        let log = log.lock().expect("no panic");
        let failed = log.events.iter().find(|event| event.message() == RENEWAL_FAILED).expect("a line");
        assert_eq!(failed.level, Level::WARN);
        assert_eq!(failed.field("scope"), Some(scope.to_string().as_str()), "{}", fixture.name);
        assert_eq!(failed.field("key"), Some(key.to_string().as_str()), "{}", fixture.name);
    });
}
