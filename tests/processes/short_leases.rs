//! Cases 9, 13, 14 and 20 across processes, by the clock of the machine: owners that stop mid-way, takeovers,
//! and completions that come too late.

use crate::crew::{Child, Parent, alone, release};
use crate::dice::Dice;
use crate::history::{Doubts, Terms, What, check};
use crate::report::{id, parse_all};
use crate::seed;
use crate::soak;
use crate::worker::{Worker, open};
use idempotency::Command;
use std::time::Duration;

const PROCESSES: usize = 8;
const KEYS: usize = 12;
const CALLS: usize = 1_000;
const TERMS: Terms = Terms { lease: Duration::from_millis(20), retention: Duration::from_millis(60) };

#[test]
fn of_processes_whose_leases_lapse_only_the_newest_owner_writes_and_what_it_records_is_replayed() {
    if let Some(parent) = Parent::of_this_process() {
        return do_as_the_dice_say(&parent, false);
    }
    let this = of_processes_whose_leases_lapse_only_the_newest_owner_writes_and_what_it_records_is_replayed;
    let doubts = judge(&this);
    assert_eq!((doubts.shown_done, doubts.open), (0, 0));
}

/// Every other process hears no answer to some of its calls, whether they were done or not.
#[test]
fn where_answers_are_lost_whatever_was_done_or_not_explains_all_that_the_processes_see() {
    if let Some(parent) = Parent::of_this_process() {
        return do_as_the_dice_say(&parent, parent.number % 2 == 0);
    }
    let this = where_answers_are_lost_whatever_was_done_or_not_explains_all_that_the_processes_see;
    let doubts = judge(&this);
    println!("{doubts:?}");
    assert!(doubts.shown_done >= KEYS && doubts.open >= KEYS, "{doubts:?}");
}

fn judge<T: Fn()>(test: &T) -> Doubts {
    let _alone = alone();
    let (seed, mut doubts) = (seed::seed(), Doubts::default());
    for round in 0..soak::times(1) {
        let more = judge_one(test, seed.wrapping_add(u64::try_from(round).expect("a small number")));
        doubts = Doubts { shown_done: doubts.shown_done + more.shown_done, open: doubts.open + more.open };
    }
    doubts
}

/// What the children of `test` saw, in a store of their own.
fn judge_one<T: Fn()>(test: &T, seed: u64) -> Doubts {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("store.db");
    let mut crew = Child::start_many(test, PROCESSES, &file, seed);
    release(&mut crew);
    let seen = parse_all(&crew.into_iter().flat_map(Child::hear_out).collect::<Vec<_>>());

    let store = open(&file, TERMS);
    let look = |key| store.lookup(&id(key).scope, &id(key).key).expect("a look-up");
    let doubts = check("short leases", TERMS, &seen, look);

    let count = |what: fn(&What) -> bool| seen.iter().filter(|seen| what(&seen.what)).count();
    let happened = [
        ("first claims", count(|what| matches!(what, What::Granted { attempt: 1, .. }))),
        ("takeovers", count(|what| matches!(what, What::Granted { attempt: 2.., .. }))),
        ("renewals and checkpoints", count(|what| matches!(what, What::Extended { .. }))),
        ("completions", count(|what| matches!(what, What::Recorded { .. }))),
        ("second completions", count(|what| matches!(what, What::RecordedBefore { .. }))),
        ("replays", count(|what| matches!(what, What::Replayed { .. }))),
        ("claims told that another runs", count(|what| matches!(what, What::Running { .. }))),
        ("mismatches", count(|what| matches!(what, What::Mismatched { .. }))),
        ("ends", count(|what| matches!(what, What::GivenUp { .. }))),
        ("forgotten records", count(|what| matches!(what, What::Forgotten))),
        ("lost claims", count(|what| matches!(what, What::Lost { .. }))),
    ];
    println!("{} calls: {happened:?}", seen.len());
    for (what, times) in happened {
        assert!(times >= KEYS, "{what} happened only {times} times");
    }
    doubts
}

fn do_as_the_dice_say(parent: &Parent, loses_answers: bool) {
    let mut dice = parent.dice();
    let mut worker = Worker::new(parent, TERMS);
    worker.report_and_wait();
    for _ in 0..CALLS {
        let key = dice.between(0, KEYS - 1);
        if loses_answers && dice.between(0, 7) == 0 {
            lose_an_answer(&mut worker, &mut dice, key);
            continue;
        }
        match dice.between(0, 19) {
            0 => worker.sweep(2),
            1 if dice.between(0, 2) == 0 => worker.execute(key, &Command::Forget),
            2 => worker.claim(key, 1),
            1 | 3..=11 => worker.claim(key, 0),
            _ => show_a_token(&mut worker, &mut dice),
        }
    }
    worker.report();
}

/// Of a claim, and then a look mostly shows whether it was granted; of the newest claim's completion, and then
/// another claim does; or of anything.
fn lose_an_answer(worker: &mut Worker<'_>, dice: &mut Dice, key: usize) {
    worker.next_is_unheard(dice.between(0, 1) == 0);
    match (worker.granted.last().copied(), dice.between(0, 2)) {
        (Some((key, token)), 0) => {
            worker.complete(key, token);
            worker.claim(key, 0);
        }
        (Some(_), 1) => show_a_token(worker, dice),
        _ => {
            worker.claim(key, 0);
            if dice.between(0, 3) > 0 {
                worker.look(key);
            }
        }
    }
}

/// Of the last few claims, whether they lapsed or not; those before them were left as a crash leaves them.
fn show_a_token(worker: &mut Worker<'_>, dice: &mut Dice) {
    let Some(last) = worker.granted.len().checked_sub(1) else { return };
    let (key, token) = worker.granted[last - dice.between(0, last.min(5))];
    match dice.between(0, 9) {
        0..=1 => worker.execute(key, &Command::Renew { token }),
        2 => worker.execute(key, &Command::Checkpoint { token, bytes: "half way".into() }),
        3..=5 => worker.complete(key, token),
        6 => worker.execute(key, &Command::Release { token }),
        _ => worker.execute(key, &Command::Abandon { token }),
    }
}
