//! `stats()`, on every backend.

use crate::common::{Answer, Fixture, START, asks_for, key, on, on_every_backend, scope, secs};
use crate::counts;
use idempotency::{
    Claim, Clock, DynStore, Error, MemoryBackend, MemoryOptions, Reply, Stats, StoredResponse, Timestamp,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const DAY: u64 = 24 * 60 * 60;

fn claim(store: &DynStore, name: &str) -> Claim {
    store.try_claim(&scope("a"), &key(name), &asks_for("x")).expect("a store").claimed()
}

fn stats(fixture: &Fixture) -> Stats {
    fixture.store.stats().expect(fixture.name)
}

#[test]
fn an_empty_store_has_nothing_to_count() {
    on_every_backend(|f| assert_eq!(stats(f), Stats::default(), "{}", f.name));
}

/// Lease 90 s, retention a day.
#[test]
fn each_record_is_counted_once_by_how_it_stands() {
    on_every_backend(|f| {
        for name in ["one", "two", "three", "four", "five", "six"] {
            drop(claim(&f.store, name));
        }
        assert_eq!(counts(stats(f)), [6, 0, 0, 0, 0], "{}: claimed", f.name);
        f.at(90);
        assert_eq!(counts(stats(f)), [0, 6, 0, 0, 0], "{}: lapsed", f.name);
        let mut taken_over = claim(&f.store, "one");
        claim(&f.store, "two").complete(Reply::Marker).expect("held");
        claim(&f.store, "three").abandon().expect("held");
        assert_eq!(counts(stats(f)), [1, 4, 1, 0, 0], "{}: one claimed, one done, one abandoned", f.name);
        f.at(150);
        taken_over.renew().expect("held");
        claim(&f.store, "seven").release().expect("held");
        assert!(f.store.forget(&scope("a"), &key("four")).expect(f.name));
        assert_eq!(counts(stats(f)), [1, 3, 1, 0, 0], "{}: a release and a forget leave nothing", f.name);
        f.at(90 + DAY);
        // The renewed one stands, and the abandoned one: it was claimed anew at 90 s.
        assert_eq!(counts(stats(f)), [0, 2, 0, 3, 0], "{}: a day after the first leases", f.name);
        assert_eq!(f.store.sweep(1).expect(f.name).removed, 1, "{}", f.name);
        assert_eq!(counts(stats(f)), [0, 2, 0, 2, 0], "{}: one was swept", f.name);
    });
}

#[test]
fn what_records_hold_is_counted_in_bytes_until_they_are_swept() {
    on_every_backend(|f| {
        // What a backend adds to a header's name and value: what the limit on headers counts, or two lengths.
        let each_header = if f.name == "memory" { 32 } else { 4 + 4 };
        let bytes = |what: &str, expected: u64| assert_eq!(stats(f).bytes, expected, "{}: {what}", f.name);
        let mut first = f
            .store
            .try_claim(&scope("é"), &key("first"), &asks_for("a long request"))
            .expect("a store")
            .claimed();
        bytes("a scope of two bytes and a key of five", 7);
        first.save_checkpoint([7; 100]).expect("held");
        bytes("and a checkpoint", 107);
        first.save_checkpoint("").expect("held");
        bytes("an empty one in its place", 7);
        first.save_checkpoint([7; 100]).expect("held");
        first.complete(Reply::Reference("pay_1/é".to_owned())).expect("held");
        bytes("a reference in place of the checkpoint", 7 + 8);
        let response = StoredResponse::new(201).with_header("name", [0; 6]).with_body(vec![0; 10_000]);
        claim(&f.store, "key").complete(response).expect("held");
        bytes("and a response", 15 + 4 + 4 + 6 + each_header + 10_000);
        claim(&f.store, "key2").complete(Reply::Marker).expect("held");
        bytes("and a marker", 15 + 10_014 + each_header + 5);
        f.at(DAY);
        assert_eq!(counts(stats(f)), [0, 0, 0, 3, 0], "{}", f.name);
        bytes("all of it expired", 15 + 10_014 + each_header + 5);
        assert_eq!(f.store.sweep_all().expect(f.name).removed, 3, "{}", f.name);
        bytes("and swept", 0);
    });
}

#[test]
fn every_handle_on_a_store_counts_all_of_it() {
    on_every_backend(|f| {
        let short = f.store_with(secs(1), secs(1));
        drop((claim(&f.store, "long"), claim(&short, "short")));
        f.at(1);
        for (handle, store) in
            [("short", short.clone()), ("erased", short.erase()), ("default", f.store.clone())]
        {
            assert_eq!(counts(store.stats().expect(handle)), [1, 1, 0, 0, 0], "{}, {handle}", f.name);
        }
    });
}

#[test]
fn looking_changes_no_record() {
    on_every_backend(|f| {
        drop(claim(&f.store, "lapsed"));
        f.at(90);
        let look = || f.store.lookup(&scope("a"), &key("lapsed")).expect(f.name).expect("a record");
        let before = look();
        for _ in 0..2 {
            assert_eq!(counts(stats(f)), [0, 1, 0, 0, 0], "{}", f.name);
            assert_eq!(f.store.stuck(10).expect(f.name).len(), 1, "{}", f.name);
        }
        assert_eq!(look(), before, "{}", f.name);
        assert_eq!(claim(&f.store, "lapsed").attempt(), 2, "{}", f.name);
    });
}

#[test]
fn while_the_clock_is_out_of_range_nothing_is_counted_or_listed() {
    on_every_backend(|f| {
        drop(claim(&f.store, "k"));
        for millis in [-1, i64::MIN, 253_402_300_800_000, i64::MAX] {
            f.clock.set(Timestamp::from_millis(millis));
            let refused = f.store.stats().map(drop).expect_err(f.name);
            assert!(matches!(refused, Error::Clock(_)), "{}: {refused:?}", f.name);
            let refused = f.store.stuck(10).map(drop).expect_err(f.name);
            assert!(matches!(refused, Error::Clock(_)), "{}: {refused:?}", f.name);
        }
        f.at(0);
        assert_eq!(counts(stats(f)), [1, 0, 0, 0, 0], "{}", f.name);
    });
}

/// Always the same time, and how often it was asked for it.
#[derive(Clone, Default)]
struct CountingClock(Arc<AtomicUsize>);

impl Clock for CountingClock {
    fn now(&self) -> Timestamp {
        self.0.fetch_add(1, Ordering::SeqCst);
        START
    }
}

fn readings(clock: &CountingClock, call: impl FnOnce()) -> usize {
    let before = clock.0.load(Ordering::SeqCst);
    call();
    clock.0.load(Ordering::SeqCst) - before
}

#[track_caller]
fn assert_readings(store: &DynStore, clock: &CountingClock, expected: usize) {
    for name in 0..100 {
        drop(claim(store, &name.to_string()));
    }
    assert_eq!(readings(clock, || assert_eq!(store.stats().expect("counts").in_progress, 100)), expected);
    assert_eq!(readings(clock, || assert_eq!(store.stuck(10).expect("a list").len(), 0)), expected);
}

#[test]
fn the_memory_store_reads_the_clock_once_a_shard_however_many_records_there_are() {
    for shards in [1, 16] {
        let clock = CountingClock::default();
        let options = MemoryOptions::new().with_clock(clock.clone()).with_shards(shards);
        assert_readings(&on(MemoryBackend::new(options)), &clock, shards);
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn a_store_on_a_file_reads_the_clock_once_however_many_records_there_are() {
    use idempotency::{SqliteBackend, SqliteOptions};
    let clock = CountingClock::default();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = SqliteOptions::new().with_clock(clock.clone());
    let backend = SqliteBackend::open(folder.path().join("store.db"), options).expect("a fresh store");
    assert_readings(&on(backend), &clock, 1);
}

/// Two stores in one file are told apart.
#[cfg(feature = "sqlite")]
#[test]
fn a_store_counts_its_own_tables_only() {
    use idempotency::{SqliteBackend, SqliteOptions};
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = |prefix: &str| {
        let options = SqliteOptions::new().with_prefix(prefix);
        on(SqliteBackend::open(folder.path().join("store.db"), options).expect("a store"))
    };
    let (one, other) = (store("one_"), store("other_"));
    drop(claim(&one, "k"));
    claim(&other, "k").abandon().expect("held");
    claim(&other, "done").complete(Reply::Marker).expect("held");
    assert_eq!(counts(one.stats().expect("counts")), [1, 0, 0, 0, 0]);
    assert_eq!(counts(other.stats().expect("counts")), [0, 1, 1, 0, 0]);
}
