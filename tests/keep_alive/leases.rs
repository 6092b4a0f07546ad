//! Nobody gets a claim that is kept alive, and somebody does once it is not.

use crate::common::{Answer, asks_for, key, scope};
use crate::stage::{FOR_EVER, LEASE, on_every_stage, until, with_lease};
use idempotency::{Backend, Failures, IdempotencyStore, Policy, Ran, Reply, RunError, StoredResponse};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// As much of a lease as can pass without ending it.
const NEARLY_A_LEASE: Duration = LEASE.saturating_sub(Duration::from_millis(1));

#[test]
fn a_kept_claim_stands_for_many_leases_and_nobody_else_gets_it() {
    on_every_stage(|stage| {
        let claim = stage.kept("job");
        for lease in 0..10 {
            let before = claim.lease_until();
            stage.until_renewed("job", 1);
            stage.clock.advance(NEARLY_A_LEASE);
            assert_eq!(stage.ask("job").name(), "in progress", "{}, lease {lease}", stage.name);
            until("the owner hears of it", || claim.lease_until() > before);
        }
        assert!(!claim.is_lost() && claim.renewal_error().is_none());
        let stored = stage.store.lookup(claim.scope(), claim.key()).expect("readable").expect("a record");
        assert!(claim.lease_until() <= stored.lease_until, "{}", stage.name);
        claim.complete(Reply::Marker).expect("a claim that stands");
        let metrics = stage.store.metrics();
        assert!(metrics.renewals >= 10, "{metrics:?}");
        assert_eq!((metrics.renewal_failures, metrics.lost_claims, metrics.takeovers), (0, 0, 0));
        assert_eq!(stage.ask("job").name(), "completed");
    });
}

#[test]
fn a_claim_that_is_not_kept_alive_is_not_renewed() {
    on_every_stage(|stage| {
        let claim = stage.claim("job");
        stage.let_renewals_come();
        assert_eq!(stage.witness.renewals("job"), 0, "{}", stage.name);
        stage.clock.advance(LEASE);
        assert!(stage.claim("job").is_takeover());
        assert!(!claim.is_lost(), "it has not heard of it");
    });
}

#[test]
fn a_claim_that_is_dropped_is_renewed_no_more_and_taken_over_when_its_lease_ends() {
    on_every_stage(|stage| {
        let claim = stage.kept("job");
        stage.until_renewed("job", 2);
        drop(claim);
        // What was on its way then may still come.
        stage.let_renewals_come();
        let renewals = stage.witness.renewals("job");
        stage.clock.advance(NEARLY_A_LEASE);
        assert_eq!(stage.ask("job").name(), "in progress", "dropping a claim ends nothing");
        stage.let_renewals_come();
        stage.clock.advance(Duration::from_millis(1));
        let next = stage.claim("job");
        assert!(next.is_takeover());
        assert_eq!(stage.witness.renewals("job"), renewals, "{}", stage.name);
        assert_eq!(stage.store.metrics().dropped_unfinished, 1);
        next.release().expect("a claim that stands");
    });
}

/// Of two handles on one claim each is kept alive by itself.
#[test]
fn a_claim_is_kept_alive_as_long_as_one_of_its_handles_is() {
    on_every_stage(|stage| {
        let (one, other) = (stage.kept("job"), stage.claim("other"));
        let resumed = stage.store.resume(one.ticket()).expect("a claim that stands");
        resumed.keep_alive(FOR_EVER).expect("a thread");
        drop(one);
        for _ in 0..3 {
            stage.let_renewals_come();
            stage.clock.advance(NEARLY_A_LEASE);
            assert_eq!(stage.ask("job").name(), "in progress", "{}", stage.name);
        }
        resumed.abandon().expect("a claim that stands");
        drop(other);
    });
}

/// The lease may be nearly over, and how nearly is not known.
#[test]
fn a_claim_that_was_resumed_is_renewed_at_once_and_one_that_was_granted_later() {
    const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
    on_every_stage(|stage| {
        let long = with_lease(&stage.store, A_YEAR);
        let claim = |name| long.try_claim(&scope("tenant"), &key(name), &asks_for("it")).expect("an answer");
        let granted = claim("granted").claimed();
        let resumed = long.resume(claim("resumed").claimed().into_ticket()).expect("a claim that stands");
        for kept in [&granted, &resumed] {
            kept.keep_alive(FOR_EVER).expect("a thread");
        }
        until("it is renewed", || stage.witness.renewals("resumed") == 1);
        stage.let_renewals_come();
        let renewals = ["granted", "resumed"].map(|name| stage.witness.renewals(name));
        assert_eq!(renewals, [0, 1], "{}", stage.name);
        for kept in [granted, resumed] {
            kept.release().expect("a claim that stands");
        }
    });
}

