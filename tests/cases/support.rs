//! What these cases need beside the fixtures: every call a claim's owner can make, and races.

#[cfg(feature = "sqlite")]
use crate::common::Fixture;
use crate::seed;
use idempotency::testing::FaultyBackend;
use idempotency::{Backend, Claim, DynStore, Error, IdempotencyStore, LostReason, Reply, StoredResponse};
use std::hint::spin_loop;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

/// A store whose calls are counted, and fail when a test says so.
pub type WatchedStore = IdempotencyStore<FaultyBackend<Arc<dyn Backend>>>;

/// `store`'s own backend, watched: what is stored through the one is seen through the other.
pub fn watched(store: &DynStore) -> WatchedStore {
    IdempotencyStore::new(FaultyBackend::new(Arc::clone(store.backend())))
        .with_policy(*store.policy())
        .expect("the policy that the store has")
}

/// A call that needs a claim, by name.
pub type OwnerCall = (&'static str, fn(&DynStore, Claim) -> Result<(), Error>);

/// Calls that only extend or read the claim, or record its reply: where the record is gone, each of them is a
/// loss.
pub const WRITES_THAT_NEED_THE_RECORD: [OwnerCall; 6] = [
    ("complete", |_, claim| Ok(claim.complete(reply("late")).map(drop)?)),
    ("complete_for", |_, claim| Ok(claim.complete_for(Duration::from_secs(5), reply("late")).map(drop)?)),
    ("complete by ticket", |store, claim| store.complete(&claim.into_ticket(), reply("late")).map(drop)),
    ("renew", |_, mut claim| claim.renew()),
    ("save_checkpoint", |_, mut claim| claim.save_checkpoint("late")),
    ("resume", |store, claim| store.resume(claim.into_ticket()).map(drop)),
];

/// Calls that end the claim without a reply: where the record is gone there is nothing to do, and that is
/// fine.
pub const ENDINGS_WITHOUT_REPLY: [OwnerCall; 4] = [
    ("release", |_, claim| claim.release()),
    ("abandon", |_, claim| claim.abandon()),
    ("release by ticket", |store, claim| store.release(&claim.into_ticket())),
    ("abandon by ticket", |store, claim| store.abandon(&claim.into_ticket())),
];

/// The two calls that extend a claim's lease, by name.
pub type Extension = (&'static str, fn(&mut Claim) -> Result<(), Error>);
pub const EXTENSIONS: [Extension; 2] =
    [("renew", Claim::renew), ("save_checkpoint", |claim| claim.save_checkpoint("new"))];

/// Every call that needs a claim.
pub fn owner_calls() -> impl Iterator<Item = OwnerCall> {
    WRITES_THAT_NEED_THE_RECORD.into_iter().chain(ENDINGS_WITHOUT_REPLY)
}

/// A reply that can be told from others.
pub fn reply(body: &'static str) -> Reply {
    StoredResponse::new(201).with_header("x-of", body).with_body(body).into()
}

/// Why a claim was lost.
#[track_caller]
pub fn lost(result: Result<(), Error>) -> LostReason {
    match result {
        Err(Error::ClaimLost(reason)) => reason,
        other => panic!("wanted ClaimLost, got {other:?}"),
    }
}

/// Another handle on the fixture's file, with a connection of its own, as another process has.
#[cfg(feature = "sqlite")]
pub fn handle_on_file(
    fixture: &Fixture,
    with: impl FnOnce(idempotency::SqliteOptions) -> idempotency::SqliteOptions,
) -> DynStore {
    use idempotency::{SqliteBackend, SqliteOptions};
    let options = with(SqliteOptions::new().with_clock(fixture.clock.clone()));
    let path = fixture.path().expect("a fixture on a file");
    IdempotencyStore::new(SqliteBackend::open(path, options).expect("the fixture's file")).erase()
}

/// Draws how threads start. Printed, so that a failing run can be started the same way again.
pub struct Random(u64);

impl Random {
    /// From the seed that the run is repeated with, or from one that nobody has used.
    pub fn for_this_run() -> Self {
        Self(seed::seed())
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        seed::next_number(&mut self.0) % bound
    }
}

/// Runs `call` on that many threads at once, each held up a little at the start as `random` says, so that
/// rounds differ in who comes first. Answers come in the order of the threads' numbers.
pub fn race<T: Send>(random: &mut Random, threads: usize, call: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(threads);
    let (barrier, call) = (&barrier, &call);
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|number| {
                let spins = random.below(2_000);
                scope.spawn(move || {
                    barrier.wait();
                    (0..spins).for_each(|_| spin_loop());
                    call(number)
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().expect("a thread that ends")).collect()
    })
}
