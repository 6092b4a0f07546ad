//! What a claim is answered.

use super::stage::{
    EXPIRY, LEASE, OTHER, REPLAY, REQUEST, RETENTION, Stage, Step, Stop, checkpoint, claim, claim_for,
    claimed, completed, key, moment,
};
use crate::outcome::{Completed, Grant, Outcome};
use crate::record::Record;
use crate::reply::Reply;
use crate::time::Period;
use crate::transition::Command;

pub(super) fn a_free_key_is_granted(stage: &mut Stage<'_>) -> Step {
    let id = key("free")?;
    let grant = stage.granted_first(&id, &claim(REQUEST)?)?;
    stage.same("the end of the lease", &moment(LEASE), &grant.lease_until)?;
    stage.holds(&id, Some(&claimed(&grant, 0, 0)?))
}

pub(super) fn a_claim_that_stands_is_told_to_others_and_not_touched(stage: &mut Stage<'_>) -> Step {
    let id = key("running")?;
    let grant = stage.claim(&id)?;
    let record = claimed(&grant, 0, 0)?;
    // The other's own terms play no part.
    for command in [claim(REQUEST)?, claim_for(REQUEST, 1, 1)?, claim_for(REQUEST, EXPIRY, EXPIRY)?] {
        for at in [0, 1] {
            stage.at(at);
            let running = Outcome::InProgress { lease_until: moment(LEASE), attempt: 1, now: moment(at) };
            stage.wants(&id, &command, &running)?;
            stage.holds(&id, Some(&record))?;
        }
    }
    Ok(())
}

pub(super) fn a_lapsed_claim_is_taken_over(stage: &mut Stage<'_>) -> Step {
    let id = key("lapsed")?;
    let first = stage.claim(&id)?;
    stage.at(LEASE);
    let grant = stage.granted(&id, &claim_for(REQUEST, 7_000, 11_000)?)?;
    if grant.token <= first.token {
        return Err(Stop::broken(
            "the token of a takeover",
            format!("above {}", first.token),
            grant.token.to_string(),
        ));
    }
    let until = moment(LEASE.saturating_add(7_000));
    let expected = Grant { token: grant.token, attempt: 2, lease_until: until, checkpoint: None };
    stage.same("the grant", &Outcome::Claimed(expected), &Outcome::Claimed(grant.clone()))?;
    let (lease, retention) = (Period::from_millis(7_000)?, Period::from_millis(11_000)?);
    let expires_at = moment(LEASE.saturating_add(18_000));
    let record = Record { lease, retention, lease_until: until, expires_at, ..claimed(&grant, 0, LEASE)? };
    stage.holds(&id, Some(&record))
}

pub(super) fn each_takeover_counts_and_hands_the_checkpoint_on(stage: &mut Stage<'_>) -> Step {
    let id = key("again and again")?;
    let mut grant = stage.claim(&id)?;
    stage.ask(&id, &checkpoint(grant.token, b"page 7"))?;
    for attempt in 2..=4 {
        let at = LEASE.saturating_mul(i64::from(attempt));
        stage.at(at);
        grant = stage.claim(&id)?;
        let expected = Grant { attempt, checkpoint: Some("page 7".into()), ..grant.clone() };
        stage.same("the grant", &Outcome::Claimed(expected), &Outcome::Claimed(grant.clone()))?;
        stage.holds(&id, Some(&claimed(&grant, 0, at)?))?;
        let running = Outcome::InProgress { lease_until: grant.lease_until, attempt, now: moment(at) };
        stage.wants(&id, &claim(REQUEST)?, &running)?;
    }
    Ok(())
}

