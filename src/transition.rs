//! The semantics of the store, as one pure function: [`apply`].
//!
//! No clock, lock, randomness or I/O. A backend makes it atomic and durable, and means exactly what it says;
//! so whoever wants to know what a command does reads this file.

use crate::fingerprint::Fingerprint;
use crate::outcome::{Completed, FingerprintMismatch, Grant, LostReason, Outcome};
use crate::planted;
use crate::policy::Terms;
use crate::record::{FencingToken, Record, State, Unshown};
use crate::reply::Reply;
use crate::time::{Period, Timestamp};
use bytes::Bytes;
use std::fmt;

/// What can be asked of one record.
#[derive(Clone, PartialEq, Eq)]
pub enum Command {
    /// Become the owner of the operation, or hear what stands in the way.
    Claim {
        /// What the operation asks for.
        fingerprint: Fingerprint,
        /// How long the claim stands.
        lease: Period,
        /// How long the record outlives the lease.
        retention: Period,
    },
    /// Record what the operation came to.
    Complete {
        /// Proof of the claim.
        token: FencingToken,
        /// What the operation came to.
        reply: Reply,
        /// How long the reply is replayed, from now on.
        retention: Period,
    },
    /// Stand for one more lease from now.
    Renew {
        /// Proof of the claim.
        token: FencingToken,
    },
    /// Save bytes for whoever takes over, and renew.
    Checkpoint {
        /// Proof of the claim.
        token: FencingToken,
        /// What to save, in place of what was saved before.
        bytes: Bytes,
    },
    /// End the claim: this attempt had no effect.
    Release {
        /// Proof of the claim.
        token: FencingToken,
    },
    /// End the claim: the effect may have happened.
    Abandon {
        /// Proof of the claim.
        token: FencingToken,
    },
    /// Delete the record, whoever owns it.
    Forget,
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim { fingerprint, lease, retention } => {
                f.debug_tuple("Claim").field(fingerprint).field(lease).field(retention).finish()
            }
            Self::Complete { token, reply, retention } => {
                f.debug_tuple("Complete").field(token).field(reply).field(retention).finish()
            }
            Self::Renew { token } => f.debug_tuple("Renew").field(token).finish(),
            Self::Checkpoint { token, bytes } => {
                f.debug_tuple("Checkpoint").field(token).field(&Unshown(bytes)).finish()
            }
            Self::Release { token } => f.debug_tuple("Release").field(token).finish(),
            Self::Abandon { token } => f.debug_tuple("Abandon").field(token).finish(),
            Self::Forget => f.write_str("Forget"),
        }
    }
}

/// What is to be stored under the record's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// What stands there stays, byte for byte.
    Keep,
    /// This record, in place of what stands there.
    Put(Record),
    /// Nothing.
    Delete,
}

/// What a command does to a record, and what its caller is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// What is to be stored.
    pub write: Write,
    /// What the caller is told, once that is stored.
    pub outcome: Outcome,
}

impl Transition {
    const fn keep(outcome: Outcome) -> Self {
        Self { write: Write::Keep, outcome }
    }
}

