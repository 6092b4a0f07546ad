//! Each counter on its own.

use crate::common::{on_every_backend, secs};
use crate::scenarios::{SCENARIOS, UNCOUNTED};
use crate::stage::{Stage, counts, moved, once};
use idempotency::{Error, Metrics, Policy, Reply};
use std::collections::BTreeSet;

#[test]
fn every_counter_has_a_scenario() {
    let played: BTreeSet<_> = SCENARIOS.iter().map(|scenario| scenario.counter.to_owned()).collect();
    let there: BTreeSet<_> =
        counts(&Metrics::default()).into_keys().filter(|name| !name.starts_with("errors.")).collect();
    assert_eq!(played, there);
    assert_eq!(played.len(), SCENARIOS.len(), "each counter has one");
}

#[test]
fn what_a_counter_is_about_moves_it_by_one_and_no_other() {
    for scenario in SCENARIOS {
        on_every_backend(|fixture| {
            let stage = Stage::new(fixture);
            let before = (scenario.play)(&stage);
            let mut expected = once(&[scenario.counter]);
            expected.extend(scenario.error.map(|error| (error.to_owned(), 1)));
            assert_eq!(
                moved(&before, &stage.store.metrics()),
                expected,
                "{} on {}",
                scenario.counter,
                fixture.name
            );
        });
    }
}

#[test]
fn what_changes_nothing_and_fails_at_nothing_counts_nothing() {
    for (what, play) in UNCOUNTED {
        on_every_backend(|fixture| {
            let stage = Stage::new(fixture);
            let before = play(&stage);
            assert_eq!(moved(&before, &stage.store.metrics()), once(&[]), "{what} on {}", fixture.name);
        });
    }
}

/// Case 14.
#[test]
fn of_an_owner_that_is_late_and_one_that_took_over_each_counter_moves_once() {
    on_every_backend(|fixture| {
        let policy = Policy::new().with_lease(secs(30));
        let stage = Stage::new(fixture);
        let stage = Stage { store: stage.store.with_policy(policy).expect("a usable policy"), ..stage };
        let late = stage.claim();
        fixture.at(30);
        let owner = stage.claim();
        fixture.at(40);
        let lost = late.complete(Reply::Marker).expect_err("a loss");
        assert!(matches!(lost.error(), Error::ClaimLost(_)), "{lost:?}");
        drop(lost); // with the claim
        owner.complete(Reply::Marker).expect("a completion");
        assert_eq!(
            moved(&Metrics::default(), &stage.store.metrics()),
            once(&["claims", "takeovers", "lost_claims", "completions"]),
            "{}",
            fixture.name
        );
    });
}

#[test]
fn a_sweep_counts_every_record_that_it_removes() {
    on_every_backend(|fixture| {
        let stage = Stage::new(fixture);
        for scope in ["a", "b", "c"] {
            let (_, key, fingerprint) = crate::stage::operation();
            drop(stage.store.try_claim(&crate::common::scope(scope), &key, &fingerprint).expect("an answer"));
        }
        stage.expire();
        let before = stage.store.metrics();
        stage.store.sweep(2).expect("a sweep");
        assert_eq!(stage.store.metrics().swept - before.swept, 2, "{}", fixture.name);
        stage.store.sweep_all().expect("a sweep");
        assert_eq!(stage.store.metrics().swept - before.swept, 3, "{}", fixture.name);
    });
}

#[test]
fn a_handle_that_hears_that_its_claim_has_completed_leaves_nothing_unfinished() {
    on_every_backend(|fixture| {
        let stage = Stage::new(fixture);
        let ticket = stage.claim().into_ticket();
        let [first, mut second] =
            [ticket.clone(), ticket].map(|ticket| stage.store.resume(ticket).expect("a claim that stands"));
        first.complete(Reply::Marker).expect("a claim that stands");
        assert!(second.renew().is_err(), "{}", fixture.name);
        assert!(!second.is_lost(), "{}", fixture.name);
        drop(second);
        let metrics = stage.store.metrics();
        assert_eq!((metrics.dropped_unfinished, metrics.lost_claims), (0, 0), "{}", fixture.name);
    });
}
