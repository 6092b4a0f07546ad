//! For how long a claim is kept alive.

use crate::common::{Answer, asks_for, key, scope};
use crate::stage::{FOR_EVER, LEASE, on_every_stage, until, with_lease};
use idempotency::Period;
use std::time::Duration;

/// A few renewals, and a few more.
const A_WHILE: Duration = Duration::from_millis(200);

#[test]
fn a_claim_is_renewed_for_max_age_and_then_taken_over_when_its_lease_ends() {
    on_every_stage(|stage| {
        let claim = stage.claim("job");
        claim.keep_alive(A_WHILE).expect("a thread");
        stage.until_renewed("job", 1);
        // While others are renewed, and until it is not.
        until("the renewing ends", || {
            let before = stage.witness.renewals("job");
            stage.let_renewals_come();
            stage.witness.renewals("job") == before
        });
        stage.clock.advance(LEASE);
        let next = stage.claim("job");
        assert!(next.is_takeover(), "{}", stage.name);
        assert!(!claim.is_lost(), "it has not heard of it");
        claim.complete(idempotency::Reply::Marker).expect_err("a claim that was taken over");
        next.release().expect("a claim that stands");
    });
}

#[test]
fn a_max_age_of_zero_renews_nothing_and_ends_what_was_going_on() {
    on_every_stage(|stage| {
        let claims = ["never", "no more"].map(|name| stage.claim(name));
        let resumed = stage.store.resume(stage.claim("resumed").into_ticket()).expect("a claim that stands");
        claims[1].keep_alive(FOR_EVER).expect("a thread");
        stage.until_renewed("no more", 1);
        for claim in claims.iter().chain([&resumed]) {
            claim.keep_alive(Duration::ZERO).expect("nothing to do");
        }
        // What was on its way then may still come.
        stage.let_renewals_come();
        let before = stage.witness.renewals("no more");
        stage.let_renewals_come();
        let renewals = ["never", "resumed", "no more"].map(|name| stage.witness.renewals(name));
        assert_eq!(renewals, [0, 0, before], "{}", stage.name);
    });
}

#[test]
fn asking_again_replaces_max_age_by_a_longer_and_by_a_shorter_one() {
    on_every_stage(|stage| {
        let (longer, shorter) = (stage.claim("longer"), stage.claim("shorter"));
        longer.keep_alive(A_WHILE).expect("a thread");
        longer.keep_alive(FOR_EVER).expect("a thread");
        shorter.keep_alive(FOR_EVER).expect("a thread");
        shorter.keep_alive(A_WHILE).expect("a thread");
        until("the renewing of the shorter one ends", || {
            let before = stage.witness.renewals("shorter");
            stage.let_renewals_come();
            stage.witness.renewals("shorter") == before
        });
        stage.until_renewed("longer", 2);

        shorter.keep_alive(FOR_EVER).expect("a thread");
        stage.until_renewed("shorter", 2);
    });
}

#[test]
fn the_shortest_and_the_longest_lease_can_be_kept_alive() {
    on_every_stage(|stage| {
        let claims = [Duration::from_millis(1), Period::MAX].map(|lease| {
            let store = with_lease(&stage.store, lease);
            let name = format!("{lease:?}");
            let claim =
                store.try_claim(&scope("tenant"), &key(&name), &asks_for("it")).expect("an answer").claimed();
            claim.keep_alive(FOR_EVER).expect("a thread");
            (name, claim)
        });
        stage.until_renewed(&claims[0].0, 20);
        for (name, claim) in claims {
            claim.complete(idempotency::Reply::Marker).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    });
}
