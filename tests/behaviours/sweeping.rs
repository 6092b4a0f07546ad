//! Sweeping removes what has expired, no more than it was allowed, and costs what it removes.

use crate::common::{Answer, Fixture, START, asks_for, key, on_every_backend, scope, secs};
use idempotency::{
    Clock, DynStore, IdempotencyStore, ManualClock, MemoryBackend, MemoryOptions, Record, StoredResponse,
    Swept, Timestamp,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn claim(store: &DynStore, name: &str) -> idempotency::Claim {
    store.try_claim(&scope("acct_1"), &key(name), &asks_for("pay")).expect("an answer").claimed()
}

#[test]
fn a_sweep_removes_at_most_its_limit_and_says_whether_there_is_more() {
    on_every_backend(|fixture| {
        let (short, long) =
            (fixture.store_with(secs(10), secs(10)), fixture.store_with(secs(100), secs(100)));
        let live: Vec<String> = (0..5).map(|n| format!("live-{n}")).collect();
        live.iter().for_each(|name| drop(claim(&long, name)));
        (0..40).for_each(|n| drop(claim(&short, &format!("short-{n}"))));
        let stored = |fixture: &Fixture| -> Vec<Option<Record>> {
            live.iter().map(|name| fixture.stored(&scope("acct_1"), &key(name))).collect()
        };
        let before = stored(fixture);

        let sweep = |limit| fixture.store.sweep(limit).expect("a sweep");
        assert_eq!(sweep(100), Swept { removed: 0, more: false }, "{}: nothing has expired", fixture.name);
        fixture.at(20);
        for (limit, removed, more) in [
            (0, 0, true),
            (1, 1, true),
            (1, 1, true),
            (13, 13, true),
            (24, 24, true),
            (1, 1, false),
            (1, 0, false),
            (0, 0, false),
            (usize::MAX, 0, false),
        ] {
            assert_eq!(sweep(limit), Swept { removed, more }, "{}, limit {limit}", fixture.name);
        }
        assert_eq!(stored(fixture), before, "{}: what is live is untouched", fixture.name);
        fixture.at(200);
        assert_eq!(sweep(usize::MAX), Swept { removed: 5, more: false }, "{}", fixture.name);
        assert_eq!(stored(fixture), vec![None; 5], "{}", fixture.name);
    });
}

/// However small the limit is, it reaches every record in the end: no part of the store is left out.
#[test]
fn sweeping_one_by_one_reaches_every_record() {
    on_every_backend(|fixture| {
        let store = fixture.store_with(secs(1), secs(1));
        (0..100).for_each(|n| drop(claim(&store, &format!("key-{n}"))));
        fixture.at(2);
        for left in (0..100).rev() {
            assert_eq!(
                store.sweep(1).expect("a sweep"),
                Swept { removed: 1, more: left > 0 },
                "{}",
                fixture.name
            );
        }
        assert_eq!(store.sweep(1).expect("a sweep"), Swept { removed: 0, more: false }, "{}", fixture.name);
    });
}

#[test]
fn sweep_all_goes_on_until_nothing_expired_is_left() {
    on_every_backend(|fixture| {
        let store = fixture.store_with(secs(1), secs(1));
        (0..1_500).for_each(|n| drop(claim(&store, &format!("key-{n}"))));
        fixture.at(2);
        let live = claim(&store, "live");
        assert_eq!(
            store.sweep_all().expect("a sweep"),
            Swept { removed: 1_500, more: false },
            "{}",
            fixture.name
        );
        assert_eq!(
            store.sweep_all().expect("a sweep"),
            Swept { removed: 0, more: false },
            "{}",
            fixture.name
        );
        live.complete(StoredResponse::new(200)).expect("a claim that was not swept");
    });
}

/// Nothing goes by itself.
#[test]
fn expired_records_stay_until_they_are_swept_and_answer_as_absent_meanwhile() {
    on_every_backend(|fixture| {
        let (tenant, name) = (scope("acct_1"), key("k"));
        let ticket = claim(&fixture.store, "k").into_ticket();
        fixture.at(90 + 24 * 3600);
        let stored = fixture.stored(&tenant, &name);
        assert!(stored.is_some());
        assert_eq!(fixture.store.lookup(&tenant, &name).expect("an answer"), None);
        assert!(!fixture.store.forget(&tenant, &name).expect("an answer"), "{}", fixture.name);
        fixture.store.release(&ticket).expect("already gone");
        fixture.store.abandon(&ticket).expect("already gone");
        assert!(
            fixture.store.resume(ticket.clone()).is_err()
                && fixture.store.complete(&ticket, first()).is_err()
        );
        assert_eq!(
            fixture.stored(&tenant, &name),
            stored,
            "{}: nobody but a sweep and a claim writes",
            fixture.name
        );
        assert_eq!(fixture.store.sweep(1).expect("a sweep").removed, 1);
        assert_eq!(fixture.stored(&tenant, &name), None, "{}", fixture.name);
    });
}

fn first() -> StoredResponse {
    StoredResponse::new(201)
}

/// The index by expiry follows every command that moves an expiry, in both directions.
#[test]
fn a_sweep_removes_exactly_what_has_expired_whatever_moved_its_expiry() {
    type Life = fn(&Fixture, &DynStore, &str);
    const LIVES: [(&str, Life); 11] = [
        ("claimed", |_, store, name| drop(claim(store, name))),
        ("renewed", |fixture, store, name| {
            let mut claim = claim(store, name);
            fixture.at(7);
            claim.renew().expect("a renewal");
        }),
        ("checkpointed", |fixture, store, name| {
            let mut claim = claim(store, name);
            fixture.at(8);
            claim.save_checkpoint("half").expect("a checkpoint");
        }),
        ("taken over", |fixture, store, name| {
            drop(claim(store, name));
            fixture.at(11);
            drop(claim(store, name));
        }),
        ("abandoned", |_, store, name| claim(store, name).abandon().expect("an end")),
        ("released", |_, store, name| claim(store, name).release().expect("an end")),
        ("completed", |fixture, store, name| {
            let claim = claim(store, name);
            fixture.at(3);
            claim.complete(first()).expect("a completion");
        }),
        ("completed for less", |_, store, name| {
            claim(store, name).complete_for(secs(2), first()).expect("a completion");
        }),
        ("completed for more", |_, store, name| {
            claim(store, name).complete_for(secs(77), first()).expect("a completion");
        }),
        ("claimed anew after it expired", |fixture, store, name| {
            claim(store, name).complete_for(secs(1), first()).expect("a completion");
            fixture.at(5);
            drop(claim(store, name));
        }),
        ("forgotten and claimed anew", |fixture, store, name| {
            drop(claim(store, name));
            assert!(store.forget(&scope("acct_1"), &key(name)).expect("an answer"));
            fixture.at(6);
            drop(claim(store, name));
        }),
    ];
    on_every_backend(|fixture| {
        let store = fixture.store_with(secs(10), secs(20));
        for (name, live) in LIVES {
            fixture.at(0);
            live(fixture, &store, name);
        }
        let stored = |name: &str| fixture.stored(&scope("acct_1"), &key(name));
        let mut expiries: Vec<Timestamp> =
            LIVES.iter().filter_map(|(name, _)| stored(name)).map(|record| record.expires_at).collect();
        assert_eq!(expiries.len(), LIVES.len() - 1, "{}: all but the released one", fixture.name);
        expiries.sort_unstable();
        while let Some(next) = expiries.first().copied() {
            fixture.clock.set(next.saturating_sub(Duration::from_millis(1)));
            assert_eq!(store.sweep(100).expect("a sweep").removed, 0, "{}, before {next}", fixture.name);
            fixture.clock.set(next);
            let due = expiries.iter().filter(|expiry| **expiry == next).count();
            assert_eq!(store.sweep(100).expect("a sweep").removed, due, "{}, at {next}", fixture.name);
            expiries.drain(..due);
        }
        assert!(LIVES.iter().all(|(name, _)| stored(name).is_none()), "{}", fixture.name);
    });
}

/// A clock that counts how often it is read.
struct Counted(ManualClock, Arc<AtomicUsize>);

impl Clock for Counted {
    fn now(&self) -> Timestamp {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.now()
    }
}

/// In memory, what comes and goes has the index by expiry built anew now and then.
#[test]
fn what_lives_is_swept_in_its_time_however_much_comes_and_goes_beside_it() {
    const LIVE: usize = 200;
    on_every_backend(|fixture| {
        let (name, store) = (fixture.name, fixture.store_with(secs(10), secs(10)));
        for number in 0..LIVE {
            fixture.at(100);
            let claim = claim(&store, &format!("live-{number}"));
            // Half of them are completed after the clock was set back, and so expire earlier than they seemed to.
            if number.is_multiple_of(2) {
                fixture.at(50);
                claim.complete(first()).expect("held");
            }
        }
        fixture.at(50);
        (0..1_000).for_each(|_| claim(&store, "comes and goes").release().expect("held"));
        let sweep = || store.sweep_all().expect("a sweep").removed;
        fixture.at(59);
        assert_eq!(sweep(), 0, "{name}");
        fixture.at(60);
        assert_eq!(sweep(), LIVE / 2, "{name}: the completed ones");
        fixture.at(119);
        assert_eq!(sweep(), 0, "{name}");
        fixture.at(120);
        assert_eq!(sweep(), LIVE / 2, "{name}: the others");
    });
}

/// Case 45, for time: one look at the clock a shard, however many records are live. `memory_footprint` counts
/// the allocations.
#[test]
fn an_idle_sweep_of_the_memory_store_reads_the_clock_once_a_shard() {
    let reads = Arc::new(AtomicUsize::new(0));
    let clock = Counted(ManualClock::new(START), Arc::clone(&reads));
    let options = MemoryOptions::new().with_clock(clock).with_shards(8);
    let store = IdempotencyStore::new(MemoryBackend::new(options));
    let mut claimed = 0;
    for wanted in [0, 10, 20_000] {
        while claimed < wanted {
            drop(store.try_claim(&scope("acct_1"), &key(&format!("key-{claimed}")), &asks_for("pay")));
            claimed += 1;
        }
        let before = reads.load(Ordering::Relaxed);
        assert_eq!(store.sweep_all().expect("a sweep"), Swept { removed: 0, more: false });
        assert_eq!(reads.load(Ordering::Relaxed) - before, 8, "with {wanted} live records");
    }
    assert!(store.lookup(&scope("acct_1"), &key("key-19999")).expect("an answer").is_some());
}