/// Decides what `command` does to `record` at `now`.
///
/// `record` meets [`Record::check`], and so does what is to be put. `next_token` is higher than every token
/// that the store has ever granted; it is used only where [`grants`] says so, and may be
/// [`FencingToken::FIRST`] elsewhere.
///
/// ```
/// use idempotency::transition::{self, Command, Write};
/// use idempotency::{FencingToken, Fingerprint, Outcome, Period, Timestamp};
/// use std::time::Duration;
///
/// let claim = Command::Claim {
///     fingerprint: Fingerprint::builder().field("amount", "500").finish(),
///     lease: Period::new(Duration::from_secs(90))?,
///     retention: Period::new(Duration::from_secs(86_400))?,
/// };
/// let now = Timestamp::from_millis(0);
/// assert!(transition::grants(None, &claim, now));
/// let first = transition::apply(None, &claim, now, FencingToken::FIRST);
/// let Write::Put(record) = first.write else { panic!("nothing stands in the way") };
///
/// let second = transition::apply(Some(&record), &claim, now, FencingToken::FIRST);
/// assert_eq!(second.write, Write::Keep);
/// assert!(matches!(second.outcome, Outcome::InProgress { attempt: 1, .. }));
/// # Ok::<(), idempotency::PeriodError>(())
/// ```
#[must_use]
pub fn apply(
    record: Option<&Record>,
    command: &Command,
    now: Timestamp,
    next_token: FencingToken,
) -> Transition {
    let record = standing(record, now);
    match command {
        Command::Claim { fingerprint, lease, retention } => {
            claim(record, *fingerprint, Terms { lease: *lease, retention: *retention }, now, next_token)
        }
        Command::Complete { token, reply, retention } => complete(record, *token, reply, *retention, now),
        Command::Renew { token } => with_own(record, *token, |own| renewed(own.clone(), now)),
        Command::Checkpoint { token, bytes } => with_own(record, *token, |own| {
            renewed(Record { checkpoint: Some(bytes.clone()), ..own.clone() }, now)
        }),
        Command::Release { token } => ending(record, *token, |own| {
            // An earlier attempt may have had the effect, so the key must not reopen for another request.
            let reopens = own.attempt == 1 || planted::is("takeover-released-as-first");
            let write = if reopens { Write::Delete } else { Write::Put(lapsed(own, now)) };
            Transition { write, outcome: Outcome::Released }
        }),
        Command::Abandon { token } => ending(record, *token, |own| Transition {
            write: Write::Put(lapsed(own, now)),
            outcome: Outcome::Abandoned,
        }),
        Command::Forget => {
            let existed = record.is_some();
            let write = if existed { Write::Delete } else { Write::Keep };
            Transition { write, outcome: Outcome::Forgotten { existed } }
        }
    }
}

/// Whether [`apply`] would grant `command` a claim: a backend need not draw a token elsewhere.
#[must_use]
pub fn grants(record: Option<&Record>, command: &Command, now: Timestamp) -> bool {
    let Command::Claim { fingerprint, .. } = command else { return false };
    matches!(found(standing(record, now), fingerprint, now), Found::Nothing | Found::Lapsed(_))
}

/// Why the holder of `token` may not write to `record`; none if it may.
#[must_use]
pub fn lost(record: Option<&Record>, token: FencingToken, now: Timestamp) -> Option<LostReason> {
    own(standing(record, now), token).err()
}

/// The record, unless it has expired: then it is no record, for every command.
fn standing(record: Option<&Record>, now: Timestamp) -> Option<&Record> {
    record.filter(|record| !record.is_expired(now) || planted::is("replay-of-the-expired"))
}

/// The record in progress under `token`, lapsed or not: while nobody has taken over, the token proves the
/// claim.
fn own(record: Option<&Record>, token: FencingToken) -> Result<&Record, LostReason> {
    let record = record.ok_or(LostReason::Gone)?;
    match (record.state, record.token == token) {
        (State::InProgress, true) => Ok(record),
        (State::InProgress, false) => Err(LostReason::Running),
        (State::Completed, true) => Err(LostReason::CompletedByThisClaim),
        (State::Completed, false) => Err(LostReason::Completed),
    }
}

/// What a claim finds in its place.
enum Found<'a> {
    Nothing,
    OtherRequest(&'a Record),
    Lapsed(&'a Record),
    /// Completed, or in progress under a lease that is not over.
    Answered(&'a Record),
}

fn found<'a>(record: Option<&'a Record>, fingerprint: &Fingerprint, now: Timestamp) -> Found<'a> {
    match record {
        None => Found::Nothing,
        Some(lapsed) if lapsed.is_lapsed(now) && planted::is("takeover-for-another-request") => {
            Found::Lapsed(lapsed)
        }
        Some(done) if done.reply.is_some() && planted::is("replay-to-another-request") => {
            Found::Answered(done)
        }
        Some(record) if record.fingerprint != *fingerprint => Found::OtherRequest(record),
        Some(record) if record.is_lapsed(now) => Found::Lapsed(record),
        Some(record) => Found::Answered(record),
    }
}

