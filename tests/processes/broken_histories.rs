//! The history checker can fail: it refuses histories that a broken store would leave.

use crate::history::{Done, Seen, Terms, What, check};
use crate::report::{reply_of, request};
use idempotency::{FencingToken, LostReason, Period, Record, State, Timestamp};
use std::panic::catch_unwind;
use std::time::Duration;

const TERMS: Terms = Terms { lease: Duration::from_millis(30), retention: Duration::from_millis(60) };

pub fn token(number: i64) -> FencingToken {
    FencingToken::new(number).expect("a token")
}

pub const fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// Claim `number` of the key, made at `made`, for request 0.
pub fn granted(number: i64, attempt: u32, made: i64) -> What {
    What::Granted { token: token(number), attempt, until: at(made + 30), asked: request(0) }
}

pub fn done(number: i64, created: i64, completed: i64) -> Done {
    Done {
        reply: reply_of(token(number)),
        created_at: at(created),
        completed_at: at(completed),
        expires_at: at(completed + 60),
    }
}

pub fn recorded(number: i64, created: i64, completed: i64) -> What {
    What::Recorded { token: token(number), done: done(number, created, completed) }
}

pub fn replayed(done: Done) -> What {
    What::Replayed { done, asked: request(0) }
}

pub fn running(attempt: u32, until: i64) -> What {
    What::Running { attempt, until: at(until), asked: request(0) }
}

/// Calls of one key, one after the other.
pub fn in_turn(whats: impl IntoIterator<Item = What>) -> Vec<Seen> {
    let calls = whats.into_iter().zip(0..);
    calls.map(|(what, number)| Seen { began: 2 * number, ended: 2 * number + 1, key: 0, what }).collect()
}

/// The same calls, all begun before any of them ended.
pub fn at_once(whats: impl IntoIterator<Item = What>) -> Vec<Seen> {
    let mut calls = in_turn(whats);
    calls.iter_mut().for_each(|call| call.ended += 1_000);
    calls
}

/// A life with everything in it: a claim that is renewed and lapses, a takeover that completes, replays, and a
/// new life after the retention.
fn whole_life() -> Vec<What> {
    vec![
        granted(10, 1, 1_000),
        running(1, 1_030),
        What::Mismatched { asked: request(1) },
        What::Extended { token: token(10), until: at(1_050) },
        running(1, 1_050),
        granted(20, 2, 1_050),
        What::Lost { token: token(10), reason: LostReason::Running },
        running(2, 1_080),
        recorded(20, 1_000, 1_060),
        replayed(done(20, 1_000, 1_060)),
        What::RecordedBefore { token: token(20), done: done(20, 1_000, 1_060) },
        What::Lost { token: token(20), reason: LostReason::CompletedByThisClaim },
        What::Lost { token: token(10), reason: LostReason::Completed },
        granted(30, 1, 1_120),
        What::GivenUp { token: token(30) },
        granted(40, 1, 1_121),
        What::Forgotten,
        granted(50, 1, 1_122),
        What::Nothing,
    ]
}

pub fn judge(seen: &[Seen], left: Option<&Record>) -> Result<(), String> {
    let judged = catch_unwind(|| check("judged", TERMS, seen, |_| left.cloned()));
    judged.map(drop).map_err(|panic| *panic.downcast::<String>().expect("a message"))
}

#[track_caller]
pub fn assert_refused(seen: &[Seen], left: Option<&Record>, complaint: &str) {
    let refusal = judge(seen, left).expect_err(complaint);
    assert!(refusal.contains(complaint), "wanted “{complaint}”, got: {refusal}");
}

/// The record of a claim that was taken over and then completed.
pub fn completed_by_takeover() -> Record {
    let period = |length| Period::new(length).expect("a period");
    Record {
        fingerprint: request(0),
        state: State::Completed,
        token: token(20),
        attempt: 2,
        created_at: at(1_000),
        lease: period(TERMS.lease),
        retention: period(TERMS.retention),
        lease_until: at(1_060),
        completed_at: Some(at(1_040)),
        expires_at: at(1_100),
        checkpoint: None,
        reply: Some(reply_of(token(20))),
    }
}

