//! What threads saw, and a checker that judges it by the order in which calls began and ended; it never asks
//! the transition.

use crate::arena::{Arena, Dice, LEASE, RETENTION, fingerprint, key, reply_of, scope};
use idempotency::{
    Backend, Command, DynStore, FencingToken, Outcome, Period, RecordId, Reply, State, Timestamp,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const KEYS: usize = 2;
const CALLS: usize = 150;

/// One call and its answer.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Ticks of one counter for all threads: a call that ended before another began happened before it.
    began: u64,
    ended: u64,
    key: usize,
    pub what: What,
}

#[derive(Clone, Debug)]
pub enum What {
    Granted {
        token: FencingToken,
        attempt: u32,
        until: Timestamp,
    },
    /// A renewal or a checkpoint.
    Extended {
        token: FencingToken,
        until: Timestamp,
    },
    Recorded {
        token: FencingToken,
        until: Timestamp,
    },
    /// A reply came back, to a claim or to a second completion.
    Replayed {
        reply: Reply,
    },
    /// A release or an abandonment.
    GivenUp {
        token: FencingToken,
    },
    Forgotten,
    Lost,
    /// Told that there is nothing to do, or that another claim runs.
    Nothing,
}

impl Seen {
    fn before(&self, other: &Self) -> bool {
        self.ended < other.began
    }

    /// How long a promise or a reply that came of it holds.
    fn until(&self) -> Option<Timestamp> {
        match self.what {
            What::Extended { until, .. } | What::Recorded { until, .. } => Some(until),
            _ => None,
        }
    }

    /// The token of a write that only an owner may make.
    fn writer(&self) -> Option<FencingToken> {
        match self.what {
            What::Extended { token, .. } | What::Recorded { token, .. } | What::GivenUp { token } => {
                Some(token)
            }
            _ => None,
        }
    }
}

fn id(round: usize, number: usize) -> RecordId {
    RecordId::new(scope(), key(&format!("{round} {number}")))
}

/// Lets threads do what they draw, with stale tokens too, and gives all that they saw.
pub fn of(arena: &Arena, threads: usize, round: usize, dice: &mut Dice) -> Vec<Seen> {
    let ticks = AtomicU64::new(0);
    let dice: Vec<_> = (0..threads).map(|_| dice.deal()).collect();
    let seen = arena.at_once(threads, |number, store| {
        let mut worker = Worker { store, arena, round, ticks: &ticks, tokens: Vec::new(), seen: Vec::new() };
        let mut dice = dice[number].clone();
        for _ in 0..CALLS {
            worker.call(&mut dice);
        }
        worker.seen
    });
    seen.into_iter().flatten().collect()
}

struct Worker<'a> {
    store: &'a DynStore,
    arena: &'a Arena,
    round: usize,
    ticks: &'a AtomicU64,
    /// Every token that this thread was granted, and for which key: most are stale.
    tokens: Vec<(usize, FencingToken)>,
    seen: Vec<Seen>,
}

