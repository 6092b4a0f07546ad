//! What callers saw of some keys: calls, their answers, and calls of which nobody knows whether they were done.

use idempotency::{
    Command, Completed, FencingToken, Fingerprint, LostReason, Outcome, Record, Reply, State, Timestamp,
};

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

impl Done {
    /// The reply in a record, if it has one.
    pub fn of(record: &Record) -> Option<Self> {
        Completed::of(record).map(Self::from)
    }
}

impl From<Completed> for Done {
    fn from(done: Completed) -> Self {
        let Completed { reply, created_at, completed_at, expires_at, .. } = done;
        Self { reply, created_at, completed_at, expires_at }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// A look found a claim in progress, lapsed or not.
    Found {
        token: FencingToken,
        attempt: u32,
        until: Timestamp,
        asked: Fingerprint,
    },
    /// Told that it may have been done.
    Perhaps(Perhaps),
}

/// What may have been done: before the call ended, or never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Perhaps {
    Granted { asked: Fingerprint },
    Extended { token: FencingToken },
    Recorded { token: FencingToken, reply: Reply },
    GivenUp { token: FencingToken },
    Forgotten,
}

impl Perhaps {
    /// What a caller knows that gave `command`, and was told that it may have been done.
    pub fn of(command: &Command) -> Self {
        match command {
            Command::Claim { fingerprint, .. } => Self::Granted { asked: *fingerprint },
            Command::Renew { token } | Command::Checkpoint { token, .. } => Self::Extended { token: *token },
            Command::Complete { token, reply, .. } => Self::Recorded { token: *token, reply: reply.clone() },
            Command::Release { token } | Command::Abandon { token } => Self::GivenUp { token: *token },
            Command::Forget => Self::Forgotten,
        }
    }
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

    /// What a look shows of claims: that one is in progress, or none.
    pub fn found(record: Option<&Record>) -> Self {
        match record {
            Some(record) if record.state == State::InProgress => Self::Found {
                token: record.token,
                attempt: record.attempt,
                until: record.lease_until,
                asked: record.fingerprint,
            },
            _ => Self::Nothing,
        }
    }
}

impl Seen {
    pub fn before(&self, other: &Self) -> bool {
        self.ended < other.began
    }

    /// The token of a write that only an owner may make.
    pub fn writer(&self) -> Option<FencingToken> {
        match self.what {
            What::Extended { token, .. } | What::Recorded { token, .. } | What::GivenUp { token } => {
                Some(token)
            }
            _ => None,
        }
    }

    /// Until when this call promised that the claim of `owner` stands.
    pub fn extends(&self, owner: FencingToken) -> Option<Timestamp> {
        match self.what {
            What::Extended { token, until } if token == owner => Some(until),
            _ => None,
        }
    }

    /// Whether this call may have ended the claim of `owner` without a reply, if that was the newest.
    pub fn may_end(&self, owner: FencingToken) -> bool {
        match &self.what {
            What::Perhaps(Perhaps::GivenUp { token }) => *token == owner,
            What::Perhaps(Perhaps::Forgotten) => true,
            _ => self.ends(owner),
        }
    }

    /// Whether this call may have extended the claim of `owner`.
    pub fn may_extend(&self, owner: FencingToken) -> bool {
        self.extends(owner).is_some() || self.what == What::Perhaps(Perhaps::Extended { token: owner })
    }

    /// Whether this call ended the claim of `owner` without a reply, if that was the newest.
    pub fn ends(&self, owner: FencingToken) -> bool {
        match self.what {
            What::GivenUp { token } => token == owner,
            What::Forgotten => true,
            _ => false,
        }
    }
}
