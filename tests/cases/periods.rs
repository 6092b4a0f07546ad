//! Case 27: lease and retention, which no record is without, and which travel with the claim.

use crate::common::{Answer, asks_for, key, on_every_backend, scope, secs};
use crate::snapshot::snapshot;
use crate::support::reply;
use idempotency::{Error, Period, PeriodError, Policy, PolicyError};
use std::time::Duration;

#[test]
fn a_lease_or_a_retention_of_zero_or_beyond_the_longest_is_refused_before_there_is_a_record() {
    on_every_backend(|fixture| {
        let beyond = Period::MAX + Duration::from_nanos(1);
        for (refused, why) in [
            (Duration::ZERO, PeriodError::Zero),
            (beyond, PeriodError::TooLong),
            (Duration::MAX, PeriodError::TooLong),
        ] {
            let lease = fixture.store.with_policy(Policy::new().with_lease(refused));
            assert!(
                matches!(lease, Err(Error::Policy(PolicyError::Lease(found))) if found == why),
                "{lease:?}"
            );
            let retention = fixture.store.with_policy(Policy::new().with_retention(refused));
            assert!(
                matches!(retention, Err(Error::Policy(PolicyError::Retention(found))) if found == why),
                "{retention:?}"
            );
        }
        for taken in [Duration::from_nanos(1), Period::MAX] {
            let store = fixture.store_with(taken, taken);
            let (scope, key) = (scope("tenant"), key(&format!("{taken:?}")));
            let claim = store.try_claim(&scope, &key, &asks_for("pay")).expect("an answer").claimed();
            let record = store.lookup(&scope, &key).expect("a readable record").expect("a record");
            assert_eq!(record.lease_until, record.created_at.saturating_add(taken), "{}", fixture.name);
            assert_eq!(record.expires_at, record.lease_until.saturating_add(taken), "{}", fixture.name);
            claim.abandon().expect("a claim that stands");
        }
    });
}

#[test]
fn a_reply_with_a_retention_of_zero_or_beyond_the_longest_is_refused_and_the_claim_stands() {
    on_every_backend(|fixture| {
        let (scope, key, pay) = (scope("tenant"), key("k"), asks_for("pay"));
        let mut claim = fixture.store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
        let before = snapshot(fixture, &scope, &key);
        let mut unrecorded = reply("done");
        for (refused, why) in [(Duration::ZERO, PeriodError::Zero), (Duration::MAX, PeriodError::TooLong)] {
            let failed = claim.complete_for(refused, unrecorded).expect_err("a retention that is none");
            let error;
            (error, claim, unrecorded) = failed.into_parts();
            assert!(
                matches!(&error, Error::Retention(found) if *found == why),
                "{}: {error:?}",
                fixture.name
            );
            assert_eq!(unrecorded, reply("done"), "{}", fixture.name);
            assert_eq!(snapshot(fixture, &scope, &key), before, "{}", fixture.name);
        }
        let done = claim.complete_for(secs(60), unrecorded).expect("a claim that stands");
        assert_eq!(done.expires_at, done.completed_at.saturating_add(secs(60)), "{}", fixture.name);
    });
}

/// What is bound to the record is bound for one whole retention after the lease, however short or late that
/// is.
#[test]
fn a_crashed_operation_can_be_taken_over_for_one_whole_retention_after_its_lease() {
    const HOUR: u64 = 3_600;
    const DAY: u64 = 24 * HOUR;
    on_every_backend(|fixture| {
        for (kind, lease, retention, renewals) in [
            ("retention shorter than the lease", 60, 1, 0),
            ("retention much shorter than the lease", 30 * DAY, 1, 0),
            ("renewed for five days", HOUR, DAY, 240),
            ("renewed for five days, retention shorter than the lease", HOUR, 60, 240),
        ] {
            let store = fixture.store_with(secs(lease), secs(retention));
            let (scope, pay) = (scope("tenant"), asks_for("pay"));
            let half_hours = |number: u64| number * HOUR / 2;
            // One key for each moment, since looking takes over.
            for (moment, attempt) in [(0, 2), (retention * 1_000 - 1, 2), (retention * 1_000, 1)] {
                let told = format!("{}: {kind}, {moment} ms after the lease", fixture.name);
                let key = key(&format!("{kind}, {moment}"));
                fixture.at(0);
                let mut claim = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
                claim.save_checkpoint("half").expect("a claim that stands");
                for number in 1..=renewals {
                    fixture.at(half_hours(number));
                    claim.renew().expect("a claim that stands");
                }
                drop(claim);

                fixture.at(half_hours(renewals) + lease);
                fixture.clock.advance(Duration::from_millis(moment));
                let is_bound = attempt == 2;
                let answer = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
                assert_eq!((answer.attempt(), answer.is_takeover()), (attempt, is_bound), "{told}");
                let saved = answer.checkpoint().map(|saved| &saved[..]);
                assert_eq!(saved, is_bound.then_some(&b"half"[..]), "{told}");
                answer.abandon().expect("a claim that stands");
                let other = store.try_claim(&scope, &key, &asks_for("other")).expect("an answer");
                assert_eq!(other.name(), "mismatch", "{told}");
            }
        }
    });
}

