//! A runtime that shuts down: what is being done is done, what is not begun is an error, and nobody hangs.

use crate::bench::{Bench, Started, claimed, eventually, reply};
use crate::common::{self, on_every_backend, secs};
use crate::gate::{Gate, Moment};
use idempotency::{AsyncClaim, AsyncStore, Error, Ran, Reply, RunError};
use std::error::Error as _;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinError;

/// A runtime to wait in, beside the one that is shut down.
fn other_runtime() -> Runtime {
    Builder::new_current_thread().build().expect("a runtime")
}

/// That nothing was done, and why.
#[track_caller]
fn assert_unavailable<T>(told: &str, answer: Result<T, Error>) {
    let error = answer.err().unwrap_or_else(|| panic!("{told}: an answer without a thread"));
    assert!(matches!(error, Error::Unavailable(_)) && error.is_transient(), "{told}: {error:?}");
    let source = error.source().unwrap_or_else(|| panic!("{told}: no source"));
    assert!(source.downcast_ref::<JoinError>().is_some_and(JoinError::is_cancelled), "{told}: {source:?}");
}

/// Every call of `store` and of its claim `held`.
async fn assert_all_unavailable(
    told: &str,
    bench: &Bench<'_>,
    store: &AsyncStore<Gate>,
    mut held: AsyncClaim,
) {
    let (scope, key, request) = (&bench.scope, &bench.key, &bench.request);
    assert_unavailable(told, store.try_claim(scope, key, request).await);
    assert_unavailable(told, store.claim_or_wait(scope, key, request, secs(60)).await);
    let operations = vec![(scope.clone(), key.clone(), *request); 3];
    let answers = store.try_claim_many(&operations).await;
    assert_eq!(answers.len(), 3, "{told}");
    answers.into_iter().for_each(|answer| assert_unavailable(told, answer));
    assert_unavailable(told, store.lookup(scope, key).await);
    assert_unavailable(told, store.forget(scope, key).await);
    assert_unavailable(told, store.sweep(1).await);
    assert_unavailable(told, store.sweep_all().await);
    assert_unavailable(told, store.stats().await);
    assert_unavailable(told, store.stuck(1).await);
    assert_unavailable(told, store.call(|_| ()).await);
    let ticket = held.ticket();
    assert_unavailable(told, store.complete(&ticket, Reply::Marker).await);
    assert_unavailable(told, store.release(&ticket).await);
    assert_unavailable(told, store.abandon(&ticket).await);
    assert_unavailable(told, store.resume(ticket.clone()).await);
    let ran = store.run(scope, key, request, async |_| -> Result<Reply, Error> {
        panic!("work was begun without a claim")
    });
    assert!(matches!(ran.await, Err(RunError::Store(Error::Unavailable(_)))), "{told}");

    assert_unavailable(told, held.renew().await);
    assert_unavailable(told, held.save_checkpoint("half").await);
    assert_unavailable(told, held.keep_alive(secs(60)).await);
    assert_eq!(held.checkpoint(), None, "{told}");
    let (error, held, unrecorded) =
        held.complete(reply("done")).await.expect_err("nobody to complete").into_parts();
    assert_unavailable(told, Err::<(), _>(error));
    assert_eq!((held.ticket(), unrecorded), (ticket.clone(), reply("done")), "{told}");
    assert_eq!(held.into_ticket().await, ticket, "{told}");
}

#[test]
fn after_a_shutdown_every_call_is_an_error_that_says_that_nothing_was_done() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let claim = bench.claim();
        let before = bench.record();
        let gone = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let store = AsyncStore::new(bench.store.store().clone(), gone.handle().clone());
        let held = gone.block_on(store.resume(claim.ticket())).expect("a claim that stands");
        let calls = bench.gate().calls();
        drop(gone);
        bench.block_on(assert_all_unavailable(bench.name, &bench, &store, held));
        assert_eq!(bench.record(), before, "{}", bench.name);
        assert_eq!(bench.gate().calls(), calls, "{}", bench.name);
        assert_eq!(bench.metrics().dropped_unfinished, 0, "{}", bench.name);
    });
}

/// Whether they are made is tokio's choice; what they are answered is what happened.
#[test]
fn calls_that_wait_for_a_thread_at_a_shutdown_are_made_or_not_and_say_which() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let told = bench.name;
        let claim = bench.claim();
        let busy = bench.keep_pool_busy();
        let Bench { runtime, store, scope, key, .. } = bench;
        let other = common::key("another");
        let forgetting = Started::new(store.forget(&scope, &other));
        let completing = Started::new(claim.complete(reply("done")));
        runtime.shutdown_background();
        drop(busy);
        let is_made = |call| store.store().backend().calls().contains(&call);
        match forgetting.answer() {
            Ok(existed) => assert_eq!((existed, is_made("forget")), (false, true), "{told}"),
            unavailable => {
                assert_unavailable(told, unavailable);
                assert!(!is_made("forget"), "{told}");
            }
        }
        let done = match completing.answer() {
            Ok(done) => done,
            Err(failed) => {
                assert!(!is_made("complete"), "{told}");
                let (error, claim, unrecorded) = failed.into_parts();
                assert_unavailable(told, Err::<(), _>(error));
                // All that is needed to end it elsewhere.
                store.store().complete(&claim.ticket(), unrecorded).expect("a claim that stands")
            }
        };
        assert_eq!(done.reply, reply("done"), "{told}");
        let stored = store.store().lookup(&scope, &key).expect("an answer");
        assert_eq!(stored.and_then(|record| record.reply), Some(reply("done")), "{told}");
        assert_eq!(store.store().metrics().dropped_unfinished, 0, "{told}");
    });
}

