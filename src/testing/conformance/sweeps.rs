//! A sweep removes what has expired, and changes no answer.

use super::stage::{
    EXPIRY, LEASE, OTHER, REPLAY, REQUEST, Stage, Step, Stop, around, claim, claim_for, key, owner_commands,
};
use crate::key::RecordId;
use crate::outcome::Outcome;
use crate::reply::Reply;
use crate::time::Period;
use crate::transition::Command;

pub(super) fn a_sweep_removes_what_has_expired_and_nothing_else(stage: &mut Stage<'_>) -> Step {
    let (old, done) = (key("expired")?, key("expired reply")?);
    stage.granted(&old, &claim_for(REQUEST, 1, 1)?)?;
    let token = stage.claim(&done)?.token;
    stage.complete(&done, token, Reply::Marker)?;
    stage.at(REPLAY);
    let mut live = Vec::new();
    for name in ["running", "lapsed", "abandoned", "completed"] {
        let id = key(name)?;
        let lease = if name == "lapsed" { 1 } else { LEASE };
        let token = stage.granted(&id, &claim_for(REQUEST, lease, EXPIRY)?)?.token;
        match name {
            "abandoned" => drop(stage.ask(&id, &Command::Abandon { token })?),
            "completed" => stage.complete(&id, token, Reply::Marker)?,
            _ => {}
        }
        live.push(id);
    }
    stage.at(REPLAY.saturating_add(1));
    let before: Vec<_> = live.iter().map(|id| stage.stored(id)).collect::<Step<_>>()?;
    let removed = stage.sweep_all()?;
    stage.same("how many records were removed", &2, &removed)?;
    for (id, before) in live.iter().zip(&before) {
        stage.holds(id, before.as_ref())?;
    }
    stage.holds(&old, None)?;
    stage.holds(&done, None)
}

pub(super) fn a_sweep_leaves_a_record_to_its_last_millisecond(stage: &mut Stage<'_>) -> Step {
    for (deadline, completes) in [(EXPIRY, false), (REPLAY, true)] {
        for (at, is_over) in around(deadline) {
            stage.at(0);
            let id = key(&format!("at {at}"))?;
            let token = stage.claim(&id)?.token;
            if completes {
                stage.complete(&id, token, Reply::Marker)?;
            }
            stage.at(at);
            let removed = stage.sweep_all()?;
            stage.same("how many records were removed", &usize::from(is_over), &removed)?;
            let seen = stage.stored(&id)?.is_none();
            stage.same("whether the record is gone", &is_over, &seen)?;
            stage.ask(&id, &Command::Forget)?;
        }
    }
    Ok(())
}

pub(super) fn a_sweep_removes_at_most_its_limit_and_says_whether_there_is_more(
    stage: &mut Stage<'_>,
) -> Step {
    let mut left: usize = 7;
    for number in 0..left {
        stage.granted(&key(&format!("expired {number}"))?, &claim_for(REQUEST, 1, 1)?)?;
    }
    stage.at(2);
    stage.claim(&key("live")?)?;
    for limit in [0, 1, 2] {
        let swept = stage.sweep(limit)?;
        if swept.removed > limit {
            return Err(Stop::broken(
                "how many were removed",
                format!("at most {limit}"),
                swept.removed.to_string(),
            ));
        }
        left = left.saturating_sub(swept.removed);
        stage.same("whether there is more", &(left > 0), &swept.more)?;
    }
    let removed = stage.sweep_all()?;
    stage.same("how many more were removed", &left, &removed)?;
    let swept = stage.sweep(0)?;
    stage.same("whether there is more", &false, &swept.more)
}

pub(super) fn a_record_that_lives_longer_than_it_was_to_is_not_swept(stage: &mut Stage<'_>) -> Step {
    let late = |id: &RecordId| claim_for(REQUEST, 10, 10).map(|command| (id.clone(), command));
    let mut live = Vec::new();
    for name in ["renewed", "completed", "taken over", "claimed anew"] {
        let (id, command) = late(&key(name)?)?;
        let token = stage.granted(&id, &command)?.token;
        live.push((id, token));
    }
    for (id, token) in &live {
        // Each is to expire at 20 ms; whatever is done now moves that.
        let (at, command) = match id.key.as_str() {
            "renewed" => (19, Command::Renew { token: *token }),
            "completed" => {
                let retention = Period::from_millis(1_000)?;
                (19, Command::Complete { token: *token, reply: Reply::Marker, retention })
            }
            "taken over" => (19, claim(REQUEST)?),
            _ => (20, claim(OTHER)?),
        };
        stage.at(at);
        stage.ask(id, &command)?;
    }
    stage.at(25);
    let before: Vec<_> = live.iter().map(|(id, _)| stage.record(id)).collect::<Step<_>>()?;
    let removed = stage.sweep_all()?;
    stage.same("how many records were removed", &0, &removed)?;
    for ((id, _), before) in live.iter().zip(&before) {
        stage.holds(id, Some(before))?;
    }
    Ok(())
}

pub(super) fn a_record_that_ends_earlier_than_it_was_to_is_swept(stage: &mut Stage<'_>) -> Step {
    let id = key("short")?;
    let token = stage.claim(&id)?.token;
    stage.complete(&id, token, Reply::Marker)?;
    stage.at(REPLAY);
    let removed = stage.sweep_all()?;
    stage.same("how many records were removed", &1, &removed)?;
    stage.holds(&id, None)
}

pub(super) fn a_sweep_changes_no_answer(stage: &mut Stage<'_>) -> Step {
    let mut answers: Vec<Vec<Outcome>> = Vec::new();
    for sweeps in [false, true] {
        stage.at(0);
        let (claimed, done) = (key(&format!("claimed {sweeps}"))?, key(&format!("done {sweeps}"))?);
        let token = stage.claim(&claimed)?.token;
        let done_token = stage.claim(&done)?.token;
        stage.complete(&done, done_token, Reply::Marker)?;
        stage.at(EXPIRY);
        if sweeps {
            stage.sweep_all()?;
            stage.holds(&claimed, None)?;
        }
        let mut heard = Vec::new();
        for (id, token) in [(&claimed, token), (&done, done_token)] {
            for command in owner_commands(token)? {
                heard.push(stage.ask(id, &command)?);
            }
            heard.push(stage.ask(id, &Command::Forget)?);
        }
        answers.push(heard);
    }
    if let [without, with] = answers.as_slice() {
        for (without, with) in without.iter().zip(with) {
            stage.same("an answer after a sweep", without, with)?;
        }
    }
    Ok(())
}
