//! A request as a service would have it: what is claimed, over and over.

use idempotency::{
    Backend, Claim, ClaimOutcome, Completed, Fingerprint, IdempotencyKey, IdempotencyStore, RecordId, Scope,
    StoredResponse,
};

/// How many claims of a preparation share a transaction.
const FILL_BATCH: usize = 1_000;

pub struct Request {
    pub scope: Scope,
    pub fingerprint: Fingerprint,
}

impl Request {
    /// Of a scope of 8 bytes.
    pub fn new() -> Self {
        Self {
            scope: Scope::new("acct_001").expect("a valid scope"),
            fingerprint: Fingerprint::of_request("POST", "/payments", "", br#"{"amount": 500}"#),
        }
    }

    pub fn id(&self, key: &IdempotencyKey) -> RecordId {
        RecordId::new(self.scope.clone(), key.clone())
    }

    pub fn ask<B: Backend>(&self, store: &IdempotencyStore<B>, key: &IdempotencyKey) -> ClaimOutcome {
        store.try_claim(&self.scope, key, &self.fingerprint).expect("a working store")
    }

    /// Claims a key that is free.
    pub fn claim<B: Backend>(&self, store: &IdempotencyStore<B>, key: &IdempotencyKey) -> Claim {
        match self.ask(store, key) {
            ClaimOutcome::Claimed(claim) => claim,
            other => panic!("wanted Claimed, got {other:?}"),
        }
    }

    pub fn complete<B: Backend>(
        &self,
        store: &IdempotencyStore<B>,
        key: &IdempotencyKey,
        reply: StoredResponse,
    ) -> Completed {
        self.claim(store, key).complete(reply).expect("the owner's completion")
    }

    /// Asks for what has completed.
    pub fn replay<B: Backend>(&self, store: &IdempotencyStore<B>, key: &IdempotencyKey) -> Completed {
        match self.ask(store, key) {
            ClaimOutcome::Completed(done) => done,
            other => panic!("wanted Completed, got {other:?}"),
        }
    }

    /// Claims `keys`, many at once: before the time is taken.
    pub fn fill<B: Backend>(&self, store: &IdempotencyStore<B>, keys: &[IdempotencyKey]) {
        for batch in keys.chunks(FILL_BATCH) {
            let batch: Vec<_> =
                batch.iter().map(|key| (self.scope.clone(), key.clone(), self.fingerprint)).collect();
            let claimed = store.try_claim_many(&batch);
            assert!(claimed.iter().all(|claim| matches!(claim, Ok(ClaimOutcome::Claimed(_)))));
        }
    }
}

/// A reply with a body of 1 KiB.
pub fn reply() -> StoredResponse {
    StoredResponse::new(201).with_header("content-type", "application/json").with_body(vec![b'x'; 1024])
}
