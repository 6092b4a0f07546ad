//! The claim inside of an [`AsyncClaim`](super::AsyncClaim): [`Held`].

use crate::claim::Claim;
use crate::error::{BackendError, Error};
use crate::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A claim where the pool's threads find it, one call at a time. A call whose future was dropped may be at
/// work on it, or not have begun yet, when its owner makes the next one.
#[derive(Debug)]
pub(super) struct Held {
    state: Mutex<State>,
    is_seen_to: AtomicBool,
}

#[derive(Debug)]
struct State {
    /// None while a call is ending it, and once it has ended.
    claim: Option<Claim>,
    newest_call: u64,
}

impl Held {
    pub(super) fn new(claim: Claim) -> Self {
        let state = State { claim: Some(claim), newest_call: 0 };
        Self { state: Mutex::new(state), is_seen_to: AtomicBool::new(false) }
    }

    /// Whoever has the claim's ticket will end it. Does not wait for a call that is at work.
    pub(super) fn see_to(&self) {
        self.is_seen_to.store(true, Ordering::Relaxed);
    }

    /// Lets the owner's call of this `number` use the claim.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if a later call has come first. Then nobody waits for this one, and it must not
    /// be made any more: an old checkpoint would replace a newer one.
    pub(super) fn with<T>(&self, number: u64, call: impl FnOnce(&mut Claim) -> T) -> Result<T, Error> {
        self.turn(number, |claim| claim.as_mut().map(call))
    }

    /// What `look` sees of the claim; none while a call is at work on it. Does not wait.
    pub(super) fn peek<T>(&self, look: impl FnOnce(&Claim) -> T) -> Option<T> {
        self.state.try_lock()?.claim.as_ref().map(look)
    }

    /// Takes the claim out, for the owner's call of this `number`, which ends it.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub(super) fn take(&self, number: u64) -> Result<Claim, Error> {
        let claim = self.turn(number, Option::take)?;
        self.mark(&claim);
        Ok(claim)
    }

    fn turn<T>(&self, number: u64, call: impl FnOnce(&mut Option<Claim>) -> Option<T>) -> Result<T, Error> {
        let mut state = self.state.lock();
        let is_newest = number > state.newest_call;
        state.newest_call = state.newest_call.max(number);
        let given = if is_newest { call(&mut state.claim) } else { None };
        given.ok_or_else(|| BackendError::unavailable().into())
    }

    /// Puts back a claim that could not be ended.
    pub(super) fn put_back(&self, claim: Claim) {
        self.state.lock().claim = Some(claim);
    }

    /// The claim's own mark stands behind the lock, so it is made once that is certainly free.
    fn mark(&self, claim: &Claim) {
        if self.is_seen_to.load(Ordering::Relaxed) {
            claim.see_to();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(claim) = &self.state.lock().claim {
            self.mark(claim);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::ClaimOutcome;
    use crate::fingerprint::Fingerprint;
    use crate::key::{IdempotencyKey, Scope};
    use crate::store::{IdempotencyStore, MemoryStore};

    fn held() -> Result<(MemoryStore, Held), Error> {
        let store = IdempotencyStore::in_memory();
        let (scope, key) = (Scope::new("tenant")?, IdempotencyKey::new("k")?);
        match store.try_claim(&scope, &key, &Fingerprint::builder().finish())? {
            ClaimOutcome::Claimed(claim) => Ok((store, Held::new(claim))),
            _ => Err(Error::wrong_answer()),
        }
    }

    #[test]
    fn a_call_that_comes_after_a_later_one_is_not_made() -> Result<(), Error> {
        let (store, held) = held()?;
        held.with(2, |claim| claim.save_checkpoint("new"))??;
        let late = held.with(1, |claim| claim.save_checkpoint("old"));
        assert!(matches!(late, Err(Error::Unavailable(_))), "{late:?}");
        assert!(matches!(held.take(1), Err(Error::Unavailable(_))));
        let claim = held.take(3)?;
        assert_eq!(claim.checkpoint().map(|saved| &saved[..]), Some(&b"new"[..]));
        assert_eq!(store.metrics().checkpoints, 1);
        Ok(())
    }

    #[test]
    fn a_claim_that_was_put_back_can_be_taken_by_a_later_call_only() -> Result<(), Error> {
        let (_store, held) = held()?;
        let claim = held.take(2)?;
        assert!(held.with(3, |_| ()).is_err(), "used while it was being ended");
        assert_eq!(held.peek(Claim::attempt), None);
        held.put_back(claim);
        assert!(held.take(1).is_err() && held.take(2).is_err());
        assert!(held.take(4).is_ok());
        Ok(())
    }

    #[test]
    fn a_claim_is_counted_as_dropped_unless_somebody_has_seen_to_it() -> Result<(), Error> {
        for (is_seen_to, is_taken, counted) in
            [(false, false, 1), (true, false, 0), (false, true, 1), (true, true, 0)]
        {
            let (store, held) = held()?;
            if is_seen_to {
                held.see_to();
            }
            drop(is_taken.then(|| held.take(1)));
            drop(held);
            assert_eq!(store.metrics().dropped_unfinished, counted, "{is_seen_to}, {is_taken}");
        }
        Ok(())
    }
}
