//! The renewer's thread: one a store, there when it is needed, gone with the store.

use crate::common::{Answer, asks_for, key, on_every_backend, scope};
use crate::stage::{FOR_EVER, LEASE, on_every_stage, until, with_lease};
use idempotency::testing::FaultyBackend;
use idempotency::{Backend, BackendError, Claim, Command, IdempotencyStore, Outcome, Record, RecordId};
use idempotency::{StoreId, Swept, Timestamp};
use std::sync::{Arc, Mutex};
use std::thread;

#[test]
fn all_claims_of_a_store_are_renewed_by_one_thread_whoever_has_asked_for_it() {
    on_every_stage(|stage| {
        let claims: Vec<_> = (0..20).map(|n| stage.claim(&format!("job {n}"))).collect();
        // At once, so that many find no thread.
        thread::scope(|threads| {
            for claim in &claims {
                threads.spawn(|| claim.keep_alive(FOR_EVER).expect("a thread"));
            }
        });
        claims.iter().for_each(|claim| stage.until_renewed(claim.key().as_str(), 2));
        let threads = stage.witness.threads();
        assert!(threads.iter().all(|thread| *thread == threads[0]), "{}: {threads:?}", stage.name);
        assert_ne!(threads[0], thread::current().id());
    });
}

#[test]
fn the_thread_ends_with_the_last_handle_or_claim_and_gives_the_backend_back() {
    on_every_backend(|fixture| {
        for round in 0..20 {
            let backend = Arc::new(FaultyBackend::new(Arc::clone(fixture.store.backend())));
            let store = with_lease(&IdempotencyStore::new(Arc::clone(&backend)), LEASE);
            let claim = |name: String| -> Claim {
                store.try_claim(&scope("tenant"), &key(&name), &asks_for("it")).expect("an answer").claimed()
            };
            let (one, other) = (claim(format!("one {round}")), claim(format!("other {round}")));
            [&one, &other].into_iter().for_each(|claim| claim.keep_alive(FOR_EVER).expect("a thread"));
            if round % 2 == 0 {
                let before = backend.calls();
                until("it is renewed", || backend.calls() > before);
            }
            drop(store);
            let before = backend.calls();
            until("a claim without a handle is renewed", || backend.calls() > before);
            drop(one);
            drop(other);
            assert_eq!(Arc::strong_count(&backend), 1, "{}: somebody still has it", fixture.name);
        }
    });
}

/// A backend that drops a claim on the thread that renews it.
#[derive(Debug)]
struct Dropping {
    inner: Arc<dyn Backend>,
    claim: Arc<Mutex<Option<Claim>>>,
}

impl Backend for Dropping {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        self.inner.execute(id, command)
    }

    fn execute_many(&self, batch: &[(RecordId, Command)]) -> Vec<Result<Outcome, BackendError>> {
        drop(self.claim.lock().expect("nobody panics while it is held").take());
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
fn a_last_claim_that_is_dropped_on_the_renewers_own_thread_ends_it_as_well() {
    on_every_backend(|fixture| {
        let slot = Arc::default();
        let inner = Arc::clone(fixture.store.backend());
        let backend = Arc::new(Dropping { inner, claim: Arc::clone(&slot) });
        let store = with_lease(&IdempotencyStore::new(Arc::clone(&backend)), LEASE);
        let claim =
            store.try_claim(&scope("tenant"), &key("job"), &asks_for("it")).expect("an answer").claimed();
        let mut place = slot.lock().expect("nobody panics while it is held");
        claim.keep_alive(FOR_EVER).expect("a thread");
        *place = Some(claim);
        drop((place, store));
        until("the thread has ended, and let go of the backend", || Arc::strong_count(&backend) == 1);
        assert!(slot.lock().expect("nobody panics while it is held").is_none(), "{}", fixture.name);
    });
}
