//! Fencing tokens rise over the life of a store.

use super::stage::{EXPIRY, LEASE, OTHER, REPLAY, REQUEST, Stage, Step, Stop, claim, key};
use crate::record::FencingToken;
use crate::reply::Reply;
use crate::transition::Command;

/// The highest token so far.
struct Highest(FencingToken);

impl Highest {
    fn rises_to(&mut self, token: FencingToken) -> Step {
        if token <= self.0 {
            return Err(Stop::broken(
                "the token of a new claim",
                format!("above {}", self.0),
                token.to_string(),
            ));
        }
        self.0 = token;
        Ok(())
    }
}

pub(super) fn each_token_is_higher_than_all_before(stage: &mut Stage<'_>) -> Step {
    let mut highest = Highest(FencingToken::FIRST);
    for name in ["here", "there", "here too"] {
        highest.rises_to(stage.claim(&key(name)?)?.token)?;
    }
    // A refusal between two grants, and a takeover.
    let id = key("here")?;
    stage.ask(&id, &claim(REQUEST)?)?;
    stage.ask(&id, &claim(OTHER)?)?;
    stage.at(LEASE);
    highest.rises_to(stage.claim(&id)?.token)?;
    highest.rises_to(stage.claim(&key("there")?)?.token)
}

pub(super) fn tokens_rise_whatever_became_of_the_claim_before(stage: &mut Stage<'_>) -> Step {
    let id = key("again")?;
    let mut highest = Highest(FencingToken::FIRST);
    for round in 0..2_i64 {
        let start = EXPIRY.saturating_mul(10).saturating_mul(round);
        for (step, end) in ["release", "forget", "abandon", "complete", "expire", "sweep"].iter().enumerate()
        {
            let now = start.saturating_add(EXPIRY.saturating_mul(i64::try_from(step).unwrap_or_default()));
            stage.at(now);
            let token = stage.claim(&id)?.token;
            highest.rises_to(token)?;
            let until = match *end {
                "release" => stage.ask(&id, &Command::Release { token }).map(|_| 0)?,
                "forget" => stage.ask(&id, &Command::Forget).map(|_| 0)?,
                "abandon" => stage.ask(&id, &Command::Abandon { token }).map(|_| 0)?,
                "complete" => stage.complete(&id, token, Reply::Marker).map(|()| REPLAY)?,
                _ => EXPIRY,
            };
            stage.at(now.saturating_add(until));
            if *end == "sweep" {
                stage.sweep_all()?;
                stage.holds(&id, None)?;
            }
            // In the same key, and in one that was never there.
            highest.rises_to(stage.claim(&id)?.token)?;
            highest.rises_to(stage.claim(&key(&format!("{end} {round}"))?)?.token)?;
            stage.ask(&id, &Command::Forget)?;
        }
    }
    Ok(())
}

pub(super) fn tokens_rise_on_when_the_store_is_reopened(stage: &mut Stage<'_>) -> Step {
    let id = key("reopened")?;
    let mut highest = Highest(FencingToken::FIRST);
    for _ in 0..100 {
        let token = stage.claim(&id)?.token;
        highest.rises_to(token)?;
        stage.ask(&id, &Command::Release { token })?;
    }
    stage.reopen_at(0)?;
    let token = stage.claim(&id)?.token;
    highest.rises_to(token)?;
    // With all records swept, nothing but the counter can know.
    stage.at(EXPIRY);
    stage.sweep_all()?;
    stage.reopen_at(EXPIRY)?;
    highest.rises_to(stage.claim(&id)?.token)
}
