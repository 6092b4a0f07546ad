//! A record in the form in which it is kept: [`Entry`].

use crate::fingerprint::Fingerprint;
use crate::key::RecordId;
use crate::record::{FencingToken, Record, State};
use crate::reply::Reply;
use crate::time::{Period, Timestamp};
use bytes::Bytes;

/// A record under its id. Also what comes out again, to be dropped once the lock is released: a reply's bytes
/// may have a destructor of the caller's own.
#[derive(Debug)]
pub(super) struct Entry {
    id: RecordId,
    fixed: Fixed,
    rest: Option<Box<Rest>>,
}

/// What every record has.
#[derive(Clone, Copy, Debug)]
struct Fixed {
    fingerprint: Fingerprint,
    state: State,
    /// How many milliseconds before its expiry the record is filed in the index.
    filed_early: u32,
    token: FencingToken,
    created_at: Timestamp,
    lease: Period,
    retention: Period,
    lease_until: Timestamp,
    expires_at: Timestamp,
}

/// What a first claim without a checkpoint does without.
#[derive(Debug)]
struct Rest {
    attempt: u32,
    completed_at: Option<Timestamp>,
    checkpoint: Option<Bytes>,
    reply: Option<Reply>,
}

impl Fixed {
    fn of(record: &Record) -> Self {
        // A claim is filed where its completion at once would have it: that expires one lease earlier, and must
        // be found then, without being filed anew.
        let filed_early = match record.state {
            State::InProgress => u32::try_from(record.lease.as_millis()).unwrap_or(u32::MAX),
            State::Completed => 0,
        };
        Self {
            fingerprint: record.fingerprint,
            state: record.state,
            filed_early,
            token: record.token,
            created_at: record.created_at,
            lease: record.lease,
            retention: record.retention,
            lease_until: record.lease_until,
            expires_at: record.expires_at,
        }
    }
}

impl Rest {
    /// The rest of `record`, if it has any.
    fn of(record: Record) -> Option<Self> {
        let Record { attempt, completed_at, checkpoint, reply, .. } = record;
        let is_plain = attempt == 1 && completed_at.is_none() && checkpoint.is_none() && reply.is_none();
        (!is_plain).then_some(Self { attempt, completed_at, checkpoint, reply })
    }

    fn content_len(&self) -> usize {
        let reply = self.reply.as_ref().map_or(0, Reply::content_len);
        self.checkpoint.as_ref().map_or(0, Bytes::len).saturating_add(reply)
    }
}

impl Entry {
    pub(super) fn new(id: RecordId, record: Record) -> Self {
        Self { id, fixed: Fixed::of(&record), rest: Rest::of(record).map(Box::new) }
    }

    pub(super) const fn id(&self) -> &RecordId {
        &self.id
    }

    /// Shows the record, without a copy of what is shared. `look` must not panic: checkpoint and reply would not
    /// come back.
    pub(super) fn show<T>(&mut self, look: impl FnOnce(&RecordId, &Record) -> T) -> T {
        let record = self.take();
        let seen = look(&self.id, &record);
        if let Some(rest) = &mut self.rest {
            rest.checkpoint = record.checkpoint;
            rest.reply = record.reply;
        }
        seen
    }

    /// Puts `record` in place of the one that stands here, and gives that back. It stays filed where that was,
    /// unless it would be found too late, or far too early.
    pub(super) fn replace(&mut self, record: Record) -> Record {
        let filed_at = self.filed_at().as_millis();
        let displaced = self.take();
        self.fixed = Fixed::of(&record);
        if let Ok(early) = u32::try_from(self.fixed.expires_at.as_millis().saturating_sub(filed_at)) {
            self.fixed.filed_early = early;
        }
        match (&mut self.rest, Rest::of(record)) {
            (Some(old), Some(new)) => **old = new,
            (old, new) => *old = new.map(Box::new),
        }
        displaced
    }

    /// The record as it stands, with its checkpoint and its reply taken out of here.
    fn take(&mut self) -> Record {
        let Fixed {
            fingerprint, state, token, created_at, lease, retention, lease_until, expires_at, ..
        } = self.fixed;
        let rest = self.rest.as_mut();
        let (attempt, completed_at, checkpoint, reply) = rest.map_or((1, None, None, None), |rest| {
            (rest.attempt, rest.completed_at, rest.checkpoint.take(), rest.reply.take())
        });
        Record {
            fingerprint,
            state,
            token,
            attempt,
            created_at,
            lease,
            retention,
            lease_until,
            completed_at,
            expires_at,
            checkpoint,
            reply,
        }
    }

    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        self.fixed.expires_at.is_over(now)
    }

    pub(super) const fn expires_at(&self) -> Timestamp {
        self.fixed.expires_at
    }

    /// Where it stands in the index by expiry: not after its expiry.
    pub(super) fn filed_at(&self) -> Timestamp {
        let expires_at = self.fixed.expires_at.as_millis();
        Timestamp::from_millis(expires_at.saturating_sub(i64::from(self.fixed.filed_early)))
    }

    pub(super) const fn note_filed_at_expiry(&mut self) {
        self.fixed.filed_early = 0;
    }

    /// How many bytes of the caller's it holds.
    pub(super) fn content_len(&self) -> usize {
        let id = self.id.scope.as_str().len().saturating_add(self.id.key.as_str().len());
        id.saturating_add(self.rest.as_ref().map_or(0, |rest| rest.content_len()))
    }

    /// An estimate of the memory that it takes, without the indexes.
    pub(super) fn footprint(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |_| size_of::<Rest>());
        size_of::<Self>().saturating_add(rest).saturating_add(self.content_len())
    }
}
