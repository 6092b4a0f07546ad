//! Outcomes and records as plain values that two stores can be compared by: times counted from one start,
//! tokens by the rank of their issue (each store draws numbers of its own).

use idempotency::{
    Completed, FencingToken, Fingerprint, LostReason, Outcome, Record, Reply, State, Timestamp,
};

/// The moment that all times are counted from.
pub const START: i64 = 1_000_000_000;

pub fn moment(millis: i64) -> Timestamp {
    Timestamp::from_millis(START + millis)
}

pub fn millis(at: Timestamp) -> i64 {
    at.as_millis() - START
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plain {
    pub fingerprint: Fingerprint,
    /// The rank of its token.
    pub token: usize,
    pub attempt: u32,
    pub created_at: i64,
    pub lease: i64,
    pub retention: i64,
    pub lease_until: i64,
    pub expires_at: i64,
    pub checkpoint: Option<Vec<u8>>,
    /// When it was completed, and with what; none while it is in progress.
    pub completed: Option<(i64, Reply)>,
}

impl Plain {
    #[track_caller]
    pub fn of(record: &Record, issued: &[FencingToken]) -> Self {
        assert_eq!(record.check(), Ok(()), "{record:?}");
        let completed = record.completed_at.map(millis).zip(record.reply.clone());
        assert_eq!(completed.is_some(), record.state == State::Completed, "{record:?}");
        Self {
            fingerprint: record.fingerprint,
            token: rank(record.token, issued),
            attempt: record.attempt,
            created_at: millis(record.created_at),
            lease: record.lease.as_millis(),
            retention: record.retention.as_millis(),
            lease_until: millis(record.lease_until),
            expires_at: millis(record.expires_at),
            checkpoint: record.checkpoint.as_ref().map(|bytes| bytes.to_vec()),
            completed,
        }
    }
}

#[track_caller]
pub fn rank(token: FencingToken, issued: &[FencingToken]) -> usize {
    let position = issued.iter().position(|one| *one == token);
    position.unwrap_or_else(|| panic!("token {token} was never granted here; {issued:?} were"))
}

/// A completed operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    pub reply: Reply,
    pub created_at: i64,
    pub completed_at: i64,
    pub expires_at: i64,
}

impl From<Completed> for Done {
    fn from(completed: Completed) -> Self {
        Self {
            created_at: millis(completed.created_at),
            completed_at: millis(completed.completed_at),
            expires_at: millis(completed.expires_at),
            reply: completed.reply,
        }
    }
}

/// What a caller is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Claimed {
        token: usize,
        attempt: u32,
        lease_until: i64,
        checkpoint: Option<Vec<u8>>,
    },
    Completed(Done),
    InProgress {
        lease_until: i64,
        attempt: u32,
        now: i64,
    },
    Mismatch {
        created_at: i64,
        completed: bool,
        stored_format: u8,
        presented_format: u8,
    },
    Recorded(Done),
    AlreadyRecorded(Done),
    Renewed {
        lease_until: i64,
    },
    Released,
    Abandoned,
    AlreadyGone,
    Lost(LostReason),
    Forgotten {
        existed: bool,
    },
    /// The answer to a look: what stands, and the time of the look.
    Seen(Option<(Plain, i64)>),
    Swept {
        removed: usize,
        more: bool,
    },
}

impl Told {
    #[track_caller]
    pub fn of(outcome: Outcome, issued: &[FencingToken]) -> Self {
        match outcome {
            Outcome::Claimed(grant) => Self::Claimed {
                token: rank(grant.token, issued),
                attempt: grant.attempt,
                lease_until: millis(grant.lease_until),
                checkpoint: grant.checkpoint.map(|bytes| bytes.to_vec()),
            },
            Outcome::Completed(completed) => Self::Completed(completed.into()),
            Outcome::InProgress { lease_until, attempt, now } => {
                Self::InProgress { lease_until: millis(lease_until), attempt, now: millis(now) }
            }
            Outcome::FingerprintMismatch(mismatch) => Self::Mismatch {
                created_at: millis(mismatch.created_at),
                completed: mismatch.state == State::Completed,
                stored_format: mismatch.stored_format,
                presented_format: mismatch.presented_format,
            },
            Outcome::Recorded(completed) => Self::Recorded(completed.into()),
            Outcome::AlreadyRecorded(completed) => Self::AlreadyRecorded(completed.into()),
            Outcome::Renewed { lease_until } => Self::Renewed { lease_until: millis(lease_until) },
            Outcome::Released => Self::Released,
            Outcome::Abandoned => Self::Abandoned,
            Outcome::AlreadyGone => Self::AlreadyGone,
            Outcome::Lost(reason) => Self::Lost(reason),
            Outcome::Forgotten { existed } => Self::Forgotten { existed },
        }
    }

    #[track_caller]
    pub fn seen(read: Option<(Record, Timestamp)>, issued: &[FencingToken]) -> Self {
        Self::Seen(read.map(|(record, now)| (Plain::of(&record, issued), millis(now))))
    }
}
