//! Callers at once. How the system schedules them is not drawn: a sound backend never fails here, a broken one may
//! pass.

use super::show::Show;
use super::stage::{EXPIRY, LEASE, REQUEST, Stage, Step, Stop, claim, complete, key};
use crate::error::BackendError;
use crate::outcome::{Grant, Outcome};
use crate::reply::Reply;
use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread::{Builder, Scope, ScopedJoinHandle, scope};

const THREADS: usize = 8;
const ROUNDS: usize = 12;

type Asked<'t> = ScopedJoinHandle<'t, Result<Outcome, BackendError>>;

pub(super) fn on_a_thread<'t, T: Send + 't>(
    scope: &'t Scope<'t, '_>,
    work: impl FnOnce() -> T + Send + 't,
) -> Step<ScopedJoinHandle<'t, T>> {
    let started = Builder::new().spawn_scoped(scope, work);
    started.map_err(|error| Stop::broken("a thread of the suite's", "started", format!("error: {error}")))
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> Step<T> {
    thread.join().map_err(|_| Stop::broken("a call", "an answer", "a panic"))
}

pub(super) fn answer_of(thread: Asked<'_>) -> Step<Outcome> {
    joined(thread)?.map_err(|error| Stop::broken("a call", "an answer", format!("error: {error}")))
}

/// What each of the threads hears that make `call`, with their number, all at once.
fn at_once<T: Send>(call: impl Fn(usize) -> T + Sync) -> Step<Vec<T>> {
    let (barrier, call) = (Barrier::new(THREADS), &call);
    scope(|scope| {
        let barrier = &barrier;
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                on_a_thread(scope, move || {
                    barrier.wait();
                    call(number)
                })
            })
            .collect::<Step<_>>()?;
        threads.into_iter().map(joined).collect()
    })
}

/// The one grant among `answers`; all others must say that this claim stands.
fn one_grant(answers: Vec<Result<Outcome, BackendError>>) -> Step<Grant> {
    let mut grants = Vec::new();
    let mut running = Vec::new();
    for answer in answers {
        match answer {
            Ok(Outcome::Claimed(grant)) => grants.push(grant),
            Ok(Outcome::InProgress { lease_until, attempt, .. }) => running.push((lease_until, attempt)),
            Ok(other) => {
                return Err(Stop::broken("a claim at once with others", "granted, or running", other.show()));
            }
            Err(error) => {
                return Err(Stop::broken("a claim at once with others", "an answer", error.to_string()));
            }
        }
    }
    match grants.as_slice() {
        [grant] if running.iter().all(|told| *told == (grant.lease_until, grant.attempt)) => {
            Ok(grant.clone())
        }
        _ => {
            let seen = format!("granted: {grants:?}, running: {running:?}");
            Err(Stop::broken("claims of one key at once", "one grant, told to all others", seen))
        }
    }
}

pub(super) fn of_callers_at_once_one_is_granted_the_key(stage: &mut Stage<'_>) -> Step {
    let command = claim(REQUEST)?;
    for round in 0..ROUNDS {
        let id = key(&format!("round {round}"))?;
        let backend = stage.backend()?;
        let grant = one_grant(at_once(|_| backend.execute(&id, &command))?)?;
        stage.note(format!("{THREADS} callers claim round {round} at once -> {grant:?} to one of them"));
        stage.same("the attempt", &1, &u64::from(grant.attempt))?;
        let token = stage.record(&id)?.token;
        stage.same("whether the grant is what is stored", &true, &(token == grant.token))?;
    }
    Ok(())
}

pub(super) fn of_callers_at_once_one_takes_a_lapsed_claim_over(stage: &mut Stage<'_>) -> Step {
    let (command, id) = (claim(REQUEST)?, key("lapsed")?);
    stage.claim(&id)?;
    for (attempt, round) in (2..).zip(1..i64::try_from(ROUNDS).unwrap_or(1)) {
        stage.at(LEASE.saturating_mul(round));
        let backend = stage.backend()?;
        let grant = one_grant(at_once(|_| backend.execute(&id, &command))?)?;
        stage.note(format!("{THREADS} callers claim at once -> {grant:?} to one of them"));
        stage.same("the attempt", &attempt, &u64::from(grant.attempt))?;
    }
    Ok(())
}

