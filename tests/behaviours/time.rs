//! Every length of time at every moment: nothing panics, nothing wraps, nothing ends early, and what is out
//! of range is an error.

use crate::common::{Answer, Fixture, START, asks_for, key, on_every_backend, scope, secs};
use idempotency::{
    Claim, ClaimOutcome, Clock, DynStore, Error, PeriodError, Policy, PolicyError, StoredResponse, Swept,
    Timestamp,
};
use std::time::Duration;

const DAY_MS: i64 = 86_400_000;
/// The longest lease and retention.
const LONGEST: Duration = Duration::from_secs(36_525 * 86_400);
/// The last millisecond of the year 9999 (`date -u -d 9999-12-31T23:59:59.999Z +%s%3N`).
const LAST_MOMENT: i64 = 253_402_300_799_999;

/// Case 38's lengths, and both sides of each limit.
pub const LENGTHS: [Duration; 13] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    Duration::from_micros(999),
    Duration::from_millis(1),
    Duration::from_nanos(1_000_001),
    Duration::from_secs(90),
    LONGEST.saturating_sub(Duration::from_millis(1)),
    LONGEST.saturating_sub(Duration::from_nanos(1)),
    LONGEST,
    LONGEST.saturating_add(Duration::from_nanos(1)),
    Duration::from_secs(u32::MAX as u64),
    Duration::from_millis(i64::MAX as u64),
    Duration::MAX,
];

/// What a length comes to: whole milliseconds rounded up, or why it is refused.
pub fn millis_of(length: Duration) -> Result<i64, PeriodError> {
    match length.as_nanos() {
        0 => Err(PeriodError::Zero),
        nanos if nanos > LONGEST.as_nanos() => Err(PeriodError::TooLong),
        nanos => Ok(i64::try_from(nanos.div_ceil(1_000_000)).expect("100 years of milliseconds")),
    }
}

fn claim(store: &DynStore, name: &str) -> Claim {
    store.try_claim(&scope("acct_1"), &key(name), &asks_for("pay")).expect("an answer").claimed()
}

#[track_caller]
fn assert_at(got: Timestamp, wanted: i64, what: &str) {
    assert_eq!(got, Timestamp::from_millis(wanted), "{what}");
}

/// Case 38.
#[test]
fn every_lease_with_every_retention_at_both_ends_of_time_is_kept_or_refused() {
    on_every_backend(|fixture| {
        let (mut kept, mut refused) = (0, 0);
        for lease in LENGTHS {
            for retention in LENGTHS {
                let policy = Policy::new().with_lease(lease).with_retention(retention);
                assert_eq!((policy.lease(), policy.retention()), (lease, retention));
                let store = fixture.store.with_policy(policy);
                let what = format!("{}, lease {lease:?}, retention {retention:?}", fixture.name);
                match (millis_of(lease), millis_of(retention), store) {
                    (Ok(lease), Ok(retention), Ok(store)) => {
                        for now in [0, 1, START.as_millis(), LAST_MOMENT] {
                            fixture.clock.set(Timestamp::from_millis(now));
                            assert_kept(fixture, &store, [now, lease, retention], &what);
                            kept += 1;
                        }
                    }
                    (Err(error), _, Err(Error::Policy(PolicyError::Lease(told)))) => {
                        assert_eq!(told, error, "{what}");
                        refused += 1;
                    }
                    (Ok(_), Err(error), Err(Error::Policy(PolicyError::Retention(told)))) => {
                        assert_eq!(told, error, "{what}");
                        refused += 1;
                    }
                    (_, _, other) => panic!("{what}: {other:?}"),
                }
            }
        }
        assert_eq!((kept, refused), (8 * 8 * 4, 13 * 13 - 8 * 8), "{}", fixture.name);
    });
}

