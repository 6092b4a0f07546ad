//! Backends of others: those that wrap another one, and those that were written before there was anything to
//! ask.

use crate::common::{Answer, Fixture, asks_for, key, on, scope};
use crate::counts;
use idempotency::testing::{Fault, FaultyBackend};
use idempotency::{
    Backend, BackendError, Command, Error, MemoryBackend, MemoryOptions, Outcome, Record, RecordId, StoreId,
    Swept, Timestamp,
};
use std::sync::Arc;

/// A backend with what every backend must have, and no more.
#[derive(Debug)]
struct Bare(MemoryBackend);

impl Backend for Bare {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        self.0.execute(id, command)
    }

    fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        self.0.read(id)
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        self.0.sweep(limit)
    }

    fn store_id(&self) -> StoreId {
        self.0.store_id()
    }
}

#[test]
fn a_backend_that_lists_nothing_says_so_and_works_otherwise() {
    let store = on(Bare(MemoryBackend::new(MemoryOptions::new())));
    let asked = [("count", store.stats().map(drop)), ("list", store.stuck(10).map(drop))];
    for (what, answer) in asked {
        let error = answer.expect_err("nobody has taught it");
        assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
        assert!(error.to_string().starts_with(&format!("this backend can't {what} its ")), "{error}");
        assert!(!error.is_transient() && !error.is_indefinite());
    }
    let claim = store.try_claim(&scope("a"), &key("k"), &asks_for("x")).expect("a store").claimed();
    claim.release().expect("held");
}

#[test]
fn arcs_boxes_and_erased_stores_ask_what_is_inside() {
    let inner = || {
        let backend = Arc::clone(Fixture::in_memory().store.backend());
        let store = on(Arc::clone(&backend));
        store
            .try_claim(&scope("a"), &key("k"), &asks_for("x"))
            .expect("a store")
            .claimed()
            .abandon()
            .expect("held");
        backend
    };
    let boxed: Box<dyn Backend> = Box::new(inner());
    for store in [on(inner()), on(Arc::new(inner())), on(boxed), on(inner()).erase().erase()] {
        assert_eq!(counts(store.stats().expect("counts")), [0, 1, 0, 0, 0]);
        assert_eq!(store.stuck(10).expect("a list").len(), 1);
        assert_eq!(store.stuck(0).expect("a list"), []);
    }
}

#[test]
fn a_faulty_backend_counts_these_calls_and_fails_them_when_it_is_told_to() {
    let faulty = Arc::new(FaultyBackend::new(MemoryBackend::new(MemoryOptions::new())));
    let store = on(Arc::clone(&faulty));
    assert!(store.stats().is_ok() && store.stuck(1).is_ok());
    assert_eq!(faulty.calls(), 2);
    faulty.fail(Fault::Before, 0, 2);
    assert!(matches!(store.stats(), Err(Error::Unavailable(_))));
    assert!(matches!(store.stuck(1), Err(Error::Unavailable(_))));
    assert!(store.stats().is_ok());
    assert_eq!(faulty.calls(), 5);
}
