//! What commands should answer and leave behind: a second telling of the crate's semantics, which shares no
//! code with it.

use bytes::Bytes;
use idempotency::{Command, FencingToken, LostReason, Outcome, Record, Reply, State, Timestamp};
use std::collections::BTreeMap;

/// An answer in the model's words, without the token of a grant: that is checked against all earlier ones.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Claimed { attempt: u32, lease_until: Timestamp, checkpoint: Option<Bytes> },
    Completed(Finished),
    InProgress { lease_until: Timestamp, attempt: u32, now: Timestamp },
    Mismatch { created_at: Timestamp, state: State },
    Recorded(Finished),
    AlreadyRecorded(Finished),
    Renewed { lease_until: Timestamp },
    Released,
    Abandoned,
    AlreadyGone,
    Lost(LostReason),
    Forgotten { existed: bool },
}

#[derive(Debug, PartialEq, Eq)]
pub struct Finished {
    pub reply: Reply,
    pub created_at: Timestamp,
    pub completed_at: Timestamp,
    pub expires_at: Timestamp,
}

impl Answer {
    pub fn of(outcome: Outcome) -> Self {
        let finished = |done: idempotency::Completed| Finished {
            reply: done.reply,
            created_at: done.created_at,
            completed_at: done.completed_at,
            expires_at: done.expires_at,
        };
        match outcome {
            Outcome::Claimed(grant) => Self::Claimed {
                attempt: grant.attempt,
                lease_until: grant.lease_until,
                checkpoint: grant.checkpoint,
            },
            Outcome::Completed(done) => Self::Completed(finished(done)),
            Outcome::InProgress { lease_until, attempt, now } => {
                Self::InProgress { lease_until, attempt, now }
            }
            Outcome::FingerprintMismatch(mismatch) => {
                Self::Mismatch { created_at: mismatch.created_at, state: mismatch.state }
            }
            Outcome::Recorded(done) => Self::Recorded(finished(done)),
            Outcome::AlreadyRecorded(done) => Self::AlreadyRecorded(finished(done)),
            Outcome::Renewed { lease_until } => Self::Renewed { lease_until },
            Outcome::Released => Self::Released,
            Outcome::Abandoned => Self::Abandoned,
            Outcome::AlreadyGone => Self::AlreadyGone,
            Outcome::Lost(reason) => Self::Lost(reason),
            Outcome::Forgotten { existed } => Self::Forgotten { existed },
        }
    }
}

/// What should be stored, expired records included, until a sweep takes them.
#[derive(Default)]
pub struct Model {
    pub records: BTreeMap<u8, Record>,
}

impl Model {
    /// What `command` on `key` should answer. `granted` is the token that the backend has granted, if it has.
    pub fn execute(&mut self, key: u8, command: &Command, now: i64, granted: Option<FencingToken>) -> Answer {
        let standing = self.records.get(&key).filter(|record| now < record.expires_at.as_millis()).cloned();
        match (command, standing) {
            (Command::Claim { fingerprint, .. }, Some(record)) if record.fingerprint != *fingerprint => {
                Answer::Mismatch { created_at: record.created_at, state: record.state }
            }
            (Command::Claim { .. }, Some(record)) if record.state == State::Completed => {
                Answer::Completed(finished(&record))
            }
            (Command::Claim { .. }, Some(Record { lease_until, attempt, .. }))
                if now < lease_until.as_millis() =>
            {
                Answer::InProgress { lease_until, attempt, now: at(now) }
            }
            (Command::Claim { fingerprint, lease, retention }, before) => {
                let lease_until = at(now + lease.as_millis());
                let attempt = before.as_ref().map_or(1, |record| record.attempt + 1);
                let checkpoint = before.as_ref().and_then(|record| record.checkpoint.clone());
                let record = Record {
                    fingerprint: *fingerprint,
                    state: State::InProgress,
                    token: granted.unwrap_or(FencingToken::FIRST),
                    attempt,
                    created_at: before.map_or(at(now), |record| record.created_at),
                    lease: *lease,
                    retention: *retention,
                    lease_until,
                    completed_at: None,
                    expires_at: at(lease_until.as_millis() + retention.as_millis()),
                    checkpoint: checkpoint.clone(),
                    reply: None,
                };
                self.records.insert(key, record);
                Answer::Claimed { attempt, lease_until, checkpoint }
            }
            (Command::Forget, standing) => {
                if standing.is_some() {
                    self.records.remove(&key);
                }
                Answer::Forgotten { existed: standing.is_some() }
            }
            (Command::Release { .. } | Command::Abandon { .. }, None) => Answer::AlreadyGone,
            (_, None) => Answer::Lost(LostReason::Gone),
            (command, Some(record)) => self.by_its_token(key, command, record, now),
        }
    }

    /// The commands that prove themselves by a token, on a record that stands.
    fn by_its_token(&mut self, key: u8, command: &Command, mut record: Record, now: i64) -> Answer {
        let token = match command {
            Command::Complete { token, .. }
            | Command::Renew { token }
            | Command::Checkpoint { token, .. }
            | Command::Release { token }
            | Command::Abandon { token } => *token,
            Command::Claim { .. } | Command::Forget => unreachable!("they carry no token"),
        };
        match (record.token == token, record.state) {
            (false, State::InProgress) => return Answer::Lost(LostReason::Running),
            (false, State::Completed) => return Answer::Lost(LostReason::Completed),
            (true, State::Completed) if matches!(command, Command::Complete { .. }) => {
                return Answer::AlreadyRecorded(finished(&record));
            }
            (true, State::Completed) => return Answer::Lost(LostReason::CompletedByThisClaim),
            (true, State::InProgress) => {}
        }
        let answer = match command {
            Command::Complete { reply, retention, .. } => {
                record.state = State::Completed;
                record.reply = Some(reply.clone());
                record.completed_at = Some(at(now));
                record.expires_at = at(now + retention.as_millis());
                record.checkpoint = None;
                Answer::Recorded(finished(&record))
            }
            Command::Release { .. } if record.attempt == 1 => {
                self.records.remove(&key);
                return Answer::Released;
            }
            Command::Release { .. } | Command::Abandon { .. } => {
                if now < record.lease_until.as_millis() {
                    record.lease_until = at(now);
                }
                if matches!(command, Command::Release { .. }) { Answer::Released } else { Answer::Abandoned }
            }
            _ => {
                if let Command::Checkpoint { bytes, .. } = command {
                    record.checkpoint = Some(bytes.clone());
                }
                let lease_until = record.lease_until.as_millis().max(now + record.lease.as_millis());
                let expires_at =
                    record.expires_at.as_millis().max(lease_until + record.retention.as_millis());
                (record.lease_until, record.expires_at) = (at(lease_until), at(expires_at));
                Answer::Renewed { lease_until: at(lease_until) }
            }
        };
        self.records.insert(key, record);
        answer
    }
}

pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn finished(record: &Record) -> Finished {
    Finished {
        reply: record.reply.clone().expect("a completed record has a reply"),
        created_at: record.created_at,
        completed_at: record.completed_at.expect("a completed record has a time of completion"),
        expires_at: record.expires_at,
    }
}
