//! What callers saw of some keys, and a checker that judges it by the order in which calls began and ended; it
//! never asks the transition.
//!
//! Every call in a history has its answer: who gathers one refuses errors himself.

use idempotency::{
    Command, Completed, FencingToken, Fingerprint, LostReason, Outcome, Record, Reply, State, Timestamp,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// The lease and the retention of every claim in a history.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub lease: Duration,
    pub retention: Duration,
}

/// One call and its answer.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Ticks of one counter for all callers: a call that ended before another began happened before it.
    pub began: u64,
    pub ended: u64,
    pub key: usize,
    pub what: What,
}

/// A reply that was recorded, with all that goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    pub reply: Reply,
    pub created_at: Timestamp,
    pub completed_at: Timestamp,
    pub expires_at: Timestamp,
}

impl From<Completed> for Done {
    fn from(done: Completed) -> Self {
        let Completed { reply, created_at, completed_at, expires_at, .. } = done;
        Self { reply, created_at, completed_at, expires_at }
    }
}

#[derive(Clone, Debug)]
pub enum What {
    Granted {
        token: FencingToken,
        attempt: u32,
        until: Timestamp,
        asked: Fingerprint,
    },
    /// A renewal or a checkpoint.
    Extended {
        token: FencingToken,
        until: Timestamp,
    },
    Recorded {
        token: FencingToken,
        done: Done,
    },
    /// A reply came back to a claim.
    Replayed {
        done: Done,
        asked: Fingerprint,
    },
    /// The first reply came back to a second completion.
    RecordedBefore {
        token: FencingToken,
        done: Done,
    },
    /// A claim was told that another one stands.
    Running {
        attempt: u32,
        until: Timestamp,
        asked: Fingerprint,
    },
    /// A claim was told that the key is in use for another request.
    Mismatched {
        asked: Fingerprint,
    },
    /// A release or an abandonment.
    GivenUp {
        token: FencingToken,
    },
    Forgotten,
    Lost {
        token: FencingToken,
        reason: LostReason,
    },
    /// Told that there is nothing to do.
    Nothing,
}

impl What {
    /// What a caller sees that gave `command` and was answered `outcome`.
    pub fn of(command: &Command, outcome: Outcome) -> Self {
        match (outcome, command) {
            (Outcome::Claimed(grant), Command::Claim { fingerprint, .. }) => Self::Granted {
                token: grant.token,
                attempt: grant.attempt,
                until: grant.lease_until,
                asked: *fingerprint,
            },
            (Outcome::Completed(done), Command::Claim { fingerprint, .. }) => {
                Self::Replayed { done: done.into(), asked: *fingerprint }
            }
            (Outcome::InProgress { lease_until, attempt, .. }, Command::Claim { fingerprint, .. }) => {
                Self::Running { attempt, until: lease_until, asked: *fingerprint }
            }
            (Outcome::FingerprintMismatch(_), Command::Claim { fingerprint, .. }) => {
                Self::Mismatched { asked: *fingerprint }
            }
            (Outcome::AlreadyRecorded(done), Command::Complete { token, .. }) => {
                Self::RecordedBefore { token: *token, done: done.into() }
            }
            (Outcome::Recorded(done), Command::Complete { token, reply, .. }) => {
                assert_eq!(done.reply, *reply, "a completion gets its reply");
                Self::Recorded { token: *token, done: done.into() }
            }
            (
                Outcome::Renewed { lease_until },
                Command::Renew { token } | Command::Checkpoint { token, .. },
            ) => Self::Extended { token: *token, until: lease_until },
            (Outcome::Released, Command::Release { token })
            | (Outcome::Abandoned, Command::Abandon { token }) => Self::GivenUp { token: *token },
            (Outcome::Forgotten { existed: true }, Command::Forget) => Self::Forgotten,
            (
                Outcome::Lost(reason),
                Command::Complete { token, .. }
                | Command::Renew { token }
                | Command::Checkpoint { token, .. }
                | Command::Release { token }
                | Command::Abandon { token },
            ) => Self::Lost { token: *token, reason },
            (Outcome::AlreadyGone, Command::Release { .. } | Command::Abandon { .. })
            | (Outcome::Forgotten { existed: false }, Command::Forget) => Self::Nothing,
            (other, command) => panic!("{command:?} was answered {other:?}"),
        }
    }
}

