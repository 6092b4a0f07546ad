//! The pure core at the ends of time, where no backend's clock may go.

use crate::common::asks_for;
use crate::time::{LENGTHS, millis_of};
use bytes::Bytes;
use idempotency::transition::{apply, grants};
use idempotency::{Command, FencingToken, Outcome, Period, Record, State, StoredResponse, Timestamp, Write};

const MOMENTS: [i64; 5] = [0, 1, i64::MAX - 1, i64::MIN, -1];
const TOKEN: FencingToken = FencingToken::FIRST;

fn ends() -> Timestamp {
    Timestamp::from_millis(i64::MAX)
}

/// `start` and `length` added up where there is room for the sum, and then cut to what a timestamp holds.
fn sum(start: Timestamp, length: Period) -> Timestamp {
    let exact = i128::from(start.as_millis()) + i128::from(length.as_millis());
    i64::try_from(exact).map_or_else(|_| ends(), Timestamp::from_millis)
}

fn lengths() -> Vec<Period> {
    let valid = LENGTHS.into_iter().filter(|length| millis_of(*length).is_ok());
    valid.map(|length| Period::new(length).expect("a valid length")).collect()
}

fn claim(lease: Period, retention: Period) -> Command {
    Command::Claim { fingerprint: asks_for("pay"), lease, retention }
}

fn put(write: Write) -> Record {
    match write {
        Write::Put(record) => record,
        other => panic!("{other:?} where a record was to be put"),
    }
}

/// Case 38.
#[test]
fn a_length_is_rounded_up_to_a_millisecond_or_refused() {
    let mut refused = 0;
    for length in LENGTHS {
        assert_eq!(Period::new(length).map(Period::as_millis), millis_of(length), "{length:?}");
        refused += usize::from(Period::new(length).is_err());
    }
    assert_eq!(refused, 5, "zero, and four above 100 years");
}

/// Case 38.
#[test]
fn a_claim_at_any_moment_stands_for_its_lease_or_to_the_end_of_time() {
    for now in MOMENTS.map(Timestamp::from_millis) {
        for lease in lengths() {
            for retention in lengths() {
                let command = claim(lease, retention);
                assert!(grants(None, &command, now));
                let record = put(apply(None, &command, now, TOKEN).write);
                assert_eq!(record.check(), Ok(()));
                assert_eq!(record.lease_until, sum(now, lease));
                assert_eq!(record.expires_at, sum(sum(now, lease), retention));
                assert!(record.lease_until > now && record.expires_at >= record.lease_until);
                assert_eq!((record.lease, record.retention, record.created_at), (lease, retention, now));
                let again = apply(Some(&record), &command, now, TOKEN).outcome;
                assert!(matches!(again, Outcome::InProgress { .. }), "{again:?}");
            }
        }
    }
}

/// Case 38: what was made at one end of time meets every command at the other.
#[test]
fn every_command_on_every_record_at_every_moment_adds_up() {
    let mut changed = 0;
    for made in MOMENTS.map(Timestamp::from_millis) {
        for lease in lengths() {
            for retention in lengths() {
                let record = put(apply(None, &claim(lease, retention), made, TOKEN).write);
                for now in MOMENTS.map(Timestamp::from_millis) {
                    changed += usize::from(adds_up(&record, now));
                }
            }
        }
    }
    assert!(changed > 500, "{changed} records stood and were changed");
}

/// Whether the record stood and could be changed.
fn adds_up(record: &Record, now: Timestamp) -> bool {
    let told = |command: Command| apply(Some(record), &command, now, TOKEN);
    let reply_for =
        |retention| Command::Complete { token: TOKEN, reply: StoredResponse::new(200).into(), retention };
    let stands = now < record.expires_at;
    if !stands {
        assert!(matches!(told(Command::Renew { token: TOKEN }).write, Write::Keep));
        assert!(matches!(told(reply_for(record.retention)).write, Write::Keep));
        let fresh = put(told(claim(record.lease, record.retention)).write);
        assert_eq!((fresh.attempt, fresh.created_at), (1, now));
        assert_eq!(fresh.check(), Ok(()));
        return false;
    }
    for command in [
        Command::Renew { token: TOKEN },
        Command::Checkpoint { token: TOKEN, bytes: Bytes::from_static(b"half") },
    ] {
        let renewed = put(told(command).write);
        assert_eq!(renewed.check(), Ok(()));
        assert_eq!(renewed.lease_until, record.lease_until.max(sum(now, record.lease)));
        assert_eq!(renewed.expires_at, record.expires_at.max(sum(renewed.lease_until, record.retention)));
    }
    for retention in lengths() {
        let completed = put(told(reply_for(retention)).write);
        assert_eq!((completed.check(), completed.state), (Ok(()), State::Completed));
        assert_eq!((completed.completed_at, completed.expires_at), (Some(now), sum(now, retention)));
    }
    let abandoned = put(told(Command::Abandon { token: TOKEN }).write);
    assert_eq!(abandoned.check(), Ok(()));
    assert_eq!(abandoned.lease_until, record.lease_until.min(now));
    assert_eq!(abandoned.expires_at, record.expires_at);
    assert!(matches!(told(Command::Release { token: TOKEN }).write, Write::Delete));
    assert!(matches!(told(Command::Forget).write, Write::Delete));
    let answer = told(claim(record.lease, record.retention)).outcome;
    assert_eq!(matches!(answer, Outcome::Claimed(_)), record.lease_until <= now, "{answer:?}");
    assert_eq!(matches!(answer, Outcome::InProgress { .. }), now < record.lease_until, "{answer:?}");
    true
}

/// The attempt has an end of its own, and does not wrap there either: a takeover is never told that it is the
/// first attempt.
#[test]
fn the_attempt_stays_at_its_highest_number() {
    let lease = lengths()[0];
    let now = Timestamp::from_millis(0);
    let first = put(apply(None, &claim(lease, lease), now, TOKEN).write);
    let last = Record { attempt: u32::MAX, ..first };
    let next = put(apply(Some(&last), &claim(lease, lease), last.lease_until, TOKEN).write);
    assert_eq!((next.attempt, next.check()), (u32::MAX, Ok(())));
    let released = apply(Some(&next), &Command::Release { token: TOKEN }, last.lease_until, TOKEN);
    assert!(matches!(released.write, Write::Put(_)), "an earlier attempt may have had the effect");
}
