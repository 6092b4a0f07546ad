//! What a program would do in memory without this crate: an entry of a concurrent map.

use crate::common::request::Request;
use dashmap::{DashMap, Entry};
use idempotency::{Clock, FencingToken, IdempotencyKey, Policy, Record, RecordId, State, SystemClock};
use idempotency::{Period, Timestamp};

/// A map of the very records that the store keeps. It has no index by expiry, counts nothing, limits nothing,
/// draws no token and reads no clock.
pub struct BareMap {
    map: DashMap<RecordId, Record>,
    now: Timestamp,
    lease: Period,
    retention: Period,
}

impl BareMap {
    pub fn new() -> Self {
        let policy = Policy::new();
        Self {
            map: DashMap::new(),
            now: SystemClock.now(),
            lease: Period::new(policy.lease()).expect("the default lease"),
            retention: Period::new(policy.retention()).expect("the default retention"),
        }
    }

    /// Claims a key that is free.
    pub fn claim(&self, request: &Request, key: &IdempotencyKey) {
        match self.map.entry(request.id(key)) {
            Entry::Vacant(place) => drop(place.insert(self.record(request))),
            Entry::Occupied(_) => panic!("a key that is taken"),
        }
    }

    fn record(&self, request: &Request) -> Record {
        let lease_until = self.lease.after(self.now);
        Record {
            fingerprint: request.fingerprint,
            state: State::InProgress,
            token: FencingToken::FIRST,
            attempt: 1,
            created_at: self.now,
            lease: self.lease,
            retention: self.retention,
            lease_until,
            completed_at: None,
            expires_at: self.retention.after(lease_until),
            checkpoint: None,
            reply: None,
        }
    }
}
