//! A checker of what callers saw of some keys, that judges it by the order in which calls began and ended; it
//! never asks the transition.
//!
//! Of a call that may have been done, both are possible until an answer shows that it was ([`doubts`]). What no
//! answer shows excuses what it would explain, and forbids nothing. All other calls have their answers: who
//! gathers a history refuses other errors himself.

mod doubts;
mod seen;

pub use self::doubts::Doubts;
pub use self::seen::{Done, Perhaps, Seen, What};

use idempotency::{FencingToken, Fingerprint, LostReason, Record, State, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// The lease and the retention of every claim in a history.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub lease: Duration,
    pub retention: Duration,
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
pub fn check(about: &str, terms: Terms, seen: &[Seen], left: impl Fn(usize) -> Option<Record>) -> Doubts {
    let (seen, doubts) = doubts::settle(seen, &left);
    tokens_rise(about, &grants(&seen));
    let mut by_key: BTreeMap<usize, Vec<Seen>> = BTreeMap::new();
    for call in seen {
        by_key.entry(call.key).or_default().push(call);
    }
    for (number, seen) in &by_key {
        let about = format!("{about}, key {number}");
        let key = Key { about, terms, seen, grants: grants(seen) };
        for call in seen {
            key.only_the_newest_claim_writes(call);
            key.replays_are_what_was_recorded(call);
            key.what_runs_was_granted(call);
            key.mismatches_and_losses_have_a_cause(call);
            key.what_is_found_was_granted(call);
        }
        for pair in key.grants.windows(2) {
            key.one_owner_at_a_time(pair[0], pair[1]);
        }
        key.what_is_left_is_the_newest_claims(left(*number).as_ref());
    }
    doubts
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

    /// How many claims of this request, of which nobody knows whether they were granted, may have been so
    /// between two calls.
    fn unheard(&self, asked: Fingerprint, after: &Seen, until: &Seen) -> usize {
        let unheard = |call: &&Seen| {
            call.what == What::Perhaps(Perhaps::Granted { asked })
                && !until.before(call)
                && !call.before(after)
        };
        self.seen.iter().filter(unheard).count()
    }

    /// Whether a claim of such a request may stand at a call: one that nobody is known to have followed.
    fn may_stand(&self, call: &Seen, is_such: impl Fn(Fingerprint) -> bool) -> bool {
        self.seen.iter().any(|claim| {
            matches!(claim.what, What::Perhaps(Perhaps::Granted { asked }) if is_such(asked))
                && !call.before(claim)
                && !self.grants.iter().any(|next| claim.before(next.seen) && next.seen.before(call))
        })
    }

    /// The grant of `token`, and the first one of its record's life, if all between them were heard of.
    #[track_caller]
    fn life_of(&self, token: FencingToken, call: &Seen) -> (Grant<'_>, Option<Grant<'_>>) {
        let about = &self.about;
        let until: Vec<_> = self.grants.iter().filter(|grant| grant.token <= token).collect();
        let granted = until.last().filter(|grant| grant.token == token && !call.before(grant.seen));
        let granted = granted.unwrap_or_else(|| panic!("{about}: {call:?} has a token that was not granted"));
        // Those of its life that were heard of, up to one that was not.
        let mut heard = (1..=granted.attempt).rev().zip(until.iter().rev());
        let in_life: Vec<_> = heard
            .by_ref()
            .take_while(|(attempt, grant)| grant.attempt == *attempt)
            .map(|(_, grant)| **grant)
            .collect();
        let oldest = *in_life.last().expect("the grant itself");
        let first = (oldest.attempt == 1).then_some(oldest);
        let before = until.iter().rev().nth(in_life.len());
        let perhaps = What::Perhaps(Perhaps::Granted { asked: granted.asked });
        let may_precede = |claim: &Seen| {
            claim.what == perhaps
                && !oldest.seen.before(claim)
                && before.is_none_or(|known| !claim.before(known.seen))
        };
        let is_followed = first.is_some() || self.seen.iter().any(may_precede);
        assert!(is_followed, "{about}: {granted:?} takes over from nobody");
        let is_unheard = self.unheard(granted.asked, oldest.seen, granted.seen) > 0
            || self.may_stand(granted.seen, |asked| asked == granted.asked);
        // If somebody may have begun a new life, it is not known when.
        (**granted, first.filter(|first| first.token == token || !is_unheard))
    }

    fn only_the_newest_claim_writes(&self, call: &Seen) {
        let about = &self.about;
        let Some(token) = call.writer() else { return };
        let (granted, first) = self.life_of(token, call);
        let superseded = self.newer_before(token, call);
        assert!(superseded.is_none(), "{about}: {call:?} after {superseded:?}");
        let completed = self.recorded(token).find(|(completion, _)| completion.before(call));
        assert!(completed.is_none(), "{about}: {call:?} after {completed:?}");
        let is_forgotten =
            |other: &&Seen| other.what == What::Forgotten && granted.seen.before(other) && other.before(call);
        let forgotten = self.seen.iter().find(is_forgotten);
        assert!(forgotten.is_none(), "{about}: {call:?} after {forgotten:?}");
        assert!(self.recorded(token).count() <= 1, "{about}: {token} completed twice");
        if let What::Recorded { done, .. } = &call.what {
            let created_at = first.map_or(done.created_at, |first| self.made_at(first));
            assert_eq!(done.created_at, created_at, "{about}: {call:?} began with {first:?}");
            let expires_at = done.completed_at.saturating_add(self.terms.retention);
            assert_eq!(done.expires_at, expires_at, "{about}: {call:?}");
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
                later.any(|seen| seen.may_extend(grant.token))
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
        let stood = self.grants.iter().any(runs) || self.may_stand(call, |other| other == asked);
        assert!(stood, "{about}: {call:?}, and no such claim stood");
    }

    fn what_is_found_was_granted(&self, call: &Seen) {
        let about = &self.about;
        let What::Found { token, attempt, asked, .. } = call.what else { return };
        let found = |grant: &Grant<'_>| {
            (grant.token, grant.attempt, grant.asked) == (token, attempt, asked)
                && !call.before(grant.seen)
                && self.newer_before(token, call).is_none()
                && !self.recorded(token).any(|(completion, _)| completion.before(call))
        };
        assert!(self.grants.iter().any(found), "{about}: {call:?}, and no such claim was granted");
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
                let cause = cause || self.may_stand(call, |other| other != asked);
                assert!(cause, "{about}: {call:?}, and no other request had the key");
            }
            What::Lost { token, reason: LostReason::Running | LostReason::Completed } => {
                let mut newer = self.grants.iter().filter(|grant| grant.token > token);
                let to_somebody =
                    newer.any(|grant| !call.before(grant.seen)) || self.may_stand(call, |_| true);
                assert!(to_somebody, "{about}: {call:?} to nobody");
            }
            What::Lost { token, reason: LostReason::CompletedByThisClaim } => {
                let completes = |seen: &&Seen| match &seen.what {
                    What::Recorded { token: by, .. } | What::Perhaps(Perhaps::Recorded { token: by, .. }) => {
                        *by == token
                    }
                    _ => false,
                };
                let mut completions = self.seen.iter().filter(completes);
                assert!(completions.any(|completion| !call.before(completion)), "{about}: {call:?}");
            }
            _ => {}
        }
    }

    /// `next` is the first grant after `owner`: it must have been given up, forgotten, or over by then.
    fn one_owner_at_a_time(&self, owner: Grant<'_>, next: Grant<'_>) {
        let about = &self.about;
        let is_recorded = self.recorded(owner.token).next().is_some();
        // Of those who may have been granted in between, the first may also have begun a new life.
        let unheard = u32::try_from(self.unheard(next.asked, owner.seen, next.seen)).expect("few calls");
        let takes_over = |last: u32| (last + 1..=last + 1 + unheard).contains(&next.attempt);
        let continues = takes_over(owner.attempt) && !is_recorded && next.asked == owner.asked;
        let is_new = next.attempt == 1 || (unheard > 0 && next.attempt <= 1 + unheard);
        assert!(
            is_new || next.asked == owner.asked,
            "{about}: {next:?} takes over another request, {owner:?}"
        );
        assert!(is_new || continues, "{about}: {next:?} after {owner:?}");

        let between = |call: &&Seen| !call.before(owner.seen) && !next.seen.before(call);
        let may_end = |call: &Seen| match call.what {
            // Of a completed record nothing is given up.
            What::Perhaps(Perhaps::GivenUp { .. }) if is_recorded => false,
            _ => call.may_end(owner.token),
        };
        if self.seen.iter().filter(between).any(may_end) {
            return;
        }
        let until = match self.recorded(owner.token).next() {
            Some((_, done)) => done.expires_at,
            None => {
                let promised = self.seen.iter().filter(|call| call.before(next.seen));
                let lease_until =
                    promised.filter_map(|call| call.extends(owner.token)).fold(owner.until, Timestamp::max);
                // What is still there is taken over; only what has expired starts again. What may have been
                // recorded, at once even, expires by that.
                let may_record = |call: &Seen| {
                    matches!(&call.what, What::Perhaps(Perhaps::Recorded { token, .. }) if *token == owner.token)
                        && !next.seen.before(call)
                };
                let ends = if self.seen.iter().any(may_record) { self.made_at(owner) } else { lease_until };
                if next.attempt == 1 { ends.saturating_add(self.terms.retention) } else { lease_until }
            }
        };
        assert!(until <= self.made_at(next), "{about}: {next:?} while {owner:?} stood until {until}");
    }

    fn what_is_left_is_the_newest_claims(&self, left: Option<&Record>) {
        let (about, Some(record)) = (&self.about, left) else { return };
        let last = self.grants.last();
        let newest = last.map(|grant| (grant.token, grant.attempt, grant.asked));
        let is_newer = newest.is_none_or(|(token, ..)| token < record.token);
        let asked = What::Perhaps(Perhaps::Granted { asked: record.fingerprint });
        let may_follow =
            |call: &Seen| call.what == asked && last.is_none_or(|grant| !call.before(grant.seen));
        if is_newer && self.seen.iter().any(may_follow) {
            // Nobody knew its token.
            assert_eq!(record.state, State::InProgress, "{about}: {record:?}");
            return;
        }
        assert_eq!(Some((record.token, record.attempt, record.fingerprint)), newest, "{about}");
        let reply = self.recorded(record.token).next().map(|(_, done)| &done.reply);
        assert_eq!(record.state == State::Completed, reply.is_some(), "{about}: {record:?}");
        assert_eq!(record.reply.as_ref(), reply, "{about}");
    }
}
