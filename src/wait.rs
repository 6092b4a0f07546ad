//! Waiting for an operation that somebody else is running: [`claim_or_wait`](IdempotencyStore::claim_or_wait).

use crate::answer::ClaimOutcome;
use crate::backend::Backend;
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::jitter::Jitter;
use crate::key::{IdempotencyKey, RecordId, Scope};
use crate::metrics::Event;
use crate::record::FencingToken;
use crate::store::IdempotencyStore;
use crate::time::Stopwatch;
use crate::transition::{self, Command};
use std::thread;
use std::time::Duration;

/// How long the first pause between two looks is at the most. Each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
/// The longest pause: so much later than the reply is there, a waiter may hear of it.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

impl<B: Backend> IdempotencyStore<B> {
    /// As [`try_claim`](Self::try_claim), but waits while somebody else is running the operation, for at most
    /// `max_wait` of the machine's own time: until the reply is there, the claim can be had (it was released,
    /// abandoned, or its lease is over), or the time is up. Zero asks once.
    ///
    /// In the [`metrics`](Self::metrics) it counts as in progress once, when the waiting begins, and then by the
    /// answer that ends it.
    ///
    /// It looks at the record again and again, in jittered pauses of at most 4 ms at first and 250 ms in the
    /// end, and claims only what can be claimed: a claim that stands is never taken over, and a waiter that
    /// gives up leaves nothing behind. It blocks the thread meanwhile. Waiters do not queue: of those that
    /// wait for one key, any may be granted it.
    ///
    /// ```
    /// # use idempotency::*;
    /// # use std::time::Duration;
    /// # let store = IdempotencyStore::in_memory();
    /// # let (scope, key) = (Scope::new("acct_1")?, IdempotencyKey::new("8e03978e")?);
    /// # let fingerprint = Fingerprint::builder().field("amount", "500").finish();
    /// # let ClaimOutcome::Claimed(claim) = store.try_claim(&scope, &key, &fingerprint)? else { return Ok(()) };
    /// # let other = std::thread::spawn(move || claim.complete(Reply::Marker).is_ok());
    /// match store.claim_or_wait(&scope, &key, &fingerprint, Duration::from_secs(10))? {
    ///     ClaimOutcome::Completed(done) => drop(done.reply), // send it
    ///     ClaimOutcome::InProgress(running) => drop(running.retry_after), // still: 409
    ///     ClaimOutcome::Claimed(claim) => claim.abandon()?, // the other one gave up: run it
    ///     ClaimOutcome::FingerprintMismatch(_) => {} // 422
    /// }
    /// # assert!(other.join().is_ok_and(|done| done));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`try_claim`](Self::try_claim); the first error ends the waiting.
    pub fn claim_or_wait(
        &self,
        scope: &Scope,
        key: &IdempotencyKey,
        fingerprint: &Fingerprint,
        max_wait: Duration,
    ) -> Result<ClaimOutcome, Error> {
        let mut wait = Wait::new(max_wait);
        let mut outcome = self.try_claim(scope, key, fingerprint)?;
        while let Some(pause) = wait.pause(&outcome) {
            thread::sleep(pause);
            outcome = self.look_then_claim(scope, key, fingerprint)?;
        }
        Ok(outcome)
    }

    /// As `try_claim`, by a look at the record where that is enough: it need not wait for those who write.
    pub(crate) fn look_then_claim(
        &self,
        scope: &Scope,
        key: &IdempotencyKey,
        fingerprint: &Fingerprint,
    ) -> Result<ClaimOutcome, Error> {
        let (id, command) = self.claim_command(scope, key, fingerprint);
        match self.answer_without_claiming(&id, &command)? {
            Some(outcome) => Ok(outcome),
            None => self.try_claim(scope, key, fingerprint),
        }
    }

    /// What a claim is answered as long as it can't be granted.
    fn answer_without_claiming(&self, id: &RecordId, claim: &Command) -> Result<Option<ClaimOutcome>, Error> {
        let Some((record, now)) = self.shared().read(id)? else { return Ok(None) };
        if transition::grants(Some(&record), claim, now) {
            return Ok(None);
        }
        let outcome = transition::apply(Some(&record), claim, now, FencingToken::FIRST).outcome;
        // That it is still running was counted when the waiting began.
        Event::of(claim, &outcome)
            .into_iter()
            .filter(|event| *event != Event::FoundInProgress)
            .for_each(|event| self.shared().count(id, event));
        Ok(self.claim_outcome(outcome, |_granted| ())?.unclaimed().ok())
    }
}

/// How long to wait before each look.
pub(crate) struct Wait {
    max: Duration,
    waiting: Stopwatch,
    bound: Duration,
    jitter: Jitter,
}

impl Wait {
    pub(crate) fn new(max: Duration) -> Self {
        Self { max, waiting: Stopwatch::start(), bound: FIRST_PAUSE, jitter: Jitter::new() }
    }

    /// How long to pause before the next look; none if `outcome` is not worth waiting after, or the time is
    /// up.
    pub(crate) fn pause<C>(&mut self, outcome: &ClaimOutcome<C>) -> Option<Duration> {
        let ClaimOutcome::InProgress(running) = outcome else { return None };
        let left = self.max.checked_sub(self.waiting.elapsed()).filter(|left| !left.is_zero())?;
        // Between half of the bound and all of it, so that those who began together do not look together.
        let half_micros = u64::try_from(self.bound.as_micros()).unwrap_or(u64::MAX) >> 1;
        let pause = Duration::from_micros(half_micros.saturating_add(self.jitter.below(half_micros)));
        self.bound = self.bound.saturating_mul(2).min(LONGEST_PAUSE);
        // No later than the lease's end, since the claim can be had then.
        Some(pause.min(running.retry_after).min(left))
    }
}
