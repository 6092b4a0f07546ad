//! A record as a row: reading one that may be damaged, writing one that is sound.

use crate::backend::sqlite::failure;
use crate::error::BackendError;
use crate::fingerprint::Fingerprint;
use crate::key::RecordId;
use crate::planted;
use crate::record::{FencingToken, Record, State};
use crate::reply::{Reply, StoredResponse};
use crate::time::{Period, Timestamp};
use bytes::{Buf, BufMut, Bytes};
use rusqlite::types::{FromSql, FromSqlError, Value, ValueRef};
use rusqlite::{Row, Statement, params};
use sha2::{Digest, Sha256};
use std::borrow::Cow;

const IN_PROGRESS: &str = "in_progress";
const COMPLETED: &str = "completed";

const RESPONSE: &str = "response";
const REFERENCE: &str = "reference";
const MARKER: &str = "marker";

/// A row's columns, read from left to right.
struct Columns<'row> {
    row: &'row Row<'row>,
    next: usize,
}

impl<'row> Columns<'row> {
    fn next<T: FromSql>(&mut self) -> Result<T, BackendError> {
        let column = self.next;
        self.next = column.saturating_add(1);
        self.row.get(column).map_err(failure::nothing_done)
    }

    fn next_ref(&mut self) -> Result<ValueRef<'row>, BackendError> {
        let column = self.next;
        self.next = column.saturating_add(1);
        self.row.get_ref(column).map_err(failure::nothing_done)
    }

    fn next_text(&mut self) -> Result<Option<&'row str>, BackendError> {
        self.next_ref()?.as_str_or_null().map_err(of_another_type)
    }

    fn next_bytes(&mut self) -> Result<Option<&'row [u8]>, BackendError> {
        self.next_ref()?.as_blob_or_null().map_err(of_another_type)
    }
}

/// What stands in a column, whatever it is: text that is no UTF-8, which `Value` can't hold, comes as its bytes.
pub(super) fn whatever(row: &Row<'_>, column: usize) -> rusqlite::Result<Value> {
    match row.get_ref(column)? {
        ValueRef::Text(text) if str::from_utf8(text).is_err() => Ok(Value::Blob(text.to_vec())),
        _ => row.get(column),
    }
}

fn of_another_type(error: FromSqlError) -> BackendError {
    BackendError::corrupt("a stored value is not what its column holds").with_source(error)
}

/// Whether the checkpoint's columns are looked at.
#[derive(Clone, Copy)]
pub(super) enum CheckpointColumns {
    /// The checkpoint is handed out, so it is read and verified.
    Verify,
    /// Nobody asks for it, so damage to it must not stand in the way. The record comes without it, and must
    /// not be written back over one that is to stay.
    Skip,
}

/// The record that `row` holds under `id`, its checksums verified; none if it has expired, whatever else may
/// be wrong with it.
pub(super) fn read(
    row: &Row<'_>,
    id: &RecordId,
    now: Timestamp,
    checkpoint: CheckpointColumns,
) -> Result<Option<Record>, BackendError> {
    let mut columns = Columns { row, next: 0 };
    let expires_at = Timestamp::from_millis(columns.next()?);
    if expires_at.is_over(now) {
        return Ok(None);
    }
    let state = columns.next_text()?.and_then(state);
    let state = state.ok_or(BackendError::corrupt("a record's state is unknown"))?;
    let token =
        FencingToken::new(columns.next()?).ok_or(BackendError::corrupt("a record's token is below 1"))?;
    let attempt = columns.next()?;
    let created_at = Timestamp::from_millis(columns.next()?);
    let lease = period(columns.next()?)?;
    let retention = period(columns.next()?)?;
    let lease_until = Timestamp::from_millis(columns.next()?);
    let completed_at = columns.next::<Option<i64>>()?.map(Timestamp::from_millis);
    let fingerprint = Fingerprint::from_stored(columns.next()?, columns.next()?);
    let kind = columns.next_text()?;
    let status: Option<u16> = columns.next()?;
    let reply_checksum: Option<Checksum> = columns.next()?;
    let stored = StoredReply {
        status,
        reference: columns.next_text()?,
        headers: columns.next_bytes()?.map(Cow::Borrowed),
        body: columns.next_bytes()?,
    };
    let checkpoint = match checkpoint {
        CheckpointColumns::Skip => None,
        CheckpointColumns::Verify => read_checkpoint(&mut columns, id)?,
    };
    let reply = match kind {
        None if reply_checksum.is_none() && stored.is_empty() => None,
        None => return Err(BackendError::corrupt("a record has a part of a reply")),
        Some(kind)
            if planted::is("checksum-unchecked")
                || reply_checksum == Some(stored.sum(id, &fingerprint, kind)) =>
        {
            Some(stored.reply(kind).ok_or(BackendError::corrupt("a reply is malformed"))?)
        }
        Some(_) => return Err(BackendError::corrupt("a reply does not match its checksum")),
    };
    let record = Record {
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
    };
    match record.check() {
        Ok(()) => Ok(Some(record)),
        Err(violation) => Err(BackendError::corrupt("a record breaks an invariant").with_source(violation)),
    }
}

