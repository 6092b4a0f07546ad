//! What the commands of an owner are answered whose claim is not its own any more.

use super::stage::{
    EXPIRY, LEASE, REPLAY, REQUEST, Stage, Step, Stop, claim, claimed, completed, key, owner_commands,
};
use crate::key::RecordId;
use crate::outcome::{LostReason, Outcome};
use crate::record::{FencingToken, Record};
use crate::reply::Reply;
use crate::transition::Command;

/// Gives all of an owner's commands with `token`: each must be answered that the claim is lost, and leave `record`
/// as it is.
fn lost(stage: &mut Stage<'_>, id: &RecordId, token: FencingToken, why: LostReason, record: &Record) -> Step {
    for command in owner_commands(token)? {
        stage.wants(id, &command, &Outcome::Lost(why))?;
        stage.holds(id, Some(record))?;
    }
    Ok(())
}

/// Gives all of an owner's commands with `token`, where there is no record for them.
fn gone(stage: &mut Stage<'_>, id: &RecordId, token: FencingToken) -> Step {
    let stored = stage.stored(id)?;
    for command in owner_commands(token)? {
        let expected = match command {
            Command::Release { .. } | Command::Abandon { .. } => Outcome::AlreadyGone,
            _ => Outcome::Lost(LostReason::Gone),
        };
        stage.wants(id, &command, &expected)?;
        stage.holds(id, stored.as_ref())?;
    }
    Ok(())
}

pub(super) fn an_owner_that_was_taken_over_changes_nothing(stage: &mut Stage<'_>) -> Step {
    let id = key("taken over")?;
    let old = stage.claim(&id)?;
    stage.at(LEASE);
    let new = stage.claim(&id)?;
    let record = claimed(&new, 0, LEASE)?;
    lost(stage, &id, old.token, LostReason::Running, &record)?;
    // Nor once the new claim has lapsed as well.
    stage.at(LEASE.saturating_mul(2));
    lost(stage, &id, old.token, LostReason::Running, &record)
}

pub(super) fn an_owner_whose_successor_has_completed_changes_nothing(stage: &mut Stage<'_>) -> Step {
    let id = key("taken over")?;
    let old = stage.claim(&id)?;
    stage.at(LEASE);
    let new = stage.claim(&id)?;
    stage.complete(&id, new.token, Reply::Marker)?;
    let record = completed(&claimed(&new, 0, LEASE)?, Reply::Marker, LEASE);
    lost(stage, &id, old.token, LostReason::Completed, &record)
}

pub(super) fn a_claim_that_has_completed_changes_nothing_more(stage: &mut Stage<'_>) -> Step {
    let id = key("done")?;
    let grant = stage.claim(&id)?;
    stage.complete(&id, grant.token, Reply::Marker)?;
    let record = completed(&claimed(&grant, 0, 0)?, Reply::Marker, 0);
    stage.at(1);
    for command in owner_commands(grant.token)? {
        if !matches!(command, Command::Complete { .. }) {
            stage.wants(&id, &command, &Outcome::Lost(LostReason::CompletedByThisClaim))?;
            stage.holds(&id, Some(&record))?;
        }
    }
    Ok(())
}

pub(super) fn a_token_of_another_claim_is_no_proof(stage: &mut Stage<'_>) -> Step {
    let (elsewhere, id) = (key("elsewhere")?, key("here")?);
    let foreign = stage.claim(&elsewhere)?;
    let own = stage.claim(&id)?;
    let never = FencingToken::new(own.token.get().saturating_add(1));
    let never =
        never.ok_or_else(|| Stop::broken("a token", "at most i64::MAX - 1", own.token.to_string()))?;
    let record = claimed(&own, 0, 0)?;
    for token in [foreign.token, never, FencingToken::FIRST] {
        lost(stage, &id, token, LostReason::Running, &record)?;
    }
    stage.complete(&id, own.token, Reply::Marker)?;
    lost(stage, &id, foreign.token, LostReason::Completed, &completed(&record, Reply::Marker, 0))?;
    stage.holds(&elsewhere, Some(&claimed(&foreign, 0, 0)?))
}

pub(super) fn an_owner_whose_record_is_gone_creates_none(stage: &mut Stage<'_>) -> Step {
    let absent = key("absent")?;
    let other = stage.claim(&key("other")?)?;
    gone(stage, &absent, other.token)?;

    let released = key("released")?;
    let token = stage.claim(&released)?.token;
    stage.ask(&released, &Command::Release { token })?;
    gone(stage, &released, token)?;

    let forgotten = key("forgotten")?;
    let token = stage.claim(&forgotten)?.token;
    stage.ask(&forgotten, &Command::Forget)?;
    gone(stage, &forgotten, token)
}

pub(super) fn an_expired_record_is_gone_for_its_owner_and_stays_until_it_is_swept(
    stage: &mut Stage<'_>,
) -> Step {
    let claim_of = key("claimed")?;
    let claim = stage.claim(&claim_of)?;
    let done_of = key("completed")?;
    let done = stage.claim(&done_of)?;
    stage.complete(&done_of, done.token, Reply::Marker)?;
    for at in [EXPIRY, EXPIRY.saturating_add(1)] {
        stage.at(at);
        gone(stage, &claim_of, claim.token)?;
        gone(stage, &done_of, done.token)?;
    }
    stage.holds(&claim_of, Some(&claimed(&claim, 0, 0)?))?;
    stage.at(REPLAY);
    gone(stage, &done_of, done.token)?;
    stage.holds(&done_of, Some(&completed(&claimed(&done, 0, 0)?, Reply::Marker, 0)))
}

pub(super) fn a_token_from_before_the_record_went_away_is_no_proof(stage: &mut Stage<'_>) -> Step {
    let id = key("reborn")?;
    let old = stage.claim(&id)?;
    stage.at(EXPIRY);
    stage.sweep_all()?;
    let new = stage.granted_first(&id, &claim(REQUEST)?)?;
    // The new record is in exactly the state that the old one was in.
    lost(stage, &id, old.token, LostReason::Running, &claimed(&new, EXPIRY, EXPIRY)?)?;
    stage.complete(&id, new.token, Reply::Marker)
}
