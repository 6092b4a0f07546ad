//! Which replies are failures, and what that makes of them.

use crate::common::{asks_for, on_every_backend};
use crate::support::{
    a_key, a_print, a_scope, claim, executed, must_run, no_work, replayed, reply, run, stored, watched,
};
use idempotency::{ClaimOutcome, Failures, Policy, Ran, Reply, RunError};
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

fn with(failures: Failures) -> Policy {
    Policy::new().with_failures(failures)
}

/// Case 66.
#[test]
fn a_refusal_of_the_works_own_is_recorded_and_its_work_not_run_again() {
    on_every_backend(|fixture| {
        let (mut runs, mut answers) = (0, Vec::new());
        for _ in 0..3 {
            let ran = run(&fixture.store, |_| {
                runs += 1;
                Ok::<_, Infallible>(reply(400))
            });
            answers.push(ran.expect("an answer"));
        }
        assert_eq!(runs, 1, "{}", fixture.name);
        let [Ran::Executed(first), Ran::Replayed(second), Ran::Replayed(third)] = &answers[..] else {
            panic!("{}: {answers:?}", fixture.name)
        };
        assert_eq!((first, first), (second, third), "{}", fixture.name);
        assert_eq!(answers[2].suggested_status(), Some(400), "{}", fixture.name);
    });
}

/// Case 66.
#[test]
fn a_failure_that_is_released_leaves_the_key_to_a_first_attempt_of_any_request() {
    on_every_backend(|fixture| {
        let store = watched(fixture, with(Failures::Release));
        let failed = run(&store, |_| Ok::<_, Infallible>(reply(503)));
        assert!(matches!(failed, Ok(Ran::Failed(_))), "{}: {failed:?}", fixture.name);
        assert_eq!(stored(fixture).record, None, "{}", fixture.name);
        let other = store.run(&a_scope(), &a_key(), &asks_for("something else"), |claim| {
            assert_eq!(claim.attempt(), 1, "{}", fixture.name);
            Err("no luck either")
        });
        assert!(matches!(other, Err(RunError::Work("no luck either"))), "{}: {other:?}", fixture.name);
        must_run(&store, 1, reply(201));
    });
}

/// Case 66.
#[test]
fn a_failure_is_replayed_where_failures_are_recorded_and_an_error_is_abandoned_there() {
    on_every_backend(|fixture| {
        let store = watched(fixture, with(Failures::Record));
        let failed = run(&store, |_| Err("no answer came"));
        assert!(matches!(failed, Err(RunError::Work("no answer came"))), "{}: {failed:?}", fixture.name);
        let first = must_run(&store, 2, reply(503));
        let ran = run(&store, no_work);
        assert_eq!(ran.as_ref().ok().and_then(Ran::suggested_status), Some(503), "{}", fixture.name);
        assert_eq!(replayed(ran), first, "{}", fixture.name);
    });
}

/// Each reply, and whether it counts as a failure if the policy does not say what does.
#[test]
fn without_a_word_of_the_policys_failures_are_responses_from_500_on() {
    on_every_backend(|fixture| {
        let replies = [
            (reply(0), false),
            (reply(100), false),
            (reply(201), false),
            (reply(404), false),
            (reply(429), false),
            (reply(499), false),
            (reply(500), true),
            (reply(599), true),
            (reply(u16::MAX), true),
            (Reply::Reference("500".to_owned()), false),
            (Reply::Marker, false),
        ];
        for (number, (given, is_failure)) in replies.into_iter().enumerate() {
            let key = crate::common::key(&format!("k{number}"));
            let ran = fixture.store.run(&a_scope(), &key, &a_print(), |_| Ok::<_, Infallible>(given.clone()));
            let ran = ran.expect("an answer");
            let failed = matches!(ran, Ran::Failed(_));
            assert_eq!((ran.reply(), failed), (Some(&given), is_failure), "{}: {given:?}", fixture.name);
        }
    });
}

/// A 429 that the work itself gives says "later"; and here it is the only failure.
#[test]
fn the_policy_can_say_itself_what_a_failure_is() {
    let later = |reply: &Reply| reply.response().is_some_and(|response| response.status() == 429);
    on_every_backend(|fixture| {
        let store = watched(fixture, with(Failures::Release).failure_if(later));
        for _ in 0..3 {
            let ran = run(&store, |claim| {
                assert_eq!(claim.attempt(), 1, "{}", fixture.name);
                Ok::<_, Infallible>(reply(429))
            });
            assert!(matches!(&ran, Ok(Ran::Failed(r)) if *r == reply(429)), "{}: {ran:?}", fixture.name);
        }
        let first = must_run(&store, 1, reply(503));
        assert_eq!(replayed(run(&store, no_work)), first, "{}: a 503 is no failure here", fixture.name);

        let record = watched(fixture, with(Failures::Record).failure_if(later));
        let key = crate::common::key("recorded");
        let ran = record.run(&a_scope(), &key, &a_print(), |_| Ok::<_, Infallible>(reply(429)));
        assert_eq!(executed(ran).reply, reply(429), "{}", fixture.name);
    });
}

/// A failure is judged by the policy of the handle that runs, whatever handle claimed before.
#[test]
fn each_run_is_judged_by_the_policy_of_its_own_handle() {
    on_every_backend(|fixture| {
        let (abandon, record) =
            (watched(fixture, with(Failures::Abandon)), watched(fixture, with(Failures::Record)));
        let failed = run(&abandon, |_| Ok::<_, Infallible>(reply(503)));
        assert!(matches!(failed, Ok(Ran::Failed(_))), "{}: {failed:?}", fixture.name);
        let first = must_run(&record, 2, reply(503));
        assert_eq!(replayed(run(&abandon, no_work)), first, "{}", fixture.name);
    });
}

/// The work has had its effect by then.
#[test]
fn a_policy_that_panics_is_as_work_that_panics() {
    on_every_backend(|fixture| {
        let store = watched(fixture, Policy::new().failure_if(|_| resume_unwind(Box::new("no idea"))));
        let unwound = catch_unwind(AssertUnwindSafe(|| run(&store, |_| Ok::<_, Infallible>(reply(201)))));
        let payload = unwound.expect_err("a panic");
        assert_eq!(payload.downcast_ref(), Some(&"no idea"), "{}", fixture.name);
        let metrics = store.metrics();
        let counted = (metrics.abandons, metrics.failed_runs, metrics.dropped_unfinished);
        assert_eq!(counted, (1, 1, 0), "{}", fixture.name);
        must_run(&watched(fixture, Policy::new()), 2, reply(201));
    });
}

#[test]
fn an_error_after_a_checkpoint_leaves_the_checkpoint_to_the_next_attempt() {
    on_every_backend(|fixture| {
        for (saved, attempt) in [("one", 1), ("two", 2), ("three", 3)] {
            let failed = run(&fixture.store, |claim| {
                assert_eq!(claim.attempt(), attempt, "{}", fixture.name);
                claim.save_checkpoint(saved).expect("a claim that stands");
                Err("half-way")
            });
            assert!(matches!(failed, Err(RunError::Work("half-way"))), "{}: {failed:?}", fixture.name);
            let answer = fixture.store.try_claim(&a_scope(), &a_key(), &asks_for("something else"));
            assert!(matches!(answer, Ok(ClaimOutcome::FingerprintMismatch(_))), "{}", fixture.name);
        }
        let next = claim(&fixture.store);
        assert_eq!(next.checkpoint().map(|saved| &saved[..]), Some(b"three".as_slice()), "{}", fixture.name);
    });
}
