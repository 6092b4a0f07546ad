//! What threads race for, and the terms on which.

use idempotency::{
    Backend, DynStore, FencingToken, Fingerprint, IdempotencyKey, IdempotencyStore, ManualClock, Policy,
    Reply, Scope, Timestamp,
};
use std::time::Duration;

pub const LEASE: Duration = Duration::from_secs(30);
pub const RETENTION: Duration = Duration::from_secs(60);

pub fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_millis(1_000_000_000))
}

pub fn handle(backend: impl Backend) -> DynStore {
    let policy = Policy::new().with_lease(LEASE).with_retention(RETENTION);
    IdempotencyStore::new(backend).with_policy(policy).expect("a usable policy").erase()
}

pub fn scope() -> Scope {
    Scope::new("scope").expect("a scope")
}

pub fn key(name: &str) -> IdempotencyKey {
    IdempotencyKey::new(name).expect("a key")
}

pub fn fingerprint() -> Fingerprint {
    Fingerprint::builder().field("what", "it").finish()
}

/// A reply that names the claim which recorded it.
pub fn reply_of(token: FencingToken) -> Reply {
    Reply::Reference(token.to_string())
}
