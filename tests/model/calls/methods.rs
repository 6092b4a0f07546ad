//! By the store's own methods.

use super::{Caller, period, say, with_fate};
use crate::flaky::Fate;
use crate::history::Asked;
use crate::plain::{Told, millis, moment, rank};
use crate::steps::{Handle, Way, fingerprint};
use crate::stores::Kind;
use idempotency::{
    Backend, ClaimOutcome, DynStore, Error, InProgress, LostReason, Outcome, Policy, Reply, StuckReason,
    Ticket,
};
use std::time::Duration;

/// What a ticket is told that is turned into a claim: number of the token, attempt, end of the lease, and
/// checkpoint.
pub type Resumed = Result<(usize, u32, i64, Option<Vec<u8>>), LostReason>;

/// What statistics say but for the bytes, and of each claim that looks stuck: why, key, number of the token,
/// attempt, and its times (end of the lease, creation, lease, expiry).
pub type Surveyed = ([u64; 4], Vec<(StuckReason, usize, usize, u32, [i64; 4])>);

/// How soon a caller is told to come back, at the latest.
const RETRY_AFTER: Duration = Duration::from_secs(1);

fn duration(millis: i64) -> Duration {
    period(millis).as_duration()
}

/// A handle with this lease and retention.
pub(super) fn policy(lease: i64, retention: i64) -> Policy {
    let policy = Policy::new().with_lease(duration(lease)).with_retention(duration(retention));
    policy.with_retry_after(RETRY_AFTER)
}

pub(super) fn in_progress(running: &InProgress, now: i64) -> Result<Outcome, String> {
    let left = u64::try_from(millis(running.lease_until) - now).map_err(|error| say(&error))?;
    if running.retry_after != RETRY_AFTER.min(Duration::from_millis(left)) {
        return Err(format!("to come back after {:?}, {left} ms before the end", running.retry_after));
    }
    Ok(Outcome::InProgress { lease_until: running.lease_until, attempt: running.attempt, now: moment(now) })
}

impl<K: Kind> Caller<K> {
    fn claimed(&mut self, number: usize, outcome: ClaimOutcome, now: i64) -> Result<Told, String> {
        let outcome = match outcome {
            ClaimOutcome::Claimed(claim) => {
                self.note(number, claim.token())?;
                let told = Told::Claimed {
                    token: number,
                    attempt: claim.attempt(),
                    lease_until: millis(claim.lease_until()),
                    checkpoint: claim.checkpoint().map(|bytes| bytes.to_vec()),
                };
                self.tickets.insert(number, claim.into_ticket());
                return Ok(told);
            }
            ClaimOutcome::Completed(done) => Outcome::Completed(done),
            ClaimOutcome::InProgress(running) => in_progress(&running, now)?,
            ClaimOutcome::FingerprintMismatch(mismatch) => Outcome::FingerprintMismatch(mismatch),
        };
        Ok(Told::of(outcome, &self.tokens))
    }

    /// The ticket of the claim that a command shows the token of, if the claim was made by a method, and for
    /// this key.
    fn ticket_of(&self, key: usize, asked: &Asked) -> Option<Ticket> {
        let (Asked::Complete { token, .. }
        | Asked::Renew { token }
        | Asked::Save { token, .. }
        | Asked::Release { token }
        | Asked::Abandon { token }) = asked
        else {
            return None;
        };
        self.tickets.get(token).filter(|ticket| *ticket.id() == self.ids[key]).cloned()
    }

    /// As [`Caller::give`]. What has no method, for want of a ticket, is given as a command.
    pub(super) fn by_method(
        &mut self,
        key: usize,
        asked: &Asked,
        handle: Handle,
        fate: Fate,
        now: i64,
    ) -> Result<Option<Told>, String> {
        let (store, id) = (self.store(handle).clone(), self.ids[key].clone());
        if let Asked::Claim { token, request, lease, retention } = asked {
            let store = store.with_policy(policy(*lease, *retention)).expect("a usable policy");
            let outcome = store.try_claim(&id.scope, &id.key, &fingerprint(*request));
            let outcome = with_fate(fate, outcome)?;
            return outcome.map(|outcome| self.claimed(*token, outcome, now)).transpose();
        }
        if matches!(asked, Asked::Forget) {
            let forgotten = with_fate(fate, store.forget(&id.scope, &id.key))?;
            return Ok(forgotten.map(|existed| Told::Forgotten { existed }));
        }
        let of_two_calls = matches!(asked, Asked::Renew { .. } | Asked::Save { .. });
        match self.ticket_of(key, asked).filter(|_| fate == Fate::Answered || !of_two_calls) {
            Some(ticket) => {
                let told = match show(&store, &ticket, asked) {
                    Err(Error::ClaimLost(reason)) => Ok(Told::Lost(reason)),
                    told => told,
                };
                with_fate(fate, told)
            }
            None => {
                let outcome = store.backend().execute(&id, &self.command(asked));
                let outcome = with_fate(fate, outcome)?;
                let told = outcome.map(|outcome| self.told(asked, outcome)).transpose()?;
                Ok(told.map(|told| Way::Method(handle).as_told(told)))
            }
        }
    }

