//! What a backend tells of one record, of all of them, and of itself. Counting and listing may be left out.

use super::show::Show;
use super::stage::{
    EXPIRY, LEASE, REPLAY, REQUEST, Stage, Step, Stop, claim_for, claimed, completed, key, moment,
};
use crate::inspection::{Stuck, StuckReason};
use crate::key::RecordId;
use crate::outcome::Outcome;
use crate::reply::{Reply, StoredResponse};
use crate::time::Timestamp;
use crate::transition::Command;

pub(super) fn reading_gives_the_record_and_the_time_and_changes_nothing(stage: &mut Stage<'_>) -> Step {
    let id = key("read")?;
    let absent = stage.read(&id)?.map(|(record, _)| record);
    stage.same("what is read of a free key", &None, &absent)?;
    let grant = stage.claim(&id)?;
    let running = claimed(&grant, 0, 0)?;
    let done = completed(&running, Reply::Marker, 0);
    for (record, moments) in [(running, [0, 1, LEASE, EXPIRY.saturating_sub(1)]), (done, [0, 1, 2, LEASE])] {
        if record.reply.is_some() {
            stage.at(0);
            stage.complete(&id, grant.token, Reply::Marker)?;
        }
        for at in moments {
            stage.at(at);
            for _ in 0..2 {
                let (seen, now) = stage.read(&id)?.unzip();
                stage.same("what is read", &Some(record.clone()), &seen)?;
                stage.same("the time that is read with it", &Some(moment(at)), &now)?;
            }
        }
    }
    Ok(())
}

pub(super) fn an_expired_record_is_not_read(stage: &mut Stage<'_>) -> Step {
    let (claim, done) = (key("claimed")?, key("completed")?);
    stage.claim(&claim)?;
    let token = stage.claim(&done)?.token;
    stage.complete(&done, token, Reply::Marker)?;
    for (id, deadline) in [(&done, REPLAY), (&claim, EXPIRY)] {
        for at in [deadline, deadline.saturating_add(1)] {
            stage.at(at);
            let seen = stage.read(id)?.map(|(record, _)| record);
            stage.same("what is read", &None, &seen)?;
        }
    }
    Ok(())
}

pub(super) fn each_record_is_counted_once_as_it_stands(stage: &mut Stage<'_>) -> Step {
    let count = |stage: &mut Stage<'_>| -> Step<(u64, u64, u64, u64, u64)> {
        let stats = stage.stats()?;
        Ok((stats.in_progress, stats.lapsed, stats.completed, stats.expired, stats.damaged))
    };
    let before = count(stage)?;
    stage.same("the counts of an empty store", &(0, 0, 0, 0, 0), &before)?;
    let ids = ["a", "b", "c", "d", "e", "f"].iter().map(|name| key(name)).collect::<Step<Vec<_>>>()?;
    let mut tokens = Vec::new();
    for id in &ids {
        tokens.push(stage.claim(id)?.token);
    }
    let [a, b, c, d, ..] = ids.as_slice() else { return Ok(()) };
    let [of_a, of_b, of_c, of_d, ..] = tokens.as_slice() else { return Ok(()) };
    stage.complete(a, *of_a, Reply::Marker)?;
    stage.ask(b, &Command::Abandon { token: *of_b })?;
    stage.ask(c, &Command::Release { token: *of_c })?;
    let seen = count(stage)?;
    stage.same("the counts", &(3, 1, 1, 0, 0), &seen)?;
    stage.at(LEASE);
    stage.ask(d, &Command::Renew { token: *of_d })?;
    let seen = count(stage)?;
    stage.same("the counts, one lease later", &(1, 3, 1, 0, 0), &seen)?;
    stage.at(EXPIRY);
    // The renewed one has lapsed; all else has expired, and is there until it is swept.
    let seen = count(stage)?;
    stage.same("the counts, when all but one have expired", &(0, 1, 0, 4, 0), &seen)?;
    stage.sweep_all()?;
    let seen = count(stage)?;
    stage.same("the counts after a sweep", &(0, 1, 0, 0, 0), &seen)
}

