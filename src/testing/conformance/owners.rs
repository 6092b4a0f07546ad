//! What an owner's commands do to its own record.

use super::stage::{
    EXPIRY, LEASE, REPLAY, RETENTION, Stage, Step, checkpoint, claimed, complete, completed, key, moment,
    owner_commands,
};
use crate::outcome::{Completed, Grant, Outcome};
use crate::record::Record;
use crate::reply::{Reply, StoredResponse};
use crate::transition::Command;

pub(super) fn completing_records_the_reply_for_one_retention_from_now(stage: &mut Stage<'_>) -> Step {
    let id = key("done")?;
    let grant = stage.claim(&id)?;
    stage.ask(&id, &checkpoint(grant.token, b"page 7"))?;
    let at = LEASE.saturating_sub(1);
    stage.at(at);
    let reply =
        Reply::from(StoredResponse::new(201).with_header("location", "/payments/1").with_body("made"));
    let done = Completed {
        reply: reply.clone(),
        created_at: moment(0),
        completed_at: moment(at),
        expires_at: moment(at.saturating_add(REPLAY)),
    };
    stage.wants(&id, &complete(grant.token, reply.clone())?, &Outcome::Recorded(done))?;
    // The checkpoint is dropped.
    stage.holds(&id, Some(&completed(&claimed(&grant, 0, 0)?, reply, at)))
}

pub(super) fn completing_again_gives_the_first_reply_and_writes_nothing(stage: &mut Stage<'_>) -> Step {
    let id = key("done")?;
    let grant = stage.claim(&id)?;
    let first = Reply::Reference("first".to_owned());
    stage.complete(&id, grant.token, first.clone())?;
    let record = completed(&claimed(&grant, 0, 0)?, first.clone(), 0);
    stage.at(1);
    for reply in [Reply::Reference("second".to_owned()), first.clone(), Reply::Marker] {
        let stands = Completed {
            reply: first.clone(),
            created_at: moment(0),
            completed_at: moment(0),
            expires_at: moment(REPLAY),
        };
        stage.wants(&id, &complete(grant.token, reply)?, &Outcome::AlreadyRecorded(stands))?;
        stage.holds(&id, Some(&record))?;
    }
    Ok(())
}

pub(super) fn renewing_stands_for_one_lease_from_now(stage: &mut Stage<'_>) -> Step {
    let id = key("renewed")?;
    let grant = stage.claim(&id)?;
    for at in [0, 20_000, 49_999] {
        stage.at(at);
        let until = Outcome::Renewed { lease_until: moment(at.saturating_add(LEASE)) };
        stage.wants(&id, &Command::Renew { token: grant.token }, &until)?;
        let renewed = claimed(&grant, 0, at)?;
        stage.holds(&id, Some(&renewed))?;
    }
    Ok(())
}

pub(super) fn renewing_never_shortens_a_lease(stage: &mut Stage<'_>) -> Step {
    let id = key("stepped back")?;
    let grant = stage.claim(&id)?;
    stage.at(-10_000);
    let until = Outcome::Renewed { lease_until: moment(LEASE) };
    stage.wants(&id, &Command::Renew { token: grant.token }, &until)?;
    stage.holds(&id, Some(&claimed(&grant, 0, 0)?))?;
    stage.wants(&id, &checkpoint(grant.token, b"page 7"), &until)?;
    let record = Record { checkpoint: Some("page 7".into()), ..claimed(&grant, 0, 0)? };
    stage.holds(&id, Some(&record))
}