/// Claims, renews, lets lapse, takes over and completes, with each deadline where the sum says.
fn assert_kept(fixture: &Fixture, store: &DynStore, [now, lease, retention]: [i64; 3], what: &str) {
    let (tenant, name) = (scope("acct_1"), key("k"));
    let stored = || fixture.stored(&tenant, &name).expect("a record");
    let mut first = claim(store, "k");
    assert_at(first.lease_until(), now + lease, what);
    assert_at(stored().lease_until, now + lease, what);
    assert_at(stored().expires_at, now + lease + retention, what);
    assert_eq!(first.ticket().lease().as_millis(), lease.unsigned_abs().into(), "{what}");
    assert_eq!(first.ticket().retention().as_millis(), retention.unsigned_abs().into(), "{what}");
    first.renew().expect("a renewal");
    assert_at(first.lease_until(), now + lease, what);

    let ClaimOutcome::InProgress(running) =
        store.try_claim(&tenant, &name, &asks_for("pay")).expect("an answer")
    else {
        panic!("{what}: a claim that was just granted does not stand");
    };
    assert!(running.retry_after.as_millis() <= lease.unsigned_abs().into(), "{what}");

    first.abandon().expect("an end");
    let second = claim(store, "k");
    assert_eq!(second.attempt(), 2, "{what}");
    let done = second.complete(StoredResponse::new(200)).expect("a completion");
    assert_at(done.expires_at, now + retention, what);
    assert_at(done.completed_at, now, what);
    assert_eq!(claim_again(store), done, "{what}");
    store.forget(&tenant, &name).expect("an answer");
}

fn claim_again(store: &DynStore) -> idempotency::Completed {
    store.try_claim(&scope("acct_1"), &key("k"), &asks_for("pay")).expect("an answer").completed()
}

/// Case 38, for the retention of one reply.
#[test]
fn a_retention_for_one_reply_is_held_to_the_same_limits() {
    on_every_backend(|fixture| {
        for now in [0, 1, LAST_MOMENT] {
            fixture.clock.set(Timestamp::from_millis(now));
            for retention in LENGTHS {
                let claim = claim(&fixture.store, "k");
                let before = fixture.stored(&scope("acct_1"), &key("k"));
                let what = format!("{}, retention {retention:?} at {now}", fixture.name);
                match (millis_of(retention), claim.complete_for(retention, StoredResponse::new(402))) {
                    (Ok(retention), Ok(done)) => {
                        assert_at(done.expires_at, now + retention, &what);
                        assert_eq!(claim_again(&fixture.store), done, "{what}");
                    }
                    (Err(wanted), Err(refused)) => {
                        let (error, mut claim, reply) = refused.into_parts();
                        assert!(
                            matches!(error, Error::Retention(told) if told == wanted),
                            "{what}: {error:?}"
                        );
                        assert_eq!(reply, StoredResponse::new(402).into(), "{what}");
                        assert_eq!(fixture.stored(&scope("acct_1"), &key("k")), before, "{what}");
                        claim.renew().expect("a claim that still stands");
                    }
                    (wanted, got) => panic!("{what}: {got:?} instead of {wanted:?}"),
                }
                fixture.store.forget(&scope("acct_1"), &key("k")).expect("an answer");
            }
        }
    });
}