pub(super) fn what_records_hold_is_counted(stage: &mut Stage<'_>) -> Step {
    let id = key("bytes")?;
    let token = stage.claim(&id)?.token;
    let before = stage.stats()?.bytes;
    let body = vec![b'b'; 10_000];
    stage.complete(&id, token, StoredResponse::new(200).with_body(body))?;
    let grown = stage.stats()?.bytes.saturating_sub(before);
    if grown < 10_000 {
        return Err(Stop::broken("the bytes of a body of 10000", "10000 or more", grown.to_string()));
    }
    stage.ask(&id, &Command::Forget)?;
    let left = stage.stats()?.bytes;
    stage.same("the bytes of no record", &0, &left)
}

/// The claim of `id`, as it must be listed.
fn stuck(stage: &mut Stage<'_>, id: &RecordId, now: Timestamp, reason: StuckReason) -> Step<Stuck> {
    let record = stage.record(id)?;
    let listed = Stuck::of(id, &record, now).filter(|stuck| stuck.reason == reason);
    listed.ok_or_else(|| Stop::broken("a claim that is stuck", format!("{reason:?}"), record.show()))
}

pub(super) fn lapsed_claims_are_listed_by_the_end_of_their_leases(stage: &mut Stage<'_>) -> Step {
    let (late, early, done, running) = (key("a late")?, key("b early")?, key("c done")?, key("d running")?);
    stage.granted(&late, &claim_for(REQUEST, 2_000, EXPIRY)?)?;
    stage.granted(&early, &claim_for(REQUEST, 1_000, EXPIRY)?)?;
    let token = stage.claim(&done)?.token;
    stage.complete(&done, token, Reply::Marker)?;
    stage.claim(&running)?;
    for (at, names) in [(999, [].as_slice()), (1_000, &[&early]), (2_000, &[&early, &late])] {
        stage.at(at);
        let mut expected = Vec::new();
        for id in names {
            expected.push(stuck(stage, id, moment(at), StuckReason::Lapsed)?);
        }
        for limit in [0, 1, 10] {
            let seen = stage.stuck(limit)?;
            let first: Vec<_> = expected.iter().take(limit).cloned().collect();
            stage.same(format_args!("at most {limit} claims that are stuck"), &first, &seen)?;
        }
    }
    Ok(())
}

pub(super) fn a_lease_that_a_step_of_the_clock_made_too_long_is_listed(stage: &mut Stage<'_>) -> Step {
    let (id, lapsed) = (key("a year ahead")?, key("lapsed")?);
    stage.granted(&lapsed, &claim_for(REQUEST, 1, EXPIRY)?)?;
    let ahead: i64 = 31_536_000_000;
    stage.at(ahead);
    stage.claim(&id)?;
    stage.at(1);
    let expected = vec![
        stuck(stage, &lapsed, moment(1), StuckReason::Lapsed)?,
        stuck(stage, &id, moment(1), StuckReason::LeaseTooLong)?,
    ];
    let seen = stage.stuck(10)?;
    stage.same("the claims that are stuck", &expected, &seen)?;
    stage.at(ahead);
    let seen = stage.stuck(10)?;
    stage.same("the claims that are stuck once the clock has caught up", &Vec::new(), &seen)
}

pub(super) fn a_store_is_one_store(stage: &mut Stage<'_>) -> Step {
    let own = stage.backend()?.store_id();
    let id = key("here")?;
    stage.claim(&id)?;
    let again = stage.backend()?.store_id();
    stage.same("the id of a store", &own, &again)?;
    let mut other = stage.another()?;
    let others = other.backend()?.store_id();
    if own == others {
        return Err(Stop::broken("the id of another store", "another one", own.show()));
    }
    let running = other.ask(&id, &claim_for(REQUEST, 1, 1)?)?;
    if !matches!(running, Outcome::Claimed(_)) {
        return Err(Stop::broken("a claim in another store", "granted", running.show()));
    }
    Ok(())
}
