//! Runs that are dropped once their work has begun. While it runs, nobody knows what it has done, so the
//! claim stands as after a crash; once it has ended, the claim is ended as the work said.

use crate::bench::{Bench, eventually, is_in_progress, reply};
use crate::common::on_every_backend;
use crate::gate::Moment;
use idempotency::{AsyncClaim, Error, Ran, Reply, RunError, StoredResponse};
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;

type Running<E> = JoinHandle<Result<Ran, RunError<E>>>;

/// Runs the bench's operation in a task of its own.
macro_rules! spawn_run {
    ($bench:expr, $work:expr) => {{
        let (store, work) = ($bench.store.clone(), $work);
        let (scope, key, request) = ($bench.scope.clone(), $bench.key.clone(), $bench.request);
        $bench.runtime.spawn(async move { store.run(&scope, &key, &request, work).await })
    }};
}

/// Aborts `running`, which must not have ended.
#[track_caller]
fn abort<E: Send + 'static>(bench: &Bench<'_>, running: Running<E>) {
    running.abort();
    let ended = bench.block_on(running).map(drop);
    assert!(ended.is_err_and(|error| error.is_cancelled()), "{}: a run that has ended", bench.name);
}

/// Case 23.
#[test]
fn a_run_that_is_dropped_while_its_work_waits_leaves_the_record_as_after_a_crash() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let is_working = Arc::new(AtomicBool::new(false));
        let running = spawn_run!(bench, {
            let is_working = Arc::clone(&is_working);
            async move |claim: &mut AsyncClaim| -> Result<Reply, Error> {
                claim.save_checkpoint("charged").await?;
                is_working.store(true, Ordering::Relaxed);
                pending().await
            }
        });
        bench.run_until(bench.name, || is_working.load(Ordering::Relaxed));
        let before = bench.record();
        abort(&bench, running);
        assert_eq!(bench.record(), before, "{}", bench.name);
        assert_eq!(bench.metrics().dropped_unfinished, 1, "{}", bench.name);

        fixture.at(29);
        let answer = bench.block_on(bench.store.try_claim(&bench.scope, &bench.key, &bench.request));
        assert!(is_in_progress(&answer.expect("an answer")), "{}", bench.name);
        assert_eq!(bench.record(), before, "{}", bench.name);
        fixture.at(30);
        let next = bench.claim();
        assert_eq!(next.attempt(), 2, "{}", bench.name);
        assert_eq!(next.checkpoint().map(|saved| &saved[..]), Some(&b"charged"[..]), "{}", bench.name);
        assert_eq!(bench.gate().calls(), ["claim", "checkpoint", "claim", "claim"], "{}", bench.name);
    });
}

/// Case 23. The renewal that is being made is made; nothing else is.
#[test]
fn a_run_that_is_dropped_while_its_work_renews_leaves_the_record_under_its_lease() {
    on_every_backend(|fixture| {
        for moment in [Moment::Before, Moment::After] {
            fixture.at(0);
            let bench = Bench::on(fixture, &format!("{moment:?}"));
            let told = format!("{}: {moment:?}", bench.name);
            bench.gate().shut_for("renew", moment);
            let running = spawn_run!(bench, async |claim: &mut AsyncClaim| {
                claim.renew().await?;
                Ok::<_, Error>(reply("done"))
            });
            bench.run_until(&told, || bench.gate().is_stopped());
            fixture.at(10);
            abort(&bench, running);
            bench.gate().open();
            // The claim goes with the last that has it.
            eventually(&told, || bench.metrics().dropped_unfinished == 1);
            assert_eq!(bench.gate().calls(), ["claim", "renew"], "{told}");
            let lapses = if moment == Moment::Before { 40 } else { 30 };
            fixture.at(lapses - 1);
            let answer = bench.block_on(bench.store.try_claim(&bench.scope, &bench.key, &bench.request));
            assert!(is_in_progress(&answer.expect("an answer")), "{told}");
            fixture.at(lapses);
            assert_eq!(bench.claim().attempt(), 2, "{told}");
        }
    });
}

