//! Every interleaving of the memory backend's locks and atomics, up to a bound on preemptions. `just loom`
//! runs it.
//!
//! A model says what must hold in each interleaving, and afterwards that the interleavings it is about did
//! occur: a model whose threads never meet would prove nothing.
#![cfg(idempotency_loom)]

use bytes::Bytes;
use idempotency::{
    Claim, ClaimOutcome, Clock, Error, FencingToken, Fingerprint, IdempotencyKey, IdempotencyStore,
    LostReason, ManualClock, MemoryBackend, MemoryOptions, MemoryStore, Policy, Scope, State, StoredResponse,
    Timestamp,
};
use loom::thread;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often, in one execution, a thread is stopped where it could have run on; changes of thread at a lock
/// that is held or at a thread's end are not counted, and all explored. Each one more multiplies the
/// executions: 3 take seconds, 5 minutes. `LOOM_MAX_PREEMPTIONS` overrides it.
const MAX_PREEMPTIONS: usize = 3;
const START: Timestamp = Timestamp::from_millis(1_000_000);
const LEASE: Duration = Duration::from_secs(30);
const RETENTION: Duration = Duration::from_secs(60);

/// Threads in the order in which they did something. Std's mutex: loom must not switch threads inside.
type Threads = Arc<Mutex<Vec<thread::ThreadId>>>;

fn note_this_thread(threads: &Threads) {
    threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread::current().id());
}

/// A clock that stands still unless it is moved, and remembers who read it.
#[derive(Clone)]
struct Witness {
    clock: ManualClock,
    readers: Threads,
}

impl Witness {
    fn new() -> Self {
        Self { clock: ManualClock::new(START), readers: Arc::default() }
    }
}

impl Clock for Witness {
    fn now(&self) -> Timestamp {
        note_this_thread(&self.readers);
        self.clock.now()
    }
}

/// Bytes of a reply that remember who dropped the last of them: who removed the record.
struct Owned(Threads);

impl Owned {
    fn new() -> (Bytes, Threads) {
        let droppers = Threads::default();
        (Bytes::from_owner(Self(Arc::clone(&droppers))), droppers)
    }
}

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        b"pay_1"
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        note_this_thread(&self.0);
    }
}

/// Explores `model`. What it returns is collected over all executions.
fn explore<T: Ord + Send + 'static>(model: impl Fn() -> T + Send + Sync + 'static) -> BTreeSet<T> {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let collected = Arc::clone(&seen);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(MAX_PREEMPTIONS);
    builder.check(move || {
        let result = model();
        collected.lock().expect("no execution panicked").insert(result);
    });
    std::mem::take(&mut seen.lock().expect("no execution panicked"))
}

/// Parameters that loom needs fixed: a random hash would make two executions differ.
fn options(clock: &Witness) -> MemoryOptions {
    MemoryOptions::new()
        .with_clock(clock.clone())
        .with_shards(1)
        .with_hash_seed(1, 2)
        .with_first_token(FencingToken::FIRST)
}

fn store(options: MemoryOptions) -> MemoryStore {
    IdempotencyStore::new(MemoryBackend::new(options))
        .with_policy(Policy::new().with_lease(LEASE).with_retention(RETENTION))
        .expect("a usable policy")
}

fn try_claim(store: &MemoryStore, key: &str) -> Result<ClaimOutcome, Error> {
    let fingerprint = Fingerprint::builder().field("amount", "500").finish();
    store.try_claim(&scope(), &named(key), &fingerprint)
}

/// Claims `key` where nothing may stand in the way.
fn claim(store: &MemoryStore, key: &str) -> Claim {
    match try_claim(store, key).expect("a working store") {
        ClaimOutcome::Claimed(claim) => claim,
        other => panic!("wanted Claimed, got {other:?}"),
    }
}

fn scope() -> Scope {
    Scope::new("acct_1").expect("a valid scope")
}

fn named(key: &str) -> IdempotencyKey {
    IdempotencyKey::new(key).expect("a valid key")
}

fn receipt() -> StoredResponse {
    StoredResponse::new(201).with_body("pay_1")
}

