//! How long claims and replies stand, and what becomes of failures: [`Policy`].

use crate::reply::Reply;
use crate::time::{Period, PeriodError};
use std::fmt;
use std::time::Duration;

/// The largest reply payload (body or reference) that a policy may allow, in bytes: 256 MiB.
pub const MAX_REPLY_LEN: usize = 256 * 1024 * 1024;
/// The most that the headers of a reply may come to, in bytes: 64 KiB, all names and values and 32 bytes for
/// each header.
pub const MAX_HEADERS_LEN: usize = 64 * 1024;
/// The largest checkpoint, in bytes: 64 KiB.
pub const MAX_CHECKPOINT_LEN: usize = 64 * 1024;

/// What is to become of a claim whose work failed.
///
/// [`run`](crate::IdempotencyStore::run) does so by itself.
/// [`atomically`](crate::IdempotencyStore#method.atomically) can do better than abandon or release: it rolls
/// back, unless failures are to be recorded. Code that ends its claims itself asks [`Policy::is_failure`]
/// first: [`Claim::complete`](crate::Claim::complete) records whatever it is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failures {
    /// The claim is abandoned: the retry runs at once, the fingerprint stays bound, and the retry knows that
    /// it is a takeover, since the effect may have happened.
    #[default]
    Abandon,
    /// The claim is released, for work whose failures certainly had no effect, or whose effect is
    /// deduplicated downstream, or shares the transaction.
    Release,
    /// Every reply is recorded and replayed, failures included; work that ends without a reply is abandoned.
    Record,
}

/// How one kind of operation is to be treated: a program has one for each endpoint or queue.
///
/// ```
/// use idempotency::Policy;
/// use std::time::Duration;
///
/// let policy = Policy::new().with_retention(Duration::from_secs(3 * 24 * 3600)).with_lease(Duration::from_secs(30));
/// assert_eq!(policy.retention(), Duration::from_secs(259_200));
/// assert_eq!(policy.retry_after(), Duration::from_secs(1));
/// ```
#[derive(Clone, Copy)]
pub struct Policy {
    retention: Duration,
    lease: Duration,
    retry_after: Duration,
    max_reply_len: usize,
    failures: Failures,
    is_failure: fn(&Reply) -> bool,
}

impl Policy {
    /// Retention 24 hours, lease 90 seconds, retry after 1 second, replies of at most 1 MiB, failures
    /// abandoned.
    #[must_use]
    pub fn new() -> Self {
        Self {
            retention: Terms::DEFAULT.retention.as_duration(),
            lease: Terms::DEFAULT.lease.as_duration(),
            retry_after: Duration::from_secs(1),
            max_reply_len: 1024 * 1024,
            failures: Failures::Abandon,
            is_failure: is_server_error,
        }
    }

    /// How long a reply is replayed, counted from completion, and how long a lapsed claim can be taken over,
    /// counted from the end of its lease (as it was granted or renewed: abandoning it early does not shorten
    /// this). Choose it longer than the longest retry of any client. 1 ms to 36,525 days; checked by
    /// [`with_policy`](crate::IdempotencyStore::with_policy).
    #[must_use]
    pub fn with_retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// How long a claim stands without being renewed. Choose it well above the slowest honest run. 1 ms to
    /// 36,525 days; checked by [`with_policy`](crate::IdempotencyStore::with_policy).
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// When a caller who was told "in progress" is to ask again, at the most: a hint for polling, not the
    /// rest of the lease.
    #[must_use]
    pub fn with_retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// The largest payload of a reply (its body or its reference; headers have [`MAX_HEADERS_LEN`]), in
    /// bytes, at most [`MAX_REPLY_LEN`]; checked by [`with_policy`](crate::IdempotencyStore::with_policy).
    #[must_use]
    pub fn with_max_reply_len(mut self, max: usize) -> Self {
        self.max_reply_len = max;
        self
    }

    /// What is to become of a claim whose work failed; see [`Failures`].
    #[must_use]
    pub fn with_failures(mut self, failures: Failures) -> Self {
        self.failures = failures;
        self
    }

    /// Which replies count as a failure: a 429 that means "later", say. Without this: responses with a status
    /// of 500 and above. Every other reply is recorded, a handler's own 400 included.
    ///
    /// If it panics, that is as a panic of the work.
    #[must_use]
    pub fn failure_if(mut self, is_failure: fn(&Reply) -> bool) -> Self {
        self.is_failure = is_failure;
        self
    }

    /// See [`with_retention`](Self::with_retention).
    #[must_use]
    pub const fn retention(&self) -> Duration {
        self.retention
    }

    /// See [`with_lease`](Self::with_lease).
    #[must_use]
    pub const fn lease(&self) -> Duration {
        self.lease
    }

    /// See [`with_retry_after`](Self::with_retry_after).
    #[must_use]
    pub const fn retry_after(&self) -> Duration {
        self.retry_after
    }

    /// See [`with_max_reply_len`](Self::with_max_reply_len).
    #[must_use]
    pub const fn max_reply_len(&self) -> usize {
        self.max_reply_len
    }

    /// See [`with_failures`](Self::with_failures).
    #[must_use]
    pub const fn failures(&self) -> Failures {
        self.failures
    }

    /// Whether `reply` counts as a failure under this policy.
    #[must_use]
    pub fn is_failure(&self, reply: &Reply) -> bool {
        (self.is_failure)(reply)
    }

    /// What is to become of `reply`. Asks the application's own code.
    pub(crate) fn judge(&self, reply: Reply) -> Judged {
        if self.failures != Failures::Record && self.is_failure(&reply) {
            Judged::Failure(reply)
        } else {
            Judged::ToRecord(reply)
        }
    }

    /// The terms that this policy gives a claim.
    pub(crate) fn terms(&self) -> Result<Terms, PolicyError> {
        if self.max_reply_len > MAX_REPLY_LEN {
            return Err(PolicyError::ReplyLimit { max: MAX_REPLY_LEN });
        }
        Ok(Terms {
            lease: Period::new(self.lease).map_err(PolicyError::Lease)?,
            retention: Period::new(self.retention).map_err(PolicyError::Retention)?,
        })
    }
}

/// What is to become of a reply.
#[derive(Debug)]
pub(crate) enum Judged {
    ToRecord(Reply),
    /// It is not to be recorded.
    Failure(Reply),
}

impl Default for Policy {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("retention", &self.retention)
            .field("lease", &self.lease)
            .field("retry_after", &self.retry_after)
            .field("max_reply_len", &self.max_reply_len)
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}

/// The lease and the retention of one claim, validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) lease: Period,
    pub(crate) retention: Period,
}

impl Terms {
    /// The default policy's: 90 seconds and 24 hours.
    pub(crate) const DEFAULT: Self = Self { lease: seconds(90), retention: seconds(24 * 60 * 60) };
}

#[expect(clippy::panic, reason = "runs at compile time only")]
const fn seconds(seconds: u64) -> Period {
    match Period::new(Duration::from_secs(seconds)) {
        Ok(period) => period,
        Err(_) => panic!("a default that is no period"),
    }
}

/// A policy that no claim can be made under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The lease is zero or too long.
    #[error("unusable lease")]
    Lease(#[source] PeriodError),
    /// The retention is zero or too long.
    #[error("unusable retention")]
    Retention(#[source] PeriodError),
    /// The limit on replies is above what the crate takes.
    #[error("a limit on replies must be at most {max} bytes")]
    ReplyLimit {
        /// [`MAX_REPLY_LEN`].
        max: usize,
    },
}

fn is_server_error(reply: &Reply) -> bool {
    reply.status().is_some_and(|status| status >= 500)
}
