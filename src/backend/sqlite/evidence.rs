//! What a command has written, looked for after a commit whose end is unknown: [`Evidence`].

use crate::backend::sqlite::row::CheckpointColumns;
use crate::backend::sqlite::session::Session;
use crate::error::BackendError;
use crate::key::RecordId;
use crate::planted;
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
    pub(super) fn judge(traces: &[Self], session: &Session<'_>, last_token: i64) -> Vec<Verdict> {
        let all = |verdict| vec![verdict; traces.len()];
        // The counter moves with a claim, and never back.
        if traces.iter().any(|trace| trace.token().is_some_and(|token| token.get() > last_token)) {
            return all(Verdict::NotDone);
        }
        // None where it can't be read: that decides of nothing else.
        let found: Vec<_> = traces.iter().map(|trace| trace.verdict(session).ok()).collect();
        let is_claim_standing = |(trace, verdict): (&Self, &Option<Verdict>)| {
            trace.token().is_some() && *verdict == Some(Verdict::Stands)
        };
        if traces.iter().zip(&found).any(is_claim_standing) {
            return all(Verdict::Stands);
        }
        let mut traces_of = HashMap::new();
        for trace in traces {
            let count: &mut usize = traces_of.entry(&trace.id).or_default();
            *count = count.saturating_add(1);
        }
        let judged =
            traces.iter().zip(found).map(|(trace, verdict)| match (verdict, traces_of.get(&trace.id)) {
                (None, _) => Verdict::Unclear,
                // It does not own its key: whatever became of it, nothing is granted.
                (Some(_), _) if trace.is_claim() => Verdict::NotDone,
                (Some(verdict), Some(1)) => verdict,
                // What is found there may be another's of this transaction.
                _ => Verdict::Unclear,
            });
        judged.collect()
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
                let is_own = |(found, by)| {
                    found == Value::Integer(token.get())
                        && (by == Value::Integer(*writer) || planted::is("writer-ignored"))
                };
                if session.owner(&self.id)?.is_some_and(is_own) { Verdict::Stands } else { Verdict::Unclear }
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

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test that panics has failed")]
mod tests {
    use super::*;
    use crate::backend::sqlite::schema;
    use crate::backend::sqlite::sql::{Prefix, Statements};
    use crate::fingerprint::Fingerprint;
    use crate::key::{IdempotencyKey, Scope};
    use crate::outcome::Outcome;
    use crate::time::{Period, SystemClock};
    use crate::transition::Command;
    use rusqlite::Connection;

    const WRITER: i64 = 7;

    fn id(key: &str) -> RecordId {
        RecordId::new(Scope::new("s").expect("valid"), IdempotencyKey::new(key).expect("valid"))
    }

    /// What is judged of the traces that `left` gives, told the token of a claim of "here" that stands, where the
    /// counter stands at that token.
    fn judged(left: impl Fn(FencingToken) -> Vec<Evidence>) -> Vec<Verdict> {
        let connection = Connection::open_in_memory().expect("a database");
        let statements = Statements::new(&Prefix::new("t_").expect("a prefix"));
        schema::prepare(&connection, &statements).expect("a fresh store");
        let session = Session::new(&connection, &statements, &SystemClock, WRITER);
        let period = Period::from_millis(60_000).expect("valid");
        let fingerprint = Fingerprint::from_bytes([1; 32]);
        let claim = Command::Claim { fingerprint, lease: period, retention: period };
        let now = session.now().expect("a time");
        let granted = session.execute(&id("here"), &claim, now).expect("a store").outcome;
        session.finish().expect("a counter");
        let token = match granted {
            Outcome::Claimed(grant) => grant.token,
            _ => FencingToken::FIRST,
        };
        Evidence::judge(&left(token), &session, token.get())
    }

    fn beyond(token: FencingToken) -> FencingToken {
        FencingToken::new(token.get().saturating_add(1)).expect("a token")
    }

    #[test]
    fn a_token_that_the_counter_has_not_reached_undoes_all() {
        let verdicts = judged(|token| {
            vec![
                Evidence::granted(&id("here"), token, WRITER),
                Evidence::granted(&id("b"), beyond(token), WRITER),
            ]
        });
        assert_eq!(verdicts, [Verdict::NotDone, Verdict::NotDone]);
    }

    #[test]
    fn a_claim_that_stands_proves_all_that_came_with_it() {
        let verdicts = judged(|token| {
            let other = Evidence::deleted(&id("here"), Value::Integer(token.get()));
            vec![
                other,
                Evidence::granted(&id("here"), token, WRITER),
                Evidence::executed(&id("b"), token, WRITER),
            ]
        });
        assert_eq!(verdicts, [Verdict::Stands; 3]);
    }

    #[test]
    fn a_claim_that_does_not_stand_is_not_done_and_rows_that_came_with_one_may_be() {
        assert_eq!(judged(|token| vec![Evidence::granted(&id("b"), token, WRITER)]), [Verdict::NotDone]);
        assert_eq!(judged(|token| vec![Evidence::executed(&id("b"), token, WRITER)]), [Verdict::Unclear]);
        let by_another = judged(|token| vec![Evidence::granted(&id("here"), token, WRITER + 1)]);
        assert_eq!(by_another, [Verdict::NotDone]);
    }

    #[test]
    fn others_are_judged_by_their_own_records_unless_two_have_written_to_one() {
        let gone = |token: FencingToken| Evidence::deleted(&id("b"), Value::Integer(token.get()));
        let stays = |token: FencingToken| Evidence::deleted(&id("here"), Value::Integer(token.get()));
        assert_eq!(judged(|token| vec![gone(token), stays(token)]), [Verdict::Stands, Verdict::NotDone]);
        assert_eq!(
            judged(|token| vec![gone(token), stays(token), gone(token)]),
            [Verdict::Unclear, Verdict::NotDone, Verdict::Unclear]
        );
        assert_eq!(judged(|_| Vec::new()), []);
    }
}
