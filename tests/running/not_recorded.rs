//! A reply that could not be recorded comes back, and the record is what the error says.

use crate::common::{Fixture, on_every_backend, secs};
use crate::snapshot::Snapshot;
use crate::support::{
    WatchedStore, a_key, a_scope, claim, executed, lost, must_run, no_work, not_recorded, replayed, reply,
    run, stands_under_its_lease, stored, watched,
};
use idempotency::testing::Fault;
use idempotency::{
    Claim, Error, ErrorKind, Failures, LostReason, MAX_HEADERS_LEN, Policy, Ran, Record, Reply, RunError,
    State, StoredResponse,
};
use std::convert::Infallible;

/// Work that gives `reply` and notes what is stored while it runs.
fn giving<'a>(
    reply: &'a Reply,
    fixture: &'a Fixture,
    meanwhile: &'a mut Option<Snapshot>,
) -> impl FnOnce(&mut Claim) -> Result<Reply, Infallible> + 'a {
    move |_| {
        *meanwhile = Some(stored(fixture));
        Ok(reply.clone())
    }
}

fn with_body(len: usize) -> Reply {
    StoredResponse::new(201).with_body(vec![b'x'; len]).into()
}

/// Each header counts with 32 bytes more.
fn with_header(len: usize) -> Reply {
    StoredResponse::new(201).with_header("n", vec![b'x'; len - 33]).into()
}

#[test]
fn a_reply_over_a_limit_comes_back_and_the_record_stands_under_its_lease() {
    const MAX: usize = 1_000;
    on_every_backend(|fixture| {
        let store = watched(fixture, Policy::new().with_max_reply_len(MAX));
        for (too_large, fits) in [
            (with_body(MAX + 1), with_body(MAX)),
            (with_header(MAX_HEADERS_LEN + 1), with_header(MAX_HEADERS_LEN)),
        ] {
            fixture.at(0);
            let (calls, mut claimed) = (store.backend().calls(), None);
            let ran = run(&store, giving(&too_large, fixture, &mut claimed));
            assert!(!ran.as_ref().is_err_and(RunError::is_transient), "{}: {ran:?}", fixture.name);
            let (given, error) = not_recorded(ran);
            assert_eq!(given, too_large, "{}", fixture.name);
            assert_eq!(error.kind(), ErrorKind::Refused, "{}: {error:?}", fixture.name);
            assert_eq!(store.backend().calls(), calls + 1, "{}: the claim", fixture.name);
            stands_under_its_lease(fixture, &claimed.expect("work that was run"), 1);

            fixture.at(180);
            let done = must_run(&store, 3, fits.clone());
            assert_eq!(done.reply, fits, "{}", fixture.name);
            fixture.store.forget(&a_scope(), &a_key()).expect("a store");
        }
        let metrics = store.metrics();
        assert_eq!((metrics.failed_runs, metrics.dropped_unfinished), (0, 2), "{}", fixture.name);
        assert_eq!(metrics.errors.of(ErrorKind::Refused), 2, "{}", fixture.name);
    });
}

#[test]
fn the_limits_of_a_reply_are_named_in_the_error() {
    on_every_backend(|fixture| {
        let store = watched(fixture, Policy::new().with_max_reply_len(0));
        let (_, error) = not_recorded(run(&store, |_| Ok::<_, Infallible>(with_body(1))));
        assert!(matches!(error, Error::ReplyTooLarge { len: 1, max: 0 }), "{}: {error:?}", fixture.name);
        fixture.at(90);
        let headers = MAX_HEADERS_LEN + 1;
        let (_, error) = not_recorded(run(&store, |_| Ok::<_, Infallible>(with_header(headers))));
        let as_named =
            matches!(error, Error::HeadersTooLarge { len, max } if (len, max) == (headers, headers - 1));
        assert!(as_named, "{}: {error:?}", fixture.name);
    });
}

#[test]
fn what_could_not_be_recorded_can_be_completed_by_a_ticket_that_the_work_put_aside() {
    on_every_backend(|fixture| {
        let store = watched(fixture, Policy::new());
        store.backend().fail(Fault::Before, 1, 1);
        let mut aside = None;
        let ran = run(&store, |claim| {
            aside = Some(claim.ticket());
            Ok::<_, Infallible>(reply(201))
        });
        let (given, error) = not_recorded(ran);
        assert!(error.is_transient(), "{}: {error:?}", fixture.name);
        let done = store.complete(&aside.expect("a ticket"), given).expect("a store that is back");
        assert_eq!(done.reply, reply(201), "{}", fixture.name);
        assert_eq!(replayed(run(&store, no_work)), done, "{}", fixture.name);
        assert_eq!(store.metrics().dropped_unfinished, 0, "{}: there was a ticket", fixture.name);
    });
}

