//! What a memory store costs, counted by the allocator of this whole process: so a test binary of its own,
//! with one test.

use idempotency::{
    Claim, ClaimOutcome, Fingerprint, IdempotencyKey, IdempotencyStore, ManualClock, MemoryBackend,
    MemoryOptions, MemoryStore, Policy, Scope, StoredResponse, Swept, Timestamp,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const RELEASED: usize = 500_000;
const LIVE: usize = 1_000_000;
const LEASE: Duration = Duration::from_secs(60);
const RETENTION: Duration = Duration::from_secs(3_600);

/// Bytes that are allocated now and were not when `region` began; none if there are fewer now.
fn held_since(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated)
}

fn claim(store: &MemoryStore, scope: &Scope, number: usize) -> Claim {
    let key = IdempotencyKey::new(format!("key-{number:07}")).expect("a valid key");
    match store.try_claim(scope, &key, &Fingerprint::from_bytes([7; 32])).expect("an answer") {
        ClaimOutcome::Claimed(claim) => claim,
        other => panic!("key {number}: {other:?}"),
    }
}

/// Claims a key and leaves it with a checkpoint, or completes it.
fn live_through(store: &MemoryStore, scope: &Scope, number: usize) {
    let mut claim = claim(store, scope, number);
    if number.is_multiple_of(2) {
        claim.save_checkpoint("half of it").expect("a checkpoint");
    } else {
        let reply = StoredResponse::new(201).with_header("etag", "\"1\"").with_body("done");
        claim.complete(reply).expect("a completion");
    }
}

/// Cases 44 and 45.
#[test]
fn a_million_keys_leave_nothing_behind_and_an_idle_sweep_over_them_allocates_nothing() {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000_000));
    // A shard's table does not shrink below some slots, so the number of shards is fixed here instead of
    // following the machine's cores.
    let options = MemoryOptions::new().with_clock(clock.clone()).with_shards(16);
    let policy = Policy::new().with_lease(LEASE).with_retention(RETENTION);
    let store =
        IdempotencyStore::new(MemoryBackend::new(options)).with_policy(policy).expect("a usable policy");
    let scope = Scope::new("acct_1").expect("a valid scope");

    let start = Region::new(ALLOCATOR);
    (0..RELEASED).for_each(|number| claim(&store, &scope, number).release().expect("an end"));
    let held = held_since(&start);
    assert!(
        held < RELEASED,
        "{held} bytes: what was released leaves less than a byte a key, so nothing, before any sweep"
    );

    (0..LIVE).for_each(|number| live_through(&store, &scope, number));
    assert!(
        held_since(&start) > 100 * LIVE,
        "a record takes more than 100 bytes, and the allocator counts them"
    );

    let idle = Region::new(ALLOCATOR);
    for limit in [1, 1_000, usize::MAX] {
        assert_eq!(store.sweep(limit).expect("a sweep"), Swept { removed: 0, more: false });
    }
    let change = idle.change();
    assert_eq!((change.allocations, change.reallocations), (0, 0), "a sweep that finds nothing to do");

    clock.advance(LEASE + RETENTION);
    assert_eq!(store.sweep_all().expect("a sweep"), Swept { removed: LIVE, more: false });
    let held = held_since(&start);
    assert!(
        held < LIVE,
        "{held} bytes: what has expired and was swept leaves less than a byte a key, so nothing"
    );
}
