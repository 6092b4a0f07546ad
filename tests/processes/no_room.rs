//! Case 53, and 49 and 58 with it, on a disk that is really full: a child whose files may not get longer (`RLIMIT_FSIZE`),
//! and one on a small file system that it has filled. Where exactly the room ends is drawn.

use crate::common::{Answer, asks_for, key, scope};
use crate::crew::{Child, Parent, alone};
use crate::room::{Room, with_a_small_file_system};
use crate::seed;
use crate::soak::times;
use idempotency::rusqlite::{self, Connection, Transaction, TransactionBehavior};
use idempotency::{
    ClaimOutcome, CompleteError, Error, IdempotencyStore, Ran, Reply, RunError, SqliteStore, State,
    StoredResponse,
};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

const ROUNDS: usize = 25;
/// Operations that are done in a round before the room is gone; as many are done when it is back.
const BEFORE: usize = 2;
/// In a round there is room for some of so many operations, and not for all.
const MORE_THAN_FIT: usize = 200;
const MOST_ROOM: usize = 40_000;
const FILE_SYSTEM: usize = 12 << 20;

/// What is done with a name that is used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ClaimAndComplete,
    Atomically,
    CompleteInTransaction,
}

/// Whoever does it, twice if need be.
struct Business<'a> {
    store: &'a SqliteStore,
    /// The application's own.
    connection: &'a mut Connection,
}

fn reply_to(name: usize) -> Reply {
    StoredResponse::new(201).with_body(format!("reply to {name}").repeat(1 + name % 200)).into()
}

fn write_order(transaction: &Transaction<'_>, name: usize) -> rusqlite::Result<()> {
    let name = i64::try_from(name).expect("a small number");
    transaction.execute("INSERT INTO orders VALUES (?1, zeroblob(500))", [name]).map(drop)
}

impl Business<'_> {
    /// Does it, or says why not. What was done before is done again as a retry does.
    fn run(&mut self, way: Way, name: usize) -> Result<(), Error> {
        let (scope, key, print) = (scope("tenant"), key(&name.to_string()), asks_for("it"));
        if way == Way::Atomically {
            let ran = self.store.atomically(&scope, &key, &print, |inside| {
                write_order(inside, name)?;
                Ok::<_, rusqlite::Error>(reply_to(name))
            });
            return match ran {
                Ok(Ran::Executed(done) | Ran::Replayed(done)) => {
                    assert_eq!(done.reply, reply_to(name));
                    Ok(())
                }
                Err(RunError::Store(error) | RunError::NotRecorded { error, .. }) => Err(error),
                Err(RunError::Work(error)) => Err(full_outside(&error)),
                other => panic!("{name}: {other:?}"),
            };
        }
        let claim = match self.store.try_claim(&scope, &key, &print)? {
            ClaimOutcome::Claimed(claim) => claim,
            ClaimOutcome::Completed(done) => {
                assert_eq!(done.reply, reply_to(name));
                return Ok(());
            }
            // What an attempt that found no room has left; nobody else is at it here.
            ClaimOutcome::InProgress(_) => {
                self.store.forget(&scope, &key)?;
                self.store.try_claim(&scope, &key, &print)?.claimed()
            }
            other => panic!("{name}: {other:?}"),
        };
        if way == Way::ClaimAndComplete {
            return claim.complete(reply_to(name)).map(drop).map_err(CompleteError::into);
        }
        let outside = |error: rusqlite::Error| full_outside(&error);
        let transaction =
            Transaction::new(self.connection, TransactionBehavior::Immediate).map_err(outside)?;
        write_order(&transaction, name).map_err(outside)?;
        self.store.complete_in(&transaction, &claim.ticket(), reply_to(name))?;
        transaction.commit().map_err(outside)
    }
}

/// An error of the application's own statements, in the store's words.
#[track_caller]
fn full_outside(error: &rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => Error::Full(None),
        Some(rusqlite::ErrorCode::SystemIoFailure) => Error::Unavailable(None),
        _ => panic!("{error}"),
    }
}

