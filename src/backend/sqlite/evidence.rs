//! What a command has written, looked for after a commit whose end is unknown: [`Evidence`].

use crate::backend::sqlite::row::CheckpointColumns;
use crate::backend::sqlite::session::Session;
use crate::error::BackendError;
use crate::key::RecordId;
use crate::record::{FencingToken, Record};
use crate::time::Timestamp;
use rusqlite::types::Value;

/// The trace that one command has left in a transaction, and by which it is known again.
pub(super) struct Evidence {
    id: RecordId,
    trace: Trace,
}

enum Trace {
    /// A claim of this token, granted by this connection.
    Granted { token: FencingToken, writer: i64 },
    /// Such a claim that was completed at once, in place of the row with the token `before`, if there was one.
    Executed { token: FencingToken, writer: i64, before: Option<Value> },
    /// One record in place of another, the first as it was read: without its checkpoint.
    Put(Box<(Record, Record)>),
    /// The row with this token is gone.
    Deleted { token: Value },
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is in the file.
    Stands,
    /// It is not, and will not be.
    NotDone,
    /// Others have written there since.
    Unclear,
}

impl Evidence {
    pub(super) fn granted(id: &RecordId, token: FencingToken, writer: i64) -> Self {
        Self { id: id.clone(), trace: Trace::Granted { token, writer } }
    }

    /// For a claim that this is the evidence of, and that was completed in the same transaction.
    pub(super) fn completed_at_once(self, before: Option<Value>) -> Self {
        let trace = match self.trace {
            Trace::Granted { token, writer } => Trace::Executed { token, writer, before },
            other => other,
        };
        Self { trace, ..self }
    }

    pub(super) fn put(id: &RecordId, before: Record, after: Record) -> Self {
        Self { id: id.clone(), trace: Trace::Put(Box::new((before, after))) }
    }

    pub(super) fn deleted(id: &RecordId, token: Value) -> Self {
        Self { id: id.clone(), trace: Trace::Deleted { token } }
    }

    /// What the file says of a transaction that has left `traces`. It was done as a whole or not at all, so
    /// one of them decides.
    pub(super) fn judge(traces: &[Self], session: &Session<'_>) -> Result<Verdict, BackendError> {
        let mut verdict = Verdict::Unclear;
        for trace in traces {
            match trace.verdict(session)? {
                Verdict::Stands => return Ok(Verdict::Stands),
                Verdict::NotDone => verdict = Verdict::NotDone,
                Verdict::Unclear => {}
            }
        }
        Ok(verdict)
    }

    fn verdict(&self, session: &Session<'_>) -> Result<Verdict, BackendError> {
        Ok(match &self.trace {
            Trace::Granted { token, writer } => {
                // Another connection may have drawn the same number meanwhile. Whoever owns the key now, if it
                // is not this claim, then this claim owns nothing.
                match session.owner(&self.id)? {
                    Some(owner) if owner == own(*token, *writer) => Verdict::Stands,
                    _ => Verdict::NotDone,
                }
            }
            Trace::Executed { token, writer, before } => match session.owner(&self.id)? {
                Some(owner) if owner == own(*token, *writer) => Verdict::Stands,
                owner if owner.as_ref().map(|(token, _)| token) == before.as_ref() => Verdict::NotDone,
                // The record may have been replaced since, and what was written with it stand.
                _ => Verdict::Unclear,
            },
            Trace::Put(records) => {
                let (before, after) = &**records;
                let columns = if after.checkpoint.is_some() {
                    CheckpointColumns::Verify
                } else {
                    CheckpointColumns::Skip
                };
                // At the beginning of time nothing has expired.
                let found = session.stored(&self.id, Timestamp::from_millis(i64::MIN), columns)?;
                let without_checkpoint = |found: Record| Record { checkpoint: None, ..found };
                match found {
                    Some(found) if found == *after => Verdict::Stands,
                    Some(found) if without_checkpoint(found.clone()) == *before => Verdict::NotDone,
                    _ => Verdict::Unclear,
                }
            }
            Trace::Deleted { token } => match session.owner(&self.id)? {
                None => Verdict::Stands,
                Some((found, _)) if found == *token => Verdict::NotDone,
                Some(_) => Verdict::Unclear,
            },
        })
    }
}

/// What `read_owner` gives for a claim.
fn own(token: FencingToken, writer: i64) -> (Value, Value) {
    (Value::Integer(token.get()), Value::Integer(writer))
}
