//! `stuck(limit)`, on every backend.

use crate::common::{Answer, Fixture, START, asks_for, key, on_every_backend, scope, secs};
use crate::dice::Dice;
use crate::seed::seed;
use idempotency::{Claim, DynStore, Reply, Stuck, StuckReason, Timestamp};

const DAY: u64 = 24 * 60 * 60;

fn claim(store: &DynStore, scope_name: &str, name: &str) -> Claim {
    store.try_claim(&scope(scope_name), &key(name), &asks_for("x")).expect("a store").claimed()
}

fn stuck(fixture: &Fixture) -> Vec<Stuck> {
    fixture.store.stuck(usize::MAX).expect(fixture.name)
}

/// The listed keys, in order, with the reasons.
fn names(list: &[Stuck]) -> Vec<(&str, StuckReason)> {
    list.iter().map(|stuck| (stuck.id.key.as_str(), stuck.reason)).collect()
}

fn after(seconds: u64) -> Timestamp {
    START.saturating_add(secs(seconds))
}

#[test]
fn lapsed_claims_come_first_by_the_end_of_their_lease_and_then_those_with_too_long_leases() {
    use StuckReason::{Lapsed, LeaseTooLong};
    on_every_backend(|f| {
        // Both are granted by a clock that was ahead.
        f.at(10_000);
        drop(claim(&f.store_with(secs(20), secs(DAY)), "a", "ahead, ends first"));
        drop(claim(&f.store_with(secs(50), secs(DAY)), "a", "ahead, ends last"));
        f.at(0);
        drop(claim(&f.store_with(secs(50), secs(DAY)), "a", "ends last"));
        drop(claim(&f.store_with(secs(40), secs(DAY)), "z", "ends first"));
        drop(claim(&f.store_with(secs(500), secs(DAY)), "a", "runs on"));
        claim(&f.store, "a", "done").complete(Reply::Marker).expect("held");
        drop(claim(&f.store_with(secs(1), secs(1)), "a", "expired"));
        f.at(100);
        let list = stuck(f);
        let expected = [
            ("ends first", Lapsed),
            ("ends last", Lapsed),
            ("ahead, ends first", LeaseTooLong),
            ("ahead, ends last", LeaseTooLong),
        ];
        assert_eq!(names(&list), expected, "{}", f.name);
        let ends: Vec<_> = list.iter().map(|stuck| stuck.lease_until).collect();
        assert_eq!(ends, [after(40), after(50), after(10_020), after(10_050)], "{}", f.name);
        for limit in 0..6 {
            let first = f.store.stuck(limit).expect(f.name);
            assert_eq!(first, list[..limit.min(4)], "{}: of {limit}", f.name);
        }
    });
}

#[test]
fn a_stuck_claim_is_told_of_whole() {
    on_every_backend(|f| {
        drop(claim(&f.store, "tenant", "order"));
        f.at(90);
        let owner = claim(&f.store_with(secs(30), secs(600)), "tenant", "order");
        f.at(500);
        let list = stuck(f);
        let [stuck] = &list[..] else { panic!("{}: {list:?}", f.name) };
        assert_eq!((stuck.id.scope.as_str(), stuck.id.key.as_str()), ("tenant", "order"), "{}", f.name);
        assert_eq!((stuck.token, stuck.attempt), (owner.token(), 2), "{}", f.name);
        assert_eq!(stuck.lease.as_duration(), secs(30), "{}", f.name);
        let times = (stuck.created_at, stuck.lease_until, stuck.expires_at);
        assert_eq!(times, (START, after(120), after(720)), "{}", f.name);
        assert_eq!(stuck.reason, StuckReason::Lapsed, "{}", f.name);
    });
}