/// What work gives, and how its claim is ended for that: the backend's call, and what the next caller gets.
type Given = (&'static str, fn() -> Result<Reply, &'static str>, &'static str, Next);
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Replay,
    Takeover,
}
const GIVEN: [Given; 4] = [
    ("a reply", || Ok(reply("done")), "complete", Next::Replay),
    ("a failing reply", || Ok(StoredResponse::new(503).into()), "abandon", Next::Takeover),
    ("an error", || Err("declined"), "abandon", Next::Takeover),
    ("a panic", || resume_unwind(Box::new("the work panics")), "abandon", Next::Takeover),
];

#[track_caller]
fn assert_ended(bench: &Bench<'_>, told: &str, call: &str, next: Next) {
    eventually(told, || bench.metrics().completions + bench.metrics().abandons == 1);
    assert_eq!(bench.gate().calls(), ["claim", call], "{told}");
    let ran = bench.block_on(bench.store.run(&bench.scope, &bench.key, &bench.request, async |claim| {
        assert_eq!(claim.attempt(), 2);
        Ok::<_, Error>(reply("taken over"))
    }));
    match ran.expect("an answer") {
        Ran::Replayed(done) => assert_eq!((next, done.reply), (Next::Replay, reply("done")), "{told}"),
        Ran::Executed(_) => assert_eq!(next, Next::Takeover, "{told}"),
        other => panic!("{told}: {other:?}"),
    }
    assert_eq!(bench.metrics().dropped_unfinished, 0, "{told}");
}

/// Case 23. The effect has happened, and nobody waits for the reply: it is recorded.
#[test]
fn a_run_that_is_dropped_while_its_claim_is_being_ended_ends_it() {
    on_every_backend(|fixture| {
        for (given, give, call, next) in GIVEN {
            for moment in [Moment::Before, Moment::After] {
                let bench = Bench::on(fixture, &format!("{given}, {moment:?}"));
                let told = format!("{}: {given}, {moment:?}", bench.name);
                bench.gate().shut_for(call, moment);
                let running = spawn_run!(bench, async move |_claim: &mut AsyncClaim| give());
                bench.run_until(&told, || bench.gate().is_stopped());
                abort(&bench, running);
                bench.gate().open();
                assert_ended(&bench, &told, call, next);
            }
        }
    });
}

#[test]
fn a_run_that_is_dropped_when_its_claim_has_been_ended_changes_nothing_more() {
    on_every_backend(|fixture| {
        for (given, give, call, next) in GIVEN {
            let bench = Bench::on(fixture, given);
            let told = format!("{}: {given}", bench.name);
            bench.gate().shut_for(call, Moment::Before);
            let running = spawn_run!(bench, async move |_claim: &mut AsyncClaim| give());
            bench.run_until(&told, || bench.gate().is_stopped());
            // The runtime's tasks do not run meanwhile, so nobody hears the answer.
            bench.gate().open();
            eventually(&told, || bench.metrics().completions + bench.metrics().abandons == 1);
            abort(&bench, running);
            assert_ended(&bench, &told, call, next);
        }
    });
}

#[test]
fn a_run_that_is_dropped_while_the_ending_of_its_claim_waits_for_a_thread_ends_it() {
    on_every_backend(|fixture| {
        for (given, give, call, next) in GIVEN {
            let bench = Bench::on(fixture, given);
            let told = format!("{}: {given}", bench.name);
            let busy = Arc::new(Mutex::new(None));
            let running = spawn_run!(bench, {
                let (busy, keep_pool_busy) = (Arc::clone(&busy), bench.pool_keeper());
                async move |_claim: &mut AsyncClaim| {
                    *busy.lock().expect("no panic under this lock") = Some(keep_pool_busy());
                    give()
                }
            });
            bench.run_until(&told, || busy.lock().is_ok_and(|busy| busy.is_some()));
            abort(&bench, running);
            drop(busy);
            assert_ended(&bench, &told, call, next);
        }
    });
}
