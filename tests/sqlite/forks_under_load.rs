//! Case 55 at the worst moment: the process forks while its other threads are anywhere in the store. The child's
//! copies of the locks that they hold at that moment, of the line before the writer, of the readers, of the renewer and of the
//! sweeper, are never given back.

use crate::alone::{alarm, alone};
use crate::common::{Answer, asks_for, key, scope};
use crate::fork::{AS_IT_SHOULD_BE, in_a_fork};
use crate::forks::{Call, calls};
use crate::soak::times;
use crate::{folder, open, shell};
use idempotency::{Claim, Error, Policy, Reply, SqliteOptions, SqliteStore, StoredResponse};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const FORKS: usize = 150;
const WORKERS: usize = 4;
const FOR_EVER: Duration = Duration::from_secs(3_600);
/// The kept claims are renewed at a third of it.
const LEASE: Duration = Duration::from_millis(15);

/// Calls that are made with a connection of the application's own: a child that opens one then, or uses one, hangs in
/// SQLite, whose locks are copied as they were, too, before the store is asked.
const OF_A_CONNECTION: [&str; 2] = ["a claim in a transaction", "completing a ticket in a transaction"];

const A_KEPT_CLAIM_IS_NOT_REFUSED: u8 = 200;
const A_SWEEPER_IS_NOT_REFUSED: u8 = 201;

fn reply_of(name: &str) -> Reply {
    StoredResponse::new(200).with_body(name.as_bytes().to_vec()).into()
}

/// Claims, completes, and asks again, until it is told to stop; gives how many it has completed.
fn work(store: &SqliteStore, worker: usize, is_over: &AtomicBool, operations: &AtomicUsize) -> usize {
    let mut done = 0;
    while !is_over.load(Ordering::SeqCst) {
        let name = name_of(worker, done);
        let claim = || store.try_claim(&scope("a"), &key(&name), &asks_for("x")).expect("an answer");
        claim().claimed().complete(reply_of(&name)).expect("a claim that stands");
        assert_eq!(claim().completed().reply, reply_of(&name));
        done += 1;
        operations.fetch_add(1, Ordering::SeqCst);
    }
    done
}

/// Ends the work of the workers, also where a fork has not ended as it should.
struct SaysStop<'a>(&'a AtomicBool);

impl Drop for SaysStop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn name_of(worker: usize, number: usize) -> String {
    format!("worker {worker}, {number}")
}

/// What a fork does with all that it has inherited: the calls, then what is kept alive and the sweeper, and it drops them.
fn in_the_child(
    store: &SqliteStore,
    calls: Vec<Call>,
    kept: Vec<Claim>,
    sweeper: idempotency::Sweeper,
) -> u8 {
    for (number, (_, call)) in (1..).zip(calls) {
        if !matches!(call(store), Err(Error::Forked)) {
            return number;
        }
    }
    for claim in kept {
        let is_told = matches!(claim.renewal_error(), Some(Error::Forked)) && !claim.is_lost();
        if !is_told || !matches!(claim.complete(Reply::Marker).map_err(Error::from), Err(Error::Forked)) {
            return A_KEPT_CLAIM_IS_NOT_REFUSED;
        }
    }
    if !matches!(sweeper.last_error(), Some(Error::Forked)) {
        return A_SWEEPER_IS_NOT_REFUSED;
    }
    sweeper.stop();
    AS_IT_SHOULD_BE
}

#[test]
fn a_fork_at_any_moment_of_other_threads_work_is_refused_every_call_and_never_hangs() {
    alone(
        "forks_under_load::a_fork_at_any_moment_of_other_threads_work_is_refused_every_call_and_never_hangs",
        || {
            let folder = folder();
            let path = folder.path().join("store.db");
            let store = open(&path, SqliteOptions::new()).expect("a fresh store");
            let forks = times(FORKS);
            // SAFETY: it takes a number and touches no memory of ours. A longer run may take longer.
            unsafe { alarm(120 * u32::try_from(forks.div_ceil(FORKS)).expect("a small number")) };
            let short = store.with_policy(Policy::new().with_lease(LEASE)).expect("a usable policy");
            let is_kept = |name| {
                let claim =
                    short.try_claim(&scope("a"), &key(name), &asks_for("x")).expect("an answer").claimed();
                claim.keep_alive(FOR_EVER).expect("a renewer");
                claim
            };
            let kept = ["kept", "kept, too"].map(is_kept);
            let sweeper = store.spawn_sweeper(Duration::from_millis(1));
            let calls: Vec<_> =
                calls(&store).into_iter().filter(|(name, _)| !OF_A_CONNECTION.contains(name)).collect();
            let names: Vec<_> = calls.iter().map(|(name, _)| *name).collect();
            let (is_over, operations) = (AtomicBool::new(false), AtomicUsize::new(0));
            let mut inherited = Some((store.clone(), calls, Vec::from(kept), sweeper));
            let done = thread::scope(|threads| {
                let told_to_stop = SaysStop(&is_over);
                let workers: Vec<_> = (0..WORKERS)
                    .map(|worker| {
                        let (store, is_over, operations) = (store.clone(), &is_over, &operations);
                        threads.spawn(move || work(&store, worker, is_over, operations))
                    })
                    .collect();
                for fork in 0..forks {
                    while operations.load(Ordering::SeqCst) < fork * WORKERS {
                        thread::yield_now();
                    }
                    // The allocator's locks are given back in a fork; there the store must not need any other.
                    let number = in_a_fork(|| match inherited.take() {
                        Some((store, calls, kept, sweeper)) => in_the_child(&store, calls, kept, sweeper),
                        None => u8::MAX,
                    });
                    let wrong = usize::from(number).checked_sub(1).map(|at| names.get(at));
                    assert_eq!(wrong, None, "fork {fork} ended with {number}");
                }
                drop(told_to_stop);
                workers.into_iter().map(|worker| worker.join().expect("a worker")).collect::<Vec<_>>()
            });
            println!("{forks} forks during {done:?} operations");
            assert!(done.iter().all(|count| *count >= forks / 5), "{done:?}");

            let (_, _, kept, sweeper) = inherited.take().expect("only the children's copies were taken");
            assert!(sweeper.is_running() && sweeper.last_error().is_none());
            for claim in kept {
                claim.complete(Reply::Marker).expect("the parent's claim stands");
            }
            drop(sweeper);
            drop((short, store));
            let store = open(&path, SqliteOptions::new()).expect("the store");
            for (worker, done) in done.into_iter().enumerate() {
                for name in (0..done).map(|number| name_of(worker, number)) {
                    let answer =
                        store.try_claim(&scope("a"), &key(&name), &asks_for("x")).expect("an answer");
                    assert_eq!(answer.completed().reply, reply_of(&name));
                }
            }
            let sound: String =
                shell(&path).query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("an answer");
            assert_eq!(sound, "ok");
        },
    );
}