/// The state that a row calls `name`.
pub(super) fn state(name: &str) -> Option<State> {
    match name {
        IN_PROGRESS => Some(State::InProgress),
        COMPLETED => Some(State::Completed),
        _ => None,
    }
}

fn read_checkpoint(columns: &mut Columns<'_>, id: &RecordId) -> Result<Option<Bytes>, BackendError> {
    let checksum: Option<Checksum> = columns.next()?;
    let checkpoint = columns.next_bytes()?;
    if checkpoint.map(|bytes| checkpoint_sum(id, bytes)) == checksum {
        Ok(checkpoint.map(Bytes::copy_from_slice))
    } else {
        Err(BackendError::corrupt("a checkpoint does not match its checksum"))
    }
}

/// Runs the update `statement` with what `record` has now; says how many rows it changed.
pub(super) fn update(
    statement: &mut Statement<'_>,
    id: &RecordId,
    record: &Record,
) -> rusqlite::Result<usize> {
    let (kind, stored) = match &record.reply {
        Some(reply) => {
            let (kind, stored) = StoredReply::of(reply);
            (Some(kind), stored)
        }
        None => (None, StoredReply::default()),
    };
    statement.execute(params![
        id.scope.as_str(),
        id.key.as_str(),
        record.token.get(),
        match record.state {
            State::InProgress => IN_PROGRESS,
            State::Completed => COMPLETED,
        },
        record.lease_until.as_millis(),
        record.completed_at.map(Timestamp::as_millis),
        record.expires_at.as_millis(),
        kind,
        stored.status,
        kind.map(|kind| stored.sum(id, &record.fingerprint, kind)),
        record.checkpoint.as_deref().map(|bytes| checkpoint_sum(id, bytes)),
        stored.reference,
        stored.headers.as_deref(),
        stored.body,
        record.checkpoint.as_deref(),
    ])
}

fn period(millis: i64) -> Result<Period, BackendError> {
    Period::from_millis(millis)
        .map_err(|_| BackendError::corrupt("a record's lease or retention is out of range"))
}

/// The columns of a reply.
#[derive(Default)]
struct StoredReply<'r> {
    status: Option<u16>,
    reference: Option<&'r str>,
    headers: Option<Cow<'r, [u8]>>,
    body: Option<&'r [u8]>,
}

impl<'r> StoredReply<'r> {
    fn of(reply: &'r Reply) -> (&'static str, Self) {
        match reply {
            Reply::Response(response) => {
                let stored = Self {
                    status: Some(response.status()),
                    reference: None,
                    headers: Some(Cow::Owned(encode_headers(response))),
                    body: Some(response.body()),
                };
                (RESPONSE, stored)
            }
            Reply::Reference(reference) => {
                (REFERENCE, Self { reference: Some(reference), ..Self::default() })
            }
            Reply::Marker => (MARKER, Self::default()),
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self { status: None, reference: None, headers: None, body: None })
    }

    fn reply(self, kind: &str) -> Option<Reply> {
        match (kind, self) {
            (
                RESPONSE,
                Self { status: Some(status), reference: None, headers: Some(headers), body: Some(body) },
            ) => {
                let response = decode_headers(&headers, StoredResponse::new(status))?;
                Some(Reply::Response(response.with_body(body)))
            }
            (REFERENCE, Self { status: None, reference: Some(reference), headers: None, body: None }) => {
                Some(Reply::Reference(reference.to_owned()))
            }
            (MARKER, stored) if stored.is_empty() => Some(Reply::Marker),
            _ => None,
        }
    }