/// Lets `threads` threads claim one key; checks that one is granted attempt `attempt`, and the others hear of
/// it. Gives the place of the winner.
fn one_winner(store: &MemoryStore, threads: usize, attempt: u32) -> usize {
    let claimants: Vec<_> = (0..threads)
        .map(|_| {
            let store = store.clone();
            thread::spawn(move || try_claim(&store, "k").expect("a working store"))
        })
        .collect();
    let mut winners = Vec::new();
    for (place, claimant) in claimants.into_iter().enumerate() {
        match claimant.join().expect("a claimant that returns") {
            ClaimOutcome::Claimed(claim) => winners.push((place, claim)),
            ClaimOutcome::InProgress(running) => assert_eq!(running.attempt, attempt),
            other => panic!("neither claimed nor in progress: {other:?}"),
        }
    }
    assert_eq!(winners.len(), 1, "{winners:?}");
    let (place, winner) = &winners[0];
    let record = store.lookup(&scope(), &named("k")).expect("a working store").expect("a record");
    assert_eq!((record.token, record.attempt), (winner.token(), attempt));
    assert_eq!(winner.attempt(), attempt);
    *place
}

#[test]
fn two_concurrent_claims_of_one_key_have_one_winner() {
    let winners = explore(|| one_winner(&store(options(&Witness::new())), 2, 1));
    assert_eq!(winners, BTreeSet::from([0, 1]));
}

#[test]
fn three_concurrent_claims_of_one_key_have_one_winner() {
    let winners = explore(|| one_winner(&store(options(&Witness::new())), 3, 1));
    assert_eq!(winners, BTreeSet::from([0, 1, 2]));
}

#[test]
fn two_takeovers_of_a_lapsed_claim_have_one_winner() {
    let winners = explore(|| {
        let witness = Witness::new();
        let store = store(options(&witness));
        let lapsed = claim(&store, "k");
        witness.clock.advance(LEASE);
        let winner = one_winner(&store, 2, 2);
        let (error, ..) = lapsed.complete(receipt()).expect_err("a superseded owner").into_parts();
        assert!(matches!(error, Error::ClaimLost(LostReason::Running)), "{error:?}");
        winner
    });
    assert_eq!(winners, BTreeSet::from([0, 1]));
}

#[test]
fn a_claim_against_a_completion_hears_of_the_owner_or_of_its_reply() {
    let answers = explore(|| {
        let store = store(options(&Witness::new()));
        let owner = claim(&store, "k");
        let completing = thread::spawn(move || owner.complete(receipt()).expect("the owner's completion"));
        let answer = try_claim(&store, "k").expect("a working store");
        let done = completing.join().expect("an owner that returns");
        match answer {
            ClaimOutcome::InProgress(running) => {
                assert_eq!((running.attempt, running.lease_until), (1, START.saturating_add(LEASE)));
                "in progress"
            }
            ClaimOutcome::Completed(replay) => {
                assert_eq!(replay, done);
                assert_eq!(replay.reply, receipt().into());
                "completed"
            }
            other => panic!("neither in progress nor completed: {other:?}"),
        }
    });
    assert_eq!(answers, BTreeSet::from(["completed", "in progress"]));
}

#[test]
fn a_late_completion_and_a_takeover_exclude_each_other() {
    let answers = explore(|| {
        let witness = Witness::new();
        let store = store(options(&witness));
        let late = claim(&store, "k");
        witness.clock.advance(LEASE);
        let completing =
            thread::spawn(move || late.complete(receipt()).map_err(|error| error.into_parts().0));
        let answer = try_claim(&store, "k").expect("a working store");
        match (completing.join().expect("an owner that returns"), answer) {
            (Ok(done), ClaimOutcome::Completed(replay)) => {
                assert_eq!(done, replay);
                "completed"
            }
            (Err(Error::ClaimLost(LostReason::Running)), ClaimOutcome::Claimed(takeover)) => {
                assert_eq!(takeover.attempt(), 2);
                takeover.complete(receipt()).expect("the new owner's completion");
                "taken over"
            }
            (late, takeover) => panic!("both or neither: {late:?}, {takeover:?}"),
        }
    });
    assert_eq!(answers, BTreeSet::from(["completed", "taken over"]));
}

