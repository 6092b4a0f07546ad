//! One claim that is kept alive, without the claim: [`Kept`].

use crate::error::Error;
use crate::key::RecordId;
use crate::metrics::Event;
use crate::observed::Observed;
use crate::outcome::{LostReason, Outcome};
use crate::record::FencingToken;
use crate::sync::timed::Mutex;
use crate::time::{Stopwatch, Timestamp};
use crate::transition::Command;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

/// What it takes to renew a claim, and what its owner is to know of that.
#[derive(Debug)]
pub(super) struct Kept {
    id: RecordId,
    token: FencingToken,
    lease: Duration,
    lease_until: AtomicI64,
    is_lost: AtomicBool,
    error: Mutex<Option<Error>>,
    /// Since it was renewed last; none if it was not yet.
    renewed: Mutex<Option<Stopwatch>>,
}

/// What became of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    Done,
    Failed,
    /// The claim is lost, or has completed: there is nothing to renew any more.
    Over,
}

impl Kept {
    pub(super) const fn new(id: RecordId, token: FencingToken, lease: Duration) -> Self {
        Self {
            id,
            token,
            lease,
            lease_until: AtomicI64::new(i64::MIN),
            is_lost: AtomicBool::new(false),
            error: Mutex::new(None),
            renewed: Mutex::new(None),
        }
    }

    pub(super) const fn lease(&self) -> Duration {
        self.lease
    }

    pub(super) const fn id(&self) -> &RecordId {
        &self.id
    }

    pub(super) fn renewal(&self) -> (RecordId, Command) {
        (self.id.clone(), Command::Renew { token: self.token })
    }

    /// Takes note of what a renewal was answered.
    pub(super) fn hear(&self, answer: Result<Outcome, Error>, observed: &Observed) -> Renewal {
        match answer {
            Ok(Outcome::Renewed { lease_until }) => {
                self.note_renewed(lease_until);
                Renewal::Done
            }
            Ok(Outcome::Lost(reason)) => {
                // Somebody has completed it by its ticket: nothing is lost.
                let is_lost = reason != LostReason::CompletedByThisClaim;
                self.is_lost.fetch_or(is_lost, Ordering::SeqCst);
                Renewal::Over
            }
            Ok(_) => self.has_failed(Error::wrong_answer(), observed),
            Err(error) => self.has_failed(error, observed),
        }
    }

    /// Notes that the lease was extended, by the renewer or the owner.
    pub(super) fn note_renewed(&self, lease_until: Timestamp) {
        // Renewals may overtake each other on their way here, and none shortens a lease.
        self.lease_until.fetch_max(lease_until.as_millis(), Ordering::SeqCst);
        *self.renewed.lock() = Some(Stopwatch::start());
        self.set_error(None);
    }

    pub(super) fn renewed(&self) -> Option<Stopwatch> {
        *self.renewed.lock()
    }

    fn has_failed(&self, error: Error, observed: &Observed) -> Renewal {
        observed.count(self.id(), Event::RenewalFailed);
        self.set_error(Some(error));
        Renewal::Failed
    }

    /// Takes note that what a renewal was answered could not be told, for `panic`.
    pub(super) fn note_unheard(&self, panic: &Error) -> Renewal {
        self.set_error(Some(panic.clone()));
        Renewal::Failed
    }

    fn set_error(&self, error: Option<Error>) {
        // What it was is dropped after the lock: its source may be a type of the application's.
        let _before = mem::replace(&mut *self.error.lock(), error);
    }

    /// The latest end of the lease that was heard of here; far in the past if none was.
    pub(super) fn lease_until(&self) -> Timestamp {
        Timestamp::from_millis(self.lease_until.load(Ordering::SeqCst))
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::SeqCst)
    }

    pub(super) fn error(&self) -> Option<Error> {
        self.error.lock().clone()
    }
}