/// Another request gets the key at the very millisecond at which the record is no record any more.
#[test]
fn a_crashed_operation_binds_its_request_until_its_retention_ends() {
    on_every_backend(|fixture| {
        let store = fixture.store_with(secs(60), secs(1));
        let (scope, key) = (scope("tenant"), key("k"));
        drop(store.try_claim(&scope, &key, &asks_for("pay")).expect("an answer").claimed());
        for (millis, name) in
            [(59_999, "mismatch"), (60_000, "mismatch"), (60_999, "mismatch"), (61_000, "claimed")]
        {
            fixture.at(0);
            fixture.clock.advance(Duration::from_millis(millis));
            let answer = store.try_claim(&scope, &key, &asks_for("other")).expect("an answer");
            assert_eq!(answer.name(), name, "{}, after {millis} ms", fixture.name);
        }
    });
}

#[test]
fn a_claim_that_is_finished_through_a_handle_with_another_policy_keeps_its_own_lease_and_retention() {
    on_every_backend(|fixture| {
        let own = fixture.store_with(secs(30), secs(3_600));
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        for (lease, retention) in [(1, 1), (5, 7), (100_000, 200_000)] {
            let other = fixture.store_with(secs(lease), secs(retention));
            let told = format!("{}: a handle with {lease} s and {retention} s", fixture.name);
            fixture.at(0);

            let key = key(&format!("{lease}"));
            let ticket = own.try_claim(&scope, &key, &pay).expect("an answer").claimed().into_ticket();
            assert_eq!((ticket.lease(), ticket.retention()), (secs(30), secs(3_600)), "{told}");
            fixture.at(20);
            let mut resumed = other.resume(ticket.clone()).expect("a claim that stands");
            assert_eq!(resumed.ticket(), ticket, "{told}");
            resumed.renew().expect("a claim that stands");
            let record = own.lookup(&scope, &key).expect("a readable record").expect("a record");
            assert_eq!(record.lease_until, record.created_at.saturating_add(secs(20 + 30)), "{told}");
            assert_eq!(record.expires_at, record.lease_until.saturating_add(secs(3_600)), "{told}");
            resumed.save_checkpoint("half").expect("a claim that stands");
            assert_eq!(resumed.lease_until(), record.lease_until, "{told}");

            fixture.at(40);
            let done = if lease == 5 {
                resumed.complete(reply("done")).map_err(Error::from)
            } else {
                other.complete(&ticket, reply("done"))
            };
            let done = done.expect("a claim that stands");
            assert_eq!(done.expires_at, done.completed_at.saturating_add(secs(3_600)), "{told}");
            assert_eq!(done.completed_at, done.created_at.saturating_add(secs(40)), "{told}");
        }
    });
}

/// A takeover is a claim of its own, with the terms of the handle that made it.
#[test]
fn a_takeover_stands_under_the_policy_of_the_handle_that_takes_over() {
    on_every_backend(|fixture| {
        let (first, second) =
            (fixture.store_with(secs(30), secs(60)), fixture.store_with(secs(5), secs(1_000)));
        let (scope, key, pay) = (scope("tenant"), key("k"), asks_for("pay"));
        drop(first.try_claim(&scope, &key, &pay).expect("an answer").claimed());
        fixture.at(30);
        let claim = second.try_claim(&scope, &key, &pay).expect("an answer").claimed();
        let record = first.lookup(&scope, &key).expect("a readable record").expect("a record");
        assert_eq!(record.lease_until, record.created_at.saturating_add(secs(35)), "{}", fixture.name);
        assert_eq!(record.expires_at, record.lease_until.saturating_add(secs(1_000)), "{}", fixture.name);
        fixture.at(34);
        let done = first.complete(&claim.into_ticket(), reply("done")).expect("a claim that stands");
        assert_eq!(done.expires_at, done.completed_at.saturating_add(secs(1_000)), "{}", fixture.name);
    });
}
