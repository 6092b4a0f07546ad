//! Each operation that writes, with a fault at its first operation on the disk, at its second, and so on.

use crate::bench::{Bench, Setting, Stored};
use crate::scenarios::{ALL, Scenario};
use crate::truth::check_at_every_operation;
use crate::vfs::{Fault, File, Operation};
use std::sync::{Arc, Mutex};

/// An operation of the store is several of the disk's: else the loops would find nothing.
const FEWEST: usize = 5;

fn meets_one_fault(settings: &[Setting]) {
    let mut hits = 0;
    for (setting, scenario) in of_each(settings) {
        let hit = check_at_every_operation(scenario, Fault::of_any(), setting, |run, context| {
            assert!(!(scenario.is_settled && run.is_indefinite()), "{context}: {:?}", run.log);
        });
        assert!(hit >= FEWEST, "{} was hit {hit} times", scenario.name);
        hits += hit;
    }
    println!("{hits} faults, in {} operations and {} settings", ALL.len(), settings.len());
}

fn meets_faults_that_last(settings: &[Setting]) {
    let mut hits = 0;
    for (setting, scenario) in of_each(settings) {
        let hit = check_at_every_operation(scenario, Fault::of_any().lasting(), setting, |run, context| {
            assert!(run.log.count(Operation::Open, File::Main) <= 1, "{context}: {:?}", run.log);
        });
        assert!(hit >= FEWEST, "{} was hit {hit} times", scenario.name);
        hits += hit;
    }
    println!("{hits} faults, in {} operations and {} settings", ALL.len(), settings.len());
}

fn of_each(settings: &[Setting]) -> impl Iterator<Item = (Setting, &'static Scenario)> {
    settings.iter().flat_map(|setting| ALL.iter().map(|scenario| (*setting, scenario)))
}

#[test]
fn an_operation_that_meets_one_fault_has_a_definite_answer_wherever_it_is() {
    meets_one_fault(&Setting::ALL);
}

#[test]
fn at_normal_durability_an_operation_that_meets_one_fault_has_a_definite_answer_too() {
    meets_one_fault(&Setting::NORMAL);
}

#[test]
fn an_operation_that_meets_faults_that_last_is_never_done_by_half_and_settled_at_most_once() {
    meets_faults_that_last(&Setting::ALL);
}

#[test]
fn at_normal_durability_an_operation_that_meets_faults_that_last_is_never_done_by_half_either() {
    meets_faults_that_last(&Setting::NORMAL);
}

#[test]
fn an_operation_that_meets_two_faults_in_a_row_is_never_done_by_half() {
    for (setting, scenario) in of_each(&[Setting::PLAIN, Setting::IN_COMPANY]) {
        check_at_every_operation(scenario, Fault::of_any().times(2), setting, |_, _| {});
    }
}

/// The disk works, or a sync of the log fails and what it left is settled: wherever all is killed, it is done
/// or not.
#[test]
fn an_operation_that_is_killed_anywhere_is_done_or_not_and_never_by_half() {
    for fault in [Fault::none(), Fault::of(&[Operation::Sync], File::Wal)] {
        for in_company in [false, true] {
            for scenario in &ALL {
                let setting = Setting { in_company, ..Setting::PLAIN };
                let killed = (1..).take_while(|nth| is_whole_if_killed_at(*nth, scenario, fault, setting));
                let killed = killed.count();
                assert!(killed >= FEWEST, "{} was killed {killed} times", scenario.name);
            }
        }
    }
}

/// Runs the operation, and looks at what is left if all are killed before operation `nth` of the disk's; false
/// if it has ended by then.
fn is_whole_if_killed_at(nth: usize, scenario: &Scenario, fault: Fault, setting: Setting) -> bool {
    let bench = Bench::new(setting);
    let claim = scenario.prepare(&bench);
    let before = bench.stored();
    let left = Arc::new(Mutex::new(None));
    bench.disk.fail(fault);
    bench.disk.before_operation(nth, {
        let (left, path) = (Arc::clone(&left), bench.path.clone());
        move || *left.lock().expect("no panic") = Some(Stored::if_killed(&path))
    });
    let answer = scenario.run(&bench, claim);
    bench.disk.heal();
    let left = left.lock().expect("no panic").take();
    if let Some(left) = &left {
        let is_whole = *left == before || scenario.answer(&before, left).is_some();
        assert!(is_whole, "{}, {setting:?}, killed at {nth}: {answer:?}, {left:?}", scenario.name);
    }
    left.is_some()
}
