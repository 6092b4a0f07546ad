//! When the clock is read, and what it may show.

use super::show::Show;
use super::stage::{
    LEASE, OTHER, REPLAY, REQUEST, RETENTION, Stage, Step, Stop, claim, claim_for, claimed, complete, key,
    moment, owner_commands,
};
use super::threads::{answer_of, on_a_thread};
use crate::error::{BackendError, Error};
use crate::outcome::{Completed, Outcome};
use crate::record::Record;
use crate::reply::Reply;
use crate::time::{Period, Timestamp};
use crate::transition::Command;
use std::thread;

/// 10000-01-01, the first millisecond that no clock may show.
const YEAR_10000: i64 = 253_402_300_800_000;
const DAY: i64 = 86_400_000;

pub(super) fn what_a_command_writes_goes_by_one_reading_of_the_clock(stage: &mut Stage<'_>) -> Step {
    // A second reading would be an hour later.
    stage.clock().tick_by(3_600_000);
    stage.note("the clock moves on by an hour with each reading");
    let lease = 10_i64.saturating_mul(DAY);
    let id = key("ticking")?;
    let grant = stage.granted(&id, &claim_for(REQUEST, lease, lease)?)?;
    stage.clock().tick_by(0);
    let record = stage.record(&id)?;
    let lease = Period::from_millis(lease)?;
    let expected = Record {
        lease_until: lease.after(record.created_at),
        expires_at: lease.after(grant.lease_until),
        ..record.clone()
    };
    stage.same("the record of a claim", &expected, &record)?;
    stage.same("the end of the lease", &record.lease_until, &grant.lease_until)?;

    stage.clock().tick_by(3_600_000);
    stage.ask(&id, &Command::Renew { token: grant.token })?;
    stage.clock().tick_by(0);
    let record = stage.record(&id)?;
    let expected = Record { expires_at: lease.after(record.lease_until), ..record.clone() };
    stage.same("the record of a renewal", &expected, &record)?;

    stage.clock().tick_by(3_600_000);
    stage.ask(&id, &complete(grant.token, Reply::Marker)?)?;
    stage.clock().tick_by(0);
    let record = stage.record(&id)?;
    let until = record.completed_at.map(|at| moment_after(at, REPLAY));
    stage.same("when the reply expires", &until, &Some(record.expires_at))
}

fn moment_after(start: Timestamp, millis: i64) -> Timestamp {
    Timestamp::from_millis(start.as_millis().saturating_add(millis))
}

pub(super) fn each_command_reads_the_clock_anew(stage: &mut Stage<'_>) -> Step {
    let id = key("anew")?;
    let grant = stage.claim(&id)?;
    for at in [1, 2, LEASE.saturating_sub(1), 3] {
        stage.at(at);
        let running = Outcome::InProgress { lease_until: moment(LEASE), attempt: 1, now: moment(at) };
        stage.wants(&id, &claim(REQUEST)?, &running)?;
        let read = stage.read(&id)?.map(|(_, now)| now);
        stage.same("the time that is read with a record", &Some(moment(at)), &read)?;
    }
    stage.at(LEASE);
    let done = Completed::of(&super::stage::completed(&claimed(&grant, 0, 0)?, Reply::Marker, LEASE));
    let seen = stage.ask(&id, &complete(grant.token, Reply::Marker)?)?;
    stage.same("the answer to the completion", &done.map(Outcome::Recorded), &Some(seen))
}

pub(super) fn who_reads_the_clock_first_has_access_first(stage: &mut Stage<'_>) -> Step {
    let (id, command) = (key("queue")?, claim(REQUEST)?);
    let (backend, clock) = (stage.backend()?, stage.clock().clone());
    clock.shut();
    let (first, second) = thread::scope(|scope| {
        let first = on_a_thread(scope, || backend.execute(&id, &command))?;
        if !clock.wait_for_reading() {
            clock.open();
            return Err(Stop::broken("the clock", "a reading by each command", "none"));
        }
        // The first has read the clock, and does not know it yet. Meanwhile time goes on.
        clock.set(moment(1));
        let second = on_a_thread(scope, || {
            clock.count_down();
            backend.execute(&id, &command)
        })?;
        let second = answer_of(second)?;
        clock.open();
        Ok((answer_of(first)?, second))
    })?;
    stage.note(format!("a claim that read the clock at 0 ms -> {}", first.show()));
    stage.note(format!("a claim that came at 1 ms, meanwhile -> {}", second.show()));
    let told_by_the_past = match (&first, &second) {
        // Whichever was second: one came at 1 ms, the other had its access after that.
        (Outcome::InProgress { now, .. }, Outcome::Claimed(_))
        | (Outcome::Claimed(_), Outcome::InProgress { now, .. }) => *now < moment(1),
        _ => true,
    };
    if told_by_the_past {
        let seen = format!("{} and then {}", first.show(), second.show());
        return Err(Stop::broken("two claims at once", "each goes by the time of its own access", seen));
    }
    Ok(())
}

