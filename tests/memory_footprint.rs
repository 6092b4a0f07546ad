//! What a memory store costs, counted by the allocator of this whole process: so a test binary of its own,
//! with one test.

use idempotency::{
    Claim, ClaimOutcome, Fingerprint, IdempotencyKey, IdempotencyStore, ManualClock, MemoryBackend,
    MemoryOptions, MemoryStore, Policy, Reply, Scope, StoredResponse, Swept, Timestamp,
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

fn key(number: usize) -> IdempotencyKey {
    IdempotencyKey::new(format!("key-{number:07}")).expect("a valid key")
}

fn claim(store: &MemoryStore, scope: &Scope, number: usize) -> Claim {
    match store.try_claim(scope, &key(number), &Fingerprint::from_bytes([7; 32])).expect("an answer") {
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

fn store(options: MemoryOptions) -> MemoryStore {
    let policy = Policy::new().with_lease(LEASE).with_retention(RETENTION);
    IdempotencyStore::new(MemoryBackend::new(options)).with_policy(policy).expect("a usable policy")
}

fn keys(count: usize) -> Vec<IdempotencyKey> {
    (0..count).map(|number| IdempotencyKey::new(format!("{number:036}")).expect("a valid key")).collect()
}

/// How many allocations `work` makes, enlarged ones counted too.
fn allocations_of(work: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    work();
    let change = region.change();
    change.allocations + change.reallocations
}

/// One test, since tests in threads beside it would be counted, too.
#[test]
fn what_a_memory_store_holds_and_allocates() {
    a_record_takes_at_most_320_bytes_with_its_key_and_all_indexes();
    an_answer_allocates_nothing_and_a_claim_less_than_once();
    what_comes_and_goes_on_one_key_holds_no_more_than_one_record();
    a_million_keys_leave_nothing_behind_and_an_idle_sweep_over_them_allocates_nothing();
}

/// Each record has a key of its own, of 36 bytes, which is counted; all share the scope. The numbers are those of
/// one shard where 16 hold 600,000, 800,000, 1,000,000 and 1,200,000: some of them have just grown, others are
/// nearly full.
fn a_record_takes_at_most_320_bytes_with_its_key_and_all_indexes() {
    const SHARDS: usize = 16;
    let scope = Scope::new("acct_001").expect("a valid scope");
    let fingerprint = Fingerprint::from_bytes([7; 32]);
    let means = [600_000, 800_000, 1_000_000, 1_200_000].map(|all| {
        let count = all / SHARDS;
        let store = store(MemoryOptions::new().with_shards(1));
        let start = Region::new(ALLOCATOR);
        for number in 0..count {
            let key = IdempotencyKey::new(format!("{number:036}")).expect("a valid key");
            let answer = store.try_claim(&scope, &key, &fingerprint).expect("an answer");
            assert!(matches!(answer, ClaimOutcome::Claimed(_)));
        }
        let held = held_since(&start);
        assert!(held > count * 2 * 36, "the allocator counts the keys, and more than those");
        held / count
    });
    let mean = means.iter().sum::<usize>() / means.len();
    assert!(mean <= 320, "{mean} bytes a record: {means:?}");
}

fn an_answer_allocates_nothing_and_a_claim_less_than_once() {
    const COUNT: usize = 10_000;
    let store = store(MemoryOptions::new());
    let scope = Scope::new("acct_1").expect("a valid scope");
    let (mine, other) = (Fingerprint::from_bytes([7; 32]), Fingerprint::from_bytes([8; 32]));
    let keys = keys(COUNT);
    let mut claims = Vec::with_capacity(COUNT);
    let ask = |key, fingerprint| store.try_claim(&scope, key, fingerprint).expect("an answer");

    let claiming = allocations_of(|| {
        for key in &keys {
            let ClaimOutcome::Claimed(claim) = ask(key, &mine) else { panic!("{key} is taken") };
            claims.push(claim);
        }
    });
    assert!(claiming > 0, "the allocator counts");
    assert!(claiming < COUNT / 4, "{claiming} allocations for {COUNT} claims");

    let refusing = allocations_of(|| {
        for key in &keys {
            assert!(matches!(ask(key, &mine), ClaimOutcome::InProgress(_)));
            assert!(matches!(ask(key, &other), ClaimOutcome::FingerprintMismatch(_)));
        }
    });
    assert_eq!(refusing, 0, "answers in progress, and mismatches");

    let renewing = allocations_of(|| claims.iter_mut().for_each(|claim| claim.renew().expect("a renewal")));
    assert_eq!(renewing, 0, "renewals");

    let reply = StoredResponse::new(201).with_header("etag", "\"1\"").with_body(vec![b'x'; 1_024]);
    drop(reply.clone()); // the first clone makes the body one that can be shared, which allocates once
    let completing = allocations_of(|| {
        claims.drain(..).for_each(|claim| drop(claim.complete(reply.clone()).expect("a completion")));
    });
    assert!(completing <= COUNT, "{completing} allocations for {COUNT} completions");

    let replaying = allocations_of(|| {
        for key in &keys {
            let ClaimOutcome::Completed(done) = ask(key, &mine) else { panic!("{key} has completed") };
            assert_eq!(done.reply.response(), Some(&reply));
        }
    });
    assert_eq!(replaying, 0, "replays, headers and body");
}

/// Whatever leaves something stale in an index leaves it on one record, again and again, and no sweep comes.
fn what_comes_and_goes_on_one_key_holds_no_more_than_one_record() {
    const TIMES: usize = 20_000;
    const SOME: usize = 16 * 1_024;
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000_000));
    let scope = Scope::new("acct_1").expect("a valid scope");
    let held_after = |what: &str, work: &dyn Fn(&MemoryStore)| {
        let store = store(MemoryOptions::new().with_clock(clock.clone()).with_shards(1));
        let start = Region::new(ALLOCATOR);
        (0..TIMES).for_each(|_| work(&store));
        let held = held_since(&start);
        assert!(held < SOME, "{what}: {held} bytes for one key");
    };
    let a_moment = Duration::from_millis(1);
    held_after("released", &|store| {
        claim(store, &scope, 1).release().expect("an end");
        clock.advance(a_moment);
    });
    held_after("released in the same millisecond", &|store| {
        claim(store, &scope, 1).release().expect("an end");
    });
    held_after("forgotten", &|store| {
        claim(store, &scope, 1).complete(Reply::Marker).expect("a completion");
        assert!(store.forget(&scope, &key(1)).expect("an answer"));
    });
    held_after("renewed and abandoned", &|store| {
        let mut claim = claim(store, &scope, 1);
        clock.advance(a_moment);
        claim.renew().expect("a renewal");
        claim.save_checkpoint("half of it").expect("a checkpoint");
        claim.abandon().expect("an end");
    });
    held_after("expired, and claimed again", &|store| {
        let claim = claim(store, &scope, 1);
        claim.complete_for(a_moment, StoredResponse::new(503)).expect("a completion");
        clock.advance(a_moment);
    });
}

/// Cases 44 and 45.
fn a_million_keys_leave_nothing_behind_and_an_idle_sweep_over_them_allocates_nothing() {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000_000));
    // A shard's table does not shrink below some slots, so the number of shards is fixed here instead of
    // following the machine's cores.
    let options = MemoryOptions::new().with_clock(clock.clone()).with_shards(16);
    let store = store(options);
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
