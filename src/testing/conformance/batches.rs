//! Many commands in one call.

use super::stage::{
    LEASE, OTHER, REQUEST, Stage, Step, checkpoint, claim, claimed, complete, completed, key, moment,
};
use crate::outcome::{Completed, LostReason, Outcome};
use crate::reply::Reply;
use crate::transition::Command;

/// What kind of an answer it is.
fn kind(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Claimed(_) => "claimed",
        Outcome::Completed(_) => "completed",
        Outcome::InProgress { .. } => "in progress",
        Outcome::FingerprintMismatch(_) => "mismatch",
        Outcome::Recorded(_) => "recorded",
        Outcome::AlreadyRecorded(_) => "already recorded",
        Outcome::Renewed { .. } => "renewed",
        Outcome::Released => "released",
        Outcome::Abandoned => "abandoned",
        Outcome::AlreadyGone => "already gone",
        Outcome::Lost(_) => "lost",
        Outcome::Forgotten { .. } => "forgotten",
    }
}

pub(super) fn a_batch_is_answered_in_its_order(stage: &mut Stage<'_>) -> Step {
    let ids = ["a", "b", "c", "d", "e"].iter().map(|name| key(name)).collect::<Step<Vec<_>>>()?;
    let [a, b, c, d, e] = ids.as_slice() else { return Ok(()) };
    let (own, done, free) = (stage.claim(a)?, stage.claim(b)?, stage.claim(d)?);
    stage.complete(b, done.token, Reply::Marker)?;
    let batch = [
        (e.clone(), claim(REQUEST)?),
        (a.clone(), claim(REQUEST)?),
        (b.clone(), claim(REQUEST)?),
        (a.clone(), claim(OTHER)?),
        (c.clone(), Command::Renew { token: own.token }),
        (a.clone(), Command::Renew { token: own.token }),
        (b.clone(), complete(done.token, Reply::Marker)?),
        (c.clone(), Command::Abandon { token: own.token }),
        (d.clone(), Command::Release { token: free.token }),
        (a.clone(), complete(own.token, Reply::Marker)?),
        (e.clone(), Command::Forget),
    ];
    let expected = [
        "claimed",
        "in progress",
        "completed",
        "mismatch",
        "lost",
        "renewed",
        "already recorded",
        "already gone",
        "released",
        "recorded",
        "forgotten",
    ];
    let answers = stage.batch(&batch)?;
    for ((seen, expected), (_, command)) in answers.iter().zip(expected).zip(&batch) {
        if kind(seen) != expected {
            let what = format!("the answer to {command:?} in a batch");
            return Err(super::Stop::broken(what, expected, kind(seen)));
        }
    }
    stage.holds(a, Some(&completed(&claimed(&own, 0, 0)?, Reply::Marker, 0)))?;
    stage.holds(d, None)?;
    stage.holds(e, None)
}

pub(super) fn a_command_sees_what_those_before_it_in_the_batch_did(stage: &mut Stage<'_>) -> Step {
    let (id, lapsed) = (key("twice")?, key("lapsed")?);
    let old = stage.claim(&lapsed)?;
    stage.at(LEASE);
    let answers = stage.batch(&[
        (id.clone(), claim(REQUEST)?),
        (id.clone(), claim(REQUEST)?),
        (id.clone(), Command::Forget),
        (id.clone(), claim(REQUEST)?),
        (lapsed.clone(), claim(REQUEST)?),
        (lapsed.clone(), complete(old.token, Reply::Marker)?),
        (lapsed, checkpoint(old.token, b"late")),
    ])?;
    let [
        Outcome::Claimed(first),
        second,
        forgotten,
        Outcome::Claimed(third),
        Outcome::Claimed(takeover),
        rest @ ..,
    ] = answers.as_slice()
    else {
        let seen = answers.iter().map(kind).collect::<Vec<_>>().join(", ");
        let expected = "claimed, in progress, forgotten, claimed, claimed, lost, lost";
        return Err(super::Stop::broken("the answers to a batch", expected, seen));
    };
    let running = Outcome::InProgress { lease_until: first.lease_until, attempt: 1, now: moment(LEASE) };
    stage.same("the second claim of one key", &running, second)?;
    stage.same("forgetting it", &Outcome::Forgotten { existed: true }, forgotten)?;
    stage.same("a first attempt", &1, &u64::from(third.attempt))?;
    stage.same("a takeover", &2, &u64::from(takeover.attempt))?;
    stage.same("whether tokens rise", &true, &(first.token < third.token && third.token < takeover.token))?;
    for lost in rest {
        stage.same("an owner that was taken over in the batch", &Outcome::Lost(LostReason::Running), lost)?;
    }
    stage.holds(&id, Some(&claimed(third, LEASE, LEASE)?))
}

pub(super) fn a_long_batch_has_an_answer_for_each_command(stage: &mut Stage<'_>) -> Step {
    let nothing = stage.batch(&[])?;
    stage.same("the number of answers to an empty batch", &0, &nothing.len())?;
    let mut batch = Vec::new();
    for number in 0..1_100 {
        batch.push((key(&format!("key {number}"))?, claim(REQUEST)?));
    }
    let mut grants = Vec::new();
    for outcome in stage.batch(&batch)? {
        match outcome {
            Outcome::Claimed(grant) => grants.push(grant),
            other => return Err(super::Stop::broken("a claim in a long batch", "granted", kind(&other))),
        }
    }
    let rise = grants.is_sorted_by(|one, next| one.token < next.token);
    stage.same("whether the tokens of a batch rise in its order", &true, &rise)?;
    for ((id, _), grant) in batch.iter().zip(&grants).step_by(366) {
        stage.holds(id, Some(&claimed(grant, 0, 0)?))?;
        let done = Completed::of(&completed(&claimed(grant, 0, 0)?, Reply::Marker, 0));
        let seen = stage.ask(id, &complete(grant.token, Reply::Marker)?)?;
        stage.same("completing a claim of a batch", &done.map(Outcome::Recorded), &Some(seen))?;
    }
    Ok(())
}