/// Fills the room again and again, and says how often what happened.
fn fill_again_and_again(parent: &Parent, room: &Room) {
    let mut dice = parent.dice();
    let store = IdempotencyStore::open(&parent.file).expect("a fresh store");
    // One that is told of no failure.
    let beside = IdempotencyStore::open(&parent.file).expect("the store");
    let mut connection = Connection::open(&parent.file).expect("the file");
    connection.execute_batch("CREATE TABLE orders (name INTEGER, filling BLOB)").expect("a table");
    let (mut name, mut happened) = (0, BTreeMap::<&str, usize>::new());
    let mut count = |what| *happened.entry(what).or_default() += 1;
    let rounds = times(ROUNDS);
    for _ in 0..rounds {
        let mut business = Business { store: &store, connection: &mut connection };
        let (mut done, bytes) = (Vec::new(), dice.between(0, MOST_ROOM));
        let mut ways = std::iter::repeat_with(|| {
            name += 1;
            (name, [Way::ClaimAndComplete, Way::Atomically, Way::CompleteInTransaction][dice.between(0, 2)])
        });
        for (name, way) in ways.by_ref().take(BEFORE) {
            business.run(way, name).expect("room");
            done.push((name, way));
        }
        empty_the_log(business.connection);
        room.leave(bytes);
        let failed =
            ways.by_ref().take(MORE_THAN_FIT).find_map(|(name, way)| match business.run(way, name) {
                Ok(()) => {
                    done.push((name, way));
                    None
                }
                Err(error) => Some((name, way, error)),
            });
        let failed = failed.expect("an end of the room");
        count(match &failed.2 {
            Error::Full(_) => "full",
            Error::Unavailable(_) => "unavailable",
            Error::Indefinite(_) => "indefinite",
            other => panic!("{failed:?}: {other:?}"),
        });
        // Whoever has failed nowhere reads on; who has, reads on or says why not.
        for (name, _) in &done {
            let ask = |store: &SqliteStore| {
                store.try_claim(&scope("tenant"), &key(&name.to_string()), &asks_for("it"))
            };
            assert_eq!(ask(&beside).expect("a replay needs no room").completed().reply, reply_to(*name));
            match ask(&store) {
                Ok(answer) => {
                    assert_eq!(answer.completed().reply, reply_to(*name));
                    count("replayed by who had failed");
                }
                Err(Error::Full(_) | Error::Unavailable(_) | Error::Indefinite(_)) => {
                    count("refused a replay");
                }
                Err(other) => panic!("{name}: {other:?}"),
            }
        }
        room.give_back();

        assert_both_or_neither(&parent.file, &done, &failed);
        let (name, way, _) = failed;
        business.run(way, name).expect("there is room again");
        done.push((name, way));
        for (name, way) in ways.by_ref().take(BEFORE) {
            business.run(way, name).expect("there is room again");
            done.push((name, way));
        }
        assert_done(&parent.file, &done);
        count("rounds");
        // So that the file does not grow over the rounds.
        for (name, _) in done {
            store.forget(&scope("tenant"), &key(&name.to_string())).expect("there is room");
        }
        connection.execute("DELETE FROM orders", []).expect("there is room");
    }
    parent.hears(format!("{happened:?}"));
    assert!(happened.contains_key(room.refuses_with()), "{happened:?}");
    assert_eq!(happened.get("rounds"), Some(&rounds));
    assert!(happened.contains_key("replayed by who had failed"), "{happened:?}");
}

/// Else there would be room in the part of it that was written back.
#[track_caller]
fn empty_the_log(connection: &Connection) {
    let busy: i64 =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).expect("a checkpoint");
    assert_eq!(busy, 0);
}

fn rows_of(connection: &Connection, name: usize) -> i64 {
    let name = i64::try_from(name).expect("a small number");
    connection
        .query_row("SELECT count(*) FROM orders WHERE name = ?1", [name], |row| row.get(0))
        .expect("a count")
}

#[track_caller]
fn assert_done(file: &Path, done: &[(usize, Way)]) {
    let store = IdempotencyStore::open(file).expect("the store");
    let connection = Connection::open(file).expect("the file");
    for (name, way) in done {
        let record = store.lookup(&scope("tenant"), &key(&name.to_string())).expect("a look-up");
        assert_eq!(record.and_then(|record| record.reply), Some(reply_to(*name)), "{way:?}");
        assert_eq!(rows_of(&connection, *name), i64::from(*way != Way::ClaimAndComplete), "{way:?}");
    }
    let sound: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("an answer");
    assert_eq!(sound, "ok");
}

/// All that was acknowledged; and of what was not, row and completion or neither.
#[track_caller]
fn assert_both_or_neither(file: &Path, done: &[(usize, Way)], failed: &(usize, Way, Error)) {
    assert_done(file, done);
    let (name, way, error) = failed;
    let store = IdempotencyStore::open(file).expect("the store");
    let record = store.lookup(&scope("tenant"), &key(&name.to_string())).expect("a look-up");
    let is_completed = record.as_ref().is_some_and(|record| record.state == State::Completed);
    let rows = rows_of(&Connection::open(file).expect("the file"), *name);
    assert_eq!(rows, i64::from(is_completed && *way != Way::ClaimAndComplete), "{failed:?}: {record:?}");
    if *way == Way::Atomically {
        assert_eq!(record.is_some(), is_completed, "{failed:?}: half of a transaction, {record:?}");
    }
    // The application's own commit is its own to ask about.
    if !error.is_indefinite() && *way != Way::CompleteInTransaction {
        assert!(!is_completed, "{failed:?}, and it was done");
    }
}

#[track_caller]
fn print_and_end(child: Child) {
    let said = child.hear_out();
    println!("{said:?}");
    assert_eq!(said.len(), 1);
}

#[test]
fn a_process_whose_files_may_not_grow_loses_nothing_it_was_told_leaves_no_half_and_works_on_with_room() {
    if let Some(parent) = Parent::of_this_process() {
        return fill_again_and_again(&parent, &Room::limited(&parent.file));
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let this =
        a_process_whose_files_may_not_grow_loses_nothing_it_was_told_leaves_no_half_and_works_on_with_room;
    print_and_end(Child::start(&this, 0, &folder.path().join("store.db"), seed::seed()));
}

#[test]
fn a_process_on_a_full_file_system_loses_nothing_it_was_told_leaves_no_half_and_works_on_with_room() {
    if let Some(parent) = Parent::of_this_process() {
        return fill_again_and_again(&parent, &Room::filled(&parent.file));
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let this =
        a_process_on_a_full_file_system_loses_nothing_it_was_told_leaves_no_half_and_works_on_with_room;
    let child = Child::try_start(&this, 0, &folder.path().join("store.db"), seed::seed(), |command| {
        with_a_small_file_system(command, folder.path(), FILE_SYSTEM);
    });
    match child {
        Ok(child) => print_and_end(child),
        // Past the harness, which keeps back what a test that passes prints.
        Err(error) => writeln!(
            std::io::stderr(),
            "NOT TESTED: a full file system, since this system gives no namespace with one: {error}"
        )
        .expect("somewhere to say so"),
    }
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("the folder").count(),
        0,
        "it was mounted nowhere else"
    );
}
