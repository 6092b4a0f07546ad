//! Many that wait for one key: in threads, by the machine's own time.

use crate::common::{Answer, Fixture, on_every_backend};
use crate::support::{StagedStore, a_key, a_print, a_scope, claim, reply, staged};
use idempotency::{Claim, ClaimOutcome, Completed, Error, Reply};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

const WAITERS: usize = 32;
/// Far more than any of it takes. Who gives up fails the test.
const LONG: Duration = Duration::from_secs(120);

fn wait(store: &StagedStore) -> Result<ClaimOutcome, Error> {
    store.claim_or_wait(&a_scope(), &a_key(), &a_print(), LONG)
}

/// All that wait at once, and do with a claim what `own` does; their replies.
fn all_wait(store: &StagedStore, own: impl Fn(Claim) -> Option<Completed> + Sync) -> Vec<Option<Completed>> {
    let start = Barrier::new(WAITERS);
    thread::scope(|threads| {
        let waiters: Vec<_> = (0..WAITERS)
            .map(|_| {
                threads.spawn(|| {
                    start.wait();
                    match wait(store).expect("an answer") {
                        ClaimOutcome::Claimed(claim) => own(claim),
                        answer => Some(answer.completed()),
                    }
                })
            })
            .collect();
        waiters.into_iter().map(|waiter| waiter.join().expect("a waiter that ends")).collect()
    })
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..120_000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("it did not come to this: {what}");
}

/// Until `count` callers have been told that it is in progress: so many wait.
fn until_waiting(store: &StagedStore, count: u64) {
    until("they wait", || store.metrics().in_progress >= count);
}

fn quiet(fixture: &Fixture) -> StagedStore {
    staged(fixture, |_| Ok(()))
}

#[test]
fn of_32_callers_at_once_one_is_granted_the_claim_and_the_others_get_its_reply() {
    on_every_backend(|fixture| {
        let (store, granted) = (quiet(fixture), AtomicUsize::new(0));
        let replies = all_wait(&store, |claim| {
            granted.fetch_add(1, Ordering::SeqCst);
            until_waiting(&store, 31);
            Some(claim.complete(reply(201)).expect("a claim that stands"))
        });
        assert_eq!(granted.into_inner(), 1, "{}", fixture.name);
        let replies: Vec<Completed> = replies.into_iter().flatten().collect();
        assert_eq!(replies.len(), WAITERS, "{}", fixture.name);
        assert!(replies.iter().all(|done| *done == replies[0]), "{}", fixture.name);
        assert_eq!(store.backend().commands(), WAITERS + 1, "{}: a question each, a reply", fixture.name);
        let metrics = store.metrics();
        assert_eq!(
            (metrics.claims, metrics.in_progress, metrics.replays, metrics.completions),
            (1, 31, 31, 1),
            "{}",
            fixture.name
        );
    });
}

/// Each abandons what it was granted, the last one too: 32 attempts, one after the other.
#[test]
fn of_32_callers_whose_owners_all_abandon_exactly_one_takes_over_at_a_time() {
    on_every_backend(|fixture| {
        let (store, owners) = (quiet(fixture), AtomicUsize::new(0));
        let attempts = Mutex::new(Vec::new());
        let replies = all_wait(&store, |claim| {
            assert_eq!(owners.fetch_add(1, Ordering::SeqCst), 0, "{}: two own it", fixture.name);
            attempts.lock().expect("no panic").push(claim.attempt());
            owners.fetch_sub(1, Ordering::SeqCst);
            claim.abandon().expect("a claim that stands");
            None
        });
        assert_eq!(replies, [const { None }; WAITERS], "{}", fixture.name);
        let attempts = attempts.into_inner().expect("no panic");
        assert!(attempts.iter().copied().eq(1..=32), "{}: {attempts:?}", fixture.name);
        let metrics = store.metrics();
        assert_eq!((metrics.claims, metrics.takeovers, metrics.abandons), (1, 31, 32), "{}", fixture.name);
    });
}

