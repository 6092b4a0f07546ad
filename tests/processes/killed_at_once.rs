//! Cases 11, 21, 58 and 67 under `SIGKILL`: one process that does everything is killed at random moments, and so
//! are four on one file, together and one after the other. What any of them was told still holds.

use crate::crew::{Child, Parent, alone};
use crate::dice::Dice;
use crate::doomed::{TABLE, open, work_until_killed};
use crate::ledger::{Ledger, is_acknowledgement};
use crate::seed;
use crate::soak::times;
use idempotency::rusqlite::Connection;
use std::path::Path;
use std::thread;
use std::time::Duration;

const SINGLE_KILLS: usize = 60;
const CREWS: usize = 32;
const OF_FOUR: usize = 4;
/// How many lines a process may say before it is killed, two or three a call.
const MOST_LINES: usize = 60;
/// The kill comes so long after a line, or less; a call takes about as long.
const MOST_MICROS: usize = 2_000;
/// What a survivor has to be told after a death, to have got past what was on its way.
const SIGNS_OF_LIFE: usize = 6;

#[test]
fn after_a_process_was_killed_all_that_it_was_told_holds_and_the_rest_is_whole_or_not_there() {
    if let Some(parent) = Parent::of_this_process() {
        work_until_killed(&parent);
    }
    let this = after_a_process_was_killed_all_that_it_was_told_holds_and_the_rest_is_whole_or_not_there;
    kill_crews(&this, 1, times(SINGLE_KILLS));
}

#[test]
fn after_four_processes_on_one_file_were_killed_all_that_any_was_told_holds_and_survivors_work_on() {
    if let Some(parent) = Parent::of_this_process() {
        work_until_killed(&parent);
    }
    let this = after_four_processes_on_one_file_were_killed_all_that_any_was_told_holds_and_survivors_work_on;
    kill_crews(&this, OF_FOUR, times(CREWS));
}

#[track_caller]
fn kill_crews<T: Fn()>(test: &T, size: usize, crews: usize) {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("store.db");
    Connection::open(&file).and_then(|file| file.execute_batch(TABLE)).expect("a table");
    let seed = seed::seed();
    let (mut dice, mut ledger) = (Dice::new(seed), Ledger::default());
    for round in 0..crews {
        // With somebody beside them who has the file open, nobody has to recover it; else the next one has.
        let beside = (round % 4 < 2).then(|| open(&file, round));
        ledger.begin(round);
        let crew = start(test, size, &file, seed, round);
        let said = if round % 8 < 4 { kill_together(crew, &mut dice) } else { kill_in_turn(crew, &mut dice) };
        assert_eq!(said.len(), size);
        said.iter().for_each(|lines| ledger.hear_all(lines));
        said.iter().for_each(|lines| ledger.check_replays(lines));
        ledger.check_file(&file);
        drop(beside);
    }
    let (kills, counts) = (crews * size, &ledger.counts);
    println!("{kills} kills in {crews} rounds: {counts:?}");
    assert!(counts.cut_off >= kills / 4, "only {} kills came in the middle of a call", counts.cut_off);
    let happened = [counts.granted, counts.recorded, counts.worked, counts.replayed];
    assert!(happened.iter().all(|times| *times >= crews), "{counts:?}");
    let writes_cut_off = counts.cut_off_and_done + counts.cut_off_and_not_done;
    assert!(counts.takeovers > 0 && counts.swept > 0 && writes_cut_off > 0, "{counts:?}");
}

fn start<T: Fn()>(test: &T, size: usize, file: &Path, seed: u64, round: usize) -> Vec<Child> {
    let mut crew: Vec<_> =
        (0..size).map(|member| Child::start(test, round * size + member, file, seed)).collect();
    crew.iter_mut().for_each(|child| child.tell(round));
    crew
}

/// Some lines of each of them, and then a moment.
#[track_caller]
fn hear_some(crew: &[Child], dice: &mut Dice) -> Vec<Vec<String>> {
    let said =
        crew.iter().map(|child| (0..dice.between(1, MOST_LINES)).map(|_| child.hear()).collect()).collect();
    wait_a_moment(dice);
    said
}

fn wait_a_moment(dice: &mut Dice) {
    let micros = dice.between(0, MOST_MICROS);
    thread::sleep(Duration::from_micros(u64::try_from(micros).expect("a short time")));
}

#[track_caller]
fn kill_together(mut crew: Vec<Child>, dice: &mut Dice) -> Vec<Vec<String>> {
    let mut said = hear_some(&crew, dice);
    crew.iter_mut().for_each(Child::strike);
    for (said, child) in said.iter_mut().zip(crew) {
        said.extend(child.kill());
    }
    said
}

/// Whoever is left must be told something after each death: the dead hold nothing that the living wait for.
#[track_caller]
fn kill_in_turn(mut crew: Vec<Child>, dice: &mut Dice) -> Vec<Vec<String>> {
    let mut said = hear_some(&crew, dice);
    let mut all = Vec::new();
    while !crew.is_empty() {
        let chosen = dice.between(0, crew.len() - 1);
        let mut of_chosen = said.swap_remove(chosen);
        of_chosen.extend(crew.swap_remove(chosen).kill());
        all.push(of_chosen);
        for (said, child) in said.iter_mut().zip(&crew) {
            said.extend(child.heard_already());
            let mut signs = 0;
            while signs < SIGNS_OF_LIFE {
                let line = child.hear();
                signs += usize::from(is_acknowledgement(&line));
                said.push(line);
            }
        }
        wait_a_moment(dice);
    }
    all
}
