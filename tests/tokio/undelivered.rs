//! Claims that were granted to a future that was dropped meanwhile: their work has not begun, so they are
//! given back, once.

use crate::bench::{Bench, Place, claimed, eventually, is_in_progress, reply};
use crate::common::{asks_for, key, on_every_backend, scope, secs};
use crate::gate::{Gate, Moment};
use idempotency::{AsyncStore, Error, Fingerprint, IdempotencyKey, Reply, Scope};
use std::pin::Pin;

type Operation = (Scope, IdempotencyKey, Fingerprint);
type Asking<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The ways to ask for one operation, by name, and the backend's call that each is.
type Way = (&'static str, &'static str, for<'a> fn(&'a AsyncStore<Gate>, &'a Operation) -> Asking<'a>);
const WAYS: [Way; 4] = [
    ("try_claim", "claim", |store, (scope, key, request)| {
        Box::pin(async move { drop(store.try_claim(scope, key, request).await) })
    }),
    ("claim_or_wait", "claim", |store, (scope, key, request)| {
        Box::pin(async move { drop(store.claim_or_wait(scope, key, request, secs(60)).await) })
    }),
    ("try_claim_many", "batch", |store, operation| {
        Box::pin(async move { drop(store.try_claim_many(std::slice::from_ref(operation)).await) })
    }),
    ("run", "claim", |store, (scope, key, request)| {
        Box::pin(async move {
            let ran = store.run(scope, key, request, async |_claim| -> Result<Reply, Error> {
                panic!("work was begun whose claim was not delivered")
            });
            drop(ran.await);
        })
    }),
];

fn operation(bench: &Bench<'_>) -> Operation {
    (bench.scope.clone(), bench.key.clone(), bench.request)
}

/// Case 23. A client's timeout must not block the key for a lease.
#[test]
fn a_claim_that_was_granted_to_nobody_is_given_back_once() {
    on_every_backend(|fixture| {
        for (way, call, ask) in &WAYS {
            for place in Place::CALLING {
                let bench = Bench::on(fixture, &format!("{way}, {place:?}"));
                let told = format!("{}: {way}, {place:?}", bench.name);
                let operation = operation(&bench);
                bench.drop_at(place, ask(&bench.store, &operation));
                eventually(&told, || bench.gate().calls().len() == 2);
                eventually(&told, || bench.record().is_none());

                let next = bench.claim();
                assert_eq!((next.attempt(), next.is_takeover()), (1, false), "{told}");
                assert_eq!(bench.gate().calls(), [*call, "release", "claim"], "{told}");
                let metrics = bench.metrics();
                assert_eq!((metrics.claims, metrics.releases), (2, 1), "{told}");
                assert_eq!((metrics.dropped_unfinished, metrics.errors.total()), (0, 0), "{told}");
            }
        }
    });
}

/// Case 23. Under load, clients go away while their calls wait in line: each that is not made helps the
/// others.
#[test]
fn a_claim_that_has_not_begun_when_its_future_is_dropped_is_not_made() {
    on_every_backend(|fixture| {
        for (way, _, ask) in WAYS {
            for place in [Place::Unpolled, Place::Queued] {
                let bench = Bench::on(fixture, &format!("{way}, {place:?}"));
                let operation = operation(&bench);
                bench.drop_at(place, ask(&bench.store, &operation));
                let next = bench.claim();
                assert_eq!(next.attempt(), 1);
                assert_eq!(bench.gate().calls(), ["claim"], "{}: {way}, {place:?}", bench.name);
            }
        }
    });
}

/// An earlier attempt may have had the effect, so the record stays, and can be taken over at once.
#[test]
fn a_takeover_that_was_granted_to_nobody_is_abandoned_once() {
    on_every_backend(|fixture| {
        for (way, call, ask) in &WAYS {
            for place in Place::CALLING {
                fixture.at(0);
                let bench = Bench::on(fixture, &format!("{way}, {place:?}"));
                let told = format!("{}: {way}, {place:?}", bench.name);
                let mut first = bench.claim();
                bench.block_on(first.save_checkpoint("half")).expect("a claim that stands");
                let _ticket = bench.block_on(first.into_ticket());
                fixture.at(31);
                let operation = operation(&bench);
                bench.drop_at(place, ask(&bench.store, &operation));
                eventually(&told, || bench.metrics().releases == 1);

                let next = bench.claim();
                assert_eq!((next.attempt(), next.is_takeover()), (3, true), "{told}");
                assert_eq!(next.checkpoint().map(|saved| &saved[..]), Some(&b"half"[..]), "{told}");
                assert_eq!(
                    bench.gate().calls(),
                    ["claim", "checkpoint", *call, "release", "claim"],
                    "{told}"
                );
                assert_eq!(bench.metrics().dropped_unfinished, 0, "{told}");
            }
        }
    });
}

