//! The suite that every backend has to pass, through the handle for tasks: each command is a call of the handle.
//!
//! A handle tells less than a backend, and where it does, the suite shows less:
//! - Whether a completion was recorded or had been before, and whether a release or an abandonment found a record, it
//!   does not say. The adapter looks beforehand, through the handle as well, and holds a lock from there to the ending.
//!   So endings of one claim never meet in the suite, and that one of them alone is told "recorded" is not shown here;
//!   they are raced below, through the handle itself.
//! - The time that goes with a record it does not have at all. The adapter reads the clock.

use crate::bench;
use crate::common::{Fixture, asks_for, key, scope};
use idempotency::testing::conformance::{Report, Subject, SuiteClock, run_all};
use idempotency::{
    AsyncClaim, AsyncStore, Backend, BackendError, ClaimOutcome, Clock, Command, Completed, Error,
    FencingToken, Grant, IdempotencyStore, MemoryBackend, MemoryOptions, Outcome, Period, Policy, Record,
    RecordId, Reply, State, Stats, StoreId, Stuck, Swept, Ticket, Timestamp,
};
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Barrier, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// How many threads end one claim at once, and how often.
const THREADS: usize = 8;
const ROUNDS: usize = 12;

/// A store behind its handle for tasks, as a backend.
struct Handled<B: Backend> {
    runtime: Runtime,
    store: AsyncStore<B>,
    clock: SuiteClock,
    /// Held from a look at a record to the ending of its claim: the handle says "done" to both of two answers, and the
    /// look tells which it was.
    looks: Mutex<()>,
}

/// Whatever the handle fails with, for a backend.
fn failed(error: Error) -> BackendError {
    match error {
        Error::Clock(out_of_range) => out_of_range.into(),
        Error::Unsupported { what } => BackendError::unsupported(what),
        other => BackendError::other(other),
    }
}

/// The loss in `answer`, which is no error of a backend's.
fn or_lost<T>(answer: Result<T, Error>, done: impl FnOnce(T) -> Outcome) -> Result<Outcome, BackendError> {
    match answer {
        Ok(answer) => Ok(done(answer)),
        Err(Error::ClaimLost(reason)) => Ok(Outcome::Lost(reason)),
        Err(error) => Err(failed(error)),
    }
}

impl<B: Backend> Handled<B> {
    fn new(backend: B, clock: SuiteClock) -> Self {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let store = AsyncStore::new(IdempotencyStore::new(backend), runtime.handle().clone());
        Self { runtime, store, clock, looks: Mutex::new(()) }
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn looks(&self) -> MutexGuard<'_, ()> {
        self.looks.lock().expect("no panic under this lock")
    }

    fn look(&self, id: &RecordId) -> Result<Option<Record>, BackendError> {
        self.block_on(self.store.lookup(&id.scope, &id.key)).map_err(failed)
    }

    /// A handle that claims on these terms, and tells how long a claim stands from now.
    fn on_terms(&self, lease: Period, retention: Period) -> AsyncStore<B> {
        let policy = Policy::new()
            .with_lease(lease.as_duration())
            .with_retention(retention.as_duration())
            .with_retry_after(Duration::MAX);
        self.store.with_policy(policy).expect("a usable policy")
    }

    /// The claim of `token` as plain data. What a ticket says beside the token proves nothing.
    fn ticket(&self, id: &RecordId, token: FencingToken, retention: Period) -> Ticket {
        let ticket = json!({
            "store_id": self.store_id().as_bytes(),
            "scope": id.scope.as_str(),
            "key": id.key.as_str(),
            "fingerprint_format": 0,
            "fingerprint": vec![0; 32],
            "token": token.to_string(),
            "attempt": 1,
            "lease_ms": 1,
            "retention_ms": retention.as_millis(),
        });
        serde_json::from_value(ticket).expect("a ticket")
    }

    /// As [`ticket`](Self::ticket), where nothing goes by the retention.
    fn proof(&self, id: &RecordId, token: FencingToken) -> Ticket {
        self.ticket(id, token, Period::from_millis(1).expect("a period"))
    }