impl Seen {
    fn before(&self, other: &Self) -> bool {
        self.ended < other.began
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

    /// Until when this call promised that the claim of `owner` stands.
    fn extends(&self, owner: FencingToken) -> Option<Timestamp> {
        match self.what {
            What::Extended { token, until } if token == owner => Some(until),
            _ => None,
        }
    }

    /// Whether this call ended the claim of `owner` without a reply, if that was the newest.
    fn ends(&self, owner: FencingToken) -> bool {
        match self.what {
            What::GivenUp { token } => token == owner,
            What::Forgotten => true,
            _ => false,
        }
    }
}

/// A grant, and the call that it answered.
#[derive(Clone, Copy, Debug)]
struct Grant<'a> {
    token: FencingToken,
    attempt: u32,
    until: Timestamp,
    asked: Fingerprint,
    seen: &'a Seen,
}

fn grants(seen: &[Seen]) -> Vec<Grant<'_>> {
    let mut grants: Vec<_> = seen
        .iter()
        .filter_map(|seen| match seen.what {
            What::Granted { token, attempt, until, asked } => {
                Some(Grant { token, attempt, until, asked, seen })
            }
            _ => None,
        })
        .collect();
    grants.sort_by_key(|grant| grant.token);
    grants
}

/// What was seen of one key.
struct Key<'a> {
    about: String,
    terms: Terms,
    seen: &'a [Seen],
    /// By their tokens.
    grants: Vec<Grant<'a>>,
}

