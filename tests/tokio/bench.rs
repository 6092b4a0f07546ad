//! A store behind a gate, a runtime with a small pool, and futures that are dropped wherever they wait.

use crate::common::{Fixture, asks_for, key, scope};
use crate::gate::{Gate, Moment, PATIENCE};
use idempotency::{
    AsyncClaim, AsyncStore, ClaimOutcome, Completed, Fingerprint, IdempotencyKey, IdempotencyStore, Metrics,
    Record, Reply, Scope, StoredResponse,
};
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

pub const LEASE: Duration = Duration::from_secs(30);
pub const RETENTION: Duration = Duration::from_secs(3_600);

/// Threads in the pool: enough for calls to come while others are stopped, and few enough to keep them busy.
const THREADS: usize = 3;

/// One operation on one store, called by tasks of one runtime.
pub struct Bench<'a> {
    /// For messages.
    pub name: &'static str,
    pub fixture: &'a Fixture,
    pub runtime: Runtime,
    pub store: AsyncStore<Gate>,
    pub scope: Scope,
    pub key: IdempotencyKey,
    pub request: Fingerprint,
}

impl<'a> Bench<'a> {
    pub fn on(fixture: &'a Fixture, key_name: &str) -> Self {
        let blocking = fixture.store_with(LEASE, RETENTION);
        let gate = Gate::new(Arc::clone(blocking.backend()));
        let blocking = IdempotencyStore::new(gate).with_policy(*blocking.policy()).expect("a usable policy");
        let runtime = Builder::new_current_thread().enable_time().max_blocking_threads(THREADS).build();
        let runtime = runtime.expect("a runtime");
        Self {
            name: fixture.name,
            fixture,
            store: AsyncStore::new(blocking, runtime.handle().clone()),
            runtime,
            scope: scope("tenant"),
            key: key(key_name),
            request: asks_for("pay"),
        }
    }

    pub fn gate(&self) -> &Gate {
        self.store.store().backend()
    }

    pub fn metrics(&self) -> Metrics {
        self.store.store().metrics()
    }

    /// Shuts the runtime down when the calls that are being made have been made. The store is left.
    pub fn shut_down(self) -> IdempotencyStore<Gate> {
        drop(self.runtime);
        self.store.store().clone()
    }

    /// What is stored of the operation, expired or not.
    pub fn record(&self) -> Option<Record> {
        self.fixture.stored(&self.scope, &self.key)
    }

    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Runs the runtime's tasks until `condition` holds.
    #[track_caller]
    pub fn run_until(&self, what: &str, condition: impl Fn() -> bool) {
        self.block_on(async {
            for _ in 0..PATIENCE.as_millis() {
                if condition() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            panic!("never happened: {what}");
        });
    }

    /// Claims the operation.
    #[track_caller]
    pub fn claim(&self) -> AsyncClaim {
        self.claim_of(&self.key)
    }

    /// Claims another one.
    #[track_caller]
    pub fn claim_of(&self, key: &IdempotencyKey) -> AsyncClaim {
        claimed(self.block_on(self.store.try_claim(&self.scope, key, &self.request)).expect("an answer"))
    }

    /// Starts `future`, and drops it where `place` says.
    #[track_caller]
    pub fn drop_at<F: Future>(&self, place: Place, future: F) {
        match place {
            Place::Unpolled => drop(future),
            Place::Queued => {
                let _busy = self.keep_pool_busy();
                drop(Started::new(future));
            }
            Place::Stopped(moment) => {
                self.gate().shut(moment);
                let started = Started::new(future);
                self.gate().wait_for_call();
                drop(started);
                self.gate().open();
            }
            Place::Answered => drop(self.answered(future)),
        }
    }

    /// Starts `future`, and waits until its call has been answered. It has not looked at the answer.
    #[track_caller]
    pub fn answered<F: Future>(&self, future: F) -> Started<F> {
        self.gate().shut(Moment::Before);
        let started = Started::new(future);
        self.gate().wait_for_call();
        self.gate().open();
        started.wait_until_woken();
        started
    }

    /// Has all the threads of the pool, until what it gives is dropped.
    pub fn keep_pool_busy(&self) -> Busy {
        self.pool_keeper()()
    }

    /// As [`keep_pool_busy`](Self::keep_pool_busy), for a task.
    pub fn pool_keeper(&self) -> impl Fn() -> Busy + Send + 'static {
        let runtime = self.runtime.handle().clone();
        move || {
            let (came, all_came) = channel();
            let busy = (0..THREADS).map(|_| {
                let (free, freed): (Sender<()>, Receiver<()>) = channel();
                let came = came.clone();
                drop(runtime.spawn_blocking(move || {
                    came.send(()).expect("a test that waits");
                    // An error, once the other end is dropped.
                    let _freed = freed.recv_timeout(PATIENCE);
                }));
                free
            });
            let busy = Busy(busy.collect());
            (0..THREADS).for_each(|_| all_came.recv_timeout(PATIENCE).expect("a free thread"));
            busy
        }
    }
}