/// A clock outside the years 1970–9999 is a typed error of every command, and nothing is written.
#[test]
fn while_the_clock_is_out_of_range_every_command_is_refused() {
    on_every_backend(|fixture| {
        let (tenant, name) = (scope("acct_1"), key("k"));
        let mut claim = claim(&fixture.store, "k");
        let ticket = claim.ticket();
        let before = fixture.stored(&tenant, &name);
        for millis in [i64::MIN, -1, LAST_MOMENT + 1, i64::MAX - 1, i64::MAX] {
            fixture.clock.set(Timestamp::from_millis(millis));
            let refused = |what: &str, answer: Result<(), Error>| {
                let out_of_range = matches!(&answer, Err(Error::Clock(error)) if error.millis == millis);
                assert!(out_of_range, "{}, {what} at {millis}: {answer:?}", fixture.name);
            };
            let store = &fixture.store;
            refused("try_claim", store.try_claim(&tenant, &key("new"), &asks_for("pay")).map(drop));
            refused(
                "try_claim of a running key",
                store.try_claim(&tenant, &name, &asks_for("pay")).map(drop),
            );
            let many = store.try_claim_many(&[(tenant.clone(), key("new"), asks_for("pay"))]);
            many.into_iter().for_each(|answer| refused("try_claim_many", answer.map(drop)));
            refused("complete", store.complete(&ticket, StoredResponse::new(200)).map(drop));
            refused("release", store.release(&ticket));
            refused("abandon", store.abandon(&ticket));
            refused("resume", store.resume(ticket.clone()).map(drop));
            refused("lookup", store.lookup(&tenant, &name).map(drop));
            refused("forget", store.forget(&tenant, &name).map(drop));
            refused("sweep", store.sweep(10).map(drop));
            refused("stats", store.stats().map(drop));
            refused("stuck", store.stuck(10).map(drop));
            refused("renew", claim.renew());
            refused("save_checkpoint", claim.save_checkpoint("half"));
            assert_eq!(fixture.stored(&tenant, &name), before, "{}, at {millis}", fixture.name);
        }
        assert_eq!(fixture.stored(&tenant, &key("new")), None, "{}", fixture.name);
        for millis in [0, LAST_MOMENT] {
            fixture.clock.set(Timestamp::from_millis(millis));
            fixture.store.sweep(0).expect("a clock in range");
        }
    });
}

/// Case 39: a step back shortens nothing that was promised, whether before it or after it.
#[test]
fn a_step_back_of_the_clock_ends_nothing_early() {
    on_every_backend(|fixture| {
        fixture.at(1_000);
        let mut running = claim(&fixture.store, "running");
        let done = claim(&fixture.store, "done").complete(StoredResponse::new(201)).expect("a completion");
        let promised = running.lease_until();
        fixture.clock.rewind(secs(600));

        running.renew().expect("a renewal");
        assert_eq!(running.lease_until(), promised, "{}: renewing takes nothing away", fixture.name);
        running.save_checkpoint("half").expect("a checkpoint");
        assert_eq!(running.lease_until(), promised, "{}", fixture.name);
        let stored = fixture.stored(&scope("acct_1"), &key("running")).expect("a record");
        assert_eq!(stored.expires_at, promised.saturating_add(secs(24 * 3600)), "{}", fixture.name);

        let answer = |name: &str| {
            let answer = fixture.store.try_claim(&scope("acct_1"), &key(name), &asks_for("pay"));
            answer.expect("an answer").name()
        };
        // As long as the clock says less than the deadline, the claim and the reply stand.
        let one = Duration::from_millis(1);
        for now in [fixture.clock.now(), promised.saturating_sub(one)] {
            fixture.clock.set(now);
            assert_eq!((answer("running"), answer("done")), ("in progress", "completed"), "{}", fixture.name);
        }
        fixture.clock.set(done.expires_at.saturating_sub(one));
        assert_eq!(answer("done"), "completed", "{}", fixture.name);

        // A claim that was made while the clock was back gets its whole lease, by the clock that granted it.
        fixture.at(400);
        let late = claim(&fixture.store, "late");
        assert_eq!(late.lease_until(), START.saturating_add(secs(490)), "{}", fixture.name);
        let done = late.complete(StoredResponse::new(201)).expect("a completion");
        assert_eq!(done.expires_at, START.saturating_add(secs(400 + 24 * 3600)), "{}", fixture.name);
    });
}

