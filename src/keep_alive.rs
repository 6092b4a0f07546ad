//! Renewing claims in the background: [`Renewer`], [`KeptAlive`].
//!
//! One thread a store, started for the first claim that is kept alive. It knows the backend, and of a claim
//! the record and the token; so it keeps no store and no claim from going away.

mod kept;
mod plans;

use self::kept::{Kept, Renewal};
use self::plans::{Plans, WHOLE};
use crate::backend::Backend;
use crate::background::{Background, Signal, caught};
use crate::error::Error;
use crate::jitter::Jitter;
use crate::key::RecordId;
use crate::observed::{Observed, Operation};
use crate::record::FencingToken;
use crate::sync::timed::{Condvar, Mutex};
use crate::time::{Stopwatch, Timestamp};
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;
use std::{process, slice};

/// Renews the claims of one store that are kept alive.
#[derive(Debug)]
pub(crate) struct Renewer {
    /// None until there is something to renew.
    thread: Mutex<Option<Background>>,
    schedule: Arc<Schedule>,
    observed: Arc<Observed>,
}

impl Renewer {
    pub(crate) fn new(observed: Arc<Observed>) -> Self {
        Self { thread: Mutex::new(None), schedule: Arc::new(Schedule::new()), observed }
    }

    /// A claim that can be kept alive.
    pub(crate) fn register(&self, id: RecordId, token: FencingToken, lease: Duration) -> KeptAlive {
        KeptAlive { schedule: Arc::clone(&self.schedule), kept: Arc::new(Kept::new(id, token, lease)) }
    }

    /// Has `claim` renewed for `max_age` from now on, the first time a third of its lease after it was
    /// `extended` last; at once if nobody knows when that was.
    ///
    /// # Errors
    /// Nothing is renewed:
    /// - [`Error::Forked`]: this process is a fork of the one that opened the store.
    /// - [`Error::Unavailable`]: the system gives no thread now.
    pub(crate) fn keep(
        &self,
        claim: &KeptAlive,
        extended: Option<Stopwatch>,
        max_age: Duration,
    ) -> Result<(), Error> {
        if self.schedule.is_forked() {
            return Err(Error::Forked);
        }
        if self.schedule.keep(&claim.kept, extended, max_age) {
            self.call_the_thread().inspect_err(|_| claim.stop())?;
        }
        Ok(())
    }

    fn call_the_thread(&self) -> Result<(), Error> {
        let mut thread = self.thread.lock();
        match &*thread {
            Some(thread) if thread.is_running() => thread.wake(),
            _ => {
                let (schedule, observed) = (Arc::clone(&self.schedule), Arc::clone(&self.observed));
                let work = move |signal: &Signal| schedule.renew_until_stopped(&observed, signal);
                *thread = Some(Background::start("idempotency renewer", work)?);
            }
        }
        Ok(())
    }
}

/// What a claim's owner holds while the claim is kept alive. Dropping it ends the renewing, and waits for
/// nothing.
#[derive(Debug)]
pub(crate) struct KeptAlive {
    schedule: Arc<Schedule>,
    kept: Arc<Kept>,
}

impl KeptAlive {
    /// Ends the renewing. A renewal may still be on its way.
    pub(crate) fn stop(&self) {
        if !self.schedule.is_forked() {
            self.schedule.plans.lock().end(&self.kept);
        }
    }

    /// Ends the renewing, and waits for a renewal that is on its way. None comes after this.
    pub(crate) fn end(&self, backend: &dyn Backend) {
        self.schedule.end(&self.kept, backend);
    }

    /// Notes that the owner has extended the lease.
    pub(crate) fn note_extended(&self, lease_until: Timestamp) {
        if !self.schedule.is_forked() {
            self.kept.note_renewed(lease_until);
        }
    }

    /// Until when the claim stands by the latest renewal.
    pub(crate) fn lease_until(&self) -> Timestamp {
        self.kept.lease_until()
    }

    /// Whether another renewal is planned, or one is on its way.
    pub(crate) fn is_planned(&self) -> bool {
        !self.schedule.is_forked() && self.schedule.plans.lock().has(&self.kept)
    }

    /// Whether a renewal has found the claim lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.kept.is_lost()
    }

    /// What the latest renewal failed with; none if it succeeded.
    pub(crate) fn error(&self) -> Option<Error> {
        if self.schedule.is_forked() { Some(Error::Forked) } else { self.kept.error() }
    }
}

impl Drop for KeptAlive {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the owners of claims and the thread that renews them share.
#[derive(Debug)]
struct Schedule {
    plans: Mutex<Plans<Kept>>,
    /// Claims have been renewed, or not; those that were ended meanwhile are in no plan any more.
    put_back: Condvar,
    running: Stopwatch,
    /// None until the renewer's thread has begun.
    renewer: Mutex<Option<ThreadId>>,
    process: u32,
}

impl Schedule {
    fn new() -> Self {
        Self {
            plans: Mutex::new(Plans::new()),
            put_back: Condvar::new(),
            running: Stopwatch::start(),
            renewer: Mutex::new(None),
            process: process::id(),
        }
    }

