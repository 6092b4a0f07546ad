//! What a row should be read as: a second telling, which shares no code with the crate's reading.

use super::row::{Cell, Column, Row};
use super::seal;
use bytes::Bytes;
use idempotency::{FencingToken, Fingerprint, Period, Record, Reply, State, StoredResponse, Timestamp};

#[derive(Debug, PartialEq)]
pub enum Judgement {
    /// No record, whatever else is in the row.
    Expired,
    Damaged,
    Sound(Record),
}

/// Whether the checkpoint counts: it does where it is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoint {
    Counts,
    Ignored,
}

pub fn judge(row: &Row, now: i64, checkpoint: Checkpoint) -> Judgement {
    match row.integer(Column::ExpiresAt) {
        None => Judgement::Damaged,
        Some(expires_at) if expires_at <= now => Judgement::Expired,
        Some(_) => row.record(checkpoint).map_or(Judgement::Damaged, Judgement::Sound),
    }
}

impl Row {
    pub fn integer(&self, column: Column) -> Option<i64> {
        match self.cell(column) {
            Cell::Integer(number) => Some(*number),
            _ => None,
        }
    }

    fn time(&self, column: Column) -> Option<Timestamp> {
        self.integer(column).map(Timestamp::from_millis)
    }

    fn period(&self, column: Column) -> Option<Period> {
        self.integer(column).and_then(|millis| Period::from_millis(millis).ok())
    }

    pub fn fingerprint(&self) -> Option<Fingerprint> {
        let Cell::Blob(digest) = self.cell(Column::Fingerprint) else { return None };
        let format = u8::try_from(self.integer(Column::Format)?).ok()?;
        Some(Fingerprint::from_stored(format, digest.as_slice().try_into().ok()?))
    }

    fn record(&self, checkpoint: Checkpoint) -> Option<Record> {
        let completed = match self.as_text(Column::State)?? {
            b"completed" => true,
            b"in_progress" => false,
            _ => return None,
        };
        let completed_at = match self.cell(Column::CompletedAt) {
            Cell::Null => None,
            _ => Some(self.time(Column::CompletedAt)?),
        };
        let record = Record {
            fingerprint: self.fingerprint()?,
            state: if completed { State::Completed } else { State::InProgress },
            token: FencingToken::new(self.integer(Column::Token)?)?,
            attempt: u32::try_from(self.integer(Column::Attempt)?).ok().filter(|attempt| *attempt > 0)?,
            created_at: self.time(Column::CreatedAt)?,
            lease: self.period(Column::Lease)?,
            retention: self.period(Column::Retention)?,
            lease_until: self.time(Column::LeaseUntil)?,
            completed_at,
            expires_at: self.time(Column::ExpiresAt)?,
            checkpoint: match checkpoint {
                Checkpoint::Counts => self.checkpoint()?,
                Checkpoint::Ignored => None,
            },
            reply: self.reply()?,
        };
        let as_it_should_be = if completed {
            record.reply.is_some() && completed_at.is_some() && record.checkpoint.is_none()
        } else {
            record.reply.is_none() && completed_at.is_none() && record.expires_at >= record.lease_until
        };
        as_it_should_be.then_some(record)
    }

    /// `Some(None)` if there is none, as for the reply.
    fn checkpoint(&self) -> Option<Option<Bytes>> {
        let found = self.as_blob(Column::Checkpoint)?;
        let sum = self.as_blob(Column::CheckpointChecksum)?.map(<[u8]>::to_vec);
        (sum == seal::of_the_checkpoint(self)).then(|| found.map(Bytes::copy_from_slice))
    }

    fn reply(&self) -> Option<Option<Reply>> {
        let status = match self.cell(Column::Status) {
            Cell::Null => None,
            _ => Some(u16::try_from(self.integer(Column::Status)?).ok()?),
        };
        let sum = self.as_blob(Column::ReplyChecksum)?;
        let reference = self.as_text(Column::Reference)?.map(str::from_utf8).transpose().ok()?;
        let (headers, body) = (self.as_blob(Column::Headers)?, self.as_blob(Column::Body)?);
        let kind = self.as_text(Column::Kind)?.map(str::from_utf8).transpose().ok()?;
        if sum.is_some_and(|sum| sum.len() != 16) {
            return None;
        }
        let Some(kind) = kind else {
            let is_empty = (status, reference, headers, body, sum) == (None, None, None, None, None);
            return is_empty.then_some(None);
        };
        if sum.map(<[u8]>::to_vec) != seal::of_the_reply(self) {
            return None;
        }
        Some(Some(match (kind, status, reference, headers, body) {
            ("marker", None, None, None, None) => Reply::Marker,
            ("reference", None, Some(reference), None, None) => Reply::Reference(reference.to_owned()),
            ("response", Some(status), None, Some(headers), Some(body)) => {
                let mut response = StoredResponse::new(status);
                let mut headers = headers;
                while !headers.is_empty() {
                    let name = String::from_utf8(part(&mut headers)?).ok()?;
                    response = response.with_header(name, part(&mut headers)?);
                }
                response.with_body(body.to_vec()).into()
            }
            _ => return None,
        }))
    }
}

/// A length in four bytes, and as many bytes.
fn part(encoded: &mut &[u8]) -> Option<Vec<u8>> {
    let (len, rest) = encoded.split_first_chunk::<4>()?;
    let (part, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
    *encoded = rest;
    Some(part.to_vec())
}
