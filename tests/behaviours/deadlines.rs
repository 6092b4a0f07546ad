//! A deadline is half-open: what has deadline `d` stands while `now < d`, for every command in the same way.

use crate::common::{Answer, Fixture, asks_for, key, on_every_backend, scope, secs};
use idempotency::{Claim, ClaimOutcome, DynStore, Error, LostReason, StoredResponse, Timestamp};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
enum Step {
    ClaimByB,
    RenewByA,
    CompleteByA,
    Sweep,
}
use Step::{ClaimByB, CompleteByA, RenewByA, Sweep};

/// What stands under the key at one moment, in words of the design and without a clock.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Standing {
    RunningForA,
    LapsedForA,
    RunningForB,
    CompletedByA,
    Expired,
    Nothing,
}
use Standing::{CompletedByA, Expired, LapsedForA, Nothing, RunningForA, RunningForB};

/// docs/design.md, section 2, read off for one moment: what each caller is told, and what stands then.
fn read_off(standing: Standing, step: Step) -> (&'static str, Standing) {
    match (step, standing) {
        (ClaimByB, RunningForA | RunningForB) => ("in progress", standing),
        (ClaimByB, LapsedForA) => ("claimed, attempt 2", RunningForB),
        (ClaimByB, CompletedByA) => ("completed", standing),
        (ClaimByB, Expired | Nothing) => ("claimed, attempt 1", RunningForB),
        (RenewByA, RunningForA | LapsedForA) => ("renewed", RunningForA),
        (CompleteByA, RunningForA | LapsedForA) => ("recorded", CompletedByA),
        (CompleteByA, CompletedByA) => ("recorded", CompletedByA),
        (RenewByA, CompletedByA) => ("lost: completed by this claim", standing),
        (RenewByA | CompleteByA, RunningForB) => ("lost: running", standing),
        (RenewByA | CompleteByA, Expired | Nothing) => ("lost: gone", standing),
        (Sweep, Expired) => ("swept 1", Nothing),
        (Sweep, _) => ("swept 0", standing),
    }
}

/// How A got to the deadline, how far from it the clock is, and what stands there then.
type Situation = (fn(&Fixture, &DynStore, &str) -> (Claim, Timestamp), i64, Standing);

/// Lease 10 s, retention 20 s.
const SITUATIONS: [Situation; 12] = [
    (lease_end, -1, RunningForA),
    (lease_end, 0, LapsedForA),
    (lease_end, 1, LapsedForA),
    (renewed_lease_end, -1, RunningForA),
    (renewed_lease_end, 0, LapsedForA),
    (renewed_lease_end, 1, LapsedForA),
    (claim_expiry, -1, LapsedForA),
    (claim_expiry, 0, Expired),
    (claim_expiry, 1, Expired),
    (reply_expiry, -1, CompletedByA),
    (reply_expiry, 0, Expired),
    (reply_expiry, 1, Expired),
];

fn claim(store: &DynStore, name: &str) -> Result<ClaimOutcome, Error> {
    store.try_claim(&scope("acct_1"), &key(name), &asks_for("pay"))
}

fn after_start(seconds: u64) -> Timestamp {
    crate::common::START.saturating_add(secs(seconds))
}

fn lease_end(_: &Fixture, store: &DynStore, name: &str) -> (Claim, Timestamp) {
    (claim(store, name).expect("an answer").claimed(), after_start(10))
}

fn renewed_lease_end(fixture: &Fixture, store: &DynStore, name: &str) -> (Claim, Timestamp) {
    let mut claim = claim(store, name).expect("an answer").claimed();
    fixture.at(4);
    claim.renew().expect("a renewal");
    (claim, after_start(14))
}

fn claim_expiry(_: &Fixture, store: &DynStore, name: &str) -> (Claim, Timestamp) {
    (claim(store, name).expect("an answer").claimed(), after_start(30))
}

fn reply_expiry(fixture: &Fixture, store: &DynStore, name: &str) -> (Claim, Timestamp) {
    let claim = claim(store, name).expect("an answer").claimed();
    fixture.at(5);
    store.complete(&claim.ticket(), first_reply()).expect("a completion");
    (claim, after_start(25))
}

fn first_reply() -> StoredResponse {
    StoredResponse::new(201).with_body("first")
}

