//! The model: nothing but what happened to a key, in order. What stands is asked of that history, never
//! stored beside it.
//!
//! Written from the tables of `docs/design.md`; it knows nothing of the crate's transition function.

use crate::plain::{Done, Plain, Told};
use crate::steps::{KEYS, fingerprint};
use idempotency::{Fingerprint, LostReason, Reply};

/// The number of a token that was never granted.
pub const NEVER_ISSUED: usize = usize::MAX;

/// A command. Tokens are numbered by the claims that asked for them, whether or not they were granted: so a
/// token has the same number in every history, also where another one has none by it.
#[derive(Clone, Debug)]
pub enum Asked {
    Claim { token: usize, request: u8, lease: i64, retention: i64 },
    Complete { token: usize, reply: Reply, retention: i64 },
    Renew { token: usize },
    Save { token: usize, bytes: Vec<u8> },
    Release { token: usize },
    Abandon { token: usize },
    Forget,
}

#[derive(Clone, Debug)]
struct Event {
    at: i64,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Granted(Terms),
    Renewed,
    Saved(Vec<u8>),
    Abandoned,
    Completed { reply: Reply, retention: i64 },
}

#[derive(Clone, Copy, Debug)]
struct Terms {
    token: usize,
    fingerprint: Fingerprint,
    lease: i64,
    retention: i64,
}

/// What happened to one key since its record came into being; empty if there is none.
#[derive(Clone, Debug, Default)]
struct Life(Vec<Event>);

impl Life {
    fn born(&self) -> bool {
        !self.0.is_empty()
    }

    fn grants(&self) -> impl DoubleEndedIterator<Item = (&Event, Terms)> {
        self.0.iter().filter_map(|event| match event.what {
            What::Granted(terms) => Some((event, terms)),
            _ => None,
        })
    }

    fn terms(&self) -> Terms {
        self.grants().next_back().expect("a life starts with a grant").1
    }

    fn created_at(&self) -> i64 {
        self.0[0].at
    }

    fn attempt(&self) -> u32 {
        self.grants().count().try_into().expect("few attempts")
    }

    fn completion(&self) -> Option<(i64, &Reply, i64)> {
        self.0.iter().find_map(|event| match &event.what {
            What::Completed { reply, retention } => Some((event.at, reply, *retention)),
            _ => None,
        })
    }

    fn checkpoint(&self) -> Option<Vec<u8>> {
        let saved = self.0.iter().rev().find_map(|event| match &event.what {
            What::Saved(bytes) => Some(bytes.clone()),
            _ => None,
        });
        saved.filter(|_| self.completion().is_none())
    }

    /// Until when the newest claim stands: as long as its last promise, and no longer than an abandonment
    /// after it.
    fn lease_until(&self) -> i64 {
        fn after(lease: i64, events: &[Event]) -> i64 {
            let (last, before) = events.split_last().expect("a life starts with a grant");
            match last.what {
                What::Granted(_) => last.at + lease,
                What::Renewed | What::Saved(_) => after(lease, before).max(last.at + lease),
                What::Abandoned => after(lease, before).min(last.at),
                What::Completed { .. } => after(lease, before),
            }
        }
        after(self.terms().lease, &self.0)
    }

    /// A reply's retention counts from completion, a claim's from the furthest that its lease was ever
    /// promised.
    fn expires_at(&self) -> i64 {
        if let Some((at, _, retention)) = self.completion() {
            return at + retention;
        }
        let Terms { lease, retention, .. } = self.terms();
        let of_this_claim = self.0.iter().rev().scan(false, |granted, event| {
            let earlier_claim =
                std::mem::replace(granted, matches!(event.what, What::Granted(_)) || *granted);
            (!earlier_claim).then_some(event)
        });
        let promises = of_this_claim.filter(|event| !matches!(event.what, What::Abandoned));
        promises.map(|event| event.at + lease + retention).max().expect("a life starts with a grant")
    }

    fn record(&self) -> Plain {
        let Terms { token, fingerprint, lease, retention } = self.terms();
        Plain {
            fingerprint,
            token,
            attempt: self.attempt(),
            created_at: self.created_at(),
            lease,
            retention,
            lease_until: self.lease_until(),
            expires_at: self.expires_at(),
            checkpoint: self.checkpoint(),
            completed: self.completion().map(|(at, reply, _)| (at, reply.clone())),
        }
    }

    fn done(&self) -> Done {
        let (completed_at, reply, _) = self.completion().expect("a completed life");
        Done {
            reply: reply.clone(),
            created_at: self.created_at(),
            completed_at,
            expires_at: self.expires_at(),
        }
    }
}