    pub fn claim_many(&mut self, calls: &[(usize, Asked)], now: i64) -> Result<Vec<Told>, String> {
        let Some((_, Asked::Claim { lease, retention, .. })) = calls.first() else { return Ok(Vec::new()) };
        let store = self.store(Handle::First).with_policy(policy(*lease, *retention));
        let claims = calls.iter().map(|(key, asked)| {
            let Asked::Claim { token, request, .. } = asked else { panic!("{asked:?} is no claim") };
            let id = self.ids[*key].clone();
            (*token, (id.scope, id.key, fingerprint(*request)))
        });
        let (numbers, operations): (Vec<_>, Vec<_>) = claims.unzip();
        let outcomes = store.expect("a usable policy").try_claim_many(&operations);
        let told = numbers
            .into_iter()
            .zip(outcomes)
            .map(|(number, outcome)| self.claimed(number, outcome.map_err(|error| say(&error))?, now));
        told.collect()
    }

    pub fn read(&self, key: usize, handle: Handle) -> Result<Told, String> {
        let read = self.store(handle).backend().read(&self.ids[key]).map_err(|error| say(&error))?;
        Ok(Told::seen(read, &self.tokens))
    }

    /// Turns a ticket into a claim again, if there is one for this token; and says of which key it is.
    pub fn resume(&self, token: usize) -> Result<Option<(usize, Resumed)>, String> {
        let Some(ticket) = self.tickets.get(&token) else { return Ok(None) };
        let key = self.ids.iter().position(|id| id == ticket.id()).expect("a key");
        let resumed = match self.store(Handle::First).resume(ticket.clone()) {
            Ok(claim) => Ok((
                rank(claim.token(), &self.tokens),
                claim.attempt(),
                millis(claim.lease_until()),
                claim.checkpoint().map(|bytes| bytes.to_vec()),
            )),
            Err(Error::ClaimLost(reason)) => Err(reason),
            Err(error) => return Err(say(&error)),
        };
        Ok(Some((key, resumed)))
    }

    /// Whatever stands, a ticket of another store is lost, and writes nothing.
    pub fn show_foreign_ticket(&self, key: usize) -> Result<(), String> {
        let (store, ticket) = (self.store(Handle::First), &self.foreign[key]);
        let ends = [
            store.complete(ticket, Reply::Marker).map(drop),
            store.release(ticket),
            store.abandon(ticket),
            store.resume(ticket.clone()).map(drop),
        ];
        let lost = |end: &Result<(), Error>| matches!(end, Err(Error::ClaimLost(LostReason::Gone)));
        if ends.iter().all(lost) { Ok(()) } else { Err(format!("a ticket of another store: {ends:?}")) }
    }

    pub fn survey(&self, limit: usize) -> Result<Surveyed, String> {
        let store = self.store(Handle::First);
        let stats = store.stats().map_err(|error| say(&error))?;
        let stuck = store.stuck(limit).map_err(|error| say(&error))?;
        let stuck = stuck.iter().map(|claim| {
            let key = self.ids.iter().position(|id| *id == claim.id).expect("a key");
            let (until, created) = (millis(claim.lease_until), millis(claim.created_at));
            let times = [until, created, claim.lease.as_millis(), millis(claim.expires_at)];
            (claim.reason, key, rank(claim.token, &self.tokens), claim.attempt, times)
        });
        Ok(([stats.in_progress, stats.lapsed, stats.completed, stats.expired], stuck.collect()))
    }

    /// How many a sweep removed, and whether there are more; none if the call was to fail, and did.
    pub fn sweep(&self, limit: usize, fate: Fate) -> Result<Option<(usize, bool)>, String> {
        self.opened().flaky.next_is(fate);
        let swept = with_fate(fate, self.store(Handle::First).sweep(limit))?;
        Ok(swept.map(|swept| (swept.removed, swept.more)))
    }
}

fn show(store: &DynStore, ticket: &Ticket, asked: &Asked) -> Result<Told, Error> {
    Ok(match asked {
        Asked::Complete { reply, retention, .. } => {
            Told::Recorded(store.complete_for(ticket, duration(*retention), reply.clone())?.into())
        }
        Asked::Release { .. } => {
            store.release(ticket)?;
            Told::Released
        }
        Asked::Abandon { .. } => {
            store.abandon(ticket)?;
            Told::Released
        }
        Asked::Renew { .. } | Asked::Save { .. } => {
            let mut claim = store.resume(ticket.clone())?;
            match asked {
                Asked::Save { bytes, .. } => claim.save_checkpoint(bytes.clone())?,
                _ => claim.renew()?,
            }
            Told::Renewed { lease_until: millis(claim.lease_until()) }
        }
        Asked::Claim { .. } | Asked::Forget => panic!("{asked:?} shows no token"),
    })
}
