//! Claim, work and completion in one call: [`run`](IdempotencyStore::run).

use crate::backend::Backend;
use crate::claim::{Claim, Ticket};
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::key::{IdempotencyKey, Scope};
use crate::metrics::Event;
use crate::observed::{Operation, Span};
use crate::policy::{Failures, Judged};
use crate::ran::{Ran, RunError};
use crate::reply::Reply;
use crate::store::IdempotencyStore;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

impl<B: Backend> IdempotencyStore<B> {
    /// Runs `work` if the operation is the caller's to run, and ends the claim by what it gives: a reply is
    /// recorded; an `Err`, or a reply that is a failure by the [`Policy`](crate::Policy), is treated as
    /// [`Policy::failures`](crate::Policy::failures) says. Everybody else gets the recorded reply, or hears
    /// that it is running.
    ///
    /// | `work` gives | [`Failures::Abandon`] | [`Failures::Release`] | [`Failures::Record`] |
    /// | --- | --- | --- | --- |
    /// | a reply | recorded | recorded | recorded |
    /// | a reply that [is a failure](crate::Policy::is_failure) | abandoned | released | recorded |
    /// | an `Err` | abandoned | released | abandoned |
    /// | a panic, which goes on | abandoned | abandoned | abandoned |
    ///
    /// `work` may take longer than its lease if it renews it: [`renew`](Claim::renew) between steps,
    /// [`save_checkpoint`](Claim::save_checkpoint), or [`keep_alive`](Claim::keep_alive). On a takeover
    /// ([`Claim::is_takeover`]) an earlier attempt may have had the effect: ask before repeating it.
    ///
    /// `work` may end the claim by itself, through a [`ticket`](Claim::ticket): with
    /// [`complete_in`](Self#method.complete_in), say, and then give the same reply. Of two replies the first
    /// stands, and comes back. While it runs, nothing is locked, and it may use the store, for this key too: that
    /// is in progress.
    ///
    /// ```
    /// use idempotency::{Claim, Failures, IdempotencyStore, Policy, Ran, Reply, StoredResponse};
    /// # use idempotency::{Fingerprint, IdempotencyKey, Scope};
    /// # let (scope, key) = (Scope::new("acct_1")?, IdempotencyKey::new("8e03978e")?);
    /// # let fingerprint = Fingerprint::builder().field("amount", "500").finish();
    /// # fn charge(provider_key: &str) -> std::io::Result<String> { Ok(format!(r#"{{"charged": "{provider_key}"}}"#)) }
    /// let store = IdempotencyStore::in_memory();
    ///
    /// let pay = |claim: &mut Claim| -> std::io::Result<Reply> {
    ///     let charged = charge(&claim.downstream_key("charge"))?;
    ///     Ok(StoredResponse::new(201).with_body(charged).into())
    /// };
    /// let first = store.run(&scope, &key, &fingerprint, pay)?;
    /// let retry = store.run(&scope, &key, &fingerprint, pay)?;
    /// assert!(matches!((&first, &retry), (Ran::Executed(_), Ran::Replayed(_))));
    /// assert_eq!(first.reply(), retry.reply()); // what to send to the client
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`RunError::Store`]: the work was not run, as in [`try_claim`](Self::try_claim).
    /// - [`RunError::Work`]: the work's own error, unchanged. The claim has ended as the table says; if that
    ///   failed, it stands until its lease ends, and [`metrics`](Self::metrics) count the failure.
    /// - [`RunError::NotRecorded`]: the work gave this reply, so its effect may have happened; and the reply was
    ///   not recorded, as in [`Claim::complete`], or it is a failure, and its claim was not ended, as in
    ///   [`Claim::abandon`].
    ///   - With [`Error::ClaimLost`] nothing was written: somebody has taken over, or the record is gone, or the
    ///     work had completed before it failed. [`try_claim`](Self::try_claim) tells what there is now.
    ///   - With one that [is indefinite](Error::is_indefinite) the reply may be on record all the same: then a
    ///     retry gets it.
    ///   - Else the record stands under its lease, and then a takeover runs the operation again. To try
    ///     the same completion before that, have `work` put its [`Claim::ticket`] aside, and
    ///     [`complete`](Self::complete) by it: with less, if the reply was too large.
    pub fn run<E>(
        &self,
        scope: &Scope,
        key: &IdempotencyKey,
        fingerprint: &Fingerprint,
        work: impl FnOnce(&mut Claim) -> Result<Reply, E>,
    ) -> Result<Ran, RunError<E>> {
        let span = Span::enter(Operation::Run, scope, key);
        let ran = match self.try_claim(scope, key, fingerprint).map(Ran::instead) {
            Ok(Ok(ran)) => Ok(ran),
            Ok(Err(claim)) => self.run_claimed(claim, work),
            Err(error) => Err(error.into()),
        };
        span.ended(Ran::name_of(&ran));
        ran
    }

    fn run_claimed<E>(
        &self,
        mut claim: Claim,
        work: impl FnOnce(&mut Claim) -> Result<Reply, E>,
    ) -> Result<Ran, RunError<E>> {
        let own = claim.as_ticket().clone();
        let policy = self.policy();
        let worked = catch_unwind(AssertUnwindSafe(|| work(&mut claim).map(|reply| policy.judge(reply))));
        if *claim.as_ticket() != own {
            claim = self.exchanged(own);
        }
        match worked {
            Ok(worked) => end(claim, policy.failures(), worked),
            Err(panic) => {
                end_after_panic(claim);
                resume_unwind(panic)
            }
        }
    }

    /// The claim that a run was granted, to be ended, where its work has put another in the place of what it was
    /// lent (`mem::swap`). That other one is nobody's to end but its owner's.
    pub(crate) fn exchanged(&self, own: Ticket) -> Claim {
        Claim::to_end(Arc::clone(self.shared()), own, self.policy().max_reply_len())
    }
}

/// Ends `claim` by what its work gave.
pub(crate) fn end<E>(
    claim: Claim,
    failures: Failures,
    worked: Result<Judged, E>,
) -> Result<Ran, RunError<E>> {
    match worked {
        Ok(Judged::Failure(reply)) => match end_failed(claim, failures) {
            Ok(()) => Ok(Ran::Failed(reply)),
            Err(error) => Err(RunError::NotRecorded { reply, error }),
        },
        Ok(Judged::ToRecord(reply)) => match claim.complete(reply) {
            Ok(completed) => Ok(Ran::Executed(completed)),
            Err(failed) => {
                let (error, _claim, reply) = failed.into_parts();
                Err(RunError::NotRecorded { reply, error })
            }
        },
        Err(error) => {
            // The work's own error is what the caller must hear. That the claim could not be ended costs no
            // more than the rest of its lease, and is counted.
            let _is_ended = end_failed(claim, failures);
            Err(RunError::Work(error))
        }
    }
}

/// Ends `claim` whose work has panicked, and may have had its effect before.
pub(crate) fn end_after_panic(claim: Claim) {
    // The work's panic is the one to hear of, should a backend panic here as well.
    let _is_ended = catch_unwind(AssertUnwindSafe(|| end_failed(claim, Failures::Abandon)));
}

fn end_failed(claim: Claim, failures: Failures) -> Result<(), Error> {
    claim.count(Event::WorkFailed);
    match failures {
        Failures::Release => claim.release(),
        Failures::Abandon | Failures::Record => claim.abandon(),
    }
}
