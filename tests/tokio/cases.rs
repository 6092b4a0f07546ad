//! What broke other stores, through the handle for tasks: cases that the store itself is held to as well.

use crate::bench::{Bench, claimed, completed, is_in_progress, reply};
use crate::common::{asks_for, key, on_every_backend, secs};
use idempotency::{
    AsyncClaim, ClaimOutcome, Error, Failures, LostReason, Ran, Reply, RunError, State, StoredResponse,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Case 1, by tasks.
#[test]
fn of_32_tasks_that_claim_one_key_one_is_granted_it_and_31_hear_that_it_runs() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let asking: Vec<_> = (0..32)
            .map(|_| {
                let (store, scope, key) = (bench.store.clone(), bench.scope.clone(), bench.key.clone());
                let request = bench.request;
                bench.runtime.spawn(async move { store.try_claim(&scope, &key, &request).await })
            })
            .collect();
        let answers: Vec<_> = asking
            .into_iter()
            .map(|task| bench.block_on(task).expect("no panic").expect("an answer"))
            .collect();
        let claims = answers.iter().filter(|answer| matches!(answer, ClaimOutcome::Claimed(_))).count();
        let others = answers.iter().filter(|answer| is_in_progress(answer)).count();
        assert_eq!((claims, others), (1, 31), "{}", bench.name);
        assert_eq!(bench.gate().calls(), ["claim"; 32], "{}", bench.name);
    });
}

/// Case 1, by runs: the work runs once, and who comes later gets its reply.
#[test]
fn of_32_tasks_that_run_one_operation_one_runs_it() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let effects = Arc::new(AtomicU32::new(0));
        let running: Vec<_> = (0..32)
            .map(|_| {
                let (store, scope, key) = (bench.store.clone(), bench.scope.clone(), bench.key.clone());
                let (request, effects) = (bench.request, Arc::clone(&effects));
                bench.runtime.spawn(async move {
                    let work = async |_claim: &mut AsyncClaim| {
                        effects.fetch_add(1, Ordering::Relaxed);
                        tokio::task::yield_now().await;
                        Ok::<_, Error>(reply("done"))
                    };
                    store.run(&scope, &key, &request, work).await
                })
            })
            .collect();
        let mut executed = 0;
        for task in running {
            match bench.block_on(task).expect("no panic").expect("an answer") {
                Ran::Executed(done) => {
                    assert_eq!(done.reply, reply("done"), "{}", bench.name);
                    executed += 1;
                }
                Ran::Replayed(done) => assert_eq!(done.reply, reply("done"), "{}", bench.name),
                Ran::InProgress(running) => assert_eq!(running.attempt, 1, "{}", bench.name),
                other => panic!("{}: {other:?}", bench.name),
            }
        }
        assert_eq!((executed, effects.load(Ordering::Relaxed)), (1, 1), "{}", bench.name);
    });
}

/// Case 2.
#[test]
fn a_claim_that_stands_is_told_to_other_tasks_and_its_record_stays_as_it_is() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let ask = || bench.block_on(bench.store.try_claim(&bench.scope, &bench.key, &bench.request));
        let claim = bench.claim();
        let before = bench.record();
        assert!(is_in_progress(&ask().expect("an answer")), "{}", bench.name);
        assert_eq!(bench.record(), before, "{}", bench.name);
        let other = asks_for("something else");
        let answer = bench.block_on(bench.store.try_claim(&bench.scope, &bench.key, &other));
        assert!(matches!(answer, Ok(ClaimOutcome::FingerprintMismatch(_))), "{}: {answer:?}", bench.name);
        let done = bench.block_on(claim.complete(reply("done"))).expect("a claim that stands");
        assert_eq!(completed(ask().expect("an answer")), done, "{}", bench.name);
    });
}

#[track_caller]
fn assert_lost<T>(told: &str, answer: Result<T, Error>) {
    let error = answer.err().unwrap_or_else(|| panic!("{told}: not lost"));
    assert!(matches!(error, Error::ClaimLost(LostReason::Running)), "{told}: {error:?}");
}

/// Case 9.
#[test]
fn a_task_that_was_taken_over_is_told_so_by_every_call_and_the_new_owners_record_stays_as_it_is() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let mut stale = bench.claim();
        let ticket = stale.ticket();
        fixture.at(30);
        let owner = bench.claim();
        let before = bench.record();
        fixture.at(40);
        let resume = || bench.block_on(bench.store.resume(ticket.clone()));
        assert_lost(bench.name, resume());
        assert_lost(bench.name, bench.block_on(stale.renew()));
        assert_lost(bench.name, bench.block_on(stale.save_checkpoint("late")));
        let failed = bench.block_on(stale.complete(reply("late"))).expect_err("a lost claim");
        assert_lost(bench.name, Err::<(), _>(failed.error().clone()));
        let (_, stale, unrecorded) = failed.into_parts();
        assert_eq!(unrecorded, reply("late"), "{}", bench.name);
        let failed = bench.block_on(stale.complete_for(secs(5), unrecorded)).expect_err("a lost claim");
        let (error, stale, _) = failed.into_parts();
        assert_lost(bench.name, Err::<(), _>(error));
        assert_lost(bench.name, bench.block_on(stale.release()));
        assert_lost(bench.name, bench.block_on(bench.store.complete(&ticket, reply("late"))));
        assert_lost(bench.name, bench.block_on(bench.store.release(&ticket)));
        assert_lost(bench.name, bench.block_on(bench.store.abandon(&ticket)));
        assert_eq!(bench.record(), before, "{}", bench.name);
        bench.block_on(owner.complete(reply("done"))).expect("a claim that stands");
    });
}

