//! A record as the bytes of its file: a version, each field in its turn, and a digest of all of it at the end. Whatever
//! else is in a file is `Corrupt`, never a record.

use idempotency::{
    BackendError, FencingToken, Fingerprint, IdempotencyKey, Period, Record, RecordId, Reply, Scope, State,
    StoredResponse, Timestamp,
};

/// Changes with the format.
const VERSION: &[u8] = b"record 1";
const DIGEST_LEN: usize = 32;

pub fn encode(id: &RecordId, record: &Record) -> Vec<u8> {
    let mut out = Out(VERSION.to_vec());
    out.bytes(id.scope.as_str());
    out.bytes(id.key.as_str());
    out.number(record.fingerprint.format().into());
    out.bytes(record.fingerprint.digest());
    out.number(record.token.get());
    out.number(record.attempt.into());
    out.number(record.created_at.as_millis());
    out.number(record.lease.as_millis());
    out.number(record.retention.as_millis());
    out.number(record.lease_until.as_millis());
    out.number(record.expires_at.as_millis());
    out.optional(record.checkpoint.as_ref(), |out, checkpoint| out.bytes(checkpoint));
    // A record has completed if and only if it has both, so its state is not written.
    out.optional(record.completed_at.zip(record.reply.as_ref()), |out, (completed_at, reply)| {
        out.number(completed_at.as_millis());
        out.reply(reply);
    });
    let digest = digest_of(&out.0);
    out.0.extend(digest);
    out.0
}

pub fn decode(file: &[u8]) -> Result<(RecordId, Record), BackendError> {
    let (content, digest) =
        file.split_last_chunk::<DIGEST_LEN>().ok_or_else(|| corrupt("it is too short"))?;
    if digest_of(content) != *digest {
        return Err(corrupt("its digest is another"));
    }
    let mut rest = In(content.strip_prefix(VERSION).ok_or_else(|| corrupt("its version is unknown"))?);
    let (id, record) = rest.record().ok_or_else(|| corrupt("a field has no such value"))?;
    if !rest.0.is_empty() {
        return Err(corrupt("there is more than a record"));
    }
    record.check().map_err(|error| corrupt("it breaks an invariant").with_source(error))?;
    Ok((id, record))
}

fn corrupt(what: &'static str) -> BackendError {
    BackendError::corrupt(what)
}

fn digest_of(content: &[u8]) -> [u8; DIGEST_LEN] {
    *Fingerprint::builder().field("record", content).finish().digest()
}

struct Out(Vec<u8>);

impl Out {
    fn number(&mut self, number: i64) {
        self.0.extend(number.to_be_bytes());
    }

    fn bytes(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.number(i64::try_from(bytes.len()).expect("no more bytes than memory has"));
        self.0.extend(bytes);
    }

    fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.number(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn reply(&mut self, reply: &Reply) {
        match reply {
            Reply::Marker => self.number(0),
            Reply::Reference(reference) => {
                self.number(1);
                self.bytes(reference);
            }
            Reply::Response(response) => {
                self.number(2);
                self.number(response.status().into());
                self.bytes(response.body());
                let headers = response.headers();
                self.number(i64::try_from(headers.len()).expect("no more headers than memory has"));
                for (name, value) in headers {
                    self.bytes(name);
                    self.bytes(value);
                }
            }
        }
    }
}

/// What is left to read. None wherever it is not what was to come.
struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn number<N: TryFrom<i64>>(&mut self) -> Option<N> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        i64::from_be_bytes(*number).try_into().ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.number()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    fn moment(&mut self) -> Option<Timestamp> {
        self.number().map(Timestamp::from_millis)
    }

    fn period(&mut self) -> Option<Period> {
        Period::from_millis(self.number()?).ok()
    }

    fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.number()? {
            0_u8 => Some(None),
            1 => read(self).map(Some),
            _ => None,
        }
    }

    fn reply(&mut self) -> Option<Reply> {
        Some(match self.number()? {
            0_u8 => Reply::Marker,
            1 => Reply::Reference(self.text()?.to_owned()),
            2 => {
                let mut response = StoredResponse::new(self.number()?).with_body(self.bytes()?.to_vec());
                for _ in 0..self.number()? {
                    response = response.with_header(self.text()?, self.bytes()?.to_vec());
                }
                response.into()
            }
            _ => return None,
        })
    }

    fn record(&mut self) -> Option<(RecordId, Record)> {
        let id = RecordId::new(Scope::new(self.text()?).ok()?, IdempotencyKey::new(self.text()?).ok()?);
        let mut record = Record {
            fingerprint: Fingerprint::from_stored(self.number()?, self.bytes()?.try_into().ok()?),
            state: State::InProgress,
            token: FencingToken::new(self.number()?)?,
            attempt: self.number()?,
            created_at: self.moment()?,
            lease: self.period()?,
            retention: self.period()?,
            lease_until: self.moment()?,
            expires_at: self.moment()?,
            checkpoint: self.optional(|rest| rest.bytes().map(|bytes| bytes.to_vec().into()))?,
            completed_at: None,
            reply: None,
        };
        if let Some((completed_at, reply)) = self.optional(|rest| rest.moment().zip(rest.reply()))? {
            record.state = State::Completed;
            (record.completed_at, record.reply) = (Some(completed_at), Some(reply));
        }
        Some((id, record))
    }
}
