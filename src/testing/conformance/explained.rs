//! The core against the backend: over histories that are drawn, every answer and every record is what
//! [`transition::apply`] makes of the record before.

use super::stage::{LEASE, OTHER, REPLAY, REQUEST, Stage, Step, Stop, claim, complete, key};
use crate::fingerprint::Fingerprint;
use crate::key::RecordId;
use crate::outcome::Outcome;
use crate::record::{FencingToken, Record};
use crate::reply::{Reply, StoredResponse};
use crate::time::Timestamp;
use crate::transition::{self, Command, Write};
use bytes::Bytes;

/// Histories, and the length of each. They are the same in every run.
const HISTORIES: u64 = 4;
const STEPS: usize = 150;
/// Less than this, over all histories, of grants, of takeovers among them, or of completions, and nothing is shown.
const LEAST: [usize; 3] = [40, 10, 20];

/// What was granted and done in the histories so far.
#[derive(Default)]
struct Told {
    /// The tokens of the history that is played.
    tokens: Vec<FencingToken>,
    grants: usize,
    takeovers: usize,
    completions: usize,
}

impl Told {
    fn listen(&mut self, outcome: &Outcome) -> Step {
        match outcome {
            Outcome::Claimed(grant) => {
                if self.tokens.iter().any(|token| *token >= grant.token) {
                    return Err(Stop::broken(
                        "a new token",
                        "higher than all before",
                        grant.token.to_string(),
                    ));
                }
                self.tokens.push(grant.token);
                self.grants = self.grants.saturating_add(1);
                self.takeovers = self.takeovers.saturating_add(usize::from(grant.attempt > 1));
            }
            Outcome::Recorded(_) => self.completions = self.completions.saturating_add(1),
            _ => {}
        }
        Ok(())
    }

    fn is_enough(&self) -> Step {
        let seen = [self.grants, self.takeovers, self.completions];
        if seen.iter().zip(LEAST).all(|(seen, least)| *seen >= least) {
            return Ok(());
        }
        let expected = format!("at least {LEAST:?}");
        Err(Stop::broken("grants, takeovers and completions", expected, format!("{seen:?}")))
    }
}

/// Random numbers (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0.wrapping_shr(30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed.wrapping_shr(27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed.wrapping_shr(31)).checked_rem(bound).unwrap_or_default()
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let bound = u64::try_from(all.len()).unwrap_or(u64::MAX);
        usize::try_from(self.below(bound)).ok().and_then(|at| all.get(at)).cloned()
    }
}

pub(super) fn the_core_explains_every_answer_and_every_record(stage: &mut Stage<'_>) -> Step {
    let mut told = Told::default();
    for seed in 0..HISTORIES {
        let ids = [key(&format!("one of {seed}"))?, key(&format!("two of {seed}"))?];
        let mut dice = Dice(seed);
        told.tokens = vec![FencingToken::FIRST];
        for _ in 0..STEPS {
            let Some(id) = dice.one_of(&ids) else { return Ok(()) };
            let before = stage.stored(&id)?;
            jump(stage, &mut dice, before.as_ref());
            if dice.below(16) == 0 {
                swept(stage, &id, before.as_ref())?;
                continue;
            }
            let command = draw(&mut dice, before.as_ref(), &told.tokens)?;
            explained(stage, &id, before.as_ref(), &command, &mut told)?;
        }
    }
    told.is_enough()
}

/// Moves the clock: a little, or to around one of the record's deadlines; now and then back.
fn jump(stage: &mut Stage<'_>, dice: &mut Dice, record: Option<&Record>) {
    let now = stage.clock().shown().as_millis();
    let around = i64::try_from(dice.below(3)).unwrap_or_default().saturating_sub(1);
    let to = match (dice.below(6), record) {
        (0, Some(record)) => record.lease_until.as_millis().saturating_add(around),
        (1, Some(record)) => record.expires_at.as_millis().saturating_add(around),
        (2, _) => now.saturating_sub(LEASE),
        (3, _) => now.saturating_add(REPLAY),
        _ => now.saturating_add(i64::try_from(dice.below(20_000)).unwrap_or_default()),
    };
    stage.set_clock(Timestamp::from_millis(to));
    stage.note(format!("the clock shows {to} ms since 1970"));
}

fn draw(dice: &mut Dice, record: Option<&Record>, tokens: &[FencingToken]) -> Step<Command> {
    let own = record.map(|record| record.token).filter(|_| dice.below(4) > 0);
    let token = own.or_else(|| dice.one_of(tokens)).unwrap_or(FencingToken::FIRST);
    Ok(match dice.below(12) {
        0..4 => claim(dice.one_of(&[REQUEST, REQUEST, REQUEST, OTHER, format_of(3)]).unwrap_or(REQUEST))?,
        4..6 => complete(token, reply(dice))?,
        6 => Command::Renew { token },
        7..9 => Command::Checkpoint {
            token,
            bytes: Bytes::from(vec![0xff; dice.below(3).try_into().unwrap_or(0)]),
        },
        9 => Command::Release { token },
        10 => Command::Abandon { token },
        _ => Command::Forget,
    })
}

const fn format_of(format: u8) -> Fingerprint {
    Fingerprint::from_stored(format, *REQUEST.digest())
}

fn reply(dice: &mut Dice) -> Reply {
    match dice.below(3) {
        0 => Reply::Marker,
        1 => Reply::Reference(format!("row {}", dice.below(100))),
        _ => StoredResponse::new(201).with_header("x", vec![0xff, 0]).with_body("made").into(),
    }
}

/// Asks, and holds the answer and what is stored then against the core.
fn explained(
    stage: &mut Stage<'_>,
    id: &RecordId,
    before: Option<&Record>,
    command: &Command,
    told: &mut Told,
) -> Step {
    let now = stage.clock().shown();
    let seen = stage.ask(id, command)?;
    let drawn = match &seen {
        Outcome::Claimed(grant) => grant.token,
        _ => FencingToken::FIRST,
    };
    told.listen(&seen)?;
    let expected = transition::apply(before, command, now, drawn);
    stage.same(format_args!("the answer to {command:?}"), &expected.outcome, &seen)?;
    let stored = match expected.write {
        Write::Keep => before.cloned(),
        Write::Put(record) => Some(record),
        Write::Delete => None,
    };
    let after = stage.stored(id)?;
    stage.same("what is stored", &stored, &after)
}

/// Sweeps: what has expired is gone, and nothing else.
fn swept(stage: &mut Stage<'_>, id: &RecordId, before: Option<&Record>) -> Step {
    let now = stage.clock().shown();
    stage.sweep_all()?;
    let left = before.filter(|record| !record.is_expired(now));
    stage.holds(id, left)
}
