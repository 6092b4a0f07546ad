//! Cases 58 and 67: a process is killed again and again while it commits business rows and replies together.

use crate::common::{START, asks_for, key, scope, secs};
use crate::crew::{Child, Parent, alone};
use crate::dice::Dice;
use crate::seed;
use idempotency::rusqlite::{self, Connection, Transaction, TransactionBehavior};
use idempotency::{
    ClaimOutcome, IdempotencyStore, ManualClock, Ran, Reply, SqliteBackend, SqliteOptions, SqliteStore, State,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

const KILLS: usize = 50;
/// How many lines a process may say before it is killed, three an operation.
const MOST_LINES: usize = 30;
/// The kill comes so long after a line, or less; an operation takes about as long.
const MOST_MICROS: usize = 2_000;

/// The store as process `number` opens it, when the claims of those before it have lapsed.
fn open(file: &Path, number: usize) -> SqliteStore {
    let now = START.saturating_add(secs(90) * u32::try_from(number).expect("a small number"));
    let options = SqliteOptions::new().with_clock(ManualClock::new(now));
    IdempotencyStore::new(SqliteBackend::open(file, options).expect("a store that opens"))
}

/// The business of operation `operation`: a row, and a reply that names who wrote it. Nothing but the store keeps
/// it from being done twice.
fn business(transaction: &Transaction<'_>, operation: usize, parent: &Parent) -> rusqlite::Result<Reply> {
    let row = [operation, parent.number].map(|number| i64::try_from(number).expect("a small number"));
    transaction.execute("INSERT INTO orders (operation, process) VALUES (?1, ?2)", row)?;
    parent.hears(format!("writes {operation}"));
    Ok(reply(parent.number))
}

fn reply(process: usize) -> Reply {
    Reply::Reference(format!("ordered by process {process}"))
}

/// Says when it begins an operation, and acknowledges it when it is done, for as many as it is told.
fn work(parent: &Parent, mut run: impl FnMut(usize) -> String) {
    let order = parent.order().expect("an order");
    let (first, end) = order.split_once(' ').expect("the first operation and the end");
    for operation in first.parse().expect("a number")..end.parse().expect("a number") {
        parent.hears(format!("begins {operation}"));
        let answer = run(operation);
        parent.hears(format!("{answer} {operation}"));
    }
}

#[test]
fn of_atomic_work_that_is_killed_at_any_point_there_are_row_and_reply_or_neither() {
    if let Some(parent) = Parent::of_this_process() {
        let store = open(&parent.file, parent.number);
        return work(&parent, |operation| {
            let ran =
                store.atomically(&scope("tenant"), &key(&operation.to_string()), &asks_for("it"), |inside| {
                    business(inside, operation, &parent)
                });
            match ran.expect("a store that works") {
                Ran::Executed(_) => "executed".to_owned(),
                Ran::Replayed(_) => "replayed".to_owned(),
                other => panic!("{operation}: {other:?}"),
            }
        });
    }
    kill_again_and_again(&of_atomic_work_that_is_killed_at_any_point_there_are_row_and_reply_or_neither);
}

#[test]
fn of_a_claim_completed_with_its_rows_and_killed_at_any_point_there_are_row_and_reply_or_neither() {
    if let Some(parent) = Parent::of_this_process() {
        let store = open(&parent.file, parent.number);
        let mut connection = Connection::open(&parent.file).expect("the file");
        return work(&parent, |operation| {
            let answer = store.try_claim(&scope("tenant"), &key(&operation.to_string()), &asks_for("it"));
            let claim = match answer.expect("a store that works") {
                ClaimOutcome::Claimed(claim) => claim,
                ClaimOutcome::Completed(_) => return "replayed".to_owned(),
                other => panic!("{operation}: {other:?}"),
            };
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate).expect("the lock");
            let complete = || store.complete_in(&transaction, &claim.ticket(), reply(parent.number));
            let write = || business(&transaction, operation, &parent);
            // Neither may commit the other before its time.
            let done = if operation % 2 == 0 {
                write().map(|_| complete())
            } else {
                let done = complete();
                write().map(|_| done)
            };
            done.expect("a row").expect("a claim that stands");
            transaction.commit().expect("a commit");
            if claim.is_takeover() { "executed-by-takeover" } else { "executed" }.to_owned()
        });
    }
    let takeovers = kill_again_and_again(
        &of_a_claim_completed_with_its_rows_and_killed_at_any_point_there_are_row_and_reply_or_neither,
    );
    assert!(takeovers > 0, "no claim was left by a kill");
}

