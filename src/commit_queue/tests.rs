//! The queue under real threads, with an executor whose batches a test can hold up and fail.

use super::{CommitQueue, Executor, Limits, QueueFull, Turn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

const LIMITS: Limits = Limits { batch: 4, waiting: 8 };
/// A command at which the executor panics.
const PANIC: u32 = 13;
/// A command that fails by itself.
const UNWELCOME: u32 = 404;
/// How long a test waits for what must happen before it fails.
const GIVE_UP: Duration = Duration::from_secs(60);

/// What a command is answered.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Done(u32),
    Refused,
    CommitFailed,
    Unanswered,
}

/// Executes a batch when the test lets it, and commits it if the test does not say otherwise.
struct Gated {
    /// Each batch, as it is begun.
    begun: Sender<Vec<u32>>,
    /// Whether the commit succeeds, batch by batch. All succeed, at once, if nobody is there to say so.
    commits: Receiver<bool>,
    committed: Arc<Mutex<Vec<u32>>>,
}

impl Executor for Gated {
    type Command = u32;
    type Answer = Answer;

    fn weight(_command: &u32) -> usize {
        1
    }

    fn execute(&mut self, batch: &[u32]) -> Vec<Answer> {
        // Nobody may be listening.
        let _is_heard = self.begun.send(batch.to_vec());
        let is_committed = self.commits.recv().unwrap_or(true);
        assert!(!batch.contains(&PANIC), "unlucky");
        if !is_committed {
            return vec![Answer::CommitFailed; batch.len()];
        }
        let welcome = batch.iter().copied().filter(|command| *command != UNWELCOME);
        self.committed.lock().unwrap_or_else(PoisonError::into_inner).extend(welcome);
        let answer =
            |command: &u32| if *command == UNWELCOME { Answer::Refused } else { Answer::Done(*command) };
        batch.iter().map(answer).collect()
    }

    fn unanswered() -> Answer {
        Answer::Unanswered
    }

    fn is_forked(&self) -> bool {
        false
    }
}

/// A queue, and the test's hold on its executor.
struct Bench {
    queue: CommitQueue<Gated>,
    begun: Mutex<Receiver<Vec<u32>>>,
    /// None once the test is over: then all commits succeed, so that a test which fails ends, too.
    commits: Mutex<Option<Sender<bool>>>,
    committed: Arc<Mutex<Vec<u32>>>,
}

impl Bench {
    fn new() -> Self {
        let ((begin, begun), (commits, commit)) = (channel(), channel());
        let committed = Arc::default();
        let gated = Gated { begun: begin, commits: commit, committed: Arc::clone(&committed) };
        Self {
            queue: CommitQueue::new(gated, LIMITS),
            begun: Mutex::new(begun),
            commits: Mutex::new(Some(commits)),
            committed,
        }
    }

    /// The next batch, once it has begun.
    fn next_batch(&self) -> Vec<u32> {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.recv_timeout(GIVE_UP).expect("a batch begins")
    }

    /// Waits until as many callers are queued behind the leader.
    fn await_queued(&self, callers: usize) {
        let is_queued = |_| {
            thread::sleep(Duration::from_millis(1));
            self.queue.line.lock().waiting.len() >= callers
        };
        assert!((0..60_000).any(is_queued), "nobody came");
    }

    fn commit(&self, succeeds: bool) {
        let commits = self.commits.lock().unwrap_or_else(PoisonError::into_inner);
        commits.as_ref().expect("the test is on").send(succeeds).expect("the executor is there");
    }

    /// Commits the batch of the `leader` that [`queue_up`] has put to work: those behind it are next.
    fn let_it_end(&self, leader: Submitted<'_>) {
        self.commit(true);
        assert_eq!(answers(leader), done(&[0]));
    }