#[test]
fn a_completion_that_never_reached_the_store_leaves_the_record_under_its_lease() {
    on_every_backend(|fixture| {
        let (store, mut claimed) = (watched(fixture, Policy::new()), None);
        store.backend().fail(Fault::Before, 1, 1);
        let ran = run(&store, giving(&reply(201), fixture, &mut claimed));
        assert!(ran.as_ref().is_err_and(|error| error.is_transient() && !error.is_indefinite()), "{ran:?}");
        let (given, error) = not_recorded(ran);
        assert!(matches!(error, Error::Unavailable(_)), "{}: {error:?}", fixture.name);
        assert_eq!(given, reply(201), "{}", fixture.name);
        let again = run(&store, no_work);
        assert!(matches!(again, Ok(Ran::InProgress(_))), "{}: {again:?}", fixture.name);
        stands_under_its_lease(fixture, &claimed.expect("work that was run"), 1);
    });
}

#[test]
fn a_completion_whose_answer_was_lost_is_indefinite_and_was_recorded() {
    on_every_backend(|fixture| {
        let store = watched(fixture, Policy::new());
        store.backend().fail(Fault::After, 1, 1);
        let ran = run(&store, |_| Ok::<_, Infallible>(reply(201)));
        assert!(ran.as_ref().is_err_and(|error| error.is_indefinite() && !error.is_transient()), "{ran:?}");
        let (given, error) = not_recorded(ran);
        assert!(matches!(error, Error::Indefinite(_)), "{}: {error:?}", fixture.name);
        assert_eq!(replayed(run(&store, no_work)).reply, given, "{}", fixture.name);
    });
}

/// Runs work that is overtaken by `meanwhile` and then gives a reply with `status`.
fn overtaken(
    fixture: &Fixture,
    status: u16,
    meanwhile: impl FnOnce(),
) -> (Result<Ran, RunError<Infallible>>, Snapshot) {
    let (store, mut before) = (watched(fixture, Policy::new()), None);
    let ran = run(&store, |_| {
        meanwhile();
        before = Some(stored(fixture));
        Ok(reply(status))
    });
    assert_eq!((store.metrics().lost_claims, store.metrics().errors.total()), (1, 0), "{}", fixture.name);
    (ran, before.expect("work that was run"))
}

/// Work that gives a reply, and work that gives a failure.
const STATUSES: [u16; 2] = [201, 503];

#[test]
fn an_owner_that_was_taken_over_gets_its_reply_back_and_the_new_owners_record_stays_as_it_is() {
    on_every_backend(|fixture| {
        for status in STATUSES {
            fixture.at(0);
            let mut newer = None;
            let (ran, before) = overtaken(fixture, status, || {
                fixture.at(90);
                newer = Some(claim(&fixture.store));
            });
            assert!(matches!(&ran, Err(RunError::NotRecorded { reply: r, .. }) if *r == reply(status)));
            assert_eq!(lost(ran), LostReason::Running, "{}, {status}", fixture.name);
            assert_eq!(stored(fixture), before, "{}, {status}", fixture.name);
            newer.expect("a takeover").complete(reply(202)).expect("the newer claim stands");
            fixture.store.forget(&a_scope(), &a_key()).expect("a store");
        }
    });
}

#[test]
fn an_owner_after_whom_another_has_completed_leaves_that_reply_to_be_replayed() {
    on_every_backend(|fixture| {
        for status in STATUSES {
            fixture.at(0);
            let mut winner = None;
            let (ran, before) = overtaken(fixture, status, || {
                fixture.at(90);
                winner = Some(must_run(&fixture.store, 2, reply(202)));
            });
            assert_eq!(lost(ran), LostReason::Completed, "{}, {status}", fixture.name);
            assert_eq!(stored(fixture), before, "{}, {status}", fixture.name);
            assert_eq!(Some(replayed(run(&fixture.store, no_work))), winner, "{}, {status}", fixture.name);
            fixture.store.forget(&a_scope(), &a_key()).expect("a store");
        }
    });
}

#[test]
fn an_owner_whose_record_is_gone_creates_none() {
    on_every_backend(|fixture| {
        let (ran, _) = overtaken(fixture, 201, || {
            assert!(fixture.store.forget(&a_scope(), &a_key()).expect("a store"));
        });
        assert_eq!(lost(ran), LostReason::Gone, "{}", fixture.name);
        assert_eq!(stored(fixture).record, None, "{}", fixture.name);

        // To end the claim of a failure there is nothing to do then.
        let store = watched(fixture, Policy::new());
        let ran = run(&store, |_| {
            assert!(fixture.store.forget(&a_scope(), &a_key()).expect("a store"));
            Ok::<_, Infallible>(reply(503))
        });
        assert!(matches!(ran, Ok(Ran::Failed(_))), "{}: {ran:?}", fixture.name);
        assert_eq!(stored(fixture).record, None, "{}", fixture.name);
    });
}

