//! Answers on their way to the task that asked: [`Undelivered`].

use super::pool::Pool;
use crate::answer::ClaimOutcome;
use crate::claim::Claim;
use crate::error::Error;
use std::mem;
use std::thread::{self, ThreadId};

/// Answers to claims, on their way from the pool to the task that asked. If they do not arrive, because the
/// task was dropped, the claims among them are given back: their work has certainly not begun.
pub(super) struct Undelivered {
    answers: Vec<Result<ClaimOutcome, Error>>,
    pool: Pool,
    /// The pool's thread that got them.
    thread: ThreadId,
}

impl Undelivered {
    pub(super) fn new(answers: Vec<Result<ClaimOutcome, Error>>, pool: Pool) -> Self {
        Self { answers, pool, thread: thread::current().id() }
    }

    /// The answers; the claims among them are the task's from now on.
    pub(super) fn deliver(mut self) -> Vec<Result<ClaimOutcome, Error>> {
        mem::take(&mut self.answers)
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        let answers = mem::take(&mut self.answers).into_iter();
        let claims: Vec<Claim> =
            answers.filter_map(|answer| answer.ok()?.unclaimed::<Claim>().err()).collect();
        if claims.is_empty() {
            return;
        }
        // That one can't be given back costs no more than the rest of its lease, and is counted.
        let give_back = || claims.into_iter().for_each(|claim| drop(claim.release()));
        // The pool's thread may block, and gets it done even if the runtime is shutting down. A task must
        // not.
        if thread::current().id() == self.thread { give_back() } else { self.pool.leave(give_back) }
    }
}