/// Panics at the first thing that no order of the calls explains. `left` gives the record that a key has in
/// the end.
pub fn check(about: &str, terms: Terms, seen: &[Seen], left: impl Fn(usize) -> Option<Record>) {
    tokens_rise(about, &grants(seen));
    let mut by_key: BTreeMap<usize, Vec<Seen>> = BTreeMap::new();
    for call in seen {
        by_key.entry(call.key).or_default().push(call.clone());
    }
    for (number, seen) in &by_key {
        let about = format!("{about}, key {number}");
        let key = Key { about, terms, seen, grants: grants(seen) };
        for call in seen {
            key.only_the_newest_claim_writes(call);
            key.replays_are_what_was_recorded(call);
            key.what_runs_was_granted(call);
            key.mismatches_and_losses_have_a_cause(call);
        }
        for pair in key.grants.windows(2) {
            key.one_owner_at_a_time(pair[0], pair[1]);
        }
        key.what_is_left_is_the_newest_claims(left(*number).as_ref());
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

impl Key<'_> {
    fn recorded(&self, by: FencingToken) -> impl Iterator<Item = (&Seen, &Done)> {
        self.seen.iter().filter_map(move |seen| match &seen.what {
            What::Recorded { token, done } if *token == by => Some((seen, done)),
            _ => None,
        })
    }

    fn newer_before(&self, token: FencingToken, call: &Seen) -> Option<&Grant<'_>> {
        self.grants.iter().find(|grant| grant.token > token && grant.seen.before(call))
    }

    fn made_at(&self, grant: Grant<'_>) -> Timestamp {
        grant.until.saturating_sub(self.terms.lease)
    }

    /// The grant of `token`, and the first one of its record's life.
    #[track_caller]
    fn life_of(&self, token: FencingToken, call: &Seen) -> (Grant<'_>, Grant<'_>) {
        let about = &self.about;
        let until: Vec<_> = self.grants.iter().filter(|grant| grant.token <= token).collect();
        let granted = until.last().filter(|grant| grant.token == token && !call.before(grant.seen));
        let granted = granted.unwrap_or_else(|| panic!("{about}: {call:?} has a token that was not granted"));
        let first = until.iter().rfind(|grant| grant.attempt == 1);
        let first = first.unwrap_or_else(|| panic!("{about}: {granted:?} takes over from nobody"));
        (**granted, **first)
    }

    fn only_the_newest_claim_writes(&self, call: &Seen) {
        let about = &self.about;
        let Some(token) = call.writer() else { return };
        let (_, first) = self.life_of(token, call);
        let superseded = self.newer_before(token, call);
        assert!(superseded.is_none(), "{about}: {call:?} after {superseded:?}");
        let completed = self.recorded(token).find(|(completion, _)| completion.before(call));
        assert!(completed.is_none(), "{about}: {call:?} after {completed:?}");
        assert!(self.recorded(token).count() <= 1, "{about}: {token} completed twice");
        if let What::Recorded { done, .. } = &call.what {
            assert_eq!(done.created_at, self.made_at(first), "{about}: {call:?} began with {first:?}");
        }
    }

    fn replays_are_what_was_recorded(&self, call: &Seen) {
        let about = &self.about;
        let (What::Replayed { done, .. } | What::RecordedBefore { done, .. }) = &call.what else { return };
        let recorded = self.grants.iter().find(|grant| {
            let mut completions = self.recorded(grant.token);
            completions.any(|(completion, recorded)| recorded == done && !call.before(completion))
        });
        let by = recorded.unwrap_or_else(|| panic!("{about}: {call:?} was not recorded"));
        let newer = self.newer_before(by.token, call);
        assert!(newer.is_none(), "{about}: {call:?} after {newer:?}");
        match &call.what {
            What::Replayed { asked, .. } => {
                assert_eq!(*asked, by.asked, "{about}: {call:?} is another request than {by:?}");
            }
            What::RecordedBefore { token, .. } => assert_eq!(*token, by.token, "{about}: {call:?}"),
            _ => {}
        }
    }

    fn what_runs_was_granted(&self, call: &Seen) {
        let about = &self.about;
        let What::Running { attempt, until, asked } = call.what else { return };
        let runs = |grant: &Grant<'_>| {
            let extended = |seen: &Seen| !call.before(seen) && seen.extends(grant.token) == Some(until);
            // An abandoned claim stands again if its owner renews it before anybody has taken over.
            let revived = |end: &Seen| {
                let mut later = self.seen.iter().filter(|seen| !seen.before(end) && !call.before(seen));
                later.any(|seen| seen.extends(grant.token).is_some())
            };
            let ended = |end: &Seen| {
                end.ends(grant.token) && grant.seen.before(end) && end.before(call) && !revived(end)
            };
            (grant.attempt, grant.asked) == (attempt, asked)
                && !call.before(grant.seen)
                && (grant.until == until || self.seen.iter().any(extended))
                && self.newer_before(grant.token, call).is_none()
                && !self.recorded(grant.token).any(|(completion, _)| completion.before(call))
                && !self.seen.iter().any(ended)
        };
        assert!(self.grants.iter().any(runs), "{about}: {call:?}, and no such claim stood");
    }

    fn mismatches_and_losses_have_a_cause(&self, call: &Seen) {
        let about = &self.about;
        match call.what {
            What::Mismatched { asked } => {
                let mut others = self.grants.iter().filter(|grant| grant.asked != asked);
                let cause = others.any(|grant| {
                    !call.before(grant.seen)
                        && self.newer_before(grant.token, call).is_none_or(|newer| {
                            // A takeover is of the same request.
                            newer.attempt > 1
                        })
                });
                assert!(cause, "{about}: {call:?}, and no other request had the key");
            }
            What::Lost { token, reason: LostReason::Running | LostReason::Completed } => {
                let mut newer = self.grants.iter().filter(|grant| grant.token > token);
                assert!(newer.any(|grant| !call.before(grant.seen)), "{about}: {call:?} to nobody");
            }
            What::Lost { token, reason: LostReason::CompletedByThisClaim } => {
                let mut completions = self.recorded(token);
                assert!(completions.any(|(completion, _)| !call.before(completion)), "{about}: {call:?}");
            }
            _ => {}
        }
    }

    /// `next` is the first grant after `owner`: it must have been given up, forgotten, or over by then.
    fn one_owner_at_a_time(&self, owner: Grant<'_>, next: Grant<'_>) {
        let about = &self.about;
        let continues = next.attempt == owner.attempt + 1 && self.recorded(owner.token).next().is_none();
        assert!(next.attempt == 1 || continues, "{about}: {next:?} after {owner:?}");
        assert!(
            next.attempt == 1 || next.asked == owner.asked,
            "{about}: {next:?} takes over another request, {owner:?}"
        );

        let between = |call: &&Seen| !call.before(owner.seen) && !next.seen.before(call);
        if self.seen.iter().filter(between).any(|call| call.ends(owner.token)) {
            return;
        }
        let until = match self.recorded(owner.token).next() {
            Some((_, done)) => done.expires_at,
            None => {
                let promised = self.seen.iter().filter(|call| call.before(next.seen));
                let lease_until =
                    promised.filter_map(|call| call.extends(owner.token)).fold(owner.until, Timestamp::max);
                // What is still there is taken over; only what has expired starts again.
                if next.attempt == 1 { lease_until.saturating_add(self.terms.retention) } else { lease_until }
            }
        };
        assert!(until <= self.made_at(next), "{about}: {next:?} while {owner:?} stood until {until}");
    }

    fn what_is_left_is_the_newest_claims(&self, left: Option<&Record>) {
        let (about, Some(record)) = (&self.about, left) else { return };
        let newest = self.grants.last().map(|grant| (grant.token, grant.attempt, grant.asked));
        assert_eq!(Some((record.token, record.attempt, record.fingerprint)), newest, "{about}");
        let reply = self.recorded(record.token).next().map(|(_, done)| &done.reply);
        assert_eq!(record.state == State::Completed, reply.is_some(), "{about}: {record:?}");
        assert_eq!(record.reply.as_ref(), reply, "{about}");
    }
}