pub(super) fn no_two_claims_at_once_have_one_token(stage: &mut Stage<'_>) -> Step {
    let command = claim(REQUEST)?;
    let backend = stage.backend()?;
    let heard = at_once(|number| {
        let mut tokens = Vec::new();
        for round in 0..ROUNDS {
            let id = key(&format!("key {round} of {number}"))?;
            match backend.execute(&id, &command) {
                Ok(Outcome::Claimed(grant)) => tokens.push(grant.token),
                other => return Err(Stop::broken("a claim of a free key", "granted", format!("{other:?}"))),
            }
        }
        Ok(tokens)
    })?;
    let mut all = BTreeSet::new();
    for tokens in heard {
        let tokens = tokens?;
        let rise = tokens.is_sorted_by(|one, next| one < next);
        stage.same("whether the tokens of one caller rise", &true, &rise)?;
        all.extend(tokens);
    }
    stage.same("the number of different tokens", &THREADS.saturating_mul(ROUNDS), &all.len())
}

pub(super) fn of_completions_at_once_one_stands(stage: &mut Stage<'_>) -> Step {
    for round in 0..ROUNDS {
        let id = key(&format!("round {round}"))?;
        let token = stage.claim(&id)?.token;
        let mut commands = Vec::new();
        for number in 0..THREADS {
            commands.push(complete(token, Reply::Reference(format!("reply {number}")))?);
        }
        let backend = stage.backend()?;
        let answers = at_once(|number| commands.get(number).map(|command| backend.execute(&id, command)))?;
        let Some(stands) = stage.record(&id)?.reply else {
            return Err(Stop::broken("what is stored", "a reply", "none"));
        };
        let mut recorded: usize = 0;
        for answer in answers.into_iter().flatten() {
            let reply = match answer {
                Ok(Outcome::Recorded(done)) => {
                    recorded = recorded.saturating_add(1);
                    done.reply
                }
                Ok(Outcome::AlreadyRecorded(done)) => done.reply,
                other => {
                    return Err(Stop::broken("a completion", "the reply that stands", format!("{other:?}")));
                }
            };
            stage.same("whether all hear of the reply that stands", &true, &(reply == stands))?;
        }
        stage.same("how many completions were recorded", &1, &recorded)?;
    }
    Ok(())
}

pub(super) fn a_sweep_beside_claims_removes_none_of_them(stage: &mut Stage<'_>) -> Step {
    let command = claim(REQUEST)?;
    for round in 0..ROUNDS {
        let start = EXPIRY.saturating_mul(i64::try_from(round).unwrap_or_default());
        stage.at(start);
        let mut ids = Vec::new();
        for number in 0..THREADS {
            ids.push(key(&format!("key {number}"))?);
        }
        // From the second round on, each of them has expired, and is claimed anew while sweeps remove it.
        let backend = stage.backend()?;
        let heard = at_once(|number| match ids.get(number) {
            Some(id) if number % 2 == 0 => Some((id, backend.execute(id, &command))),
            _ => backend.sweep(100).err().and_then(|error| ids.get(number).map(|id| (id, Err(error)))),
        })?;
        for (id, answer) in heard.into_iter().flatten() {
            match answer {
                Ok(Outcome::Claimed(grant)) => {
                    let stored = stage.stored(id)?.is_some_and(|record| record.token == grant.token);
                    stage.same(
                        "whether a claim that was granted beside a sweep is stored",
                        &true,
                        &stored,
                    )?;
                }
                other => return Err(Stop::broken("a claim beside a sweep", "granted", format!("{other:?}"))),
            }
        }
    }
    Ok(())
}
