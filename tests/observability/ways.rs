//! Whichever call does a thing, it counts the same.

use crate::common::{Answer, asks_for, on_every_backend, secs};
use crate::stage::{Counts, Stage, moved, once, operation};
use idempotency::{Claim, ClaimOutcome, Error, Failures, Metrics, Policy, Reply, StoredResponse, Ticket};
use std::time::Duration;

fn end_by_ticket(outcome: ClaimOutcome) -> Option<Ticket> {
    match outcome {
        ClaimOutcome::Claimed(claim) => Some(claim.into_ticket()),
        _ => None,
    }
}

type Ask = (&'static str, fn(&Stage<'_>) -> Result<ClaimOutcome, Error>);
const WAYS_TO_ASK: &[Ask] = &[
    ("try_claim", |stage| stage.ask()),
    ("claim_or_wait", |stage| {
        let (scope, key, fingerprint) = operation();
        stage.store.claim_or_wait(&scope, &key, &fingerprint, Duration::ZERO)
    }),
    ("try_claim_many", |stage| stage.store.try_claim_many(&[operation()]).remove(0)),
];

type Prepare = (&'static str, fn(&Stage<'_>));
const BEFOREHAND: &[Prepare] = &[
    ("claims", |_| {}),
    ("takeovers", |stage| stage.claim().abandon().expect("the end of the lease")),
    ("replays", |stage| stage.complete()),
    ("in_progress", |stage| drop(stage.ticket())),
    ("mismatches", |stage| {
        let (scope, key, _) = operation();
        let other = stage.store.try_claim(&scope, &key, &asks_for("another order"));
        drop(other.expect("an answer").claimed().into_ticket());
    }),
];

#[test]
fn a_claim_counts_by_its_answer_however_it_is_asked_for() {
    for (answer, prepare) in BEFOREHAND {
        for (way, ask) in WAYS_TO_ASK {
            on_every_backend(|fixture| {
                let stage = Stage::new(fixture);
                prepare(&stage);
                let before = stage.store.metrics();
                let _ticket = end_by_ticket(ask(&stage).expect("an answer"));
                assert_eq!(
                    moved(&before, &stage.store.metrics()),
                    once(&[answer]),
                    "{way} on {}",
                    fixture.name
                );
            });
        }
    }
}

#[test]
fn who_waits_is_in_progress_once_and_then_counts_by_the_answer_that_ends_it() {
    on_every_backend(|fixture| {
        let stage = Stage::new(fixture);
        let claim = stage.claim();
        let before = stage.store.metrics();
        std::thread::scope(|threads| {
            let waiter = threads.spawn(|| {
                let (scope, key, fingerprint) = operation();
                stage.store.claim_or_wait(&scope, &key, &fingerprint, secs(600))
            });
            // It has asked, and looked at least twice.
            while stage.store.backend().calls() < 4 {
                assert!(!waiter.is_finished(), "it did not wait, or gave up");
                std::thread::sleep(Duration::from_millis(1));
            }
            claim.complete(Reply::Marker).expect("a completion");
            assert_eq!(waiter.join().expect("a waiter").expect("an answer").name(), "completed");
        });
        assert_eq!(
            moved(&before, &stage.store.metrics()),
            once(&["in_progress", "completions", "replays"]),
            "{}",
            fixture.name
        );
    });
}

type End = (&'static str, fn(&Stage<'_>, Claim), &'static str);
const WAYS_TO_END: &[End] = &[
    ("complete", |_, claim| drop(claim.complete(Reply::Marker)), "completions"),
    ("complete_for", |_, claim| drop(claim.complete_for(secs(1), Reply::Marker)), "completions"),
    (
        "complete by ticket",
        |stage, claim| drop(stage.store.complete(&claim.into_ticket(), Reply::Marker)),
        "completions",
    ),
    ("release", |_, claim| drop(claim.release()), "releases"),
    ("release by ticket", |stage, claim| drop(stage.store.release(&claim.into_ticket())), "releases"),
    ("abandon", |_, claim| drop(claim.abandon()), "abandons"),
    ("abandon by ticket", |stage, claim| drop(stage.store.abandon(&claim.into_ticket())), "abandons"),
    (
        "resumed and released",
        |stage, claim| drop(stage.store.resume(claim.into_ticket()).map(Claim::release)),
        "releases",
    ),
];