pub(super) fn a_clock_out_of_range_is_an_error_and_nothing_is_done(stage: &mut Stage<'_>) -> Step {
    let id = key("out of range")?;
    let grant = stage.claim(&id)?;
    let record = claimed(&grant, 0, 0)?;
    for millis in [-1, i64::MIN, YEAR_10000, i64::MAX] {
        stage.set_clock(Timestamp::from_millis(millis));
        stage.note(format!("the clock shows {millis} ms since 1970"));
        let mut commands = owner_commands(grant.token)?.to_vec();
        commands.extend([claim(REQUEST)?, claim(OTHER)?]);
        for command in commands {
            let answer = stage.try_ask(&id, &command)?;
            refused(&format!("{command:?}"), answer)?;
        }
        let absent = stage.try_ask(&key("absent")?, &claim(REQUEST)?)?;
        refused("a claim of a free key", absent)?;
        let (read, swept) = (stage.backend()?.read(&id), stage.backend()?.sweep(10));
        refused("reading", read)?;
        refused("a sweep", swept)?;
        stage.at(0);
        stage.holds(&id, Some(&record))?;
        stage.holds(&key("absent")?, None)?;
    }
    for millis in [0, YEAR_10000.saturating_sub(1)] {
        stage.set_clock(Timestamp::from_millis(millis));
        stage.granted(&key(&format!("at {millis}"))?, &claim(REQUEST)?)?;
    }
    Ok(())
}

fn refused<T: std::fmt::Debug>(what: &str, answer: Result<T, BackendError>) -> Step {
    let seen = match answer.map_err(Error::from) {
        Err(Error::Clock(_)) => return Ok(()),
        Err(error) => format!("error: {error}"),
        Ok(answer) => format!("{answer:?}"),
    };
    Err(Stop::broken(what, "an error that says the clock is out of range", seen))
}

pub(super) fn the_longest_and_the_shortest_periods_are_kept_at_both_ends_of_time(
    stage: &mut Stage<'_>,
) -> Step {
    let longest = i64::try_from(Period::MAX.as_millis()).unwrap_or(i64::MAX);
    for now in [0, 1, YEAR_10000.saturating_sub(1)] {
        for (lease, retention) in [(1, 1), (1, longest), (longest, 1), (longest, longest)] {
            let id = key(&format!("{lease}, {retention} at {now}"))?;
            let now = Timestamp::from_millis(now);
            stage.set_clock(now);
            let grant = stage.granted(&id, &claim_for(REQUEST, lease, retention)?)?;
            let lease_until = moment_after(now, lease);
            let expires_at = moment_after(lease_until, retention);
            stage.same("the end of the lease", &lease_until, &grant.lease_until)?;
            let record = stage.record(&id)?;
            stage.same(
                "the end of the record",
                &Record { expires_at, lease_until, ..record.clone() },
                &record,
            )?;
            let retention = Period::from_millis(longest)?;
            let completion = Command::Complete { token: grant.token, reply: Reply::Marker, retention };
            stage.set_clock(now);
            stage.ask(&id, &completion)?;
            let record = stage.record(&id)?;
            stage.same("the end of the reply", &moment_after(now, longest), &record.expires_at)?;
        }
    }
    Ok(())
}

pub(super) fn a_clock_that_steps_back_ends_nothing_early(stage: &mut Stage<'_>) -> Step {
    let (running, done) = (key("running")?, key("done")?);
    let grant = stage.claim(&running)?;
    let token = stage.claim(&done)?.token;
    stage.complete(&done, token, Reply::Marker)?;
    let replay = stage.ask(&done, &claim(REQUEST)?)?;
    // Ten minutes back, and all the way again: a step into the past is not clamped, either.
    for at in [-600_000, -1, 0, LEASE.saturating_sub(1)] {
        stage.at(at);
        let stands = Outcome::InProgress { lease_until: moment(LEASE), attempt: 1, now: moment(at) };
        stage.wants(&running, &claim(REQUEST)?, &stands)?;
        stage.wants(&done, &claim(REQUEST)?, &replay)?;
        let swept = stage.sweep_all()?;
        stage.same("records that a sweep removes", &0, &swept)?;
    }
    stage.holds(&running, Some(&claimed(&grant, 0, 0)?))?;
    stage.at(-600_000);
    let id = key("in the past")?;
    let past = stage.claim(&id)?;
    stage.same("the end of the lease", &moment(LEASE.saturating_sub(RETENTION)), &past.lease_until)
}
