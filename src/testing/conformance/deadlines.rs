//! Deadlines are half-open: what has deadline `d` stands while `now < d`. Each at its last millisecond, at the
//! deadline, and a millisecond later.

use super::stage::{
    EXPIRY, LEASE, OTHER, REPLAY, REQUEST, Stage, Step, around, checkpoint, claim, claim_for, complete, key,
};
use crate::key::RecordId;
use crate::outcome::{LostReason, Outcome};
use crate::reply::Reply;
use crate::transition::Command;

/// A claim must be granted if and only if the deadline is over.
fn granted_if(stage: &mut Stage<'_>, id: &RecordId, command: &Command, is_over: bool) -> Step {
    let seen = matches!(stage.ask(id, command)?, Outcome::Claimed(_));
    stage.same("whether a claim is granted", &is_over, &seen)
}

/// Makes a record of its own at 0 for each of the moments around `deadline`, and has `look` look then.
fn around_each(
    stage: &mut Stage<'_>,
    deadline: i64,
    made: impl Fn(&mut Stage<'_>, &RecordId) -> Step,
    look: impl Fn(&mut Stage<'_>, &RecordId, bool) -> Step,
) -> Step {
    for (at, is_over) in around(deadline) {
        stage.at(0);
        let id = key(&format!("at {at}"))?;
        made(stage, &id)?;
        stage.at(at);
        look(stage, &id, is_over)?;
    }
    Ok(())
}

pub(super) fn a_lease_stands_to_its_last_millisecond(stage: &mut Stage<'_>) -> Step {
    for lease in [LEASE, 1] {
        let made = move |stage: &mut Stage<'_>, id: &RecordId| {
            stage.granted(id, &claim_for(REQUEST, lease, EXPIRY)?).map(drop)
        };
        around_each(stage, lease, made, |stage, id, is_over| {
            granted_if(stage, id, &claim(REQUEST)?, is_over)
        })?;
    }
    Ok(())
}

pub(super) fn a_claims_retention_lasts_to_its_last_millisecond(stage: &mut Stage<'_>) -> Step {
    let made = |stage: &mut Stage<'_>, id: &RecordId| stage.claim(id).map(drop);
    around_each(stage, EXPIRY, made, |stage, id, is_over| {
        let seen = stage.read(id)?.is_none();
        stage.same("whether nothing is read", &is_over, &seen)?;
        granted_if(stage, id, &claim(OTHER)?, is_over)
    })
}

pub(super) fn a_reply_is_replayed_to_its_last_millisecond(stage: &mut Stage<'_>) -> Step {
    let made = |stage: &mut Stage<'_>, id: &RecordId| {
        let token = stage.claim(id)?.token;
        stage.complete(id, token, Reply::Marker)
    };
    around_each(stage, REPLAY, made, |stage, id, is_over| {
        let seen = stage.read(id)?.is_none();
        stage.same("whether nothing is read", &is_over, &seen)?;
        granted_if(stage, id, &claim(REQUEST)?, is_over)
    })
}

pub(super) fn an_owner_is_heard_to_the_last_millisecond_of_its_record(stage: &mut Stage<'_>) -> Step {
    for (at, is_over) in around(EXPIRY) {
        for number in 0..3 {
            stage.at(0);
            let id = key(&format!("{number} at {at}"))?;
            let token = stage.claim(&id)?.token;
            stage.at(at);
            let command = match number {
                0 => complete(token, Reply::Marker)?,
                1 => Command::Renew { token },
                _ => checkpoint(token, b"page 7"),
            };
            let seen = stage.ask(&id, &command)? == Outcome::Lost(LostReason::Gone);
            stage.same("whether the claim is lost", &is_over, &seen)?;
        }
    }
    Ok(())
}

pub(super) fn a_deadline_that_was_moved_counts_from_there(stage: &mut Stage<'_>) -> Step {
    // Renewed at 20 s, so that the lease ends at 50 s.
    let renewed = |stage: &mut Stage<'_>, id: &RecordId| {
        let token = stage.claim(id)?.token;
        stage.at(20_000);
        stage.ask(id, &Command::Renew { token }).map(drop)
    };
    around_each(stage, 50_000, renewed, |stage, id, is_over| {
        granted_if(stage, id, &claim(REQUEST)?, is_over)
    })?;
    // And the record, 600 s later.
    around_each(stage, 650_000, renewed_by_checkpoint, |stage, id, is_over| {
        granted_if(stage, id, &claim(OTHER)?, is_over)
    })?;
    // Abandoned at 5 s; abandoning moves the end of the lease, not that of the record.
    around_each(stage, EXPIRY, abandoned, |stage, id, is_over| granted_if(stage, id, &claim(OTHER)?, is_over))
}

fn renewed_by_checkpoint(stage: &mut Stage<'_>, id: &RecordId) -> Step {
    let token = stage.claim(id)?.token;
    stage.at(20_000);
    stage.ask(id, &checkpoint(token, b"page 7")).map(drop)
}

fn abandoned(stage: &mut Stage<'_>, id: &RecordId) -> Step {
    let token = stage.claim(id)?.token;
    stage.at(5_000);
    stage.ask(id, &Command::Abandon { token }).map(drop)
}
