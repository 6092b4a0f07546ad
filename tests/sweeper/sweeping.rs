//! What a sweeper removes, and when.

use crate::common::{Answer, asks_for, key, on_every_backend, scope, secs};
use crate::support::{AT_ONCE, RARELY, claim_many, let_another_sweeper_run, until, until_it_has_run};
use idempotency::{Record, Reply, Sweeper, testing::FaultyBackend};
use std::sync::Arc;
use std::time::Duration;

/// More than a sweeper asks for at a time.
const MANY: usize = 2_345;

#[test]
fn what_has_expired_goes_whenever_it_does_and_what_is_live_stays() {
    on_every_backend(|fixture| {
        let (short, long) =
            (fixture.store_with(secs(10), secs(10)), fixture.store_with(secs(100), secs(100)));
        let live = |n: u32| key(&format!("live {n}"));
        claim_many(&long, "live", 5);
        let stored = || -> Vec<Option<Record>> {
            (0..5).map(|n| long.lookup(&scope("tenant"), &live(n)).expect("an answer")).collect()
        };
        let before = stored();
        assert!(before.iter().all(Option::is_some));

        claim_many(&short, "first", MANY);
        let sweeper = fixture.store.spawn_sweeper(AT_ONCE);
        let removes = |count: usize| {
            until("all that has expired is gone", || sweeper.removed() >= count as u64);
            until_it_has_run(&sweeper, 2);
            assert_eq!(sweeper.removed(), count as u64, "{}", fixture.name);
        };
        removes(0);
        fixture.at(20);
        removes(MANY);
        claim_many(&short, "later", 7);
        removes(MANY);
        fixture.at(40);
        removes(MANY + 7);
        assert_eq!(stored(), before, "{}: what is live is untouched", fixture.name);
        assert!(sweeper.is_running());
        assert!(sweeper.failures() == 0 && sweeper.last_error().is_none(), "{sweeper:?}");
        assert!(sweeper.runs() >= 8, "{sweeper:?}");
        sweeper.stop();
        let answer = long.try_claim(&scope("tenant"), &key("new"), &asks_for("it"));
        answer.expect("an answer").claimed().complete(Reply::Marker).expect("the store works on");
    });
}

#[test]
fn its_metrics_and_the_stores_agree() {
    on_every_backend(|fixture| {
        claim_many(&fixture.store_with(secs(10), secs(10)), "key", 12);
        fixture.at(20);
        let sweeper = fixture.store.spawn_sweeper(AT_ONCE);
        until_it_has_run(&sweeper, 1);
        assert_eq!((sweeper.removed(), fixture.store.metrics().swept), (12, 12), "{}", fixture.name);
    });
}

#[test]
fn the_first_run_comes_after_the_time_between_two() {
    on_every_backend(|fixture| {
        let store =
            idempotency::IdempotencyStore::new(FaultyBackend::new(Arc::clone(fixture.store.backend())));
        let sweeper = store.spawn_sweeper(RARELY);
        let_another_sweeper_run();
        assert_eq!((sweeper.runs(), store.backend().calls()), (0, 0), "{}", fixture.name);
        assert!(sweeper.is_running());
    });
}

#[test]
fn the_shortest_and_the_longest_times_are_taken() {
    on_every_backend(|fixture| {
        claim_many(&fixture.store_with(secs(10), secs(10)), "key", 12);
        fixture.at(20);
        let never = fixture.store.spawn_sweeper(Duration::MAX);
        let_another_sweeper_run();
        assert!(never.is_running() && never.runs() == 0, "{never:?}");
        for every in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(1)] {
            until_it_has_run(&fixture.store.spawn_sweeper(every), 3);
        }
        never.stop();
        assert_eq!(fixture.store.sweep(100).expect("a sweep").removed, 0, "they have removed all");
    });
}

#[test]
fn sweepers_of_one_store_share_the_work() {
    on_every_backend(|fixture| {
        claim_many(&fixture.store_with(secs(10), secs(10)), "short", MANY);
        claim_many(&fixture.store_with(secs(100), secs(100)), "long", 100);
        fixture.at(20);
        let sweepers: Vec<Sweeper> = (0..4).map(|_| fixture.store.spawn_sweeper(AT_ONCE)).collect();
        let removed = || sweepers.iter().map(Sweeper::removed).sum::<u64>();
        until("all that has expired is gone", || removed() >= MANY as u64);
        sweepers.iter().for_each(|sweeper| until_it_has_run(sweeper, 2));
        assert_eq!(removed(), MANY as u64, "{}: each record is removed once", fixture.name);
        assert!(sweepers.iter().all(|sweeper| sweeper.failures() == 0), "{sweepers:?}");
    });
}

/// It names no backend, and threads may share it.
#[test]
fn a_sweeper_can_be_kept_anywhere() {
    fn is_kept_anywhere<T: Send + Sync + 'static>(_: &T) {}
    let store = idempotency::IdempotencyStore::in_memory();
    let sweepers: [Sweeper; 2] = [store.spawn_sweeper(RARELY), store.erase().spawn_sweeper(RARELY)];
    is_kept_anywhere(&sweepers);
    std::thread::spawn(move || drop(sweepers)).join().expect("a thread that ends well");
}
