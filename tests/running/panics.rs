//! Work that panics: the claim is abandoned, and the panic goes on as it was (case 22).

use crate::common::{Answer, Fixture, key, on_every_backend};
use crate::snapshot::{Snapshot, snapshot};
use crate::support::{
    Call, WatchedStore, a_key, a_print, a_scope, claim, must_run, reply, run, staged, stands_under_its_lease,
    stored, try_claim, watched,
};
use idempotency::testing::Fault;
use idempotency::{Claim, Policy, Record, Reply};
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

/// Runs work that panics with `payload`; gives what was stored meanwhile, and the payload that came out.
fn unwound<P: Send + 'static>(fixture: &Fixture, store: &WatchedStore, payload: P) -> (Snapshot, P) {
    let mut meanwhile = None;
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        run(store, |_: &mut Claim| -> Result<Reply, Infallible> {
            meanwhile = Some(stored(fixture));
            resume_unwind(Box::new(payload))
        })
    }));
    let payload = unwound.expect_err("a panic").downcast().expect("the payload's own type");
    (meanwhile.expect("work that was run"), *payload)
}

#[test]
fn after_a_panic_the_next_caller_takes_over_at_once() {
    on_every_backend(|fixture| {
        let store = watched(fixture, Policy::new());
        for attempt in 1..=3 {
            let (meanwhile, number) = unwound(fixture, &store, attempt);
            assert_eq!(number, attempt, "{}", fixture.name);
            let claimed = meanwhile.record.expect("a claim");
            let now = crate::common::START;
            let left = Record { lease_until: now, ..claimed.clone() };
            assert_eq!((claimed.attempt, stored(fixture).record), (attempt, Some(left)), "{}", fixture.name);
        }
        must_run(&store, 4, reply(201));
        let metrics = store.metrics();
        assert_eq!((metrics.abandons, metrics.failed_runs, metrics.dropped_unfinished), (3, 3, 0));
    });
}

#[test]
fn the_panic_goes_on_with_the_very_payload_that_the_work_threw() {
    on_every_backend(|fixture| {
        let store = watched(fixture, Policy::new());
        let thrown = Arc::new("something that is not a message");
        let (_, caught) = unwound(fixture, &store, Arc::clone(&thrown));
        assert!(Arc::ptr_eq(&thrown, &caught), "{}", fixture.name);
    });
}

#[test]
fn a_message_reaches_whoever_joins_the_thread() {
    on_every_backend(|fixture| {
        let store = fixture.store.clone();
        let thread = thread::spawn(move || {
            run(&store, |claim| -> Result<Reply, Infallible> {
                panic!("attempt {} went wrong", claim.attempt())
            })
        });
        let payload = thread.join().expect_err("a panic");
        assert_eq!(payload.downcast_ref::<String>().map(String::as_str), Some("attempt 1 went wrong"));
        assert_eq!(claim(&fixture.store).attempt(), 2, "{}", fixture.name);
    });
}

#[test]
fn a_panic_while_the_store_is_down_goes_on_and_leaves_the_record_under_its_lease() {
    on_every_backend(|fixture| {
        let store = watched(fixture, Policy::new());
        store.backend().fail(Fault::Before, 1, usize::MAX);
        let thrown = Arc::new(());
        let (claimed, caught) = unwound(fixture, &store, Arc::clone(&thrown));
        assert!(Arc::ptr_eq(&thrown, &caught), "{}", fixture.name);
        assert_eq!(store.backend().calls(), 2, "{}: it is not tried again", fixture.name);
        let metrics = store.metrics();
        assert_eq!(
            (metrics.abandons, metrics.failed_runs, metrics.errors.total()),
            (0, 1, 1),
            "{}",
            fixture.name
        );
        stands_under_its_lease(fixture, &claimed, 1);
    });
}

#[test]
fn a_panic_whose_abandonment_loses_its_answer_goes_on_and_the_claim_is_abandoned() {
    on_every_backend(|fixture| {
        let store = watched(fixture, Policy::new());
        store.backend().fail(Fault::After, 1, 1);
        let (_, caught) = unwound(fixture, &store, "thrown");
        assert_eq!(caught, "thrown", "{}", fixture.name);
        must_run(&store, 2, reply(201));
    });
}