    /// What `extend` does with the claim that is resumed.
    fn extended(
        &self,
        id: &RecordId,
        token: FencingToken,
        extend: impl AsyncFnOnce(&mut AsyncClaim) -> Result<(), Error>,
    ) -> Result<Outcome, BackendError> {
        let until = self.block_on(async {
            let mut claim = self.store.resume(self.proof(id, token)).await?;
            extend(&mut claim).await?;
            Ok(claim.lease_until())
        });
        or_lost(until, |lease_until| Outcome::Renewed { lease_until })
    }

    /// A release or an abandonment: fine, too, if there is no record any more.
    fn ended(
        &self,
        id: &RecordId,
        ended: Outcome,
        end: impl Future<Output = Result<(), Error>>,
    ) -> Result<Outcome, BackendError> {
        let _looks = self.looks();
        let is_gone = self.look(id)?.is_none();
        or_lost(self.block_on(end), |()| if is_gone { Outcome::AlreadyGone } else { ended })
    }
}

/// What the handle's answer to a claim is to a backend.
fn outcome(answer: Result<ClaimOutcome<AsyncClaim>, Error>) -> Result<Outcome, BackendError> {
    Ok(match answer.map_err(failed)? {
        ClaimOutcome::Claimed(claim) => Outcome::Claimed(Grant {
            token: claim.token(),
            attempt: claim.attempt(),
            lease_until: claim.lease_until(),
            checkpoint: claim.checkpoint().cloned(),
        }),
        ClaimOutcome::Completed(done) => Outcome::Completed(done),
        ClaimOutcome::InProgress(running) => Outcome::InProgress {
            lease_until: running.lease_until,
            attempt: running.attempt,
            now: running.lease_until.saturating_sub(running.retry_after),
        },
        ClaimOutcome::FingerprintMismatch(mismatch) => Outcome::FingerprintMismatch(mismatch),
    })
}

impl<B: Backend> Backend for Handled<B> {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        match command {
            Command::Claim { fingerprint, lease, retention } => {
                let store = self.on_terms(*lease, *retention);
                outcome(self.block_on(store.try_claim(&id.scope, &id.key, fingerprint)))
            }
            Command::Complete { token, reply, retention } => {
                let _looks = self.looks();
                let before = self.look(id)?;
                let is_repeated =
                    before.is_some_and(|record| record.state == State::Completed && record.token == *token);
                let ticket = self.ticket(id, *token, *retention);
                let done = self.block_on(self.store.complete(&ticket, reply.clone()));
                or_lost(done, if is_repeated { Outcome::AlreadyRecorded } else { Outcome::Recorded })
            }
            Command::Renew { token } => self.extended(id, *token, async |claim| claim.renew().await),
            Command::Checkpoint { token, bytes } => {
                self.extended(id, *token, async |claim| claim.save_checkpoint(bytes.clone()).await)
            }
            Command::Release { token } => {
                self.ended(id, Outcome::Released, self.store.release(&self.proof(id, *token)))
            }
            Command::Abandon { token } => {
                self.ended(id, Outcome::Abandoned, self.store.abandon(&self.proof(id, *token)))
            }
            Command::Forget => {
                let existed = self.block_on(self.store.forget(&id.scope, &id.key)).map_err(failed)?;
                Ok(Outcome::Forgotten { existed })
            }
        }
    }

    /// Claims that follow one another on the same terms are one call, as a program would make it.
    fn execute_many(&self, batch: &[(RecordId, Command)]) -> Vec<Result<Outcome, BackendError>> {
        let terms = |command: &Command| match command {
            Command::Claim { lease, retention, .. } => Some((*lease, *retention)),
            _ => None,
        };
        let together =
            batch.chunk_by(|(_, one), (_, next)| terms(one).is_some() && terms(one) == terms(next));
        let answers = together.flat_map(|commands| match terms(&commands[0].1) {
            Some((lease, retention)) => {
                let claim = |(id, command): &(RecordId, Command)| {
                    let Command::Claim { fingerprint, .. } = command else { unreachable!("a claim") };
                    (id.scope.clone(), id.key.clone(), *fingerprint)
                };
                let claims: Vec<_> = commands.iter().map(claim).collect();
                let store = self.on_terms(lease, retention);
                self.block_on(store.try_claim_many(&claims)).into_iter().map(outcome).collect::<Vec<_>>()
            }
            None => commands.iter().map(|(id, command)| self.execute(id, command)).collect(),
        });
        answers.collect()
    }

    /// The handle gives no time with a record, so it is read here.
    fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        Ok(self.look(id)?.map(|record| (record, self.clock.now())))
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        self.block_on(self.store.sweep(limit)).map_err(failed)
    }

    fn stats(&self) -> Result<Stats, BackendError> {
        self.block_on(self.store.stats()).map_err(failed)
    }

    fn stuck(&self, limit: usize) -> Result<Vec<Stuck>, BackendError> {
        self.block_on(self.store.stuck(limit)).map_err(failed)
    }

    fn store_id(&self) -> StoreId {
        self.store.store().store_id()
    }
}