    /// Runs a test with its threads.
    fn scope<'e>(&'e self, test: impl for<'s> FnOnce(&'s thread::Scope<'s, 'e>)) {
        struct End<'e>(&'e Bench);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.commits.lock().unwrap_or_else(PoisonError::into_inner).take();
            }
        }
        thread::scope(|scope| {
            let _end = End(self);
            test(scope);
        });
    }

    fn committed(&self) -> Vec<u32> {
        self.committed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

type Submitted<'s> = ScopedJoinHandle<'s, Result<Vec<Answer>, QueueFull>>;

/// Has a leader at work on 0, and the callers with `commands` queued behind it in that order.
fn queue_up<'s, 'e>(
    bench: &'e Bench,
    scope: &'s thread::Scope<'s, 'e>,
    commands: &[&[u32]],
) -> (Submitted<'s>, Vec<Submitted<'s>>) {
    let submit = |commands: &[u32]| {
        let commands = commands.to_vec();
        scope.spawn(move || bench.queue.submit(commands))
    };
    let leader = submit(&[0]);
    assert_eq!(bench.next_batch(), [0], "who is alone has a batch of its own");
    let mut followers = Vec::new();
    for commands in commands {
        followers.push(submit(commands));
        bench.await_queued(followers.len());
    }
    (leader, followers)
}

fn answers(submitted: Submitted<'_>) -> Result<Vec<Answer>, QueueFull> {
    submitted.join().expect("no panic")
}

fn done(commands: &[u32]) -> Result<Vec<Answer>, QueueFull> {
    Ok(commands.iter().copied().map(Answer::Done).collect())
}

#[test]
fn those_who_wait_are_executed_together_in_the_order_in_which_they_came() {
    let bench = Bench::new();
    bench.scope(|scope| {
        let (leader, followers) = queue_up(&bench, scope, &[&[1], &[2, 3], &[4]]);
        bench.let_it_end(leader);
        assert_eq!(bench.next_batch(), [1, 2, 3, 4]);
        bench.commit(true);
        for (follower, expected) in followers.into_iter().zip([done(&[1]), done(&[2, 3]), done(&[4])]) {
            assert_eq!(answers(follower), expected);
        }
    });
    assert_eq!(bench.committed(), [0, 1, 2, 3, 4]);
}

#[test]
fn no_command_of_a_batch_is_acknowledged_whose_commit_fails() {
    let bench = Bench::new();
    bench.scope(|scope| {
        let (leader, followers) = queue_up(&bench, scope, &[&[1], &[2, 3], &[4]]);
        bench.let_it_end(leader);
        assert_eq!(bench.next_batch(), [1, 2, 3, 4]);
        let next = scope.spawn(|| bench.queue.submit(vec![5]));
        bench.await_queued(1);
        bench.commit(false);
        for (follower, commands) in followers.into_iter().zip([1, 2, 1]) {
            assert_eq!(answers(follower), Ok(vec![Answer::CommitFailed; commands]));
        }
        assert_eq!(bench.next_batch(), [5], "the next batch has a commit of its own");
        bench.commit(true);
        assert_eq!(answers(next), done(&[5]));
    });
    assert_eq!(bench.committed(), [0, 5]);
}

#[test]
fn a_command_that_fails_by_itself_does_not_fail_the_others() {
    let bench = Bench::new();
    bench.scope(|scope| {
        let (leader, mut followers) = queue_up(&bench, scope, &[&[1], &[UNWELCOME], &[2]]);
        bench.let_it_end(leader);
        assert_eq!(bench.next_batch(), [1, UNWELCOME, 2]);
        bench.commit(true);
        assert_eq!(answers(followers.remove(1)), Ok(vec![Answer::Refused]));
        assert_eq!(answers(followers.remove(0)), done(&[1]));
        assert_eq!(answers(followers.remove(0)), done(&[2]));
    });
    assert_eq!(bench.committed(), [0, 1, 2]);
}

#[test]
fn a_batch_ends_at_the_limit_and_a_caller_with_more_than_that_has_one_of_its_own() {
    let bench = Bench::new();
    bench.scope(|scope| {
        let (leader, followers) = queue_up(&bench, scope, &[&[1, 2, 3], &[4, 5], &[6; 9], &[7]]);
        bench.let_it_end(leader);
        for expected in [&[1, 2, 3][..], &[4, 5], &[6; 9], &[7]] {
            assert_eq!(bench.next_batch(), expected);
            bench.commit(true);
        }
        followers.into_iter().for_each(|follower| assert!(answers(follower).is_ok()));
    });
}

#[test]
fn a_turn_comes_in_its_order_and_those_behind_it_wait() {
    let bench = Bench::new();
    bench.scope(|scope| {
        let (leader, mut followers) = queue_up(&bench, scope, &[&[1]]);
        let (has_turn, got_turn) = channel();
        let (end_turn, turn_ends) = channel::<()>();
        let turn = scope.spawn({
            let bench = &bench;
            move || {
                let turn = bench.queue.turn();
                has_turn.send(bench.committed()).expect("the test listens");
                turn_ends.recv().expect("the test says when");
                turn.map(|turn: Turn<'_, _>| drop(turn))
            }
        });
        bench.await_queued(2);
        let behind = scope.spawn(|| bench.queue.submit(vec![2]));
        bench.await_queued(3);
        bench.let_it_end(leader);
        assert_eq!(bench.next_batch(), [1], "the turn ends the batch");
        bench.commit(true);
        assert_eq!(answers(followers.remove(0)), done(&[1]));
        assert_eq!(got_turn.recv_timeout(GIVE_UP), Ok(vec![0, 1]));
        assert_eq!(bench.committed(), [0, 1], "nobody else is at work");
        end_turn.send(()).expect("the turn is on");
        assert_eq!(bench.next_batch(), [2]);
        bench.commit(true);
        assert_eq!(answers(behind), done(&[2]));
        assert_eq!(turn.join().expect("no panic"), Ok(()));
    });
}

#[test]
fn a_leader_that_panics_hears_it_and_its_followers_that_it_may_have_happened() {
    let bench = Bench::new();
    bench.scope(|scope| {
        let (leader, mut followers) = queue_up(&bench, scope, &[&[1], &[PANIC], &[2]]);
        bench.let_it_end(leader);
        assert_eq!(bench.next_batch(), [1, PANIC, 2]);
        bench.commit(true);
        assert!(followers.remove(0).join().is_err(), "the first of them led");
        for follower in followers {
            assert_eq!(answers(follower), Ok(vec![Answer::Unanswered]));
        }
        bench.commit(true);
        assert_eq!(bench.queue.submit(vec![3]), done(&[3]), "the queue goes on");
    });
    assert_eq!(bench.committed(), [0, 3]);
}

#[test]
fn a_turn_ends_with_a_panic_of_who_has_it() {
    let bench = Bench::new();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _turn = bench.queue.turn();
        panic!("inside");
    }));
    assert!(unwound.is_err());
    bench.commit(true);
    assert_eq!(bench.queue.submit(vec![1]), done(&[1]));
}