/// What the parent has heard of all operations.
#[derive(Default)]
struct Heard {
    /// The first operation that was not acknowledged.
    frontier: usize,
    begun: usize,
    /// Kills after an operation began and before it was acknowledged.
    mid_way: usize,
    /// Operations that ran anew in a later process than the one that began them first.
    done_again: usize,
    /// Operations that were done when a kill kept their acknowledgement back.
    done_already: usize,
    takeovers: usize,
    /// Whether the operation at the frontier was begun by a process that was killed.
    is_second_try: bool,
}

impl Heard {
    fn hear(&mut self, line: &str) {
        let (what, operation) = line.split_once(' ').expect("what happened to which operation");
        assert_eq!(operation, self.frontier.to_string(), "{line}");
        match what {
            "begins" => {
                self.begun = self.frontier + 1;
                return;
            }
            "writes" => return,
            "replayed" => {
                assert!(self.is_second_try, "{line}, which nobody has begun");
                self.done_already += 1;
            }
            "executed" => self.done_again += usize::from(self.is_second_try),
            "executed-by-takeover" => {
                assert!(self.is_second_try, "{line}, which nobody has begun");
                self.done_again += 1;
                self.takeovers += 1;
            }
            _ => panic!("{line}"),
        }
        self.is_second_try = false;
        self.frontier += 1;
    }

    fn killed(&mut self) {
        self.is_second_try = self.begun > self.frontier;
        self.mid_way += usize::from(self.is_second_try);
    }
}

/// Gives the number of operations that a later process took over.
#[track_caller]
fn kill_again_and_again<T: Fn()>(test: &T) -> usize {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("store.db");
    let connection = Connection::open(&file).expect("a file");
    connection.execute_batch("CREATE TABLE orders (operation INTEGER, process INTEGER)").expect("a table");
    drop(connection);
    let seed = seed::seed();
    let mut dice = Dice::new(seed);
    let mut heard = Heard::default();
    for number in 0..KILLS {
        let mut child = Child::start(test, number, &file, seed);
        child.tell(format!("{} {}", heard.frontier, heard.frontier + MOST_LINES * 1_000));
        for _ in 0..dice.between(1, MOST_LINES) {
            heard.hear(&child.hear());
        }
        thread::sleep(Duration::from_micros(
            u64::try_from(dice.between(0, MOST_MICROS)).expect("a short time"),
        ));
        child.kill().iter().for_each(|line| heard.hear(line));
        heard.killed();
        // Looking at the file recovers it; every other time the next process is to do that.
        if number % 2 == 0 {
            assert_both_or_neither(&file, number, &heard);
        }
    }
    let end = heard.begun + 1;
    let mut child = Child::start(test, KILLS, &file, seed);
    child.tell(format!("{} {end}", heard.frontier));
    child.hear_out().iter().for_each(|line| heard.hear(line));
    assert_eq!((heard.frontier, heard.begun), (end, end));
    assert_both_or_neither(&file, KILLS, &heard);

    let Heard { mid_way, done_again, done_already, .. } = heard;
    println!(
        "{end} operations; {mid_way} of {KILLS} kills mid-way: {done_again} done again, {done_already} were done"
    );
    assert!(mid_way >= KILLS / 2, "only {mid_way} kills came mid-way");
    assert!(done_again > 0 && done_already > 0, "all kills came on the same side of the commit");
    heard.takeovers
}

/// What was acknowledged has one row and a completion; what was begun has one of each, or none.
#[track_caller]
fn assert_both_or_neither(file: &Path, number: usize, heard: &Heard) {
    let store = open(file, number);
    let connection = Connection::open(file).expect("the file");
    let mut rows: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut statement = connection.prepare("SELECT operation, process FROM orders").expect("a table");
    let all = statement.query_map([], |row| Ok([row.get::<_, i64>(0)?, row.get(1)?])).expect("rows");
    for row in all {
        let [operation, process] =
            row.expect("a row").map(|number| usize::try_from(number).expect("a small number"));
        rows.entry(operation).or_default().push(process);
    }
    for operation in 0..heard.begun {
        let record = store.lookup(&scope("tenant"), &key(&operation.to_string())).expect("a look-up");
        let completed = record.filter(|record| record.state == State::Completed);
        let recorded = completed.and_then(|record| record.reply);
        let written: Vec<_> = rows.remove(&operation).unwrap_or_default().into_iter().map(reply).collect();
        assert_eq!(written, Vec::from_iter(recorded), "operation {operation}: rows and completion");
        assert!(operation >= heard.frontier || written.len() == 1, "operation {operation} was acknowledged");
    }
    assert!(rows.is_empty(), "nobody began {rows:?}");
}
