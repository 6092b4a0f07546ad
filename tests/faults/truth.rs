//! Whether what an operation answers is the truth, whenever its disk fails.

use crate::bench::{Bench, SCOPE, Setting, Stored};
use crate::common::{Answer as _, asks_for, key, scope};
use crate::scenarios::{Answer, Scenario};
use crate::vfs::{Fault, Log};
use idempotency::{Clock, Error, Record, State};

/// What came of an operation on a disk that failed.
pub struct Run {
    pub answer: Result<Answer, Error>,
    pub log: Log,
}

impl Run {
    pub fn is_indefinite(&self) -> bool {
        is_indefinite(&self.answer)
    }
}

fn is_indefinite(answer: &Result<Answer, Error>) -> bool {
    matches!(answer, Err(error) if error.is_indefinite())
}

/// Runs the operation on a fresh file whose disk fails it, and checks that its answer is the truth: if all
/// processes are killed right after it, for who looks into the file, and for this handle once the disk works
/// again, which then goes on as if nothing had been.
pub fn check(scenario: &Scenario, fault: Fault, setting: Setting) -> Run {
    let bench = Bench::new(setting);
    let claim = scenario.prepare(&bench);
    let before = bench.stored();
    bench.disk.fail(fault);
    let answer = scenario.run(&bench, claim);
    let killed = bench.stored_if_killed();
    let log = bench.disk.heal();
    let context = format!("{}, {setting:?}, {fault:?}: {answer:?}", scenario.name);

    let must_agree = |found: &Stored, when: &str| match &answer {
        Ok(answer) => {
            assert_eq!(scenario.answer(&before, found).as_ref(), Some(answer), "{context}, {when}");
        }
        Err(_) if is_indefinite(&answer) => {
            let is_whole = *found == before || scenario.answer(&before, found).is_some();
            assert!(is_whole, "{context}, {when}: {found:?}");
        }
        Err(_) => assert_eq!(*found, before, "{context}, {when}"),
    };
    must_agree(&killed, "if killed");
    if !is_indefinite(&answer) {
        assert_eq!(bench.stored(), killed, "{context}, in the file");
    }
    let seen = bench.seen();
    must_agree(&seen, "by the same handle");
    if answer.is_err() {
        // What this handle has seen can't come to be otherwise by a crash.
        assert_eq!(bench.stored_if_killed(), seen, "{context}, if killed later");
    }
    goes_on(&bench, &seen, &context);
    Run { answer, log }
}

/// The same handle answers a claim as what it sees says, and grants no token twice.
fn goes_on(bench: &Bench, seen: &Stored, context: &str) {
    let now = bench.clock.now();
    let is_claimable = |record: &Record| record.is_expired(now) || record.is_lapsed(now);
    let expected = match seen.record("a") {
        Some(record) if !is_claimable(record) => match record.state {
            State::InProgress => "in progress",
            State::Completed => "completed",
        },
        _ => "claimed",
    };
    let again = bench.store.try_claim(&scope(SCOPE), &key("a"), &asks_for("x")).expect(context);
    assert_eq!(again.name(), expected, "{context}");
    let highest = bench.stored_highest_token();
    let next = bench.store.try_claim(&scope(SCOPE), &key("e"), &asks_for("x")).expect(context).claimed();
    assert!(Some(next.token().get()) > highest, "{context}: {} after {highest:?}", next.token());
    assert_eq!(bench.stored_token("e"), Some(next.token().get()), "{context}");
}

/// Checks the operation with its first operation on the disk failing, with its second, and so on, until it
/// runs through; says how many could fail.
pub fn check_at_every_operation(
    scenario: &Scenario,
    fault: Fault,
    setting: Setting,
    judge: impl Fn(&Run, &str),
) -> usize {
    for nth in 1.. {
        let run = check(scenario, fault.from(nth), setting);
        if run.log.failed() == 0 {
            assert!(run.answer.is_ok(), "{}: {:?}", scenario.name, run.answer);
            return nth - 1;
        }
        let context = format!("{}, {setting:?}, from operation {nth}, {:?}", scenario.name, run.answer);
        judge(&run, &context);
    }
    unreachable!("every operation ends")
}
