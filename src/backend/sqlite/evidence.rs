//! What a command has written, looked for after a commit whose end is unknown: [`Evidence`].

use crate::backend::sqlite::row::CheckpointColumns;
use crate::backend::sqlite::session::Session;
use crate::error::BackendError;
use crate::key::RecordId;
use crate::record::{FencingToken, Record};
use crate::time::Timestamp;
use rusqlite::types::Value;
use std::collections::HashMap;

/// The trace that one command has left in a transaction, and by which it is known again.
pub(super) struct Evidence {
    id: RecordId,
    trace: Trace,
}

enum Trace {
    /// A claim of this token, granted by this connection.
    Granted { token: FencingToken, writer: i64 },
    /// Such a claim that was completed at once: what else was written with it outlives the record.
    Executed { token: FencingToken, writer: i64 },
    /// One record in place of another, the first as it was read: without its checkpoint.
    Put(Box<(Record, Record)>),
    /// The row with this token is gone.
    Deleted { token: Value },
}

/// What became of a transaction, or of what one command has written in it.
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

    pub(super) fn executed(id: &RecordId, token: FencingToken, writer: i64) -> Self {
        Self { id: id.clone(), trace: Trace::Executed { token, writer } }
    }

    pub(super) fn put(id: &RecordId, before: Record, after: Record) -> Self {
        Self { id: id.clone(), trace: Trace::Put(Box::new((before, after))) }
    }

    pub(super) fn deleted(id: &RecordId, token: Value) -> Self {
        Self { id: id.clone(), trace: Trace::Deleted { token } }
    }

    /// What the file says of a transaction that has left `traces`, trace by trace. `last_token` is the counter as it
    /// was when the file was opened again.
    ///
    /// It was done as a whole or not at all. Yet only a claim that stands can have come from nobody else: another
    /// may have deleted the same row, or the transaction itself have changed a record back. So what is found of
    /// one of the others decides of that one alone.
    pub(super) fn judge(
        traces: &[Self],
        session: &Session<'_>,
        last_token: i64,
    ) -> Result<Vec<Verdict>, BackendError> {
        let all = |verdict| Ok(vec![verdict; traces.len()]);
        // The counter moves with a claim, and never back.
        if traces.iter().any(|trace| trace.token().is_some_and(|token| token.get() > last_token)) {
            return all(Verdict::NotDone);
        }
        let found = traces.iter().map(|trace| trace.verdict(session)).collect::<Result<Vec<_>, _>>()?;
        let is_claim_standing =
            |(trace, verdict): (&Self, &Verdict)| trace.token().is_some() && *verdict == Verdict::Stands;
        if traces.iter().zip(&found).any(is_claim_standing) {
            return all(Verdict::Stands);
        }
        let mut traces_of = HashMap::new();
        for trace in traces {
            let count: &mut usize = traces_of.entry(&trace.id).or_default();
            *count = count.saturating_add(1);
        }
        let judged = traces.iter().zip(found).map(|(trace, verdict)| match traces_of.get(&trace.id) {
            // It does not own its key: whatever became of it, nothing is granted.
            _ if trace.is_claim() => Verdict::NotDone,
            Some(1) => verdict,
            // What is found there may be another's of this transaction.
            _ => Verdict::Unclear,
        });
        Ok(judged.collect())
    }

    /// The token that was drawn for it.
    const fn token(&self) -> Option<FencingToken> {
        match self.trace {
            Trace::Granted { token, .. } | Trace::Executed { token, .. } => Some(token),
            Trace::Put(_) | Trace::Deleted { .. } => None,
        }
    }

    const fn is_claim(&self) -> bool {
        matches!(self.trace, Trace::Granted { .. })
    }

    fn verdict(&self, session: &Session<'_>) -> Result<Verdict, BackendError> {
        Ok(match &self.trace {
            // Another connection may have drawn the same number meanwhile.
            Trace::Granted { token, writer } | Trace::Executed { token, writer } => {
                let own = (Value::Integer(token.get()), Value::Integer(*writer));
                if session.owner(&self.id)? == Some(own) { Verdict::Stands } else { Verdict::Unclear }
            }
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
