//! The suite can fail: stores that each do one thing wrong, and are refused by name.

mod claims;
mod contents;
mod owners;
mod storage;
mod store;

use idempotency::testing::conformance::{Subject, check, checks, run_all};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use store::{Flaw, Flawed, Kept, SOUND};

fn flaws() -> impl Iterator<Item = &'static Flaw> {
    [claims::FLAWS, owners::FLAWS, contents::FLAWS, storage::FLAWS].into_iter().flatten()
}

fn subject(flaw: &'static Flaw) -> Subject {
    let kept = Arc::new(Mutex::new(Kept::new()));
    Subject::durable(move |clock| Ok::<_, std::convert::Infallible>(Flawed::open(flaw, &kept, clock)))
}

#[test]
fn the_store_without_a_flaw_passes_every_check() {
    let report = run_all(|| subject(&SOUND));
    assert!(report.is_conformant(), "{report}");
    assert_eq!(report.passed().count(), checks().len(), "{report}");
}

#[test]
fn each_flaw_is_refused_by_the_checks_that_are_there_for_it() {
    let mut refusals = 0;
    for flaw in flaws() {
        assert!(!flaw.refused_by.is_empty(), "no check refuses a store that {}", flaw.name);
        for name in flaw.refused_by {
            let check = check(name).unwrap_or_else(|| panic!("{}: there is no check {name}", flaw.name));
            let verdict = check.run(|| subject(flaw));
            let breach = verdict.expect_err(&format!("a store that {} passes {name}", flaw.name));
            assert_eq!(breach.check().name(), *name);
            assert_ne!(breach.expected(), breach.seen(), "the breach shows the difference: {breach}");
            println!("{}: {name}: {}", flaw.name, breach.what());
            refusals += 1;
        }
    }
    println!("{} flaws, {refusals} refusals", flaws().count());
}

/// So a check that is added here needs a store that it refuses.
#[test]
fn each_check_refuses_at_least_one_flaw() {
    let mut refused: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for flaw in flaws() {
        flaw.refused_by.iter().for_each(|name| refused.entry(name).or_default().push(flaw.name));
    }
    let mut idle = Vec::new();
    for check in checks() {
        match refused.get(check.name()) {
            Some(flaws) => {
                println!(
                    "{}: {}\n    refuses a store that {}",
                    check.topic(),
                    check.name(),
                    flaws.join("; ")
                );
            }
            None => idle.push(check.name()),
        }
    }
    assert_eq!(idle, [""; 0], "checks that no flaw is known to break");
    println!("{} checks", checks().len());
}

#[test]
fn a_check_is_found_by_its_name_and_no_two_have_one() {
    for wanted in checks() {
        let found = check(wanted.name()).expect("a check of this name");
        assert_eq!((found.topic(), found.rule()), (wanted.topic(), wanted.rule()));
    }
}