#[test]
fn a_claim_that_ends_counts_by_how_it_ends_whoever_ends_it() {
    for (way, end, counter) in WAYS_TO_END {
        on_every_backend(|fixture| {
            let stage = Stage::new(fixture);
            let claim = stage.claim();
            let before = stage.store.metrics();
            end(&stage, claim);
            assert_eq!(moved(&before, &stage.store.metrics()), once(&[counter]), "{way} on {}", fixture.name);
        });
    }
}

#[test]
fn an_owner_that_is_refused_counts_once_whatever_it_called() {
    type Call = (&'static str, fn(&Stage<'_>, Claim) -> Result<(), Error>);
    const CALLS: &[Call] = &[
        ("renew", |_, mut claim| claim.renew()),
        ("save_checkpoint", |_, mut claim| claim.save_checkpoint("late")),
        ("complete", |_, claim| Ok(claim.complete(Reply::Marker).map(drop)?)),
        ("release", |_, claim| claim.release()),
        ("abandon", |_, claim| claim.abandon()),
        ("complete by ticket", |stage, claim| {
            stage.store.complete(&claim.into_ticket(), Reply::Marker).map(drop)
        }),
        ("resume", |stage, claim| stage.store.resume(claim.into_ticket()).map(drop)),
    ];
    for (name, call) in CALLS {
        on_every_backend(|fixture| {
            let stage = Stage::new(fixture);
            let late = stage.claim();
            stage.lapse();
            let _owner = stage.ticket();
            let before = stage.store.metrics();
            let lost = call(&stage, late);
            assert!(matches!(lost, Err(Error::ClaimLost(_))), "{name}: {lost:?}");
            assert_eq!(
                moved(&before, &stage.store.metrics()),
                once(&["lost_claims"]),
                "{name} on {}",
                fixture.name
            );
        });
    }
}

/// What a run counts, by policy and by what its work gives.
#[test]
fn a_run_counts_its_claim_its_failure_and_how_its_claim_ended() {
    type Work = fn(&mut Claim) -> Result<Reply, &'static str>;
    let good: Work = |_| Ok(StoredResponse::new(201).into());
    let bad: Work = |_| Ok(StoredResponse::new(500).into());
    let error: Work = |_| Err("no money");
    for (failures, work, expected) in [
        (Failures::Abandon, good, ["claims", "completions"].as_slice()),
        (Failures::Abandon, bad, &["claims", "failed_runs", "abandons"]),
        (Failures::Abandon, error, &["claims", "failed_runs", "abandons"]),
        (Failures::Release, bad, &["claims", "failed_runs", "releases"]),
        (Failures::Release, error, &["claims", "failed_runs", "releases"]),
        (Failures::Record, bad, &["claims", "completions"]),
        (Failures::Record, error, &["claims", "failed_runs", "abandons"]),
    ] {
        on_every_backend(|fixture| {
            let stage = Stage::new(fixture);
            let store = stage.store.with_policy(Policy::new().with_failures(failures)).expect("a policy");
            let (scope, key, fingerprint) = operation();
            let _ran = store.run(&scope, &key, &fingerprint, work);
            assert_eq!(all_of(&stage), once(expected), "{failures:?} on {}", fixture.name);
        });
    }
}

#[test]
fn a_run_whose_work_panics_counts_as_failed_and_abandoned() {
    on_every_backend(|fixture| {
        let stage = Stage::new(fixture);
        let (scope, key, fingerprint) = operation();
        let run =
            || stage.store.run(&scope, &key, &fingerprint, |_| -> Result<Reply, ()> { panic!("a bug") });
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).expect_err("the panic goes on");
        assert_eq!(all_of(&stage), once(&["claims", "failed_runs", "abandons"]), "{}", fixture.name);
    });
}

fn all_of(stage: &Stage<'_>) -> Counts {
    moved(&Metrics::default(), &stage.store.metrics())
}