impl Worker<'_> {
    fn call(&mut self, dice: &mut Dice) {
        let at = dice.between(0, KEYS - 1);
        match dice.between(0, 15) {
            0 => self.arena.clock.advance(Duration::from_secs(12)),
            1 => self.arena.clock.advance(Duration::from_millis(1)),
            2 => drop(self.store.sweep(1).expect("a sweep")),
            3 if dice.between(0, 1) == 0 => self.execute(at, &Command::Forget),
            3..=9 => {
                let period = |length| Period::new(length).expect("a period");
                let (lease, retention) = (period(LEASE), period(RETENTION));
                self.execute(at, &Command::Claim { fingerprint: fingerprint(), lease, retention });
            }
            _ => self.show_a_token(dice),
        }
    }

    /// The newest token as often as all the others.
    fn show_a_token(&mut self, dice: &mut Dice) {
        let Some(last) = self.tokens.len().checked_sub(1) else { return };
        let chosen = if dice.between(0, 1) == 0 { last } else { dice.between(0, last) };
        let (at, token) = self.tokens[chosen];
        let command = match dice.between(0, 9) {
            0..=2 => Command::Renew { token },
            3..=4 => Command::Checkpoint { token, bytes: "half way".into() },
            5..=7 => {
                let retention = Period::new(RETENTION).expect("a period");
                Command::Complete { token, reply: reply_of(token), retention }
            }
            8 => Command::Abandon { token },
            _ => Command::Release { token },
        };
        self.execute(at, &command);
    }

    fn execute(&mut self, at: usize, command: &Command) {
        let began = self.ticks.fetch_add(1, Ordering::SeqCst);
        let outcome = self.store.backend().execute(&id(self.round, at), command);
        let ended = self.ticks.fetch_add(1, Ordering::SeqCst);
        let outcome = outcome.unwrap_or_else(|error| panic!("{}: {command:?}: {error:?}", self.arena.name));
        if let Outcome::Claimed(grant) = &outcome {
            self.tokens.push((at, grant.token));
        }
        self.seen.push(Seen { began, ended, key: at, what: what(command, outcome) });
    }
}

fn what(command: &Command, outcome: Outcome) -> What {
    match (outcome, command) {
        (Outcome::Claimed(grant), _) => {
            What::Granted { token: grant.token, attempt: grant.attempt, until: grant.lease_until }
        }
        (Outcome::Completed(done), _) => What::Replayed { reply: done.reply },
        (Outcome::AlreadyRecorded(done), Command::Complete { reply, .. }) => {
            assert_eq!(done.reply, *reply, "a second completion gets its own first reply");
            What::Replayed { reply: done.reply }
        }
        (Outcome::Recorded(done), Command::Complete { token, reply, .. }) => {
            assert_eq!(done.reply, *reply, "a completion gets its reply");
            What::Recorded { token: *token, until: done.expires_at }
        }
        (Outcome::Renewed { lease_until }, Command::Renew { token } | Command::Checkpoint { token, .. }) => {
            What::Extended { token: *token, until: lease_until }
        }
        (Outcome::Released, Command::Release { token })
        | (Outcome::Abandoned, Command::Abandon { token }) => What::GivenUp { token: *token },
        (Outcome::Forgotten { existed: true }, Command::Forget) => What::Forgotten,
        (Outcome::Lost(_), _) => What::Lost,
        (Outcome::InProgress { .. } | Outcome::AlreadyGone | Outcome::Forgotten { .. }, _) => What::Nothing,
        (other, command) => panic!("{command:?} was answered {other:?}"),
    }
}

/// A grant, and the call that it answered.
#[derive(Clone, Copy, Debug)]
struct Grant<'a> {
    token: FencingToken,
    attempt: u32,
    until: Timestamp,
    seen: &'a Seen,
}

impl Grant<'_> {
    fn made_at(&self) -> Timestamp {
        self.until.saturating_sub(LEASE)
    }
}

fn grants(seen: &[Seen]) -> Vec<Grant<'_>> {
    let mut grants: Vec<_> = seen
        .iter()
        .filter_map(|seen| match seen.what {
            What::Granted { token, attempt, until } => Some(Grant { token, attempt, until, seen }),
            _ => None,
        })
        .collect();
    grants.sort_by_key(|grant| grant.token);
    grants
}

/// Panics at the first thing that no order of the calls explains.
pub fn check(about: &str, arena: &Arena, round: usize, seen: &[Seen]) {
    tokens_rise(about, &grants(seen));
    for number in 0..KEYS {
        let about = format!("{about}, key {number}");
        let here: Vec<_> = seen.iter().filter(|seen| seen.key == number).cloned().collect();
        let grants = grants(&here);
        for call in &here {
            only_the_newest_claim_writes(&about, call, &grants, &here);
            replays_are_what_was_recorded(&about, call, &grants, &here);
        }
        for pair in grants.windows(2) {
            one_owner_at_a_time(&about, pair[0], pair[1], &here);
        }
        what_is_left_is_the_newest_claims(&about, arena, &id(round, number), &grants, &here);
    }
}