/// Case 25.
#[test]
fn a_first_attempt_that_a_task_releases_frees_the_key_at_once_for_any_request() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        bench.block_on(bench.claim().release()).expect("a claim that stands");
        assert_eq!(bench.record(), None, "{}", bench.name);
        let other = asks_for("something else");
        let answer = bench.block_on(bench.store.try_claim(&bench.scope, &bench.key, &other));
        assert_eq!(claimed(answer.expect("an answer")).attempt(), 1, "{}", bench.name);
    });
}

/// Case 60.
#[test]
fn a_task_that_gives_up_waiting_hears_that_it_runs_and_changes_nothing() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let (scope, key, request) = (&bench.scope, &bench.key, &bench.request);
        let claim = bench.claim();
        let before = bench.record();
        for max_wait in [secs(0), std::time::Duration::from_millis(20)] {
            let answer = bench.block_on(bench.store.claim_or_wait(scope, key, request, max_wait));
            assert!(is_in_progress(&answer.expect("an answer")), "{}", bench.name);
            assert_eq!(bench.record(), before, "{}", bench.name);
        }
        let other = asks_for("something else");
        let answer = bench.block_on(bench.store.claim_or_wait(scope, key, &other, secs(30)));
        assert!(matches!(answer, Ok(ClaimOutcome::FingerprintMismatch(_))), "{}", bench.name);
        assert_eq!(bench.record(), before, "{}", bench.name);
        // Who waits for a claim that ends gets it.
        let waiting = bench.runtime.spawn({
            let (store, scope, key, request) = (bench.store.clone(), scope.clone(), key.clone(), *request);
            async move { store.claim_or_wait(&scope, &key, &request, secs(30)).await }
        });
        bench.run_until(bench.name, || bench.metrics().in_progress == 3);
        bench.block_on(claim.abandon()).expect("a claim that stands");
        let next = claimed(bench.block_on(waiting).expect("no panic").expect("an answer"));
        assert_eq!(next.attempt(), 2, "{}", bench.name);
    });
}

/// Case 66.
#[test]
fn what_work_gives_is_recorded_or_not_as_the_policy_says() {
    /// The policy, what the work gives, the state that is left, and which attempt the next one is.
    type Row = (Failures, Result<u16, &'static str>, Option<State>, u32);
    const ROWS: [Row; 9] = [
        (Failures::Abandon, Ok(400), Some(State::Completed), 0),
        (Failures::Abandon, Ok(503), Some(State::InProgress), 2),
        (Failures::Abandon, Err("declined"), Some(State::InProgress), 2),
        (Failures::Release, Ok(400), Some(State::Completed), 0),
        (Failures::Release, Ok(503), None, 1),
        (Failures::Release, Err("declined"), None, 1),
        (Failures::Record, Ok(400), Some(State::Completed), 0),
        (Failures::Record, Ok(503), Some(State::Completed), 0),
        (Failures::Record, Err("declined"), Some(State::InProgress), 2),
    ];
    on_every_backend(|fixture| {
        for (failures, given, left, next) in ROWS {
            let bench = Bench::on(fixture, &format!("{failures:?}, {given:?}"));
            let told = format!("{}: {failures:?}, {given:?}", bench.name);
            let policy = bench.store.policy().with_failures(failures);
            let store = bench.store.with_policy(policy).expect("a usable policy");
            let (scope, key, request) = (&bench.scope, &bench.key, &bench.request);
            let reply = given.map(|status| Reply::from(StoredResponse::new(status)));
            let ran = bench.block_on(store.run(scope, key, request, async |_| reply.clone()));
            match (ran, left) {
                (Ok(Ran::Executed(done)), Some(State::Completed)) => {
                    assert_eq!(Ok(done.reply), reply, "{told}");
                }
                (Ok(Ran::Failed(failed)), _) => assert_eq!(Ok(failed), reply, "{told}"),
                (Err(RunError::Work(error)), _) => assert_eq!(Err(error), reply, "{told}"),
                (ran, _) => panic!("{told}: {ran:?}"),
            }
            assert_eq!(bench.record().map(|record| record.state), left, "{told}");
            let again = bench.block_on(store.run(scope, key, request, async |claim| {
                assert_eq!(claim.attempt(), next, "{told}");
                Ok::<_, Error>(Reply::Marker)
            }));
            match again.expect("an answer") {
                Ran::Replayed(done) => assert_eq!((Ok(done.reply), next), (reply, 0), "{told}"),
                Ran::Executed(_) => assert_ne!(next, 0, "{told}"),
                other => panic!("{told}: {other:?}"),
            }
        }
    });
}

/// What ends is the claim that the run was granted, whatever the work has put in its place.
#[test]
fn work_that_exchanges_its_claim_for_another_still_ends_its_own() {
    on_every_backend(|fixture| {
        let (bench, other) = (Bench::on(fixture, "k"), key("other"));
        let (store, scope, request) = (&bench.store, &bench.scope, &bench.request);
        let run = store.run(scope, &bench.key, request, async |claim: &mut AsyncClaim| {
            let foreign = claimed(store.try_claim(scope, &other, request).await?);
            drop(std::mem::replace(claim, foreign));
            Ok::<_, Error>(reply("done"))
        });
        assert!(matches!(bench.block_on(run), Ok(Ran::Executed(_))), "{}", bench.name);
        let again = bench.block_on(store.try_claim(scope, &bench.key, request)).expect("an answer");
        assert_eq!(completed(again).reply, reply("done"), "{}", bench.name);
        let left = bench.block_on(store.try_claim(scope, &other, request)).expect("an answer");
        assert!(is_in_progress(&left), "{}", bench.name);
    });
}