/// Lapsed, but nobody has taken over: the claim still stands.
#[test]
fn work_that_outlasts_its_lease_is_recorded_as_long_as_nobody_took_over() {
    on_every_backend(|fixture| {
        let ran = run(&fixture.store, |_| {
            fixture.at(1_000);
            Ok::<_, Infallible>(reply(201))
        });
        let done = executed(ran);
        assert_eq!(done.completed_at, crate::common::START.saturating_add(secs(1_000)), "{}", fixture.name);
    });
}

fn down_after_the_claim(fixture: &Fixture, failures: Failures, fault: Fault) -> WatchedStore {
    let store = watched(fixture, Policy::new().with_failures(failures));
    store.backend().fail(fault, 1, 1);
    store
}

#[test]
fn a_failure_whose_claim_could_not_be_ended_comes_back_and_the_record_stands_under_its_lease() {
    on_every_backend(|fixture| {
        for failures in [Failures::Abandon, Failures::Release] {
            fixture.at(0);
            let (store, mut claimed) = (down_after_the_claim(fixture, failures, Fault::Before), None);
            let ran = run(&store, giving(&reply(503), fixture, &mut claimed));
            let (given, error) = not_recorded(ran);
            assert_eq!(given, reply(503), "{}", fixture.name);
            assert!(matches!(error, Error::Unavailable(_)), "{}: {error:?}", fixture.name);
            let metrics = store.metrics();
            assert_eq!((metrics.failed_runs, metrics.errors.total()), (1, 1), "{}", fixture.name);
            stands_under_its_lease(fixture, &claimed.expect("work that was run"), 1);
            fixture.store.forget(&a_scope(), &a_key()).expect("a store");
        }
    });
}

#[test]
fn a_failure_whose_claims_end_lost_its_answer_is_indefinite_and_the_claim_has_ended() {
    on_every_backend(|fixture| {
        for (failures, attempt) in [(Failures::Abandon, 2), (Failures::Release, 1)] {
            let store = down_after_the_claim(fixture, failures, Fault::After);
            let (given, error) = not_recorded(run(&store, |_| Ok::<_, Infallible>(reply(503))));
            assert_eq!((given, error.is_indefinite()), (reply(503), true), "{}", fixture.name);
            must_run(&store, attempt, reply(201));
            fixture.store.forget(&a_scope(), &a_key()).expect("a store");
        }
    });
}

#[test]
fn an_error_whose_claim_could_not_be_ended_is_still_the_works_own_and_the_failure_is_counted() {
    on_every_backend(|fixture| {
        for failures in [Failures::Abandon, Failures::Release, Failures::Record] {
            fixture.at(0);
            let store = down_after_the_claim(fixture, failures, Fault::Before);
            let mut claimed = None;
            let ran = run(&store, |_| {
                claimed = Some(stored(fixture));
                Err("no answer came")
            });
            assert!(matches!(ran, Err(RunError::Work("no answer came"))), "{}: {ran:?}", fixture.name);
            let metrics = store.metrics();
            assert_eq!(metrics.errors.of(ErrorKind::Unavailable), 1, "{}", fixture.name);
            assert_eq!((metrics.failed_runs, metrics.dropped_unfinished), (1, 0), "{}", fixture.name);
            stands_under_its_lease(fixture, &claimed.expect("work that was run"), 1);
            fixture.store.forget(&a_scope(), &a_key()).expect("a store");
        }
    });
}

/// The work's own error, too, where the claim was lost meanwhile: the newer record stays as it is.
#[test]
fn an_error_of_an_owner_that_was_taken_over_is_the_works_own() {
    on_every_backend(|fixture| {
        let mut before = None;
        let ran = run(&fixture.store, |_| {
            fixture.at(90);
            must_run(&fixture.store, 2, reply(202));
            before = Some(stored(fixture));
            Err("too late")
        });
        assert!(matches!(ran, Err(RunError::Work("too late"))), "{}: {ran:?}", fixture.name);
        let left = stored(fixture);
        assert!(matches!(&left.record, Some(Record { state: State::Completed, .. })), "{}", fixture.name);
        assert_eq!(Some(left), before, "{}", fixture.name);
    });
}