#[test]
fn of_a_batch_that_was_granted_to_nobody_each_claim_is_given_back_once_and_what_others_have_stays() {
    on_every_backend(|fixture| {
        for place in Place::CALLING {
            let bench = Bench::on(fixture, "unused");
            let told = format!("{}: {place:?}", bench.name);
            let tenant = scope(&told);
            let operations: Vec<Operation> = ["mine", "new", "done", "last"]
                .map(|name| (tenant.clone(), key(name), asks_for("pay")))
                .to_vec();
            let claim = |at: usize| {
                let (scope, key, request) = &operations[at];
                claimed(bench.block_on(bench.store.try_claim(scope, key, request)).expect("an answer"))
            };
            let mine = claim(0);
            let done = bench.block_on(claim(2).complete(reply("done"))).expect("a claim that stands");
            let stored = |at: usize| fixture.stored(&tenant, &operations[at].1);
            let before = (stored(0), stored(2));

            bench.drop_at(place, bench.store.try_claim_many(&operations));
            eventually(&told, || bench.metrics().releases == 2);
            assert_eq!((stored(1), stored(3)), (None, None), "{told}");
            assert_eq!((stored(0), stored(2)), before, "{told}");
            assert_eq!(before.1.and_then(|record| record.reply), Some(done.reply), "{told}");
            bench.block_on(mine.complete(reply("mine"))).expect("a claim that stands");
            assert_eq!((bench.metrics().claims, bench.metrics().releases), (4, 2), "{told}");
        }
    });
}

/// A waiter that is dropped while it pauses leaves nothing, and one that is granted the claim after a pause
/// gives it back.
#[test]
fn a_waiter_that_is_dropped_leaves_the_key_to_others_whenever_it_was_granted_it() {
    on_every_backend(|fixture| {
        for moment in [Moment::Before, Moment::After] {
            let bench = Bench::on(fixture, &format!("{moment:?}"));
            let told = format!("{}: {moment:?}", bench.name);
            let owner = bench.claim();
            let waiting = bench.runtime.spawn({
                let (store, (scope, key, request)) = (bench.store.clone(), operation(&bench));
                async move { store.claim_or_wait(&scope, &key, &request, secs(60)).await.map(drop) }
            });
            // It looks again after each pause, and claims when there is nothing left to see.
            bench.run_until(&told, || bench.gate().calls().contains(&"read"));
            bench.gate().shut_for("claim", moment);
            bench.block_on(owner.release()).expect("a claim that stands");
            bench.run_until(&told, || bench.gate().is_stopped());
            waiting.abort();
            let ended = bench.block_on(waiting);
            assert!(ended.is_err_and(|error| error.is_cancelled()), "{told}");
            bench.gate().open();
            eventually(&told, || bench.metrics().releases == 2 && bench.record().is_none());
            assert_eq!(bench.claim().attempt(), 1, "{told}");
        }
    });
}

#[test]
fn a_waiter_that_is_dropped_while_it_pauses_changes_nothing() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let owner = bench.claim();
        let before = bench.record();
        let waiting = bench.runtime.spawn({
            let (store, (scope, key, request)) = (bench.store.clone(), operation(&bench));
            async move { store.claim_or_wait(&scope, &key, &request, secs(60)).await.map(drop) }
        });
        bench.run_until(bench.name, || bench.gate().calls().contains(&"read"));
        waiting.abort();
        let ended = bench.block_on(waiting);
        assert!(ended.is_err_and(|error| error.is_cancelled()), "{}", bench.name);
        assert_eq!(bench.record(), before, "{}", bench.name);
        bench.block_on(owner.complete(reply("done"))).expect("a claim that stands");
        assert_eq!((bench.metrics().claims, bench.metrics().releases), (1, 0), "{}", bench.name);
    });
}

/// Where a task drops its future, it must not block: a claim is given back on the pool.
#[test]
fn giving_a_claim_back_does_not_hold_up_the_task_that_dropped_its_future() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let asking = bench.answered(bench.store.try_claim(&bench.scope, &bench.key, &bench.request));
        bench.gate().shut_for("release", Moment::Before);
        drop(asking);
        bench.gate().wait_for_call();
        assert!(bench.record().is_some(), "{}", bench.name);
        bench.gate().open();
        eventually(bench.name, || bench.record().is_none());
    });
}

#[test]
fn a_claim_that_can_not_be_given_back_stands_until_its_lease_ends_and_is_counted() {
    on_every_backend(|fixture| {
        for place in Place::CALLING {
            fixture.at(0);
            let bench = Bench::on(fixture, &format!("{place:?}"));
            let told = format!("{}: {place:?}", bench.name);
            bench.gate().refuse("release");
            bench.drop_at(place, bench.store.try_claim(&bench.scope, &bench.key, &bench.request));
            eventually(&told, || bench.metrics().errors.total() == 1);
            let answer = bench.block_on(bench.store.try_claim(&bench.scope, &bench.key, &bench.request));
            assert!(is_in_progress(&answer.expect("an answer")), "{told}");
            fixture.at(30);
            assert_eq!(bench.claim().attempt(), 2, "{told}");
        }
    });
}