pub(super) fn a_checkpoint_takes_the_place_of_the_one_before_and_renews(stage: &mut Stage<'_>) -> Step {
    let id = key("steps")?;
    let grant = stage.claim(&id)?;
    let steps: [(i64, &'static [u8]); 4] =
        [(0, b"page 7"), (10_000, b"page 8"), (20_000, b""), (30_000, b"\0")];
    for (at, bytes) in steps {
        stage.at(at);
        let until = Outcome::Renewed { lease_until: moment(at.saturating_add(LEASE)) };
        stage.wants(&id, &checkpoint(grant.token, bytes), &until)?;
        let record = Record { checkpoint: Some(bytes.into()), ..claimed(&grant, 0, at)? };
        stage.holds(&id, Some(&record))?;
    }
    // A renewal keeps it.
    stage.ask(&id, &Command::Renew { token: grant.token })?;
    let record = Record { checkpoint: Some("\0".into()), ..claimed(&grant, 0, 30_000)? };
    stage.holds(&id, Some(&record))
}

pub(super) fn releasing_a_first_attempt_deletes_its_record(stage: &mut Stage<'_>) -> Step {
    let id = key("released")?;
    let token = stage.claim(&id)?.token;
    stage.wants(&id, &Command::Release { token }, &Outcome::Released)?;
    stage.holds(&id, None)
}

/// `record`, whose lease ended at `at`; all else stays.
fn ended(record: Record, at: i64) -> Record {
    Record { lease_until: moment(at), ..record }
}

pub(super) fn releasing_a_takeover_leaves_it_lapsed_and_bound(stage: &mut Stage<'_>) -> Step {
    let id = key("released")?;
    let first = stage.claim(&id)?;
    stage.ask(&id, &checkpoint(first.token, b"page 7"))?;
    stage.at(LEASE);
    let grant = stage.claim(&id)?;
    stage.at(LEASE.saturating_add(1));
    stage.wants(&id, &Command::Release { token: grant.token }, &Outcome::Released)?;
    stage.holds(&id, Some(&ended(claimed(&grant, 0, LEASE)?, LEASE.saturating_add(1))))?;
    let third = stage.claim(&id)?;
    let expected = Grant { attempt: 3, checkpoint: Some("page 7".into()), ..third.clone() };
    stage.same("the grant", &Outcome::Claimed(expected), &Outcome::Claimed(third))
}

pub(super) fn abandoning_ends_the_lease_and_nothing_else(stage: &mut Stage<'_>) -> Step {
    let id = key("abandoned")?;
    let grant = stage.claim(&id)?;
    stage.ask(&id, &checkpoint(grant.token, b"page 7"))?;
    let record = Record { checkpoint: Some("page 7".into()), ..claimed(&grant, 0, 0)? };
    stage.at(1);
    stage.wants(&id, &Command::Abandon { token: grant.token }, &Outcome::Abandoned)?;
    stage.holds(&id, Some(&ended(record.clone(), 1)))?;
    // It never moves the end of a lease on.
    stage.at(2);
    stage.wants(&id, &Command::Abandon { token: grant.token }, &Outcome::Abandoned)?;
    stage.holds(&id, Some(&ended(record, 1)))
}

pub(super) fn a_lapsed_owner_keeps_its_rights_while_nobody_takes_over(stage: &mut Stage<'_>) -> Step {
    // In the last millisecond in which there is a record.
    let at = EXPIRY.saturating_sub(1);
    for (number, name) in ["complete", "renew", "checkpoint", "release", "abandon"].iter().enumerate() {
        stage.at(0);
        let id = key(name)?;
        let grant = stage.claim(&id)?;
        let Some(command) = owner_commands(grant.token)?.get(number).cloned() else { continue };
        stage.at(at);
        let seen = stage.ask(&id, &command)?;
        let renewed = Record { checkpoint: None, ..claimed(&grant, 0, at)? };
        let until = Outcome::Renewed { lease_until: renewed.lease_until };
        let late = Reply::Reference("late".to_owned());
        let (expected, record) = match *name {
            "complete" => {
                let record = completed(&claimed(&grant, 0, 0)?, late, at);
                (Completed::of(&record).map(Outcome::Recorded), Some(record))
            }
            "renew" => (Some(until), Some(renewed)),
            "checkpoint" => (Some(until), Some(Record { checkpoint: Some("late".into()), ..renewed })),
            "release" => (Some(Outcome::Released), None),
            _ => (Some(Outcome::Abandoned), Some(claimed(&grant, 0, 0)?)),
        };
        stage.same(format_args!("the answer to {command:?}"), &expected, &Some(seen))?;
        stage.holds(&id, record.as_ref())?;
    }
    Ok(())
}

pub(super) fn forgetting_deletes_whatever_stands_and_says_whether_there_was_something(
    stage: &mut Stage<'_>,
) -> Step {
    let (forgot, nothing) = (Outcome::Forgotten { existed: true }, Outcome::Forgotten { existed: false });
    for name in ["running", "lapsed", "completed"] {
        stage.at(0);
        let id = key(name)?;
        let grant = stage.claim(&id)?;
        if name == "completed" {
            stage.complete(&id, grant.token, Reply::Marker)?;
        }
        stage.at(if name == "running" { 0 } else { LEASE });
        stage.wants(&id, &Command::Forget, &forgot)?;
        stage.holds(&id, None)?;
        stage.wants(&id, &Command::Forget, &nothing)?;
    }
    stage.at(0);
    let id = key("expired")?;
    stage.claim(&id)?;
    stage.at(LEASE.saturating_add(RETENTION));
    stage.wants(&id, &Command::Forget, &nothing)
}
