//! The history checker where calls may have been done: it accepts what either of the two explains, and refuses
//! what neither does.

use crate::broken_histories::{
    assert_refused, at, completed_by_takeover, done, granted, in_turn, judge, recorded, replayed, running,
    token,
};
use crate::history::{Done, Perhaps, What};
use crate::report::{reply_of, request};
use idempotency::{LostReason, Record, State};

fn perhaps_granted() -> What {
    What::Perhaps(Perhaps::Granted { asked: request(0) })
}

fn perhaps_extended(number: i64) -> What {
    What::Perhaps(Perhaps::Extended { token: token(number) })
}

fn perhaps_recorded(number: i64) -> What {
    What::Perhaps(Perhaps::Recorded { token: token(number), reply: reply_of(token(number)) })
}

fn perhaps_given_up(number: i64) -> What {
    What::Perhaps(Perhaps::GivenUp { token: token(number) })
}

fn found(number: i64, attempt: u32, made: i64) -> What {
    What::Found { token: token(number), attempt, until: at(made + 30), asked: request(0) }
}

#[track_caller]
fn assert_accepted<const N: usize>(whats: [What; N]) {
    let seen = in_turn(whats);
    assert_eq!(judge(&seen, None), Ok(()), "{seen:?}");
}

#[track_caller]
fn assert_none_explains<const N: usize>(whats: [What; N], complaint: &str) {
    assert_refused(&in_turn(whats), None, complaint);
}

#[test]
fn a_claim_that_may_have_been_granted_explains_what_follows_from_it_and_from_its_absence() {
    assert_accepted([perhaps_granted(), granted(10, 1, 1_000)]);
    assert_accepted([perhaps_granted(), What::Nothing, granted(10, 1, 1_000)]);
    assert_accepted([
        perhaps_granted(),
        running(1, 1_030),
        granted(10, 2, 1_030),
        recorded(10, 1_000, 1_040),
    ]);
    assert_accepted([perhaps_granted(), found(10, 1, 1_000), recorded(10, 1_000, 1_040)]);
    let lost = What::Lost { token: token(10), reason: LostReason::Running };
    assert_accepted([granted(10, 1, 1_000), perhaps_granted(), lost, granted(20, 3, 1_060)]);
    assert_accepted([granted(10, 1, 1_000), perhaps_granted(), found(20, 2, 1_030), granted(30, 3, 1_060)]);
    // Two of them, and only the second was granted.
    assert_accepted([perhaps_granted(), granted(10, 1, 1_000), perhaps_granted(), found(20, 2, 1_030)]);
    // Granted after the retention of the first: a new life, taken over.
    assert_accepted([granted(10, 1, 1_000), perhaps_granted(), granted(30, 2, 1_200)]);
}

#[test]
fn a_claim_that_no_call_may_have_been_granted_is_refused() {
    // One hidden claim is one attempt.
    assert_none_explains([granted(10, 1, 1_000), perhaps_granted(), granted(20, 4, 1_090)], "after Grant");
    assert_none_explains([granted(10, 1, 1_000), granted(20, 3, 1_060), perhaps_granted()], "after Grant");
    let other = What::Perhaps(Perhaps::Granted { asked: request(1) });
    assert_none_explains([granted(10, 1, 1_000), other.clone(), granted(20, 3, 1_060)], "after Grant");
    assert_none_explains([other, running(1, 1_030)], "no such claim stood");
    assert_none_explains([running(1, 1_030), perhaps_granted()], "no such claim stood");
    // Once it is found, it is a claim like any other.
    let early = [perhaps_granted(), found(10, 1, 1_000), granted(20, 2, 1_029)];
    assert_none_explains(early, "stood until");
    let early = [granted(10, 1, 1_000), perhaps_granted(), found(20, 2, 1_029)];
    assert_none_explains(early, "stood until");
    assert_none_explains([found(10, 1, 1_000), perhaps_granted()], "no such claim was granted");
    let twice = [perhaps_granted(), found(10, 1, 1_000), found(20, 2, 1_030)];
    assert_none_explains(twice, "no such claim was granted");
    // It does not take a claim away before its time.
    assert_none_explains([granted(10, 1, 1_000), perhaps_granted(), granted(20, 3, 1_029)], "stood until");
    let against_time = [granted(10, 1, 1_000), perhaps_granted(), found(9, 2, 1_030)];
    assert_none_explains(against_time, "no such claim was granted");
}