impl<B: Backend> fmt::Debug for Handled<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handled").field(&self.store).finish()
    }
}

/// Why something is skipped: an adapter that forgets to pass a method on would look like a handle that has none.
fn skipped(report: &Report) -> BTreeSet<&str> {
    report.skipped().map(|(_, reason)| reason).collect()
}

/// What each of the threads hears that make `call`, with their number, all at once.
fn at_once<T: Send>(call: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (barrier, call) = (Barrier::new(THREADS), &call);
    thread::scope(|scope| {
        let barrier = &barrier;
        let started = |number| {
            scope.spawn(move || {
                barrier.wait();
                call(number)
            })
        };
        let threads: Vec<_> = (0..THREADS).map(started).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

#[test]
fn of_endings_that_meet_all_hear_of_the_one_that_stands() {
    let fixture = Fixture::in_memory();
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let store = AsyncStore::new(fixture.store, runtime.handle().clone());
    let scope = scope("endings");
    for round in 0..ROUNDS {
        let claimed = |key| {
            let answer = runtime.block_on(store.try_claim(&scope, key, &asks_for("x")));
            runtime.block_on(bench::claimed(answer.expect("a store")).into_ticket())
        };
        let (completed, released) = (key(&format!("completed {round}")), key(&format!("released {round}")));
        let (to_complete, to_release) = (claimed(&completed), claimed(&released));

        let told = at_once(|number| {
            let reply = Reply::Reference(format!("reply {number}"));
            runtime.block_on(store.complete(&to_complete, reply)).expect("a reply that stands")
        });
        let record = runtime.block_on(store.lookup(&scope, &completed)).expect("a store").expect("a record");
        let stands = Completed::of(&record).expect("a reply");
        assert!(told.iter().all(|done| *done == stands), "{told:?}, and there is {stands:?}");

        let answers = at_once(|_| runtime.block_on(store.release(&to_release)));
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        assert_eq!(runtime.block_on(store.lookup(&scope, &released)).expect("a store"), None);
    }
    println!("{ROUNDS} claims completed, and as many released, by {THREADS} threads at once");
}

mod memory {
    use super::*;

    fn handled(clock: SuiteClock) -> Handled<MemoryBackend> {
        Handled::new(MemoryBackend::new(MemoryOptions::new().with_clock(clock.clone())), clock)
    }

    idempotency::conformance!(|| Subject::volatile(handled));

    #[test]
    fn it_can_not_be_reopened_and_nothing_else_is_skipped() {
        let report = run_all(|| Subject::volatile(handled));
        assert!(report.is_conformant(), "{report}");
        assert_eq!(skipped(&report), BTreeSet::from(["it can't be reopened"]), "{report}");
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use super::*;
    use idempotency::{Durability, SqliteBackend, SqliteOptions};

    fn handled() -> Subject {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Subject::durable(move |clock| {
            let options = SqliteOptions::new().with_durability(Durability::Normal).with_clock(clock.clone());
            let opened = SqliteBackend::open(folder.path().join("store.db"), options);
            opened.map(|backend| Handled::new(backend, clock))
        })
    }

    idempotency::conformance!(handled);

    #[test]
    fn nothing_is_skipped() {
        let report = run_all(handled);
        assert!(report.is_conformant(), "{report}");
        assert_eq!(skipped(&report), BTreeSet::new(), "{report}");
    }
}
