//! Answers that are on their way to the task that asked: [`Undelivered`].

use super::pool::Pool;
use crate::answer::ClaimOutcome;
use crate::claim::Claim;
use crate::error::Error;
use std::mem;

/// Answers to claims, from the pool to the task that asked. If they do not get there, because the task was
/// dropped, the claims among them are given back: their work has certainly not begun.
pub(super) struct Undelivered {
    answers: Vec<Result<ClaimOutcome, Error>>,
    pool: Pool,
}

impl Undelivered {
    pub(super) const fn new(answers: Vec<Result<ClaimOutcome, Error>>, pool: Pool) -> Self {
        Self { answers, pool }
    }

    /// The answers; from now on the claims are the caller's.
    pub(super) fn deliver(mut self) -> Vec<Result<ClaimOutcome, Error>> {
        mem::take(&mut self.answers)
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        let claims: Vec<Claim> =
            self.answers.drain(..).filter_map(|answer| answer.ok()?.unclaimed::<Claim>().err()).collect();
        if !claims.is_empty() {
            // Whoever drops this may be a task, which must not block.
            self.pool.leave(move || claims.into_iter().for_each(give_back));
        }
    }
}

fn give_back(claim: Claim) {
    // That it could not be released costs no more than the rest of its lease, and is counted.
    let _is_released = claim.release();
}
