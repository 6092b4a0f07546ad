//! Calls that may have been done, and the answers which show that they were.

use super::{Done, Perhaps, Seen, What};
use idempotency::{FencingToken, Fingerprint, Record, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// How many calls that may have been done an answer shows to have been, and of how many it is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    pub shown_done: usize,
    pub open: usize,
}

/// The same history, with every call that is shown to have been done as one that was answered so, and without
/// the claims that are shown to have been granted to nobody. `left` gives the record that a key has in the end,
/// which is an answer, too.
pub fn settle(seen: &[Seen], left: impl Fn(usize) -> Option<Record>) -> (Vec<Seen>, Doubts) {
    let mut settled = without_refuted(seen);
    // In the order in which they ended, so that the first look at a claim finds it as it was granted: who
    // extends it has looked before.
    let mut answers: Vec<_> = seen.iter().filter(|call| !is_open(call)).collect();
    answers.sort_by_key(|call| call.ended);
    let mut found = BTreeMap::new();
    for call in &answers {
        if let What::Found { token, .. } = call.what {
            found.entry(token).or_insert(*call);
        }
    }
    // In the order of the tokens, and each the one that ended first of those that it may be: what is left is more
    // likely to be the later ones.
    for (token, call) in found {
        claim(&mut settled, call, token);
    }
    for call in &answers {
        match &call.what {
            What::Replayed { done, .. } => completion(&mut settled, call.key, Some(call), None, done),
            What::RecordedBefore { token, done } => {
                completion(&mut settled, call.key, Some(call), Some(*token), done);
            }
            _ => {}
        }
    }
    let keys: BTreeSet<_> = seen.iter().map(|call| call.key).collect();
    for key in keys {
        let Some(record) = left(key) else { continue };
        if let Some(done) = Done::of(&record) {
            completion(&mut settled, key, None, Some(record.token), &done);
        }
    }
    settled = without_refuted(&settled);
    for call in &answers {
        if let What::Running { attempt, until, asked } = call.what {
            extension(&mut settled, call, attempt, until, asked);
        }
    }
    let open = settled.iter().filter(|call| is_open(call)).count();
    let doubts = Doubts { shown_done: settled.len() - open - answers.len(), open };
    (settled, doubts)
}

fn without_refuted(seen: &[Seen]) -> Vec<Seen> {
    seen.iter().filter(|call| !is_refuted(call, seen)).cloned().collect()
}

/// One of these was done. Which one is not known: its time is that of all of them.
fn show(seen: &mut [Seen], is_one: impl Fn(&Seen) -> bool, what: What) {
    let candidates: Vec<_> = (0..seen.len()).filter(|at| is_one(&seen[*at])).collect();
    let began = candidates.iter().map(|at| seen[*at].began).min();
    let ended = candidates.iter().map(|at| seen[*at].ended).max();
    let first = candidates.iter().min_by_key(|at| seen[**at].ended);
    if let (Some(first), Some(began), Some(ended)) = (first, began, ended) {
        seen[*first] = Seen { began, ended, key: seen[*first].key, what };
    }
}

fn is_open(call: &Seen) -> bool {
    matches!(call.what, What::Perhaps(_))
}

/// The grants of a key, as token and call.
fn grants_of(seen: &[Seen], key: usize) -> impl Iterator<Item = (FencingToken, &Seen)> {
    seen.iter().filter(move |call| call.key == key).filter_map(|call| match call.what {
        What::Granted { token, .. } => Some((token, call)),
        _ => None,
    })
}

/// Whose claim, or reply, stood when this was answered. What is only said to run may be another claim of the
/// same moment.
fn in_force(call: &Seen, seen: &[Seen]) -> Option<FencingToken> {
    match &call.what {
        What::RecordedBefore { token, .. } | What::Found { token, .. } => Some(*token),
        What::Replayed { done, .. } => seen.iter().find_map(|other| match &other.what {
            What::Recorded { token, done: recorded } if other.key == call.key && recorded == done => {
                Some(*token)
            }
            _ => None,
        }),
        _ => call.writer(),
    }
}

/// Whether a claim that may have been granted was not: one of before it was in force after it.
fn is_refuted(claim: &Seen, seen: &[Seen]) -> bool {
    matches!(claim.what, What::Perhaps(Perhaps::Granted { .. }))
        && seen.iter().filter(|later| later.key == claim.key && claim.before(later)).any(|later| {
            in_force(later, seen).is_some_and(|token| {
                grants_of(seen, claim.key).any(|(granted, grant)| granted == token && grant.before(claim))
            })
        })
}