#[test]
fn a_completion_that_may_have_been_recorded_explains_one_reply_and_none() {
    let (claim, replay) = (granted(10, 1, 1_000), replayed(done(10, 1_000, 1_010)));
    assert_accepted([claim.clone(), perhaps_recorded(10), replay.clone(), replay.clone()]);
    assert_accepted([claim.clone(), perhaps_recorded(10), recorded(10, 1_000, 1_011)]);
    let again = What::RecordedBefore { token: token(10), done: done(10, 1_000, 1_010) };
    assert_accepted([claim.clone(), perhaps_recorded(10), again, replay.clone()]);
    let lost = What::Lost { token: token(10), reason: LostReason::CompletedByThisClaim };
    assert_accepted([claim.clone(), perhaps_recorded(10), lost]);
    assert_accepted([claim.clone(), perhaps_recorded(10), granted(20, 2, 1_030)]);
    assert_accepted([claim.clone(), perhaps_recorded(10), granted(20, 1, 1_060)]);

    // One call records one reply.
    let later = replayed(done(10, 1_000, 1_011));
    assert_none_explains(
        [claim.clone(), perhaps_recorded(10), replay.clone(), later.clone()],
        "was not recorded",
    );
    let other_body = Done { reply: reply_of(token(11)), ..done(10, 1_000, 1_010) };
    assert_none_explains([claim.clone(), perhaps_recorded(10), replayed(other_body)], "was not recorded");
    let recorded_too = [claim.clone(), perhaps_recorded(10), replay.clone(), recorded(10, 1_000, 1_011)];
    assert_none_explains(recorded_too, "completed twice");
    assert_none_explains([claim.clone(), replay.clone(), perhaps_recorded(10)], "was not recorded");
    // Once it is seen, the claim has completed, and so may nobody else before its retention ends.
    let run_again = [claim.clone(), perhaps_recorded(10), replay.clone(), granted(20, 2, 1_030)];
    assert_none_explains(run_again, "after Grant");
    let too_early = [claim.clone(), perhaps_recorded(10), granted(20, 1, 1_059)];
    assert_none_explains(too_early, "stood until");
    // A claim that was taken over before it has recorded nothing.
    let stale = [claim, granted(20, 2, 1_030), perhaps_recorded(10), replay];
    assert_none_explains(stale, "after Some(Grant");
}

#[test]
fn an_extension_and_an_end_that_may_have_been_explain_both_what_stands_and_what_does_not() {
    let claim = granted(10, 1, 1_000);
    assert_accepted([claim.clone(), perhaps_extended(10), granted(20, 2, 1_030)]);
    assert_accepted([claim.clone(), perhaps_extended(10), running(1, 1_050), granted(20, 2, 1_050)]);
    assert_accepted([
        claim.clone(),
        What::GivenUp { token: token(10) },
        perhaps_extended(10),
        running(1, 1_050),
    ]);
    for end in [perhaps_given_up(10), What::Perhaps(Perhaps::Forgotten)] {
        assert_accepted([claim.clone(), end.clone(), running(1, 1_030)]);
        assert_accepted([claim.clone(), end, granted(20, 1, 1_001)]);
    }
    assert_accepted([claim.clone(), perhaps_given_up(10), granted(20, 2, 1_001)]);

    let seen_to_stand = [claim.clone(), perhaps_extended(10), running(1, 1_050), granted(20, 2, 1_049)];
    assert_none_explains(seen_to_stand, "stood until");
    let twice = [claim.clone(), perhaps_extended(10), running(1, 1_050), running(1, 1_051)];
    assert_none_explains(twice, "no such claim stood");
    let later = [claim.clone(), running(1, 1_050), perhaps_extended(10)];
    assert_none_explains(later, "no such claim stood");
    let stale = [claim.clone(), granted(20, 2, 1_030), perhaps_extended(10), running(2, 1_070)];
    assert_none_explains(stale, "no such claim stood");
    assert_none_explains([claim.clone(), perhaps_given_up(11), granted(20, 2, 1_001)], "stood until");
    assert_none_explains([claim.clone(), granted(20, 2, 1_001), perhaps_given_up(10)], "stood until");
    // What ended a claim that is found to run is not what ended it.
    let revived = [claim, What::GivenUp { token: token(10) }, perhaps_given_up(10), running(1, 1_030)];
    assert_none_explains(revived, "no such claim stood");
}

#[test]
fn a_record_that_is_left_shows_what_may_have_been_done_and_what_was_not() {
    let left = completed_by_takeover();
    let claims = [granted(10, 1, 1_000), granted(20, 2, 1_030)];
    let with = |last: What| in_turn(claims.clone().into_iter().chain([last]));
    assert_eq!(judge(&with(perhaps_recorded(20)), Some(&left)), Ok(()));
    let running = Record { state: State::InProgress, completed_at: None, reply: None, ..left.clone() };
    assert_eq!(judge(&with(perhaps_recorded(20)), Some(&running)), Ok(()));
    let hidden = Record { token: token(30), attempt: 3, ..running.clone() };
    assert_eq!(judge(&with(perhaps_granted()), Some(&hidden)), Ok(()));

    assert_refused(&with(perhaps_recorded(10)), Some(&left), "judged, key 0");
    let other = Record { reply: Some(reply_of(token(10))), ..left.clone() };
    assert_refused(&with(perhaps_recorded(20)), Some(&other), "judged, key 0");
    // Nobody can have completed a claim whose token nobody knew.
    let unknown = Record { token: token(30), attempt: 3, ..left };
    assert_refused(&with(perhaps_granted()), Some(&unknown), "judged, key 0");
    assert_refused(&with(perhaps_recorded(20)), Some(&hidden), "judged, key 0");
}

#[test]
fn what_may_have_been_done_to_a_completed_record_excuses_no_loss_of_it() {
    let completed = [granted(10, 1, 1_000), recorded(10, 1_000, 1_010)];
    let [claim, completion] = completed.clone();
    assert_none_explains([claim, completion, perhaps_given_up(10), granted(20, 1, 1_011)], "stood until");
    let [claim, completion] = completed;
    assert_accepted([claim, completion, What::Perhaps(Perhaps::Forgotten), granted(20, 1, 1_011)]);
}

#[test]
fn what_may_have_been_done_later_excuses_nothing_of_before() {
    assert_accepted([granted(10, 1, 1_000), perhaps_recorded(10), granted(20, 1, 1_060)]);
    assert_none_explains([granted(10, 1, 1_000), granted(20, 1, 1_060), perhaps_recorded(10)], "stood until");
}