fn claim(
    record: Option<&Record>,
    fingerprint: Fingerprint,
    terms: Terms,
    now: Timestamp,
    next_token: FencingToken,
) -> Transition {
    let inherited = match found(record, &fingerprint, now) {
        Found::Nothing => Inherited { attempt: 1, created_at: now, checkpoint: None },
        Found::Lapsed(record) => Inherited {
            attempt: record.attempt.saturating_add(1),
            created_at: record.created_at,
            checkpoint: record.checkpoint.clone().filter(|_| !planted::is("takeover-without-checkpoint")),
        },
        Found::OtherRequest(record) => {
            return Transition::keep(Outcome::FingerprintMismatch(FingerprintMismatch {
                created_at: record.created_at,
                state: record.state,
                stored_format: record.fingerprint.format(),
                presented_format: fingerprint.format(),
            }));
        }
        Found::Answered(record) => {
            let (lease_until, attempt) = (record.lease_until, record.attempt);
            let running = Outcome::InProgress { lease_until, attempt, now };
            return Transition::keep(Completed::of(record).map_or(running, Outcome::Completed));
        }
    };
    grant(fingerprint, terms, now, next_token, inherited)
}

/// What a claim takes over from the one before it.
struct Inherited {
    attempt: u32,
    created_at: Timestamp,
    checkpoint: Option<Bytes>,
}

fn grant(
    fingerprint: Fingerprint,
    terms: Terms,
    now: Timestamp,
    token: FencingToken,
    inherited: Inherited,
) -> Transition {
    let lease_until = terms.lease.after(now);
    let record = Record {
        fingerprint,
        state: State::InProgress,
        token,
        attempt: inherited.attempt,
        created_at: inherited.created_at,
        lease: terms.lease,
        retention: terms.retention,
        lease_until,
        completed_at: None,
        expires_at: terms.retention.after(lease_until),
        checkpoint: inherited.checkpoint,
        reply: None,
    };
    Transition { outcome: Outcome::Claimed(Grant::of(&record)), write: Write::Put(record) }
}

fn complete(
    record: Option<&Record>,
    token: FencingToken,
    reply: &Reply,
    retention: Period,
    now: Timestamp,
) -> Transition {
    let token = record.filter(|_| planted::is("complete-without-token")).map_or(token, |any| any.token);
    let own = match own(record, token) {
        Ok(own) => own,
        Err(reason) => {
            let first = record.filter(|_| reason == LostReason::CompletedByThisClaim).and_then(Completed::of);
            return Transition::keep(first.map_or(Outcome::Lost(reason), Outcome::AlreadyRecorded));
        }
    };
    let expires_at = retention.after(now);
    let completed =
        Completed { reply: reply.clone(), created_at: own.created_at, completed_at: now, expires_at };
    let record = Record {
        state: State::Completed,
        completed_at: Some(now),
        expires_at,
        checkpoint: None,
        reply: Some(reply.clone()),
        ..own.clone()
    };
    Transition { write: Write::Put(record), outcome: Outcome::Recorded(completed) }
}

/// `change` to the caller's own record, or why it is not the caller's.
fn with_own(
    record: Option<&Record>,
    token: FencingToken,
    change: impl FnOnce(&Record) -> Transition,
) -> Transition {
    match own(record, token) {
        Ok(own) => change(own),
        Err(reason) => Transition::keep(Outcome::Lost(reason)),
    }
}

/// As [`with_own`], for commands that have nothing to do where the record is gone.
fn ending(
    record: Option<&Record>,
    token: FencingToken,
    change: impl FnOnce(&Record) -> Transition,
) -> Transition {
    if record.is_none() {
        return Transition::keep(Outcome::AlreadyGone);
    }
    let token = record.filter(|_| planted::is("release-without-token")).map_or(token, |any| any.token);
    with_own(record, token, change)
}

/// `own` with one more lease from now. Never less than it had: a step back of the clock must not shorten a
/// lease.
fn renewed(own: Record, now: Timestamp) -> Transition {
    let least = if planted::is("renewal-shortens") { now } else { own.lease_until };
    let lease_until = least.max(own.lease.after(now));
    let expires_at = own.expires_at.max(own.retention.after(lease_until));
    Transition {
        write: Write::Put(Record { lease_until, expires_at, ..own }),
        outcome: Outcome::Renewed { lease_until },
    }
}

/// `own` with its lease over now; fingerprint, attempt and checkpoint stay for the next claim.
fn lapsed(own: &Record, now: Timestamp) -> Record {
    Record { lease_until: own.lease_until.min(now), ..own.clone() }
}
