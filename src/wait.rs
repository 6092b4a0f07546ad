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
use crate::sync::sleep;
use crate::time::Stopwatch;
use crate::transition::{self, Command};
use std::time::Duration;

/// How long the first pause between two looks is at the most. Each further one may be twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
/// How long a pause is at the most: so much later than the reply is there, a waiter may hear of it.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

impl<B: Backend> IdempotencyStore<B> {
    /// As [`try_claim`](Self::try_claim), but waits while somebody else is running the operation: until the
    /// reply is there, or the claim can be had (it was released, abandoned, or its lease is over), or `max_wait`
    /// is up, which answers in progress. Zero asks once.
    ///
    /// It looks at the record in jittered pauses, of at most 4 ms at first and 125 to 250 ms in the end, and once
    /// more when the time is up; it claims only what can be claimed. So a claim that stands is never taken over,
    /// and a waiter that gives up leaves nothing behind. Waiters do not queue: of those that wait for one key,
    /// any may be granted it.
    ///
    /// It blocks the thread, by the machine's own time, whatever the store's clock shows. What the store itself
    /// takes for an answer comes on top: a busy file, say. Who holds the claim must not wait for it.
    ///
    /// In the [`metrics`](Self::metrics) it counts as in progress when the waiting begins, and whenever somebody
    /// else is quicker to claim what could be had; else only the answer that ends it counts.
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
            sleep(pause);
            outcome = self.look_then_claim(scope, key, fingerprint)?;
        }
        Ok(outcome)
    }

    /// As `try_claim`, by a look at the record where that is enough: a look writes nothing.
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

/// How long to pause before each look. Neither a lease nor a clock of the store's makes it look more often.
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

    /// How long to pause before the next look; none if `outcome` ends the waiting, or the time is up.
    pub(crate) fn pause<C>(&mut self, outcome: &ClaimOutcome<C>) -> Option<Duration> {
        let ClaimOutcome::InProgress(_) = outcome else { return None };
        let left = self.max.checked_sub(self.waiting.elapsed()).filter(|left| !left.is_zero())?;
        // Between half of the bound and all of it, so that those who began together do not look together.
        let half_micros = u64::try_from(self.bound.as_micros()).unwrap_or(u64::MAX) >> 1;
        let pause = Duration::from_micros(half_micros.saturating_add(self.jitter.below(half_micros)));
        self.bound = self.bound.saturating_mul(2).min(LONGEST_PAUSE);
        Some(pause.min(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::InProgress;
    use crate::time::Timestamp;

    const BOUNDS: [u64; 9] = [4, 8, 16, 32, 64, 128, 250, 250, 250];

    /// Somebody else's claim, with a hint and a lease that end before any pause would.
    fn running() -> ClaimOutcome<()> {
        let now = Timestamp::from_millis(0);
        ClaimOutcome::InProgress(InProgress::new(Timestamp::from_millis(1), 1, now, Duration::ZERO))
    }

    #[test]
    fn pauses_grow_from_4_to_250_milliseconds_and_are_never_less_than_half_of_that() {
        for _ in 0..100 {
            let mut wait = Wait::new(Duration::MAX);
            for bound in BOUNDS.map(Duration::from_millis) {
                let pause = wait.pause(&running());
                assert!(
                    pause.is_some_and(|pause| bound / 2 <= pause && pause <= bound),
                    "{pause:?}, {bound:?}"
                );
            }
        }
    }

    #[test]
    fn those_who_begin_together_do_not_look_together() {
        let pauses = |mut wait: Wait| BOUNDS.map(|_| wait.pause(&running()));
        let (one, other) = (Wait::new(Duration::MAX), Wait::new(Duration::MAX));
        assert_ne!(pauses(one), pauses(other));
    }

    #[test]
    fn no_pause_is_longer_than_the_time_that_is_left() {
        assert_eq!(Wait::new(Duration::ZERO).pause(&running()), None);
        let max = Duration::from_millis(1);
        let pause = Wait::new(max).pause(&running());
        assert!(pause.is_none_or(|pause| pause <= max), "{pause:?}");
    }

    #[test]
    fn there_is_no_waiting_after_an_answer_that_is_not_in_progress() {
        assert_eq!(Wait::new(Duration::MAX).pause(&ClaimOutcome::Claimed(())), None);
    }
}
