//! What an operator asks about all records at once: how many there are ([`Stats`]), and which claims nobody
//! seems to work on ([`Stuck`]).

use crate::key::RecordId;
use crate::record::{FencingToken, Record, State};
use crate::time::{Period, Timestamp};
use std::collections::BTreeSet;

/// How a record stands at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    InProgress,
    Lapsed,
    Completed,
    Expired,
}

impl Standing {
    pub(crate) fn of(record: &Record, now: Timestamp) -> Self {
        Self::at(now, record.state, record.lease_until, record.expires_at)
    }

    /// That of a record of which no more is known than this.
    pub(crate) fn at(now: Timestamp, state: State, lease_until: Timestamp, expires_at: Timestamp) -> Self {
        match state {
            _ if expires_at.is_over(now) => Self::Expired,
            State::Completed => Self::Completed,
            State::InProgress if lease_until.is_over(now) => Self::Lapsed,
            State::InProgress => Self::InProgress,
        }
    }
}

/// How many records a store has, by how they stand, and how much they hold. Each is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Claims that stand: not completed, and their lease is not over.
    pub in_progress: u64,
    /// Claims whose lease is over, abandoned ones too: the next claim of their key takes over.
    pub lapsed: u64,
    /// Operations with a reply that is replayed.
    pub completed: u64,
    /// Records that have expired, and that no sweep has removed yet: they count as absent, and take room.
    pub expired: u64,
    /// Records of which it can't be told how they stand. There are none, unless the storage is damaged; other
    /// damage than this is not looked for.
    pub damaged: u64,
    /// What all of these records hold, in bytes: scopes, keys, reply headers, bodies and references, and
    /// checkpoints, as the backend keeps them. The storage itself is larger: by all else that is kept of a
    /// record, by indexes, and, in a file, by pages that are not in use.
    pub bytes: u64,
}

impl Stats {
    /// Counts one more record, that holds `bytes`, as it stands at `now`: for those who write a backend.
    pub fn count(&mut self, record: &Record, now: Timestamp, bytes: u64) {
        self.count_standing(Standing::of(record, now), bytes);
    }

    /// Counts one more record, that holds `bytes`, and of which it can't be told how it stands.
    pub fn count_damaged(&mut self, bytes: u64) {
        self.damaged = self.damaged.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(crate) fn count_standing(&mut self, standing: Standing, bytes: u64) {
        let count = match standing {
            Standing::InProgress => &mut self.in_progress,
            Standing::Lapsed => &mut self.lapsed,
            Standing::Completed => &mut self.completed,
            Standing::Expired => &mut self.expired,
        };
        *count = count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Why a claim looks stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StuckReason {
    /// Its lease is over, and nobody has taken over: its owner died, abandoned it, or is slower than its
    /// lease, and no retry has come since.
    Lapsed,
    /// Its lease ends later than one lease from now, so the clock has stepped back since it was granted or
    /// renewed. If its owner is gone, the key stays in progress for all that time.
    LeaseTooLong,
}

impl StuckReason {
    /// Why the claim of `record` looks stuck at `now`; none if it does not, or there is no claim.
    #[must_use]
    pub fn of(record: &Record, now: Timestamp) -> Option<Self> {
        match Standing::of(record, now) {
            Standing::Lapsed => Some(Self::Lapsed),
            Standing::InProgress if record.lease_until > record.lease.after(now) => Some(Self::LeaseTooLong),
            Standing::InProgress | Standing::Completed | Standing::Expired => None,
        }
    }
}

/// A claim that nobody seems to work on. Ordered as [`stuck`](crate::IdempotencyStore#method.stuck) lists
/// them.
///
/// `Debug` shows digests of scope and key, never the values.
// What it is ordered by comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Stuck {
    /// Why it looks stuck.
    pub reason: StuckReason,
    /// Until when it stands, or stood.
    pub lease_until: Timestamp,
    /// Whose key it is, and the key.
    pub id: RecordId,
    /// Proof of the claim.
    pub token: FencingToken,
    /// 1 for the first claim, one more for each takeover.
    pub attempt: u32,
    /// When the operation was first claimed.
    pub created_at: Timestamp,
    /// How long its lease is, from when it is granted or renewed.
    pub lease: Period,
    /// From when on its record counts as absent.
    pub expires_at: Timestamp,
}

impl Stuck {
    /// The claim of `record`, if it looks stuck at `now`.
    #[must_use]
    pub fn of(id: &RecordId, record: &Record, now: Timestamp) -> Option<Self> {
        StuckReason::of(record, now).map(|reason| Self {
            reason,
            lease_until: record.lease_until,
            id: id.clone(),
            token: record.token,
            attempt: record.attempt,
            created_at: record.created_at,
            lease: record.lease,
            expires_at: record.expires_at,
        })
    }
}

/// The first of the stuck claims among the records that it is offered, in whatever order: for those who write
/// a backend. Never holds more of them than its limit.
///
/// ```
/// use idempotency::{Backend, Record, RecordId, StuckList, Timestamp};
///
/// fn stuck<'r>(
///     records: impl Iterator<Item = (&'r RecordId, &'r Record)>,
///     now: Timestamp,
///     limit: usize,
/// ) -> Vec<idempotency::Stuck> {
///     let mut list = StuckList::new(limit);
///     records.for_each(|(id, record)| list.offer(id, record, now));
///     list.into_vec()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct StuckList {
    limit: usize,
    first: BTreeSet<Stuck>,
}

impl StuckList {
    /// A list of at most `limit` claims, none so far.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { limit, first: BTreeSet::new() }
    }

    /// Takes the claim of `record` in, if it looks stuck at `now` and is among the first.
    pub fn offer(&mut self, id: &RecordId, record: &Record, now: Timestamp) {
        let Some(reason) = StuckReason::of(record, now) else { return };
        if self.first.len() >= self.limit {
            let is_before =
                |last: &Stuck| (reason, record.lease_until, id) < (last.reason, last.lease_until, &last.id);
            // Most of many are not among the first: those are not even cloned.
            if !self.first.last().is_some_and(is_before) {
                return;
            }
            self.first.pop_last();
        }
        self.first.extend(Stuck::of(id, record, now));
    }

    /// The claims that were found: the lapsed ones, then those with too long leases, each by the end of its
    /// lease.
    #[must_use]
    pub fn into_vec(self) -> Vec<Stuck> {
        self.first.into_iter().collect()
    }
}