#[test]
fn a_claim_is_stuck_until_it_is_ended_taken_over_forgotten_or_expired() {
    on_every_backend(|f| {
        let owners = ["completed", "renewed", "released"].map(|name| claim(&f.store, "a", name));
        for name in ["taken over", "forgotten", "left alone"] {
            drop(claim(&f.store, "a", name));
        }
        f.at(90);
        assert_eq!(stuck(f).len(), 6, "{}", f.name);
        let [completed, mut renewed, released] = owners;
        completed.complete(Reply::Marker).expect("held");
        renewed.renew().expect("held");
        released.release().expect("held");
        drop(claim(&f.store, "a", "taken over"));
        assert!(f.store.forget(&scope("a"), &key("forgotten")).expect(f.name));
        assert_eq!(names(&stuck(f)), [("left alone", StuckReason::Lapsed)], "{}", f.name);
        f.clock.set(after(90 + DAY).saturating_sub(secs(1)));
        assert!(names(&stuck(f)).contains(&("left alone", StuckReason::Lapsed)), "{}", f.name);
        f.at(90 + DAY);
        assert!(!names(&stuck(f)).contains(&("left alone", StuckReason::Lapsed)), "{}", f.name);
    });
}

#[test]
fn an_abandoned_claim_is_stuck_at_once() {
    on_every_backend(|f| {
        claim(&f.store, "a", "k").abandon().expect("held");
        assert_eq!(names(&stuck(f)), [("k", StuckReason::Lapsed)], "{}", f.name);
    });
}

/// Case 39.
#[test]
fn a_lease_that_a_step_of_the_clock_made_too_long_shows_as_stuck_until_the_clock_has_caught_up() {
    on_every_backend(|f| {
        f.at(600);
        let mut claim = claim(&f.store, "a", "k");
        assert_eq!(stuck(f), [], "{}: fresh", f.name);
        f.clock.rewind(std::time::Duration::from_millis(1));
        assert_eq!(names(&stuck(f)), [("k", StuckReason::LeaseTooLong)], "{}: a millisecond back", f.name);
        f.at(0);
        claim.renew().expect("held");
        assert_eq!(
            names(&stuck(f)),
            [("k", StuckReason::LeaseTooLong)],
            "{}: a renewal takes nothing away",
            f.name
        );
        f.at(600);
        assert_eq!(stuck(f), [], "{}: caught up", f.name);
        claim.renew().expect("held");
        assert_eq!(stuck(f), [], "{}: renewed", f.name);
    });
}

/// The order is the list's own, wherever a backend keeps its records: by the lease's end, then by scope and
/// key.
#[test]
fn of_many_stuck_claims_in_any_order_the_first_are_listed() {
    const CLAIMS: usize = 300;
    let mut dice = Dice::new(seed());
    let claims: Vec<_> = (0..CLAIMS)
        .map(|number| {
            // Few different ends, so that many are alike.
            let lease = 1 + u64::try_from(dice.between(0, 19)).expect("a small number");
            (lease, format!("scope {}", dice.between(0, 9)), format!("key {number}"))
        })
        .collect();
    let mut expected = claims.clone();
    expected.sort();
    on_every_backend(|f| {
        for (lease, scope_name, name) in &claims {
            drop(claim(&f.store_with(secs(*lease), secs(DAY)), scope_name, name));
        }
        f.at(60);
        for limit in [1, 2, 17, CLAIMS - 1, CLAIMS, CLAIMS + 1] {
            let list = f.store.stuck(limit).expect(f.name);
            assert_eq!(list.len(), limit.min(CLAIMS), "{}: of {limit}", f.name);
            for (stuck, (lease, scope_name, name)) in list.iter().zip(&expected) {
                let told = (stuck.lease_until, stuck.id.scope.as_str(), stuck.id.key.as_str());
                assert_eq!(told, (after(*lease), &scope_name[..], &name[..]), "{}: of {limit}", f.name);
            }
        }
    });
}

#[test]
fn a_stuck_claim_is_printed_without_its_scope_and_key() {
    on_every_backend(|f| {
        drop(claim(&f.store, "tenant-4711", "client-0815"));
        f.at(90);
        let list = stuck(f);
        assert_eq!(list.len(), 1, "{}", f.name);
        for printed in [format!("{list:?}"), format!("{list:#?}")] {
            assert!(printed.contains("Lapsed"), "{printed}");
            assert!(!printed.contains("4711") && !printed.contains("0815"), "{printed}");
        }
    });
}