fn tokens_rise(about: &str, grants: &[Grant<'_>]) {
    for (position, earlier) in grants.iter().enumerate() {
        for later in &grants[position + 1..] {
            assert!(earlier.token < later.token, "{about}: granted twice: {earlier:?}, {later:?}");
            assert!(!later.seen.before(earlier.seen), "{about}: against time: {earlier:?}, {later:?}");
        }
    }
}

fn recorded(seen: &[Seen], by: FencingToken) -> impl Iterator<Item = &Seen> {
    seen.iter().filter(move |seen| matches!(seen.what, What::Recorded { token, .. } if token == by))
}

fn only_the_newest_claim_writes(about: &str, call: &Seen, grants: &[Grant<'_>], seen: &[Seen]) {
    let Some(token) = call.writer() else { return };
    let superseded = grants.iter().find(|grant| grant.token > token && grant.seen.before(call));
    assert!(superseded.is_none(), "{about}: {call:?} after {superseded:?}");
    let completed = recorded(seen, token).find(|completion| completion.before(call));
    assert!(completed.is_none(), "{about}: {call:?} after {completed:?}");
    assert!(recorded(seen, token).count() <= 1, "{about}: {token} completed twice");
}

fn replays_are_what_was_recorded(about: &str, call: &Seen, grants: &[Grant<'_>], seen: &[Seen]) {
    let What::Replayed { reply } = &call.what else { return };
    let by = grants.iter().find(|grant| reply_of(grant.token) == *reply);
    let by = by.unwrap_or_else(|| panic!("{about}: {call:?} names no claim")).token;
    assert!(
        recorded(seen, by).any(|completion| !call.before(completion)),
        "{about}: {call:?} was not recorded"
    );
    let newer = grants.iter().find(|grant| grant.token > by && grant.seen.before(call));
    assert!(newer.is_none(), "{about}: {call:?} after {newer:?}");
}

/// `next` is the first grant after `owner`: it must have been given up, forgotten, or over by then.
fn one_owner_at_a_time(about: &str, owner: Grant<'_>, next: Grant<'_>, seen: &[Seen]) {
    let continues = next.attempt == owner.attempt + 1 && recorded(seen, owner.token).next().is_none();
    assert!(next.attempt == 1 || continues, "{about}: {next:?} after {owner:?}");

    let between = |call: &&Seen| !call.before(owner.seen) && !next.seen.before(call);
    let ended = |call: &Seen| match call.what {
        What::GivenUp { token } => token == owner.token,
        What::Forgotten => true,
        _ => false,
    };
    if seen.iter().filter(between).any(ended) {
        return;
    }
    let until = match recorded(seen, owner.token).find_map(Seen::until) {
        Some(replayed_until) => replayed_until,
        None => {
            let promised = seen.iter().filter(|call| {
                call.before(next.seen)
                    && matches!(call.what, What::Extended { token, .. } if token == owner.token)
            });
            let lease_until = promised.filter_map(Seen::until).fold(owner.until, Timestamp::max);
            // What is still there is taken over; only what has expired starts again.
            if next.attempt == 1 { lease_until.saturating_add(RETENTION) } else { lease_until }
        }
    };
    assert!(until <= next.made_at(), "{about}: {next:?} while {owner:?} stood until {until}");
}

fn what_is_left_is_the_newest_claims(
    about: &str,
    arena: &Arena,
    id: &RecordId,
    grants: &[Grant<'_>],
    seen: &[Seen],
) {
    let Some(record) = arena.store().lookup(&id.scope, &id.key).expect("a look-up") else { return };
    assert_eq!(Some(record.token), grants.last().map(|grant| grant.token), "{about}");
    let completed = recorded(seen, record.token).next().is_some();
    assert_eq!(record.state == State::Completed, completed, "{about}: {record:?}");
    assert_eq!(record.reply, completed.then(|| reply_of(record.token)), "{about}");
}