#[test]
fn a_sweep_never_removes_or_counts_a_fresh_claim_of_an_expired_key() {
    let removed = explore(|| {
        let witness = Witness::new();
        let store = store(options(&witness).with_max_records(1));
        let (body, removers) = Owned::new();
        let stale = claim(&store, "k");
        let stale_token = stale.token();
        drop(stale.complete(StoredResponse::new(200).with_body(body)).expect("the owner's completion"));
        witness.clock.advance(RETENTION);

        let sweeping = {
            let store = store.clone();
            thread::spawn(move || store.sweep(10).expect("a working store"))
        };
        let sweeper = sweeping.thread().id();
        let fresh = claim(&store, "k");
        let swept = sweeping.join().expect("a sweep that returns");

        assert!(fresh.token() > stale_token);
        assert_eq!(fresh.attempt(), 1, "an expired record is no record");
        let removers = removers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert_eq!(removers.len(), 1, "the expired record is gone");
        assert_eq!(swept.removed, usize::from(removers[0] == sweeper), "only what the sweep itself removed");
        assert!(!swept.more);
        let record = store.lookup(&scope(), &named("k")).expect("a working store").expect("the fresh claim");
        assert_eq!((record.token, record.state), (fresh.token(), State::InProgress));

        // One record is there, and one is counted: no room for another until it goes.
        assert!(matches!(try_claim(&store, "other"), Err(Error::Full(_))));
        fresh.release().expect("the owner's release");
        let other = claim(&store, "other");
        assert_eq!(other.attempt(), 1);
        swept.removed
    });
    assert_eq!(removed, BTreeSet::from([0, 1]));
}

#[test]
fn no_claim_is_refused_for_room_that_another_claims_sweep_has_just_made() {
    let attempts = explore(|| {
        let witness = Witness::new();
        let store = store(options(&witness).with_max_records(2));
        drop([claim(&store, "a"), claim(&store, "b")]);
        witness.clock.advance(LEASE + RETENTION);
        let claiming = {
            let store = store.clone();
            thread::spawn(move || claim(&store, "c").attempt())
        };
        let mine = claim(&store, "d").attempt();
        (mine, claiming.join().expect("a claimant that returns"))
    });
    assert_eq!(attempts, BTreeSet::from([(1, 1)]));
}

#[test]
fn tokens_are_unique_and_increasing_across_shards() {
    let orders = explore(|| {
        let witness = Witness::new();
        let readers = Arc::clone(&witness.readers);
        let store = store(options(&witness).with_shards(64));
        let claiming = |keys: [&'static str; 2]| {
            let store = store.clone();
            move || keys.map(|key| claim(&store, key).token())
        };
        let other = thread::spawn(claiming(["a", "b"]));
        let other_thread = other.thread().id();
        let mine = claiming(["c", "d"])();
        let others = other.join().expect("a claimant that returns");

        assert!(mine[0] < mine[1] && others[0] < others[1], "{mine:?} {others:?}");
        let all: BTreeSet<_> = mine.into_iter().chain(others).collect();
        assert_eq!(all.len(), 4, "{mine:?} {others:?}");
        assert!(all.last() < Some(&claim(&store, "e").token()));

        let by_clock = readers.lock().unwrap_or_else(PoisonError::into_inner).first() == Some(&other_thread);
        let by_token = all.first() == Some(&others[0]);
        (by_clock, by_token)
    });
    // Under one lock the first to read the clock is the first to draw. That the order differs shows that the
    // draws overlap.
    assert_eq!(orders, BTreeSet::from([(false, false), (false, true), (true, false), (true, true)]));
}

#[test]
fn the_last_tokens_are_granted_once_and_the_counter_never_wraps() {
    let refused = explore(|| {
        let last = FencingToken::new(i64::MAX).expect("a token");
        let next_to_last = FencingToken::new(i64::MAX - 1).expect("a token");
        let store = store(options(&Witness::new()).with_shards(64).with_first_token(next_to_last));
        let claimants = ["a", "b", "c"].map(|key| {
            let store = store.clone();
            thread::spawn(move || try_claim(&store, key))
        });
        let mut granted = BTreeSet::new();
        let mut refused = Vec::new();
        for (place, claimant) in claimants.into_iter().enumerate() {
            match claimant.join().expect("a claimant that returns") {
                Ok(ClaimOutcome::Claimed(claim)) => assert!(granted.insert(claim.token()), "{claim:?}"),
                Err(Error::TokensExhausted) => refused.push(place),
                other => panic!("neither claimed nor exhausted: {other:?}"),
            }
        }
        assert_eq!(granted, BTreeSet::from([next_to_last, last]));
        assert!(matches!(try_claim(&store, "d"), Err(Error::TokensExhausted)));
        refused
    });
    assert_eq!(refused, BTreeSet::from([vec![0], vec![1], vec![2]]));
}
