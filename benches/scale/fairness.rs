//! Whether all get their turn: threads on one store, and processes on one file, that claim as fast as they can.

use crate::common::keys::Keys;
use crate::common::measured::{Bound, Results, Row};
use crate::common::plan::Plan;
use crate::common::request::Request;
use crate::common::sides::Sides;
use crate::common::spread::Spread;
use crate::common::subjects::{Folder, Subject, durable};
use crate::common::threads::{now, timed};
use crate::growth::count;
use idempotency::{ClaimOutcome, Durability, SqliteStore, SystemClock};
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

const CLAIMANTS: usize = 8;
/// The first argument of a process that this one starts.
const CLAIMANT: &str = "claimant";
const BOUND: Bound = Bound::AtLeast { must: 0.5, goal: Some(0.9) };
const UNIT: &str = "claims";

/// What one claimant came to.
#[derive(Clone, Copy, Default)]
struct Tally {
    claims: usize,
    /// Calls that failed because the file was busy.
    busy: usize,
}

pub fn of_threads(plan: Plan, results: &mut Results) {
    let mut keys = plan.keys();
    let repeat = || {
        let opened = Durability::Full.open(SystemClock);
        let mut workers: Vec<_> = (0..CLAIMANTS).map(|_| (keys.number(), Tally::default())).collect();
        timed(&mut workers, |(seed, tally)| *tally = claim_for(period(plan), &opened.store, *seed));
        workers.into_iter().map(|(_, tally)| tally).collect()
    };
    report("P12-threads", "8 threads", plan, results, repeat);
}

pub fn of_processes(plan: Plan, results: &mut Results) {
    let mut keys = plan.keys();
    let repeat = || {
        let folder = Folder::new();
        drop(durable(&folder.database()));
        let mut claimants: Vec<_> = (0..CLAIMANTS)
            .map(|_| Claimant::start(&folder.database(), period(plan), keys.number()))
            .collect();
        claimants.iter_mut().for_each(|claimant| assert_eq!(claimant.line(), "ready"));
        claimants.iter_mut().for_each(Claimant::begin);
        claimants.into_iter().map(Claimant::end).collect()
    };
    report("P12-processes", "8 processes", plan, results, repeat);
}

/// Adds how the slowest compares with the mean, and how often the file was busy.
fn report(id: &str, who: &str, plan: Plan, results: &mut Results, repeat: impl FnMut() -> Vec<Tally>) {
    let (mut sides, mut busy) = (Sides::default(), Vec::new());
    for tallies in std::iter::repeat_with(repeat).take(plan.repeats) {
        let slowest = tallies.iter().map(|tally| tally.claims).min().expect("claimants");
        let all: usize = tallies.iter().map(|tally| tally.claims).sum();
        sides.push(count(slowest), count(all) / count(tallies.len()));
        busy.push(count(tallies.iter().map(|tally| tally.busy).sum()));
    }
    let what = format!("{who} that claim durably for {:?}: the slowest, against the mean", period(plan));
    results.add(Row::of_sides(id, what, &sides, UNIT, Some(BOUND)));
    results.add(Row {
        id: format!("{id}-busy"),
        what: "calls of theirs that failed because the file was busy".into(),
        value: Spread::of(busy),
        unit: "calls",
        bound: Some(Bound::AtMost { must: 0.0, goal: None }),
        sides: None,
    });
}

fn period(plan: Plan) -> Duration {
    if plan.quick { Duration::from_millis(200) } else { Duration::from_secs(15) }
}

/// Claims random keys, one after the other.
fn claim_for(period: Duration, store: &SqliteStore, seed: u64) -> Tally {
    let (request, mut keys, mut tally) = (Request::new(), Keys::new(seed), Tally::default());
    let end = now() + period;
    while now() < end {
        match store.try_claim(&request.scope, &keys.draw(), &request.fingerprint) {
            Ok(ClaimOutcome::Claimed(_)) => tally.claims += 1,
            Err(error) if error.is_transient() => tally.busy += 1,
            other => panic!("neither Claimed nor busy: {other:?}"),
        }
    }
    tally
}

/// A process that claims, told by the one that started it when to begin.
struct Claimant {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Claimant {
    fn start(path: &Path, period: Duration, seed: u64) -> Self {
        let mut process = Command::new(env::current_exe().expect("a path to this program"))
            .arg(CLAIMANT)
            .arg(path)
            .args([period.as_millis().to_string(), seed.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("another process");
        let orders = process.stdin.take().expect("a pipe");
        let answers = BufReader::new(process.stdout.take().expect("a pipe"));
        Self { process, orders, answers }
    }

    fn begin(&mut self) {
        self.orders.write_all(b"begin\n").expect("a claimant that listens");
    }

    fn end(mut self) -> Tally {
        let line = self.line();
        let numbers: Vec<usize> =
            line.split(' ').map(|number| number.parse().expect("claims and busy calls")).collect();
        assert!(self.process.wait().expect("an end").success());
        Tally { claims: numbers[0], busy: numbers[1] }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("a claimant that answers");
        line.trim_end().to_owned()
    }
}

pub fn is_a_claimant() -> bool {
    env::args().nth(1).is_some_and(|first| first == CLAIMANT)
}

/// What a [`Claimant`] does, in its own process.
pub fn claim_as_told() {
    let arguments: Vec<String> = env::args().skip(2).collect();
    let [path, millis, seed] = arguments.as_slice() else { panic!("not a path, a time and a seed") };
    let store = durable(Path::new(path));
    println!("ready");
    let mut order = String::new();
    std::io::stdin().read_line(&mut order).expect("an order");
    if order.is_empty() {
        return; // whoever started this process is gone
    }
    let period = Duration::from_millis(millis.parse().expect("milliseconds"));
    let tally = claim_for(period, &store, seed.parse().expect("a seed"));
    println!("{} {}", tally.claims, tally.busy);
}