/// A claim was found with a token that nobody was told of. It is one that does not stand against the order in
/// which the others got theirs.
fn claim(seen: &mut [Seen], look: &Seen, token: FencingToken) {
    let What::Found { attempt, until, asked, .. } = look.what else { return };
    let grants: Vec<_> = seen
        .iter()
        .filter_map(|call| match call.what {
            What::Granted { token, .. } => Some((token, call.clone())),
            _ => None,
        })
        .collect();
    if grants.iter().any(|(known, _)| *known == token) {
        return;
    }
    let in_order = |call: &Seen| {
        grants.iter().all(
            |(known, grant)| {
                if *known < token { !call.before(grant) } else { !grant.before(call) }
            },
        )
    };
    // What an older claim wrote, or was seen to be, came before this one.
    let follows_the_older = |call: &Seen| {
        let mut later = seen.iter().filter(|other| other.key == look.key && call.before(other));
        later.all(|other| in_force(other, seen).is_none_or(|older| older >= token))
    };
    let perhaps = What::Perhaps(Perhaps::Granted { asked });
    let may_be = |call: &Seen| {
        call.key == look.key
            && call.what == perhaps
            && !look.before(call)
            && in_order(call)
            && follows_the_older(call)
    };
    let candidates: BTreeSet<_> = seen.iter().filter(|call| may_be(call)).map(|call| call.began).collect();
    let is_one = |call: &Seen| candidates.contains(&call.began);
    show(seen, is_one, What::Granted { token, attempt, until, asked });
}

/// A claim was seen to stand until a moment that nobody was promised. That may also be a claim that nobody was
/// told of.
fn extension(seen: &mut [Seen], call: &Seen, attempt: u32, until: Timestamp, asked: Fingerprint) {
    let of_key = |other: &&Seen| other.key == call.key;
    let is_followed =
        |claim: &Seen| grants_of(seen, call.key).any(|(_, next)| claim.before(next) && next.before(call));
    let unheard = What::Perhaps(Perhaps::Granted { asked });
    let may_stand = |claim: &Seen| claim.what == unheard && !call.before(claim) && !is_followed(claim);
    if seen.iter().filter(of_key).any(may_stand) {
        return;
    }
    let may_own = |owner: FencingToken, grant: &Seen| {
        let newer = |(next, grant): (FencingToken, &Seen)| next > owner && grant.before(call);
        !call.before(grant) && !grants_of(seen, call.key).any(newer)
    };
    let mut owners: Vec<_> = grants_of(seen, call.key)
        .filter_map(|(owner, grant)| match grant.what {
            What::Granted { attempt: its, until: first, asked: request, .. }
                if (its, request) == (attempt, asked) && first <= until && may_own(owner, grant) =>
            {
                Some((owner, first))
            }
            _ => None,
        })
        .collect();
    owners.sort_unstable();
    let is_promised = |owner: FencingToken| {
        let mut earlier = seen.iter().filter(of_key).filter(|other| !call.before(other));
        earlier.any(|other| other.extends(owner) == Some(until))
    };
    if owners.iter().any(|(owner, first)| *first == until || is_promised(*owner)) {
        return;
    }
    for (token, _) in owners.into_iter().rev() {
        let perhaps = What::Perhaps(Perhaps::Extended { token });
        let may_write = |extension: &Seen| {
            !call.before(extension)
                && seen.iter().filter(of_key).all(|other| match other.what {
                    What::Granted { token: newer, until: next, .. } if newer > token => {
                        // The lease was extended, at `until - lease`, before the next claim was made.
                        !other.before(extension) && until <= next
                    }
                    What::Recorded { token: by, .. } if by == token => !other.before(extension),
                    _ => true,
                })
        };
        let may_be = |other: &Seen| of_key(&other) && other.what == perhaps && may_write(other);
        let candidates: Vec<_> = seen.iter().filter(|other| may_be(other)).map(|other| other.began).collect();
        if !candidates.is_empty() {
            show(seen, |other| candidates.contains(&other.began), What::Extended { token, until });
            return;
        }
    }
}

/// A reply was seen that nobody was told to have recorded; by this claim, if that is known.
fn completion(seen: &mut [Seen], key: usize, call: Option<&Seen>, by: Option<FencingToken>, done: &Done) {
    let of_key = |other: &Seen| other.key == key;
    let is_known = |other: &Seen| matches!(&other.what, What::Recorded { done: known, .. } if known == done);
    if seen.iter().any(|other| of_key(other) && is_known(other)) {
        return;
    }
    let recorded_by = |other: &Seen| match &other.what {
        What::Perhaps(Perhaps::Recorded { token, reply })
            if of_key(other)
                && *reply == done.reply
                && by.is_none_or(|by| by == *token)
                && call.is_none_or(|call| !call.before(other)) =>
        {
            Some(*token)
        }
        _ => None,
    };
    let Some(token) = seen.iter().find_map(recorded_by) else { return };
    let recorded = What::Recorded { token, done: done.clone() };
    show(seen, |other| recorded_by(other) == Some(token), recorded);
}