    /// Covers whose reply it is as well as the reply: a row that was moved or bound to another request is
    /// damaged, too.
    fn sum(&self, id: &RecordId, fingerprint: &Fingerprint, kind: &str) -> Checksum {
        checksum(&[
            Some(b"reply"),
            Some(id.scope.as_str().as_bytes()),
            Some(id.key.as_str().as_bytes()),
            Some(&[fingerprint.format()]),
            Some(fingerprint.digest()),
            Some(kind.as_bytes()),
            self.status.map(u16::to_be_bytes).as_ref().map(<[u8; 2]>::as_slice),
            self.reference.map(str::as_bytes),
            self.headers.as_deref(),
            self.body,
        ])
    }
}

/// The first 16 bytes of a SHA-256. SQLite's own integrity check does not look at contents.
type Checksum = [u8; 16];

fn checkpoint_sum(id: &RecordId, bytes: &[u8]) -> Checksum {
    checksum(&[
        Some(b"checkpoint"),
        Some(id.scope.as_str().as_bytes()),
        Some(id.key.as_str().as_bytes()),
        Some(bytes),
    ])
}

/// Over all parts, each with its presence and its length in front.
fn checksum(parts: &[Option<&[u8]>]) -> Checksum {
    // What is short is hashed together: most parts have a few bytes, and each call costs more than they do.
    const SHORT: usize = 256;
    let mut hasher = Sha256::new();
    let mut gathered = Vec::with_capacity(SHORT);
    for part in parts {
        let bytes = part.unwrap_or_default();
        gathered.push(u8::from(part.is_some()));
        gathered.extend(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        if bytes.len() <= SHORT {
            gathered.extend(bytes);
        } else {
            hasher.update(&gathered);
            gathered.clear();
            hasher.update(bytes);
        }
    }
    hasher.update(&gathered);
    let digest: [u8; 32] = hasher.finalize().into();
    let mut sum = Checksum::default();
    sum.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    sum
}

/// Headers as one value: for each, the length of the name (u32, big-endian), the name, and the same for the
/// value.
fn encode_headers(response: &StoredResponse) -> Vec<u8> {
    let mut encoded = Vec::new();
    for (name, value) in response.headers() {
        for part in [name.as_bytes(), value] {
            encoded.put_u32(u32::try_from(part.len()).unwrap_or(u32::MAX));
            encoded.put_slice(part);
        }
    }
    encoded
}

/// `response` with the headers that were encoded; none if that is not what `encode_headers` writes.
fn decode_headers(mut encoded: &[u8], mut response: StoredResponse) -> Option<StoredResponse> {
    while !encoded.is_empty() {
        let name = split_part(&mut encoded)?;
        let value = split_part(&mut encoded)?;
        response = response.with_header(std::str::from_utf8(name).ok()?, value);
    }
    Some(response)
}

fn split_part<'e>(encoded: &mut &'e [u8]) -> Option<&'e [u8]> {
    let len = usize::try_from(encoded.try_get_u32().ok()?).ok()?;
    let (part, rest) = encoded.split_at_checked(len)?;
    *encoded = rest;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_as_they_were_or_not_at_all() {
        let response = StoredResponse::new(200)
            .with_header("Set-Cookie", "a=1")
            .with_header("set-cookie", vec![0, 255, 10])
            .with_header("", "");
        let encoded = encode_headers(&response);
        assert_eq!(decode_headers(&encoded, StoredResponse::new(200)), Some(response));
        // Every strict prefix either ends between two headers or is refused.
        let between = [0, 21, 42];
        for len in 0..encoded.len() {
            let cut = decode_headers(&encoded[..len], StoredResponse::new(200));
            assert_eq!(cut.is_some(), between.contains(&len), "{len}");
        }
    }

    #[test]
    fn a_checksum_tells_absent_from_empty_and_one_cut_from_another() {
        let sums = [
            checksum(&[None, Some(b"ab")]),
            checksum(&[Some(b""), Some(b"ab")]),
            checksum(&[Some(b"a"), Some(b"b")]),
            checksum(&[Some(b"ab"), None]),
            checksum(&[Some(b"ab")]),
        ];
        for (i, one) in sums.iter().enumerate() {
            assert!(sums.iter().skip(i + 1).all(|other| one != other), "{i}");
        }
    }
}
