//! Every interleaving of a few callers at the queue, up to a bound on preemptions. `just loom` runs it.
//!
//! loom itself finds a caller that is never told: nobody can run on then. Each model says afterwards that the
//! interleavings it is about did occur.

use super::{CommitQueue, Executor, Limits, QueueFull};
use crate::sync::{model, thread};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// As in `tests/loom.rs`; `LOOM_MAX_PREEMPTIONS` overrides it.
const MAX_PREEMPTIONS: usize = 3;
const LIMITS: Limits = Limits { batch: 100, waiting: 100 };
/// The command at which [`Log`] panics.
const PANIC: u32 = 13;

/// An executor that remembers its batches, and answers each command with itself.
#[derive(Default)]
struct Log {
    batches: Vec<Vec<u32>>,
    ends: Arc<AtomicUsize>,
}

impl Executor for Log {
    type Command = u32;
    type Answer = Option<u32>;

    fn weight(_command: &u32) -> usize {
        1
    }

    fn execute(&mut self, batch: &[u32]) -> Vec<Option<u32>> {
        self.batches.push(batch.to_vec());
        if batch.contains(&PANIC) {
            // Without a message on the standard error for each interleaving.
            resume_unwind(Box::new("unlucky"));
        }
        batch.iter().copied().map(Some).collect()
    }

    fn unanswered() -> Option<u32> {
        None
    }

    fn is_forked(&self) -> bool {
        false
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.ends.fetch_add(1, Ordering::Relaxed);
    }
}

/// What was seen in any of the interleavings.
#[derive(Clone, Default)]
struct Sightings(Arc<Mutex<BTreeSet<String>>>);

impl Sightings {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(what.into());
    }

    fn assert_all(&self, expected: &[&str]) {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for expected in expected {
            assert!(seen.contains(*expected), "never seen: {expected}; seen: {seen:?}");
        }
    }
}

/// Runs `model` in every interleaving.
fn explore(model: impl Fn(&Sightings) + Send + Sync + 'static) -> Sightings {
    let sightings = Sightings::default();
    let mut builder = model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(MAX_PREEMPTIONS));
    let noted = sightings.clone();
    builder.check(move || model(&noted));
    sightings
}

fn queue() -> Arc<CommitQueue<Log>> {
    Arc::new(CommitQueue::new(Log::default(), LIMITS))
}

/// Does `call` on the queue in a thread of its own.
fn beside<T: 'static>(
    queue: &Arc<CommitQueue<Log>>,
    call: impl FnOnce(&CommitQueue<Log>) -> T + 'static,
) -> thread::JoinHandle<T> {
    let queue = Arc::clone(queue);
    thread::spawn(move || call(&queue))
}

fn batches(queue: &CommitQueue<Log>) -> Vec<Vec<u32>> {
    queue.turn().map(|log| log.batches.clone()).unwrap_or_default()
}

#[test]
fn each_command_is_executed_once_and_answered_to_its_caller() {
    let sightings = explore(|sightings| {
        let queue = queue();
        let others = [vec![1], vec![2, 3]].map(|commands| beside(&queue, move |q| q.submit(commands)));
        assert_eq!(queue.submit(vec![4, 5]), Ok(vec![Some(4), Some(5)]));
        let [one, other] = others.map(|other| other.join().ok());
        assert_eq!(one, Some(Ok(vec![Some(1)])));
        assert_eq!(other, Some(Ok(vec![Some(2), Some(3)])));
        let batches = batches(&queue);
        let mut executed: Vec<_> = batches.iter().flatten().copied().collect();
        executed.sort_unstable();
        assert_eq!(executed, [1, 2, 3, 4, 5]);
        sightings.note(format!("{} batches", batches.len()));
    });
    // A leader that is alone takes nobody along: with three callers, there is a batch of two at the best.
    sightings.assert_all(&["2 batches", "3 batches"]);
}