/// Does one step and says in words what its caller is told.
fn take(step: Step, store: &DynStore, name: &str, by_a: &mut Claim) -> String {
    match step {
        ClaimByB => match claim(store, name).expect("an answer") {
            ClaimOutcome::Claimed(by_b) => {
                assert!(by_b.token() > by_a.token());
                format!("claimed, attempt {}", by_b.attempt())
            }
            other => {
                if let ClaimOutcome::Completed(done) = &other {
                    assert!(done.reply == first_reply().into(), "{:?}", done.reply);
                }
                other.name().to_owned()
            }
        },
        RenewByA => by_a.renew().map_or_else(|error| lost(&error), |()| "renewed".to_owned()),
        CompleteByA => store.complete(&by_a.ticket(), first_reply()).map_or_else(
            |error| lost(&error),
            |done| {
                assert!(done.reply == first_reply().into(), "{:?}", done.reply);
                "recorded".to_owned()
            },
        ),
        Sweep => format!("swept {}", store.sweep(100).expect("a sweep").removed),
    }
}

fn lost(error: &Error) -> String {
    let Error::ClaimLost(reason) = error else { panic!("{error:?}") };
    let reason = match reason {
        LostReason::Gone => "gone",
        LostReason::Running => "running",
        LostReason::Completed => "completed",
        LostReason::CompletedByThisClaim => "completed by this claim",
    };
    format!("lost: {reason}")
}

/// Each order of the four steps.
fn orders() -> Vec<[Step; 4]> {
    let steps = [ClaimByB, RenewByA, CompleteByA, Sweep];
    let mut orders = Vec::new();
    for a in 0..4 {
        for b in (0..4).filter(|b| *b != a) {
            for c in (0..4).filter(|c| ![a, b].contains(c)) {
                orders.push([a, b, c, 6 - a - b - c].map(|step| steps[step]));
            }
        }
    }
    orders
}

/// Case 40.
#[test]
fn a_millisecond_before_at_and_after_a_deadline_every_command_reads_it_alike() {
    let orders = orders();
    assert_eq!(orders.len(), 24);
    on_every_backend(|fixture| {
        let store = fixture.store_with(secs(10), secs(20));
        for (number, (set_up, offset, standing)) in SITUATIONS.into_iter().enumerate() {
            for order in &orders {
                fixture.at(0);
                let (mut by_a, deadline) = set_up(fixture, &store, "k");
                fixture.clock.set(Timestamp::from_millis(deadline.as_millis() + offset));
                let mut standing = standing;
                for step in order {
                    let (wanted, then) = read_off(standing, *step);
                    let told = take(*step, &store, "k", &mut by_a);
                    let name = fixture.name;
                    assert_eq!(
                        told, wanted,
                        "{name}, situation {number}, {step:?} of {order:?} on {standing:?}"
                    );
                    let found = store.lookup(by_a.scope(), by_a.key()).expect("an answer");
                    assert_eq!(
                        found.is_none(),
                        matches!(then, Expired | Nothing),
                        "{name}, {number}, {order:?}"
                    );
                    standing = then;
                }
                fixture.at(0);
                store.forget(by_a.scope(), by_a.key()).expect("an answer");
            }
        }
    });
}

/// The hint to wait never reaches past the deadline, and a waiter that keeps to it comes back when the lease
/// is over.
#[test]
fn who_waits_until_the_lease_ends_is_granted_and_who_comes_a_millisecond_early_is_not() {
    on_every_backend(|fixture| {
        let store = fixture.store_with(Duration::from_millis(1), Duration::from_millis(1));
        let first = claim(&store, "k").expect("an answer").claimed();
        let ClaimOutcome::InProgress(running) = claim(&store, "k").expect("an answer") else {
            panic!("a lease of one millisecond stands for one millisecond");
        };
        assert_eq!(running.lease_until, first.lease_until());
        fixture.clock.set(running.lease_until);
        assert_eq!(claim(&store, "k").expect("an answer").claimed().attempt(), 2, "{}", fixture.name);
        fixture.clock.advance(Duration::from_millis(2));
        assert_eq!(claim(&store, "k").expect("an answer").claimed().attempt(), 1, "{}", fixture.name);
    });
}
