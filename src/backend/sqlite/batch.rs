//! The commands of many callers in one transaction, each with an answer of its own.

use crate::backend::sqlite::evidence::Verdict;
use crate::backend::sqlite::failure;
use crate::backend::sqlite::session::Done;
use crate::backend::sqlite::writer::{Ended, Ending, Writer};
use crate::commit_queue::Executor;
use crate::error::BackendError;
use crate::key::RecordId;
use crate::outcome::Outcome;
use crate::planted;
use crate::transition::Command;
use rusqlite::ErrorCode;

type Asked = (RecordId, Command);
type Answer = Result<Outcome, BackendError>;

/// How much care is taken that a command which fails leaves nothing of it in the transaction.
#[derive(Clone, Copy, PartialEq)]
enum Care {
    /// It seldom does: that is noticed, and the transaction given up.
    Watch,
    /// A savepoint around each command.
    Marks,
}

/// What a command came to, if the transaction is kept.
struct Provisional {
    answer: Answer,
    /// Which of the transaction's traces is its own; none if it has written nothing.
    trace: Option<usize>,
}

impl Executor for Writer {
    type Command = Asked;
    type Answer = Answer;

    /// 1, and 1 for each page that its bytes may take.
    fn weight((_, command): &Asked) -> usize {
        const PAGE: usize = 4_096;
        let bytes = match command {
            Command::Complete { reply, .. } => reply.content_len(),
            Command::Checkpoint { bytes, .. } => bytes.len(),
            _ => 0,
        };
        bytes.div_ceil(PAGE).saturating_add(1)
    }

    fn execute(&mut self, batch: &[Asked]) -> Vec<Answer> {
        let ended = match self.execute_together(batch, Care::Watch) {
            // One has failed half-way. None of the others may fail for its sake.
            Ok(Ended::Well(None)) => self.execute_together(batch, Care::Marks),
            ended => ended,
        };
        match ended {
            Ok(Ended::Well(Some(answers))) => answers.into_iter().map(|command| command.answer).collect(),
            Ok(Ended::Settled { value: Some(answers), verdicts, failed }) => answers
                .into_iter()
                .map(|command| {
                    let verdict = match command.trace {
                        Some(1..) if planted::is("followers-before-the-commit") => Verdict::Stands,
                        Some(trace) => verdicts.get(trace).copied().unwrap_or(Verdict::Unclear),
                        // It has seen what others of the batch had written, and that may be gone.
                        None if verdicts.iter().all(|verdict| *verdict == Verdict::Stands) => Verdict::Stands,
                        None => Verdict::NotDone,
                    };
                    command.answer.and_then(|outcome| failed.answer(outcome, verdict))
                })
                .collect(),
            Ok(_) => vec![Err(BackendError::bug("a batch has failed half-way, twice")); batch.len()],
            Err(error) => vec![Err(error); batch.len()],
        }
    }

    fn unanswered() -> Answer {
        Err(BackendError::indefinite())
    }

    fn is_forked(&self) -> bool {
        self.is_in_a_fork()
    }
}

impl Writer {
    /// All of `batch` in one transaction. None if a command has failed half-way, with what it had written still in
    /// there; then nothing is kept.
    fn execute_together(
        &mut self,
        batch: &[Asked],
        care: Care,
    ) -> Result<Ended<Option<Vec<Provisional>>>, BackendError> {
        self.transact(|session, transaction| {
            let mut answers = Vec::with_capacity(batch.len());
            let mut written = Vec::new();
            for (id, command) in batch {
                let changes_before = transaction.total_changes();
                let done = session.now().and_then(|now| match care {
                    Care::Watch => session.execute(id, command, now),
                    Care::Marks => session.execute_marked(id, command, now),
                });
                answers.push(match done {
                    Ok(Done { outcome, written: None }) => Provisional { answer: Ok(outcome), trace: None },
                    Ok(Done { outcome, written: Some(evidence) }) => {
                        let trace = Some(written.len());
                        written.push(evidence);
                        Provisional { answer: Ok(outcome), trace }
                    }
                    // It can't be undone alone, and all of it will be.
                    Err(error) if error.is_indefinite() => {
                        return Err(BackendError::unavailable().with_source(error));
                    }
                    Err(error) if transaction.is_autocommit() || !is_of_one_record(&error) => {
                        return Err(error);
                    }
                    Err(_) if care == Care::Watch && transaction.total_changes() != changes_before => {
                        return Ok(Ending::RollBack(None));
                    }
                    Err(error) => Provisional { answer: Err(error), trace: None },
                });
            }
            Ok(if written.is_empty() {
                Ending::RollBack(Some(answers))
            } else {
                Ending::Commit(Some(answers), written)
            })
        })
    }
}

/// Whether the command would fail alone as it has failed in company: its record is damaged, say, or no token is
/// left for it. Else something is wrong with the file, and every command fails with it.
fn is_of_one_record(error: &BackendError) -> bool {
    use std::error::Error as _;
    let source = error.source().and_then(|source| source.downcast_ref::<rusqlite::Error>());
    !error.is_transient()
        && source.is_none_or(|source| {
            matches!(source.sqlite_error_code(), Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig))
                || !failure::is_of_the_file(source)
        })
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test that panics has failed")]
mod tests {
    use super::*;
    use crate::key::{IdempotencyKey, Scope};
    use crate::record::FencingToken;
    use crate::reply::{Reply, StoredResponse};
    use crate::time::Period;

    #[test]
    fn a_command_weighs_by_the_bytes_that_it_brings() {
        let id = RecordId::new(Scope::new("s").expect("valid"), IdempotencyKey::new("k").expect("valid"));
        let complete = |reply: Reply| {
            let command = Command::Complete {
                token: FencingToken::FIRST,
                reply,
                retention: Period::from_millis(1).expect("valid"),
            };
            Writer::weight(&(id.clone(), command))
        };
        let body = |len: usize| StoredResponse::new(200).with_body(vec![b'x'; len]).into();
        assert_eq!(Writer::weight(&(id.clone(), Command::Forget)), 1);
        assert_eq!(complete(Reply::Marker), 1);
        assert_eq!(complete(body(1)), 2);
        assert_eq!(complete(body(4_096)), 2);
        assert_eq!(complete(body(1024 * 1024)), 257);
        let headers = StoredResponse::new(200).with_header("x", vec![b'x'; 4_096]);
        assert_eq!(complete(headers.into()), 3, "headers count, and something for each");
        let checkpoint = Command::Checkpoint { token: FencingToken::FIRST, bytes: vec![0; 4_097].into() };
        assert_eq!(Writer::weight(&(id.clone(), checkpoint)), 3);
    }
}
