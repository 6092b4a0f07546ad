//! What is there when a store is opened again.

use super::stage::{
    EXPIRY, LEASE, OTHER, REPLAY, REQUEST, Stage, Step, checkpoint, claim, claimed, complete, completed, key,
    moment,
};
use crate::outcome::{Completed, Outcome};
use crate::record::Record;
use crate::reply::{Reply, StoredResponse};
use crate::transition::Command;

pub(super) fn what_was_answered_is_there_when_the_store_is_reopened(stage: &mut Stage<'_>) -> Step {
    let (running, done, gone) = (key("running")?, key("done")?, key("gone")?);
    let grant = stage.claim(&running)?;
    stage.ask(&running, &checkpoint(grant.token, b"page 7"))?;
    let running_record = Record { checkpoint: Some("page 7".into()), ..claimed(&grant, 0, 0)? };
    let reply =
        Reply::from(StoredResponse::new(201).with_header("etag", b"\xff\0".as_slice()).with_body("\0made"));
    let completion = stage.claim(&done)?;
    stage.complete(&done, completion.token, reply.clone())?;
    let done_record = completed(&claimed(&completion, 0, 0)?, reply.clone(), 0);
    let token = stage.claim(&gone)?.token;
    stage.ask(&gone, &Command::Release { token })?;

    stage.reopen_at(1)?;
    stage.holds(&running, Some(&running_record))?;
    stage.holds(&done, Some(&done_record))?;
    stage.holds(&gone, None)?;
    let stands = Outcome::InProgress { lease_until: moment(LEASE), attempt: 1, now: moment(1) };
    stage.wants(&running, &claim(REQUEST)?, &stands)?;
    let replay = stage.ask(&done, &claim(REQUEST)?)?;
    stage.same("the replay", &Completed::of(&done_record).map(Outcome::Completed), &Some(replay))?;
    // The owner's token is as good as before.
    let seen = stage.ask(&running, &complete(grant.token, reply.clone())?)?;
    let recorded = Completed::of(&completed(&running_record, reply, 1)).map(Outcome::Recorded);
    stage.same("the owner's completion", &recorded, &Some(seen))
}

pub(super) fn deadlines_pass_while_the_store_is_closed(stage: &mut Stage<'_>) -> Step {
    let (running, done) = (key("running")?, key("done")?);
    stage.claim(&running)?;
    let token = stage.claim(&done)?.token;
    stage.complete(&done, token, Reply::Marker)?;
    stage.reopen_at(LEASE.saturating_sub(1))?;
    let stands =
        Outcome::InProgress { lease_until: moment(LEASE), attempt: 1, now: moment(LEASE.saturating_sub(1)) };
    stage.wants(&running, &claim(REQUEST)?, &stands)?;
    stage.reopen_at(LEASE)?;
    let grant = stage.claim(&running)?;
    stage.same("the attempt", &2, &u64::from(grant.attempt))?;
    stage.reopen_at(REPLAY.saturating_sub(1))?;
    let replay = matches!(stage.ask(&done, &claim(REQUEST)?)?, Outcome::Completed(_));
    stage.same("whether the reply is replayed", &true, &replay)?;
    stage.reopen_at(REPLAY)?;
    stage.granted_first(&done, &claim(OTHER)?)?;
    stage.reopen_at(LEASE.saturating_add(EXPIRY))?;
    stage.granted_first(&running, &claim(OTHER)?).map(drop)
}

pub(super) fn a_reopened_store_is_the_same_store(stage: &mut Stage<'_>) -> Step {
    let own = stage.backend()?.store_id();
    for _ in 0..2 {
        stage.reopen_at(0)?;
        let again = stage.backend()?.store_id();
        stage.same("the id of the store", &own, &again)?;
    }
    Ok(())
}