/// A clock of the application's own, say, that panics as well.
#[test]
fn a_panic_goes_on_even_if_abandoning_the_claim_panics_in_the_backend() {
    on_every_backend(|fixture| {
        let store = staged(fixture, |call| {
            if call == Call::Command(2) {
                resume_unwind(Box::new("the backend's own"));
            }
            Ok(())
        });
        let mut claimed = None;
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            run(&store, |_| -> Result<Reply, Infallible> {
                claimed = Some(stored(fixture));
                resume_unwind(Box::new("the work's own"))
            })
        }));
        assert_eq!(unwound.expect_err("a panic").downcast_ref(), Some(&"the work's own"), "{}", fixture.name);
        stands_under_its_lease(fixture, &claimed.expect("work that was run"), 1);
    });
}

#[test]
fn a_panic_of_an_owner_that_was_taken_over_goes_on_and_the_new_owners_record_stays_as_it_is() {
    on_every_backend(|fixture| {
        let mut before = None;
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            run(&fixture.store, |_| -> Result<Reply, Infallible> {
                fixture.at(90);
                assert_eq!(claim(&fixture.store).attempt(), 2, "{}", fixture.name);
                before = Some(stored(fixture));
                resume_unwind(Box::new("too late"))
            })
        }));
        assert_eq!(unwound.expect_err("a panic").downcast_ref(), Some(&"too late"), "{}", fixture.name);
        assert_eq!(Some(stored(fixture)), before, "{}", fixture.name);
    });
}

/// What is held of another operation is dropped by the unwinding, which does nothing: it is not what was run.
#[test]
fn a_claim_that_the_work_holds_of_another_operation_stays_under_its_lease() {
    on_every_backend(|fixture| {
        let store = watched(fixture, Policy::new());
        let other = key("other");
        let mut before = None;
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            run(&store, |_| -> Result<Reply, Infallible> {
                let _held = store.try_claim(&a_scope(), &other, &a_print()).expect("an answer").claimed();
                before = Some(fixture.stored(&a_scope(), &other));
                resume_unwind(Box::new("out of luck"))
            })
        }));
        assert!(unwound.is_err(), "{}", fixture.name);
        assert_eq!(store.backend().calls(), 3, "{}: two claims, one abandoned", fixture.name);
        let left = snapshot(fixture, &a_scope(), &other).record;
        assert_eq!(Some(left), before, "{}", fixture.name);
        let answer = store.try_claim(&a_scope(), &other, &a_print()).expect("an answer");
        assert_eq!(answer.name(), "in progress", "{}", fixture.name);
        assert_eq!(claim(&store).attempt(), 2, "{}", fixture.name);
    });
}

#[test]
fn a_panic_through_nested_runs_abandons_each_of_them() {
    on_every_backend(|fixture| {
        let inner = key("inner");
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            run(&fixture.store, |_| {
                let ran =
                    fixture.store.run(&a_scope(), &inner, &a_print(), |_| -> Result<Reply, Infallible> {
                        resume_unwind(Box::new("from inside"))
                    });
                ran.map(|_| reply(201))
            })
        }));
        assert_eq!(unwound.expect_err("a panic").downcast_ref(), Some(&"from inside"), "{}", fixture.name);
        for key in [a_key(), inner] {
            let next = fixture.store.try_claim(&a_scope(), &key, &a_print()).expect("an answer").claimed();
            assert_eq!(next.attempt(), 2, "{}", fixture.name);
        }
    });
}

/// A panic that the work catches by itself is none.
#[test]
fn a_panic_inside_the_work_that_does_not_leave_it_changes_nothing() {
    on_every_backend(|fixture| {
        let ran = run(&fixture.store, |_| {
            let caught = catch_unwind(|| -> Infallible { resume_unwind(Box::new("caught")) });
            caught.map(|_| reply(201)).or(Ok::<_, Infallible>(reply(202)))
        });
        assert_eq!(crate::support::executed(ran).reply, reply(202), "{}", fixture.name);
        assert_eq!(try_claim(&fixture.store).expect("an answer").name(), "completed", "{}", fixture.name);
    });
}