pub(super) fn a_completed_operation_is_replayed(stage: &mut Stage<'_>) -> Step {
    let id = key("done")?;
    let reply = Reply::Reference("payment 1".to_owned());
    let grant = stage.claim(&id)?;
    stage.at(5);
    stage.complete(&id, grant.token, reply.clone())?;
    let record = completed(&claimed(&grant, 0, 0)?, reply.clone(), 5);
    let done = Outcome::Completed(Completed {
        reply,
        created_at: moment(0),
        completed_at: moment(5),
        expires_at: moment(REPLAY.saturating_add(5)),
    });
    // The lease of the claim plays no part any more.
    for at in [5, LEASE, LEASE.saturating_add(1)] {
        stage.at(at);
        stage.wants(&id, &claim(REQUEST)?, &done)?;
        stage.wants(&id, &claim_for(REQUEST, 1, 1)?, &done)?;
        stage.holds(&id, Some(&record))?;
    }
    Ok(())
}

pub(super) fn an_expired_claim_is_a_free_key(stage: &mut Stage<'_>) -> Step {
    let id = key("expired")?;
    stage.claim(&id)?;
    stage.at(LEASE);
    let grant = stage.claim(&id)?;
    stage.ask(&id, &checkpoint(grant.token, b"of the one before"))?;
    let at = LEASE.saturating_add(EXPIRY);
    stage.at(at);
    let grant = stage.granted_first(&id, &claim(OTHER)?)?;
    stage.holds(&id, Some(&Record { fingerprint: OTHER, ..claimed(&grant, at, at)? }))
}

pub(super) fn an_expired_reply_is_a_free_key(stage: &mut Stage<'_>) -> Step {
    let id = key("expired")?;
    let grant = stage.claim(&id)?;
    stage.complete(&id, grant.token, Reply::Marker)?;
    stage.at(REPLAY);
    let grant = stage.granted_first(&id, &claim(OTHER)?)?;
    stage.holds(&id, Some(&Record { fingerprint: OTHER, ..claimed(&grant, REPLAY, REPLAY)? }))
}

pub(super) fn a_lapsed_claim_is_known_for_one_whole_retention(stage: &mut Stage<'_>) -> Step {
    let id = key("crashed")?;
    // A retention that is shorter than the lease, and an owner that renewed for long.
    let grant = stage.granted(&id, &claim_for(REQUEST, RETENTION, LEASE)?)?;
    stage.at(RETENTION);
    let until = moment(RETENTION.saturating_mul(2));
    stage.wants(&id, &Command::Renew { token: grant.token }, &Outcome::Renewed { lease_until: until })?;
    stage.at(RETENTION.saturating_mul(2).saturating_add(LEASE).saturating_sub(1));
    let takeover = stage.granted(&id, &claim(REQUEST)?)?;
    stage.same("the attempt", &2, &u64::from(takeover.attempt))
}

pub(super) fn a_released_and_a_forgotten_key_are_free_for_any_request(stage: &mut Stage<'_>) -> Step {
    for (name, forgets) in [("released", false), ("forgotten", true)] {
        let id = key(name)?;
        let token = stage.claim(&id)?.token;
        stage.ask(&id, &checkpoint(token, b"of the one before"))?;
        let end = if forgets { Command::Forget } else { Command::Release { token } };
        stage.ask(&id, &end)?;
        let grant = stage.granted_first(&id, &claim(OTHER)?)?;
        let now = stage.clock().shown();
        stage.same("the end of the lease", &Period::from_millis(LEASE)?.after(now), &grant.lease_until)?;
    }
    Ok(())
}

pub(super) fn an_abandoned_claim_is_taken_over_at_once(stage: &mut Stage<'_>) -> Step {
    let id = key("abandoned")?;
    let token = stage.claim(&id)?.token;
    stage.ask(&id, &checkpoint(token, b"page 7"))?;
    stage.at(1);
    stage.wants(&id, &Command::Abandon { token }, &Outcome::Abandoned)?;
    let grant = stage.claim(&id)?;
    let expected = Grant { attempt: 2, checkpoint: Some("page 7".into()), ..grant.clone() };
    stage.same("the grant", &Outcome::Claimed(expected), &Outcome::Claimed(grant.clone()))?;
    stage.holds(&id, Some(&claimed(&grant, 0, 1)?))
}