/// Case 39: ten minutes back, eight hours forward, a year forward and back. Every operation returns, at every
/// step, and says no more than that a claim is lost.
#[test]
fn whatever_the_clock_does_every_operation_returns() {
    let (year, eight_hours, ten_minutes) = (365 * DAY_MS, 8 * 3_600_000, 600_000);
    let steps =
        [0, -ten_minutes, eight_hours, -ten_minutes, year, -year, ten_minutes, year, -2 * year, 2 * year];
    on_every_backend(|fixture| {
        fixture.clock.set(Timestamp::from_millis(50 * year));
        let mut held: Vec<Claim> = Vec::new();
        let mut done = 0;
        for (number, step) in steps.into_iter().enumerate() {
            fixture.clock.set(Timestamp::from_millis(fixture.clock.now().as_millis() + step));
            for (index, claim) in held.iter_mut().enumerate() {
                let ticket = claim.ticket();
                let answers = [
                    claim.renew(),
                    claim.save_checkpoint("half"),
                    fixture.store.resume(ticket.clone()).map(drop),
                    fixture.store.try_claim(claim.scope(), claim.key(), &asks_for("pay")).map(drop),
                    fixture.store.lookup(claim.scope(), claim.key()).map(drop),
                    match (index + number) % 4 {
                        0 => fixture.store.complete(&ticket, StoredResponse::new(200)).map(drop),
                        1 => fixture.store.abandon(&ticket),
                        2 => fixture.store.release(&ticket),
                        _ => Ok(()),
                    },
                ];
                for answer in answers {
                    let lost = matches!(answer, Err(Error::ClaimLost(_)));
                    assert!(lost || answer.is_ok(), "{}, step {number}: {answer:?}", fixture.name);
                    done += usize::from(answer.is_ok());
                }
            }
            held.extend((0..6).map(|n| claim(&fixture.store, &format!("key-{number}-{n}"))));
            let swept = fixture.store.sweep(3).expect("a sweep");
            assert!(swept.removed <= 3, "{}, step {number}: {swept:?}", fixture.name);
        }
        assert!(done > 500, "{}: {done} operations were done", fixture.name);
    });
}

/// Case 39: a step forward makes much expire at once; a sweep still removes no more than it may.
#[test]
fn after_a_step_forward_one_sweep_removes_at_most_its_limit() {
    on_every_backend(|fixture| {
        (0..60).for_each(|n| drop(claim(&fixture.store, &format!("key-{n}"))));
        fixture.clock.set(Timestamp::from_millis(START.as_millis() + 365 * DAY_MS));
        let sweep = |limit| fixture.store.sweep(limit).expect("a sweep");
        assert_eq!(sweep(7), Swept { removed: 7, more: true }, "{}", fixture.name);
        fixture.at(0);
        assert_eq!(sweep(100), Swept { removed: 0, more: false }, "{}: and back", fixture.name);
        let left =
            (0..60).filter(|n| fixture.stored(&scope("acct_1"), &key(&format!("key-{n}"))).is_some()).count();
        assert_eq!(left, 53, "{}", fixture.name);
    });
}

/// Case 41: time passes for a closed store too. In memory, where nothing can be closed, the same answers
/// without closing.
#[test]
fn deadlines_pass_while_the_store_is_closed() {
    on_every_backend(|fixture| {
        let request = asks_for("pay");
        let done = claim(&fixture.store, "done").complete(StoredResponse::new(201)).expect("a completion");
        let running = claim(&fixture.store, "running").lease_until();
        let lapsed = fixture.stored(&scope("acct_1"), &key("running")).expect("a record").expires_at;
        let one = Duration::from_millis(1);
        // Each pair is a key, the moment of opening, and what a claim is told then.
        for (name, moment, told) in [
            ("done", done.expires_at.saturating_sub(one), "completed"),
            ("done", done.expires_at, "claimed, attempt 1"),
            ("running", running.saturating_sub(one), "in progress"),
            ("running", running, "claimed, attempt 2"),
        ] {
            fixture.at(0);
            fixture.reopen();
            fixture.clock.set(moment);
            fixture.reopen();
            let answer = fixture.store.try_claim(&scope("acct_1"), &key(name), &request).expect("an answer");
            let got = match answer {
                ClaimOutcome::Claimed(claim) => format!("claimed, attempt {}", claim.attempt()),
                other => other.name().to_owned(),
            };
            assert_eq!(got, told, "{}, {name} at {moment}", fixture.name);
        }
        let taken_over = fixture.stored(&scope("acct_1"), &key("running")).expect("a record").expires_at;
        assert!(taken_over > lapsed);
        fixture.clock.set(taken_over);
        fixture.reopen();
        assert_eq!(claim(&fixture.store, "running").attempt(), 1, "{}", fixture.name);
    });
}