/// Some abandon, then one completes: from there on all get that reply.
#[test]
fn after_owners_that_failed_the_others_get_the_reply_of_the_one_that_did_not() {
    on_every_backend(|fixture| {
        let store = quiet(fixture);
        let replies = all_wait(&store, |claim| match claim.attempt() {
            1..=7 => {
                claim.abandon().expect("a claim that stands");
                None
            }
            attempt => {
                assert_eq!(attempt, 8, "{}", fixture.name);
                Some(claim.complete(Reply::Marker).expect("a claim that stands"))
            }
        });
        let done: Vec<Completed> = replies.into_iter().flatten().collect();
        assert_eq!(done.len(), WAITERS - 7, "{}", fixture.name);
        assert!(done.iter().all(|one| *one == done[0]), "{}", fixture.name);
        assert_eq!(store.metrics().replays, 24, "{}", fixture.name);
    });
}

/// The machine's time does the waiting, the store's clock ends the lease.
#[test]
fn of_32_callers_that_wait_for_a_dead_owner_one_takes_over_when_its_lease_ends() {
    on_every_backend(|fixture| {
        let dead = claim(&fixture.store);
        let (store, granted) = (quiet(fixture), AtomicUsize::new(0));
        let replies = thread::scope(|threads| {
            let waiters = threads.spawn(|| {
                all_wait(&store, |claim| {
                    assert_eq!(claim.attempt(), 2, "{}", fixture.name);
                    granted.fetch_add(1, Ordering::SeqCst);
                    Some(claim.complete(reply(201)).expect("a claim that stands"))
                })
            });
            until_waiting(&store, 32);
            let looks = store.backend().looks();
            until("they look again", || store.backend().looks() >= looks + 2 * WAITERS);
            assert_eq!(store.metrics().takeovers, 0, "{}: its lease is not over", fixture.name);
            fixture.at(90);
            waiters.join().expect("waiters that end")
        });
        assert_eq!((granted.into_inner(), replies.len()), (1, WAITERS), "{}", fixture.name);
        let done = replies[0].as_ref().expect("a reply");
        assert!(replies.iter().all(|reply| reply.as_ref() == Some(done)), "{}", fixture.name);
        assert!(matches!(dead.complete(reply(202)).map_err(Error::from), Err(Error::ClaimLost(_))));
    });
}

/// A waiter holds nothing that others need.
#[test]
fn who_waits_for_one_key_holds_up_no_other() {
    on_every_backend(|fixture| {
        let owner = claim(&fixture.store);
        let store = quiet(fixture);
        thread::scope(|threads| {
            let waiter = threads.spawn(|| wait(&store));
            until_waiting(&store, 1);
            for number in 0..100 {
                let key = crate::common::key(&format!("k{number}"));
                let other = store.try_claim(&a_scope(), &key, &a_print()).expect("an answer").claimed();
                other.complete(reply(202)).expect("a claim that stands");
            }
            owner.complete(reply(201)).expect("a claim that stands");
            let done = waiter.join().expect("a waiter that ends").expect("an answer").completed();
            assert_eq!(done.reply, reply(201), "{}", fixture.name);
        });
    });
}

/// As two processes do it.
#[cfg(feature = "sqlite")]
#[test]
fn a_waiter_on_one_handle_hears_the_reply_that_another_handle_on_the_file_records() {
    use crate::support::Call;
    use idempotency::{IdempotencyStore, SqliteBackend, SqliteOptions};
    let fixture = Fixture::on_sqlite();
    let options = SqliteOptions::new().with_clock(fixture.clock.clone());
    let path = fixture.path().expect("a file");
    let other = IdempotencyStore::new(SqliteBackend::open(path, options).expect("the same store"));
    let mut owner = Some(claim(&other));
    let store = staged(&fixture, move |call| {
        if call == Call::Look(3) {
            let owner: Claim = owner.take().expect("one third look");
            owner.complete(reply(201)).expect("a claim that stands");
        }
        Ok(())
    });
    assert_eq!(wait(&store).expect("an answer").completed().reply, reply(201));
    assert_eq!(store.backend().looks(), 3);
}