    /// Whether this process is a fork of the one that opened the store. Its copies of the locks may stand
    /// locked for ever, and nobody renews anything here.
    fn is_forked(&self) -> bool {
        self.process != process::id()
    }

    /// Plans the renewals of `kept`. Whether the thread must be told.
    fn keep(&self, kept: &Arc<Kept>, extended: Option<Stopwatch>, max_age: Duration) -> bool {
        let now = self.running.elapsed();
        // By the owner or by the thread, whichever was later: a call that is made again and again, as a
        // heartbeat, must not renew each time.
        let passed = [extended, kept.renewed()].into_iter().flatten().map(Stopwatch::elapsed).min();
        let passed = passed.unwrap_or(Duration::MAX);
        let pause = plans::third(kept.lease()).saturating_sub(passed);
        self.plans.lock().keep(kept, now, pause, now.saturating_add(max_age))
    }

    fn end(&self, kept: &Arc<Kept>, backend: &dyn Backend) {
        if self.is_forked() {
            return;
        }
        let is_on_its_way = self.plans.lock().end(kept);
        // On the renewer's own thread, in a backend or a log of the application's, it would wait for itself.
        // Inside `atomically` that renewal waits for this very thread; whatever would end the claim is refused
        // there, for the same reason.
        if is_on_its_way && !self.is_on_the_renewers_thread() && !is_refused_as_reentrant(kept, backend) {
            self.put_back.wait_while(&mut self.plans.lock(), |plans| plans.has(kept));
        }
    }

    fn is_on_the_renewers_thread(&self) -> bool {
        *self.renewer.lock() == Some(thread::current().id())
    }

    /// The work of the thread.
    fn renew_until_stopped(&self, observed: &Observed, signal: &Signal) {
        *self.renewer.lock() = Some(thread::current().id());
        let mut jitter = Jitter::new();
        while signal.wait(self.rest()) {
            let batch = self.plans.lock().take(self.running.elapsed());
            if batch.is_empty() {
                continue;
            }
            // What panics here is the program's own log, say. An owner would wait for ever for what is not
            // put back.
            let renewals = caught(|| Ok(renew(&batch, observed)));
            let renewals =
                renewals.unwrap_or_else(|panic| batch.iter().map(|kept| kept.note_unheard(&panic)).collect());
            // One for all, so that those who failed together are tried together.
            let share = u32::try_from(jitter.below(WHOLE.into())).unwrap_or(WHOLE);
            let now = self.running.elapsed();
            let mut plans = self.plans.lock();
            for (kept, renewal) in batch.iter().zip(renewals) {
                let pause = match renewal {
                    Renewal::Done => Some(plans::third(kept.lease())),
                    Renewal::Failed => Some(plans::retry(kept.lease(), share)),
                    Renewal::Over => None,
                };
                plans.put_back(kept, now, pause);
            }
            drop(plans);
            self.put_back.notify_all();
        }
    }

    fn rest(&self) -> Duration {
        self.plans.lock().rest(self.running.elapsed())
    }
}

/// Renews all of `batch` in one call. Whoever sees on a claim what became of it finds it counted.
fn renew(batch: &[Arc<Kept>], observed: &Observed) -> Vec<Renewal> {
    let commands: Vec<_> = batch.iter().map(|kept| kept.renewal()).collect();
    let answers = match (caught(|| Ok(observed.execute_many(&commands))), batch) {
        (Ok(answers), _) => answers,
        (Err(panic), [kept]) => vec![observed.failed(Operation::Renew, kept.id(), Err(panic))],
        // One at which the backend panics must not take the others along.
        (Err(_), _) => {
            return batch.iter().flat_map(|kept| renew(slice::from_ref(kept), observed)).collect();
        }
    };
    batch.iter().zip(answers).map(|(kept, answer)| kept.hear(answer, observed)).collect()
}

/// Whether a call on this thread would wait for itself.
fn is_refused_as_reentrant(kept: &Kept, backend: &dyn Backend) -> bool {
    backend.read(kept.id()).is_err_and(|error| matches!(error.into(), Error::Reentrant))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{IdempotencyKey, KeyError, Scope};

    const AN_HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn asking_again_soon_after_a_renewal_does_not_renew_at_once() -> Result<(), KeyError> {
        let schedule = Schedule::new();
        let id = RecordId::new(Scope::new("tenant")?, IdempotencyKey::new("job")?);
        let kept = Arc::new(Kept::new(id, FencingToken::FIRST, AN_HOUR));
        let is_due_at_once = || !schedule.plans.lock().take(schedule.running.elapsed()).is_empty();

        let long_ago = None;
        schedule.keep(&kept, long_ago, AN_HOUR);
        assert!(is_due_at_once(), "nobody knows of a renewal");
        schedule.plans.lock().put_back(&kept, schedule.running.elapsed(), None);

        kept.note_renewed(Timestamp::from_millis(0));
        schedule.keep(&kept, long_ago, AN_HOUR);
        assert!(!is_due_at_once(), "it was renewed just now");
        Ok(())
    }
}