/// One thing that may have happened to a store.
#[derive(Clone, Debug, Default)]
pub struct History {
    lives: [Life; KEYS],
}

impl History {
    /// What is stored, expired or not.
    pub fn stored(&self, key: usize) -> Option<Plain> {
        Some(&self.lives[key]).filter(|life| life.born()).map(Life::record)
    }

    /// What is stored and has not expired.
    pub fn standing(&self, key: usize, now: i64) -> Option<Plain> {
        self.stored(key).filter(|record| now < record.expires_at)
    }

    pub fn expired(&self, now: i64) -> Vec<usize> {
        (0..KEYS).filter(|key| self.stored(*key).is_some() && self.standing(*key, now).is_none()).collect()
    }

    /// Whether nothing that can be asked from now on tells the two apart.
    pub fn amounts_to(&self, other: &Self) -> bool {
        (0..KEYS).all(|key| self.stored(key) == other.stored(key))
    }

    pub fn sweep(&mut self, now: i64) {
        self.expired(now).into_iter().for_each(|key| self.remove(key));
    }

    fn remove(&mut self, key: usize) {
        self.lives[key].0.clear();
    }

    pub fn ask(&mut self, key: usize, now: i64, asked: &Asked) -> Told {
        let stands = self.standing(key, now).is_some();
        match *asked {
            Asked::Claim { token, request, lease, retention } => {
                self.claim(key, now, Terms { token, fingerprint: fingerprint(request), lease, retention })
            }
            Asked::Forget => {
                if stands {
                    self.remove(key);
                }
                Told::Forgotten { existed: stands }
            }
            Asked::Release { .. } | Asked::Abandon { .. } if !stands => Told::AlreadyGone,
            Asked::Complete { token, .. }
            | Asked::Renew { token }
            | Asked::Save { token, .. }
            | Asked::Release { token }
            | Asked::Abandon { token } => match self.why_not(key, now, token) {
                None => self.happen(key, now, asked),
                Some(LostReason::CompletedByThisClaim) if matches!(asked, Asked::Complete { .. }) => {
                    Told::AlreadyRecorded(self.lives[key].done())
                }
                Some(reason) => Told::Lost(reason),
            },
        }
    }

    /// Why whoever shows `token` may not write.
    pub fn why_not(&self, key: usize, now: i64, token: usize) -> Option<LostReason> {
        let Some(record) = self.standing(key, now) else { return Some(LostReason::Gone) };
        let reasons = [
            (record.completed.is_some() && record.token == token, LostReason::CompletedByThisClaim),
            (record.completed.is_some(), LostReason::Completed),
            (record.token != token, LostReason::Running),
        ];
        reasons.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
    }

    fn claim(&mut self, key: usize, now: i64, terms: Terms) -> Told {
        if let Some(record) = self.standing(key, now) {
            if record.fingerprint != terms.fingerprint {
                return Told::Mismatch {
                    created_at: record.created_at,
                    completed: record.completed.is_some(),
                    stored_format: record.fingerprint.format(),
                    presented_format: terms.fingerprint.format(),
                };
            }
            if record.completed.is_some() {
                return Told::Completed(self.lives[key].done());
            }
            if now < record.lease_until {
                return Told::InProgress { lease_until: record.lease_until, attempt: record.attempt, now };
            }
        } else {
            self.remove(key);
        }
        let life = &mut self.lives[key];
        life.0.push(Event { at: now, what: What::Granted(terms) });
        Told::Claimed {
            token: terms.token,
            attempt: life.attempt(),
            lease_until: life.lease_until(),
            checkpoint: life.checkpoint(),
        }
    }

    /// What the owner asked for happens.
    fn happen(&mut self, key: usize, now: i64, asked: &Asked) -> Told {
        let life = &mut self.lives[key];
        let first = life.attempt() == 1;
        let what = match asked.clone() {
            Asked::Release { .. } if first => {
                self.remove(key);
                return Told::Released;
            }
            Asked::Complete { reply, retention, .. } => What::Completed { reply, retention },
            Asked::Save { bytes, .. } => What::Saved(bytes),
            Asked::Renew { .. } => What::Renewed,
            Asked::Release { .. } | Asked::Abandon { .. } => What::Abandoned,
            Asked::Claim { .. } | Asked::Forget => panic!("{asked:?} needs no owner"),
        };
        life.0.push(Event { at: now, what });
        match asked {
            Asked::Complete { .. } => Told::Recorded(life.done()),
            Asked::Release { .. } => Told::Released,
            Asked::Abandon { .. } => Told::Abandoned,
            _ => Told::Renewed { lease_until: life.lease_until() },
        }
    }
}