/// The threads of a pool, kept busy.
pub struct Busy(#[expect(dead_code, reason = "the threads wait for its end")] Vec<Sender<()>>);

/// Where a future is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before it was polled.
    Unpolled,
    /// While its call waits for a thread.
    Queued,
    /// While its call is being made: before or after it was executed.
    Stopped(Moment),
    /// When its call has been answered, and the answer has not been looked at.
    Answered,
}

impl Place {
    /// All places where a future waits.
    pub const WAITING: [Self; 4] =
        [Self::Queued, Self::Stopped(Moment::Before), Self::Stopped(Moment::After), Self::Answered];
    /// Those of them where the call has begun, so that it is made to its end.
    pub const CALLING: [Self; 3] =
        [Self::Stopped(Moment::Before), Self::Stopped(Moment::After), Self::Answered];
}

/// A future that is polled by hand.
pub struct Started<F> {
    future: Pin<Box<F>>,
    woken: Arc<Woken>,
}

impl<F: Future> Started<F> {
    /// Polls `future` once, which must not be enough: something keeps its call from being answered.
    #[track_caller]
    pub fn new(future: F) -> Self {
        let mut started = Self { future: Box::pin(future), woken: Arc::new(Woken::default()) };
        assert!(started.poll().is_pending(), "ready at once");
        started
    }

    pub fn poll(&mut self) -> Poll<F::Output> {
        *self.woken.is_woken() = false;
        let waker = Waker::from(Arc::clone(&self.woken));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// The rest, for a runtime.
    pub fn into_future(self) -> Pin<Box<F>> {
        self.future
    }

    pub fn is_woken(&self) -> bool {
        *self.woken.is_woken()
    }

    /// Waits until there is something new, and does not look at it.
    #[track_caller]
    pub fn wait_until_woken(&self) {
        let (_is_woken, waited) = self
            .woken
            .changed
            .wait_timeout_while(self.woken.is_woken(), PATIENCE, |is_woken| !*is_woken)
            .expect("no panic under this lock");
        assert!(!waited.timed_out(), "the future was not woken");
    }

    /// Waits until there is something new, which must be the answer.
    #[track_caller]
    pub fn answer(mut self) -> F::Output {
        self.wait_until_woken();
        match self.poll() {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("woken for nothing"),
        }
    }
}

/// A waker that a test waits for.
#[derive(Default)]
struct Woken {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl Woken {
    fn is_woken(&self) -> MutexGuard<'_, bool> {
        self.is_woken.lock().expect("no panic under this lock")
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        *self.is_woken() = true;
        self.changed.notify_all();
    }
}

/// Waits until `condition` holds.
#[track_caller]
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let happened = (0..PATIENCE.as_millis()).any(|_| {
        let holds = condition();
        if !holds {
            thread::sleep(Duration::from_millis(1));
        }
        holds
    });
    assert!(happened, "never happened: {what}");
}

/// A reply that can be told from others.
pub fn reply(body: &'static str) -> Reply {
    StoredResponse::new(201).with_body(body).into()
}

#[track_caller]
pub fn claimed(answer: ClaimOutcome<AsyncClaim>) -> AsyncClaim {
    match answer {
        ClaimOutcome::Claimed(claim) => claim,
        other => panic!("wanted Claimed, got {other:?}"),
    }
}

#[track_caller]
pub fn completed(answer: ClaimOutcome<AsyncClaim>) -> Completed {
    match answer {
        ClaimOutcome::Completed(completed) => completed,
        other => panic!("wanted Completed, got {other:?}"),
    }
}

pub fn is_in_progress(answer: &ClaimOutcome<AsyncClaim>) -> bool {
    matches!(answer, ClaimOutcome::InProgress(_))
}