#[test]
fn a_history_without_fault_is_accepted() {
    assert_eq!(judge(&in_turn(whole_life()), None), Ok(()));
    // Which came first is open.
    assert_eq!(judge(&at_once([running(1, 1_030), granted(10, 1, 1_000)]), None), Ok(()));
    assert_eq!(
        judge(
            &at_once([replayed(done(10, 1_000, 1_001)), granted(10, 1, 1_000), recorded(10, 1_000, 1_001)]),
            None
        ),
        Ok(())
    );
}

#[test]
fn two_owners_at_a_time_are_refused() {
    for (second, complaint) in [
        (granted(20, 2, 1_029), "stood until"),
        (granted(20, 1, 1_089), "stood until"),
        (granted(20, 1, 1_000), "stood until"),
        (granted(20, 3, 1_030), "after Grant"),
    ] {
        assert_refused(&in_turn([granted(10, 1, 1_000), second]), None, complaint);
    }
    let renewed =
        [granted(10, 1, 1_000), What::Extended { token: token(10), until: at(1_050) }, granted(20, 2, 1_049)];
    assert_refused(&in_turn(renewed), None, "stood until");
    let completed = [granted(10, 1, 1_000), recorded(10, 1_000, 1_010), granted(20, 1, 1_069)];
    assert_refused(&in_turn(completed), None, "stood until");
    let run_again = [granted(10, 1, 1_000), recorded(10, 1_000, 1_010), granted(20, 2, 1_100)];
    assert_refused(&in_turn(run_again), None, "after Grant");
}

#[test]
fn writes_of_a_claim_that_was_taken_over_are_refused() {
    for stale in [
        recorded(10, 1_000, 1_040),
        What::Extended { token: token(10), until: at(1_080) },
        What::GivenUp { token: token(10) },
    ] {
        assert_refused(
            &in_turn([granted(10, 1, 1_000), granted(20, 2, 1_030), stale]),
            None,
            "after Some(Grant",
        );
    }
    let renewed = What::Extended { token: token(10), until: at(1_080) };
    for after in [renewed, What::GivenUp { token: token(10) }] {
        let completed = [granted(10, 1, 1_000), recorded(10, 1_000, 1_010), after];
        assert_refused(&in_turn(completed), None, "after Some((Seen");
    }
    let twice = [granted(10, 1, 1_000), recorded(10, 1_000, 1_010), recorded(10, 1_000, 1_011)];
    assert_refused(&in_turn(twice.clone()), None, "completed twice");
    assert_refused(&at_once(twice), None, "completed twice");
    assert_refused(&in_turn([recorded(10, 1_000, 1_001)]), None, "was not granted");
    assert_refused(&in_turn([granted(10, 2, 1_000), recorded(10, 1_000, 1_001)]), None, "from nobody");
}

#[test]
fn a_token_that_is_granted_again_is_refused_whatever_the_key() {
    for again in [10, 9] {
        let mut seen = in_turn([granted(10, 1, 1_000), granted(again, 1, 2_000)]);
        seen[1].key = 1;
        assert_refused(&seen, None, if again == 10 { "granted twice" } else { "against time" });
    }
}

#[test]
fn a_replay_of_what_was_not_recorded_is_refused() {
    let claimed_and_completed = [granted(10, 1, 1_000), recorded(10, 1_000, 1_010)];
    let other_body = Done { reply: reply_of(token(11)), ..done(10, 1_000, 1_010) };
    for wrong in [other_body, done(10, 1_001, 1_010), done(10, 1_000, 1_011)] {
        let replay = [replayed(wrong.clone())];
        assert_refused(
            &in_turn(claimed_and_completed.clone().into_iter().chain(replay)),
            None,
            "was not recorded",
        );
        let again = [What::RecordedBefore { token: token(10), done: wrong }];
        assert_refused(
            &in_turn(claimed_and_completed.clone().into_iter().chain(again)),
            None,
            "was not recorded",
        );
    }
    let early = [granted(10, 1, 1_000), replayed(done(10, 1_000, 1_010)), recorded(10, 1_000, 1_010)];
    assert_refused(&in_turn(early), None, "was not recorded");
    let old =
        claimed_and_completed.into_iter().chain([granted(20, 1, 1_070), replayed(done(10, 1_000, 1_010))]);
    assert_refused(&in_turn(old), None, "after Some(Grant");
    let wrong_start = [granted(10, 1, 1_000), granted(20, 2, 1_030), recorded(20, 1_030, 1_040)];
    assert_refused(&in_turn(wrong_start), None, "began with");
}