#[test]
fn a_full_queue_refuses_who_comes_and_executes_nothing_of_it() {
    let bench = Bench::new();
    bench.scope(|scope| {
        let commands: Vec<[u32; 1]> = (1..=8).map(|command| [command]).collect();
        let commands: Vec<&[u32]> = commands.iter().map(|command| &command[..]).collect();
        let (leader, followers) = queue_up(&bench, scope, &commands);
        assert_eq!(bench.queue.submit(vec![9]), Err(QueueFull));
        assert!(bench.queue.turn().is_err_and(|full| full == QueueFull));
        (0..3).for_each(|_| bench.commit(true));
        assert_eq!(answers(leader), done(&[0]));
        followers.into_iter().for_each(|follower| assert!(answers(follower).is_ok()));
        bench.commit(true);
        assert_eq!(bench.queue.submit(vec![10]), done(&[10]), "there is room again");
    });
    assert_eq!(bench.committed(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 10]);
}

#[test]
fn commands_that_the_executor_forgets_to_answer_are_answered_as_unknown() {
    struct Forgetful;
    impl Executor for Forgetful {
        type Command = u32;
        type Answer = Answer;

        fn weight(_command: &u32) -> usize {
            1
        }

        fn execute(&mut self, batch: &[u32]) -> Vec<Answer> {
            batch.first().copied().map(Answer::Done).into_iter().collect()
        }

        fn unanswered() -> Answer {
            Answer::Unanswered
        }

        fn is_forked(&self) -> bool {
            false
        }
    }
    let queue = CommitQueue::new(Forgetful, LIMITS);
    assert_eq!(queue.submit(vec![1, 2]), Ok(vec![Answer::Done(1), Answer::Unanswered]));
}