#[test]
fn a_leader_that_panics_leaves_nobody_behind() {
    let sightings = explore(|sightings| {
        let queue = queue();
        let unlucky = beside(&queue, |q| catch_unwind(AssertUnwindSafe(|| q.submit(vec![PANIC]))));
        let other = beside(&queue, |q| catch_unwind(AssertUnwindSafe(|| q.submit(vec![1]))));
        let mine = catch_unwind(AssertUnwindSafe(|| queue.submit(vec![2])));
        for (command, heard) in [(2, Some(mine)), (1, other.join().ok())] {
            sightings.note(match heard {
                Some(Err(_panic)) => "a leader of another's panic",
                Some(Ok(answer)) if answer == Ok(vec![Some(command)]) => "answered",
                Some(Ok(answer)) if answer == Ok(vec![None]) => "unanswered",
                other => panic!("{:?}", other.map(|heard| heard.ok())),
            });
        }
        sightings.note(match unlucky.join().ok() {
            Some(Err(_panic)) => "panicked as the leader",
            Some(Ok(answer)) if answer == Ok(vec![None]) => "panicked under another leader",
            other => panic!("{:?}", other.map(|heard| heard.ok())),
        });
        assert_eq!(queue.submit(vec![3]), Ok(vec![Some(3)]), "the queue goes on");
    });
    sightings.assert_all(&[
        "answered",
        "unanswered",
        "a leader of another's panic",
        "panicked as the leader",
        "panicked under another leader",
    ]);
}

#[test]
fn who_has_a_turn_is_alone_and_others_go_on_behind() {
    let sightings = explore(|sightings| {
        let queue = queue();
        let turn = beside(&queue, |q| {
            let Ok(mut log) = q.turn() else { return None };
            let before = log.batches.clone();
            // Others may run here.
            thread::yield_now();
            let is_alone = log.batches == before;
            log.batches.push(vec![100]);
            Some(is_alone)
        });
        let other = beside(&queue, |q| q.submit(vec![1]));
        assert_eq!(queue.submit(vec![2]), Ok(vec![Some(2)]));
        assert_eq!(other.join().ok(), Some(Ok(vec![Some(1)])));
        assert_eq!(turn.join().ok(), Some(Some(true)));
        let batches = batches(&queue);
        let at = batches.iter().position(|batch| *batch == [100]);
        sightings.note(format!("{at:?} of {}", batches.len()));
    });
    sightings.assert_all(&["Some(0) of 3", "Some(0) of 2", "Some(1) of 3", "Some(2) of 3", "Some(1) of 2"]);
}

#[test]
fn a_caller_that_finds_no_room_is_told_so_and_nothing_of_it_is_executed() {
    let sightings = explore(|sightings| {
        let queue = Arc::new(CommitQueue::new(Log::default(), Limits { waiting: 0, ..LIMITS }));
        let other = beside(&queue, |q| q.submit(vec![1]));
        let mine = queue.submit(vec![2]);
        let heard = [(1, other.join().ok()), (2, Some(mine))];
        let mut expected = Vec::new();
        for (command, heard) in heard {
            match heard {
                Some(Ok(answers)) => {
                    assert_eq!(answers, [Some(command)]);
                    expected.push(command);
                }
                Some(Err(QueueFull)) => sightings.note("full"),
                None => panic!("a caller is gone"),
            }
        }
        let mut executed: Vec<_> = batches(&queue).into_iter().flatten().collect();
        executed.sort_unstable();
        assert_eq!(executed, expected);
        sightings.note(format!("{} executed", expected.len()));
    });
    sightings.assert_all(&["full", "1 executed", "2 executed"]);
}

#[test]
fn the_executor_ends_with_the_last_caller_and_not_before() {
    let sightings = explore(|sightings| {
        let ends = Arc::new(AtomicUsize::new(0));
        let log = Log { batches: Vec::new(), ends: Arc::clone(&ends) };
        let queue = Arc::new(CommitQueue::new(log, LIMITS));
        let other = {
            let (queue, ends) = (Arc::clone(&queue), Arc::clone(&ends));
            thread::spawn(move || {
                let answers = queue.submit(vec![1]);
                drop(queue);
                (answers, ends.load(Ordering::Relaxed))
            })
        };
        let answers = queue.submit(vec![2]);
        drop(queue);
        let after_mine = ends.load(Ordering::Relaxed);
        assert_eq!(answers, Ok(vec![Some(2)]));
        let Ok((answers, after_other)) = other.join() else { panic!("a caller is gone") };
        assert_eq!(answers, Ok(vec![Some(1)]));
        assert_eq!(ends.load(Ordering::Relaxed), 1);
        sightings.note(format!("{after_mine} after mine, {after_other} after the other"));
    });
    sightings.assert_all(&["0 after mine, 1 after the other", "1 after mine, 0 after the other"]);
}