#[test]
fn the_owner_can_renew_and_save_checkpoints_beside_the_renewer() {
    on_every_stage(|stage| {
        let mut claim = stage.kept("job");
        for round in 0..20 {
            stage.clock.advance(NEARLY_A_LEASE);
            let before = claim.lease_until();
            if round % 2 == 0 { claim.renew() } else { claim.save_checkpoint(format!("round {round}")) }
                .expect("a claim that stands");
            assert!(claim.lease_until() > before, "{}", stage.name);
            stage.until_renewed("job", 1);
        }
        assert_eq!(claim.checkpoint().map(|saved| &saved[..]), Some(b"round 19".as_slice()));
        drop(claim);
        stage.let_renewals_come();
        stage.clock.advance(LEASE);
        let next = stage.claim("job");
        assert_eq!(next.checkpoint().map(|saved| &saved[..]), Some(b"round 19".as_slice()));
        next.release().expect("a claim that stands");
    });
}

/// With the policy that makes the most of a failure.
#[test]
fn work_of_run_can_keep_its_claim_alive_whatever_it_comes_to() {
    on_every_stage(|stage| {
        let policy = Policy::new().with_lease(LEASE).with_failures(Failures::Abandon);
        let store = stage.store.with_policy(policy).expect("a usable policy");
        let run = |name: &str, comes_to: fn() -> Result<Reply, &'static str>| {
            store.run(&scope("tenant"), &key(name), &asks_for("it"), |claim| {
                claim.keep_alive(FOR_EVER).expect("a thread");
                for _ in 0..3 {
                    stage.until_renewed(name, 1);
                    stage.clock.advance(NEARLY_A_LEASE);
                    assert_eq!(stage.ask(name).name(), "in progress", "{}", stage.name);
                }
                comes_to()
            })
        };
        let ran = run("replies", || Ok(StoredResponse::new(201).into()));
        assert!(matches!(ran, Ok(Ran::Executed(_))), "{ran:?}");
        let ran = run("fails", || Ok(StoredResponse::new(503).into()));
        assert!(matches!(ran, Ok(Ran::Failed(_))), "{ran:?}");
        let ran = run("errs", || Err("no"));
        assert!(matches!(ran, Err(RunError::Work("no"))), "{ran:?}");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // As a panic does, without the message.
            run("panics", || std::panic::resume_unwind(Box::new("the work failed")))
        }));
        assert!(panicked.is_err());
        for name in ["fails", "errs", "panics"] {
            // Abandoned, and not renewed since.
            assert!(stage.claim(name).is_takeover(), "{}: {name}", stage.name);
        }
        assert_eq!((stage.store.metrics().lost_claims, stage.store.metrics().renewal_failures), (0, 0));
    });
}

/// Nothing of it is the test's: the machine's clock ends the leases, and a rival waits for that.
#[test]
fn a_rival_that_asks_all_the_time_never_gets_a_claim_that_is_kept_alive_by_the_machines_own_clock() {
    fn outlives<B: Backend>(store: &IdempotencyStore<B>) {
        // Long enough for a machine that is busy with other tests.
        let store = with_lease(store, Duration::from_millis(1_500));
        let ask = || store.try_claim(&scope("tenant"), &key("job"), &asks_for("it")).expect("an answer");
        let claim = ask().claimed();
        claim.keep_alive(FOR_EVER).expect("a thread");
        let is_done = AtomicBool::new(false);
        let answers = thread::scope(|threads| {
            let rival = threads.spawn(|| {
                let mut answers = Vec::new();
                while !is_done.load(Ordering::SeqCst) {
                    answers.push(ask().name());
                    thread::sleep(Duration::from_millis(5));
                }
                answers
            });
            // More than a lease.
            until("the claim is renewed", || store.metrics().renewals >= 4);
            is_done.store(true, Ordering::SeqCst);
            rival.join().expect("a thread that ends")
        });
        assert!(answers.len() > 10 && answers.iter().all(|answer| *answer == "in progress"), "{answers:?}");
        claim.complete(Reply::Marker).expect("a claim that stands");
        assert_eq!(ask().name(), "completed");
    }
    thread::scope(|threads| {
        threads.spawn(|| outlives(&IdempotencyStore::in_memory()));
        #[cfg(feature = "sqlite")]
        threads.spawn(|| {
            let folder = tempfile::tempdir().expect("a temporary folder");
            outlives(&IdempotencyStore::open(folder.path().join("store.db")).expect("a fresh store"));
        });
    });
}