/// Case 23, at the end of a process that shuts down in good order.
#[test]
fn calls_that_are_being_made_at_a_shutdown_are_made_and_their_answers_arrive() {
    on_every_backend(|fixture| {
        for moment in [Moment::Before, Moment::After] {
            let bench = Bench::on(fixture, &format!("{moment:?}"));
            let told = format!("{}: {moment:?}", bench.name);
            let claim = bench.claim();
            bench.gate().shut(moment);
            let completing = Started::new(claim.complete(reply("done")));
            bench.gate().wait_for_call();
            let Bench { runtime, store, .. } = bench;
            runtime.shutdown_background();
            store.store().backend().open();
            let done = completing.answer().expect("a claim that stands");
            assert_eq!(done.reply, reply("done"), "{told}");
        }
    });
}

/// A server that restarts drops the requests that it works on. What it has just claimed for them must not
/// stay blocked.
#[test]
fn a_claim_that_is_granted_to_nobody_during_a_shutdown_is_given_back() {
    on_every_backend(|fixture| {
        for moment in [Moment::Before, Moment::After] {
            let bench = Bench::on(fixture, &format!("{moment:?}"));
            let told = format!("{}: {moment:?}", bench.name);
            bench.gate().shut(moment);
            let (scope, key, request) = (bench.scope.clone(), bench.key.clone(), bench.request);
            let Bench { runtime, store, .. } = bench;
            let asking = runtime.spawn({
                let store = store.clone();
                async move { store.try_claim(&scope, &key, &request).await.map(drop) }
            });
            runtime.block_on(tokio::task::yield_now());
            store.store().backend().wait_for_call();
            runtime.shutdown_background(); // which drops the task
            store.store().backend().open();
            eventually(&told, || store.store().metrics().releases == 1);
            assert_eq!(store.store().backend().calls(), ["claim", "release"], "{told}");
            assert!(other_runtime().block_on(asking).is_err_and(|error| error.is_cancelled()), "{told}");
        }
    });
}

#[test]
fn work_that_ends_after_a_shutdown_gets_its_reply_or_its_error_back() {
    on_every_backend(|fixture| {
        for (given, give) in [("a reply", Ok(reply("done"))), ("an error", Err("declined"))] {
            let bench = Bench::on(fixture, given);
            let told = format!("{}: {given}", bench.name);
            let (scope, key, request) = (bench.scope.clone(), bench.key.clone(), bench.request);
            let gone = Builder::new_current_thread().build().expect("a runtime");
            let store = AsyncStore::new(bench.store.store().clone(), gone.handle().clone());
            let mut gone = Some(gone);
            let ran = bench.block_on(store.run(&scope, &key, &request, async |_claim| {
                gone.take().expect("a runtime").shutdown_background();
                give.clone()
            }));
            match ran.expect_err("nobody to end the claim") {
                RunError::Work(error) => assert_eq!(Err(error), give, "{told}"),
                RunError::NotRecorded { reply, error } => {
                    assert_eq!(Ok(reply), give, "{told}");
                    assert_unavailable(&told, Err::<(), _>(error));
                }
                RunError::Store(error) => panic!("{told}: {error:?}"),
            }
            assert_eq!(bench.gate().calls(), ["claim"], "{told}");
            fixture.at(30);
            assert_eq!(bench.claim().attempt(), 2, "{told}");
            fixture.at(0);
        }
    });
}

#[test]
fn a_waiter_whose_runtime_shuts_down_while_it_pauses_is_told_so() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let owner = bench.claim();
        let gone = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let store = AsyncStore::new(bench.store.store().clone(), gone.handle().clone());
        let mut waiting =
            bench.answered(store.claim_or_wait(&bench.scope, &bench.key, &bench.request, secs(60)));
        // It has heard that the operation is running, and nobody moves the timers of its runtime.
        assert!(waiting.poll().is_pending(), "{}", bench.name);
        drop(gone);
        let answer = waiting.answer();
        assert_unavailable(bench.name, answer);
        let done = bench.block_on(owner.complete(reply("done"))).expect("a claim that stands");
        assert_eq!(done.reply, reply("done"), "{}", bench.name);
    });
}

/// The handle says where to block; the tasks may be anybody's.
#[test]
fn tasks_of_any_runtime_may_use_the_store() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let other = other_runtime();
        let (scope, key, request) = (&bench.scope, &bench.key, &bench.request);
        let claim = claimed(other.block_on(bench.store.try_claim(scope, key, request)).expect("an answer"));
        other.block_on(claim.release()).expect("a claim that stands");
        let ran =
            other.block_on(bench.store.run(scope, key, request, async |_| Ok::<_, Error>(reply("done"))));
        assert!(matches!(ran, Ok(Ran::Executed(_))), "{}: {ran:?}", bench.name);
    });
}