#[test]
fn another_request_within_one_life_is_refused() {
    let other = What::Granted { token: token(20), attempt: 2, until: at(1_060), asked: request(1) };
    assert_refused(&in_turn([granted(10, 1, 1_000), other]), None, "another request");
    let replay = What::Replayed { done: done(10, 1_000, 1_010), asked: request(1) };
    assert_refused(
        &in_turn([granted(10, 1, 1_000), recorded(10, 1_000, 1_010), replay]),
        None,
        "another request",
    );
    let runs = What::Running { attempt: 1, until: at(1_030), asked: request(1) };
    assert_refused(&in_turn([granted(10, 1, 1_000), runs]), None, "no such claim stood");
    let mismatch = What::Mismatched { asked: request(0) };
    assert_refused(&in_turn([granted(10, 1, 1_000), mismatch]), None, "no other request");
}

#[test]
fn a_claim_that_is_said_to_run_and_does_not_is_refused() {
    let ended = [
        What::GivenUp { token: token(10) },
        What::Forgotten,
        granted(20, 2, 1_030),
        recorded(10, 1_000, 1_010),
    ];
    for end in ended {
        assert_refused(
            &in_turn([granted(10, 1, 1_000), end, running(1, 1_030)]),
            None,
            "no such claim stood",
        );
    }
    for wrong in [running(2, 1_030), running(1, 1_031)] {
        assert_refused(&in_turn([granted(10, 1, 1_000), wrong]), None, "no such claim stood");
    }
    assert_refused(&in_turn([running(1, 1_030), granted(10, 1, 1_000)]), None, "no such claim stood");
}

#[test]
fn a_loss_to_nobody_is_refused() {
    for reason in [LostReason::Running, LostReason::Completed] {
        assert_refused(
            &in_turn([granted(10, 1, 1_000), What::Lost { token: token(10), reason }]),
            None,
            "to nobody",
        );
    }
    let unrecorded = What::Lost { token: token(10), reason: LostReason::CompletedByThisClaim };
    assert_refused(&in_turn([granted(10, 1, 1_000), unrecorded]), None, "CompletedByThisClaim");
}

#[test]
fn a_record_that_is_left_by_another_claim_than_the_newest_is_refused() {
    let left = completed_by_takeover();
    let seen = in_turn([granted(10, 1, 1_000), granted(20, 2, 1_030), recorded(20, 1_000, 1_040)]);
    assert_eq!(judge(&seen, Some(&left)), Ok(()));
    for wrong in [
        Record { token: token(10), attempt: 1, ..left.clone() },
        Record { fingerprint: request(1), ..left.clone() },
        Record { state: State::InProgress, completed_at: None, reply: None, ..left.clone() },
        Record { reply: Some(reply_of(token(10))), ..left.clone() },
    ] {
        assert_refused(&seen, Some(&wrong), "judged, key 0");
    }
    assert_refused(&in_turn([granted(10, 1, 1_000), granted(20, 2, 1_030)]), Some(&left), "judged, key 0");
}

#[test]
fn a_write_to_a_record_that_was_forgotten_is_refused() {
    for write in [recorded(10, 1_000, 1_010), What::Extended { token: token(10), until: at(1_040) }] {
        assert_refused(&in_turn([granted(10, 1, 1_000), What::Forgotten, write]), None, "after Some(Seen");
    }
}

#[test]
fn a_reply_that_is_kept_for_another_time_than_its_retention_is_refused() {
    let short = Done { expires_at: at(1_020), ..done(10, 1_000, 1_010) };
    let recorded = What::Recorded { token: token(10), done: short };
    assert_refused(&in_turn([granted(10, 1, 1_000), recorded]), None, "");
}
