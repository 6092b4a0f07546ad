//! The tests of the tests: each fault that can be planted in the store must make a test fail. `just planted` runs
//! it and shows which.
//!
//! All on one build: each test runs in a process of its own, without the fault, where it must pass, and with it.
//! Two at a time. A fault that leaves a caller waiting for ever shows as a run that does not end, and only where
//! the table says so.
#![cfg(all(idempotency_planted, feature = "sqlite"))]

mod runs;
mod table;

use idempotency::planted::{self, Variant};
use runs::{Binaries, Ended};
use std::collections::{BTreeSet, HashSet};
use std::sync::Mutex;
use std::thread;
use table::{ROWS, Row};

/// How often a test may miss its fault, and one more: whether threads meet is up to the machine. Without the fault it has to pass
/// at once.
const RUNS: usize = 10;

/// What must come of the test with the fault.
#[derive(Clone, Copy, Debug)]
pub enum Must {
    Fail,
    /// Fail, and say this where it does.
    Say(&'static str),
    /// Not end.
    Hang,
}

impl Must {
    const fn hang(self) -> bool {
        matches!(self, Self::Hang)
    }
}

/// What the test of `row` said about its fault, or what happened instead.
fn killed(row: &Row, ended: &Ended) -> Result<String, String> {
    match (ended, row.must) {
        (Ended::Failed(said), must) if !must.hang() => {
            // The message follows the line that says where.
            let mut said_then = said.lines().skip_while(|line| !line.contains(" panicked at ")).skip(1);
            let message = said_then.next().unwrap_or("it ended by a signal or an exit");
            match must {
                // The edit was not made, so nothing was planted.
                _ if message.contains(planted::NOT_ONCE) => Err(message.to_owned()),
                Must::Say(text) if !message.contains(text) => {
                    Err(format!("it says nothing of {text:?}: {said}"))
                }
                _ => Ok(message.chars().take(100).collect()),
            }
        }
        (Ended::Hung, Must::Hang) => Ok("it does not end".to_owned()),
        (Ended::Passed, _) => Err("survived".to_owned()),
        (Ended::Hung, _) => Err("it does not end".to_owned()),
        (Ended::Failed(said) | Ended::Nothing(said), _) => Err(said.clone()),
    }
}

/// Does `work` on each of `of`, two at a time; gives what was complained of.
fn two_at_a_time<T: Sync>(of: &[T], work: impl Fn(&T) -> Result<(), String> + Sync) -> Vec<String> {
    let (left, complaints) = (Mutex::new(of.iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(next) = { left.lock().expect("no panic").next() } {
                    if let Err(complaint) = work(next) {
                        complaints.lock().expect("no panic").push(complaint);
                    }
                }
            });
        }
    });
    complaints.into_inner().expect("no panic")
}

#[test]
fn every_fault_that_can_be_planted_makes_its_test_fail() {
    let variants: Vec<Variant> = planted::all().collect();
    let names: HashSet<_> = variants.iter().map(|variant| variant.name).collect();
    assert_eq!(names.len(), variants.len(), "names that stand twice");
    let unknown: Vec<_> = ROWS.iter().filter(|row| !names.contains(row.fault)).collect();
    assert!(unknown.is_empty(), "rows of nothing: {unknown:?}");
    let without_row: Vec<_> =
        variants.iter().filter(|variant| table::row_of(variant.name).is_none()).collect();
    assert!(without_row.is_empty(), "without a test: {without_row:?}");
    let rows: Vec<(Variant, Row)> =
        variants.iter().filter_map(|variant| Some((*variant, table::row_of(variant.name)?))).collect();

    let binaries = Binaries::of(rows.iter().map(|(_, row)| row.target).collect());
    let mut tests = BTreeSet::new();
    let sound: Vec<&Row> =
        rows.iter().map(|(_, row)| row).filter(|row| tests.insert((row.target, row.test))).collect();
    let complaints = two_at_a_time(&sound, |row| match binaries.run(row, false) {
        Ended::Passed => Ok(()),
        ended => Err(format!("{}: without a fault: {ended:?}", row.test)),
    });
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));

    println!("\nvariant | what is wrong | the test that fails | what it says");
    let alive = two_at_a_time(&rows, |(variant, row)| {
        let mut runs = (1..=RUNS).map(|run| (run, binaries.run(row, true)));
        let mut ran = runs.by_ref().skip_while(|(run, ended)| *run < RUNS && matches!(ended, Ended::Passed));
        let (run, ended) = ran.next().expect("the last run at least");
        let said = killed(row, &ended).map_err(|instead| format!("{}: {instead}", row.fault))?;
        let late = if run > 1 { format!(", in run {run}") } else { String::new() };
        println!("{} | {} | {} {} | {said}{late}", variant.name, variant.wrong, row.target, row.test);
        Ok(())
    });
    assert!(alive.is_empty(), "{}", alive.join("\n"));
    println!("planted: {} variants, each found by its test; {} tests pass without", rows.len(), sound.len());
}
