//! Case 55: a store that was carried over a `fork`. The child's copy of the connection has the parent's file
//! handles and none of its locks, so whatever it does to the file may destroy it.

use crate::alone::alone;
use crate::common::{Answer, Fixture, asks_for, key, scope};
use crate::fork::{_exit, AS_IT_SHOULD_BE, Fork, PANICKED, fork, in_a_fork};
use crate::{folder, open};
use idempotency::{Claim, Error, Reply, SqliteOptions, SqliteStore, StoredResponse, Ticket};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
pub const TOUCHED_A_HANDLE: u8 = 253;
const OPENED_AGAIN: u8 = 252;
const ANSWERED_OTHERWISE: u8 = 251;

/// A transaction that is not the store's, for the methods that take one.
fn with_a_transaction(work: impl FnOnce(&Transaction<'_>) -> Result<(), Error>) -> Result<(), Error> {
    let connection = Connection::open_in_memory().expect("a database");
    work(&Transaction::new_unchecked(&connection, TransactionBehavior::Immediate).expect("a transaction"))
}

pub type Call = (&'static str, Box<dyn FnOnce(&SqliteStore) -> Result<(), Error>>);

fn claim(store: &SqliteStore, name: &str) -> Claim {
    store.try_claim(&scope("a"), &key(name), &asks_for("x")).expect("an answer").claimed()
}

/// Every kind of call, the owners' on claims that stand.
pub fn calls(store: &SqliteStore) -> Vec<Call> {
    let (s, k, print) = (scope("a"), key("ticket"), asks_for("x"));
    let many = ["one", "two"].map(|name| (s.clone(), key(name), print));
    let ticket = || -> Ticket { claim(store, "ticket").into_ticket() };
    let [to_complete, to_complete_in, to_release, to_abandon, to_resume] = std::array::repeat(ticket());
    let [mut renewed, mut saved, completed, released, abandoned] =
        ["renewed", "saved", "completed", "released", "abandoned"].map(|name| claim(store, name));
    let (looked_up, running, forgotten) = (k.clone(), k.clone(), k);
    let [of_new, of_looked_up, of_running, of_forgotten, of_work, of_claimed] = std::array::repeat(s);
    vec![
        ("a claim", Box::new(move |store| store.try_claim(&of_new, &key("new"), &print).map(drop))),
        (
            "a claim of what runs",
            Box::new(move |store| store.try_claim(&of_running, &running, &print).map(drop)),
        ),
        (
            "claims in one call",
            Box::new(move |store| store.try_claim_many(&many).into_iter().try_for_each(|it| it.map(drop))),
        ),
        ("a look-up", Box::new(move |store| store.lookup(&of_looked_up, &looked_up).map(drop))),
        ("a forget", Box::new(move |store| store.forget(&of_forgotten, &forgotten).map(drop))),
        ("a sweep", Box::new(|store| store.sweep(10).map(drop))),
        ("a whole sweep", Box::new(|store| store.sweep_all().map(drop))),
        ("a count", Box::new(|store| store.stats().map(drop))),
        ("a list of stuck claims", Box::new(|store| store.stuck(10).map(drop))),
        (
            "work in a transaction",
            Box::new(move |store| {
                let ran = store.atomically(&of_work, &key("work"), &print, |_| Ok::<_, ()>(Reply::Marker));
                ran.map(drop).map_err(|error| error.store_error().cloned().expect("the work has not failed"))
            }),
        ),
        (
            "a claim in a transaction",
            Box::new(move |store| {
                with_a_transaction(|transaction| {
                    store.try_claim_in(transaction, &of_claimed, &key("claimed"), &print).map(drop)
                })
            }),
        ),
        (
            "completing a ticket in a transaction",
            Box::new(move |store| {
                with_a_transaction(|transaction| {
                    store.complete_in(transaction, &to_complete_in, Reply::Marker).map(drop)
                })
            }),
        ),
        ("completing a ticket", Box::new(move |store| store.complete(&to_complete, Reply::Marker).map(drop))),
        ("releasing a ticket", Box::new(move |store| store.release(&to_release))),
        ("abandoning a ticket", Box::new(move |store| store.abandon(&to_abandon))),
        ("resuming a ticket", Box::new(move |store| store.resume(to_resume).map(drop))),
        ("a renewal", Box::new(move |_| renewed.renew())),
        ("a checkpoint", Box::new(move |_| saved.save_checkpoint("half-way"))),
        ("a completion", Box::new(move |_| completed.complete(Reply::Marker).map(drop).map_err(Error::from))),
        ("a release", Box::new(move |_| released.release())),
        ("an abandoning", Box::new(move |_| abandoned.abandon())),
    ]
}

/// The files of the database, with what is in those that are written only by commits.
fn files(path: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    ["db", "db-wal", "db-shm"]
        .map(|extension| path.with_extension(extension))
        .into_iter()
        .map(|file| {
            let bytes = std::fs::read(&file).expect("a file of the database");
            let is_locks = file.extension().is_some_and(|extension| extension == "db-shm");
            (file, (!is_locks).then_some(bytes))
        })
        .collect()
}

/// How many file handles this process has.
#[cfg(target_os = "linux")]
pub fn handles() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("the list of them").count()
}

#[test]
fn a_store_carried_over_a_fork_is_refused_and_the_parents_is_unharmed() {
    alone("forks::a_store_carried_over_a_fork_is_refused_and_the_parents_is_unharmed", || {
        let folder = folder();
        let path = folder.path().join("store.db");
        let store = open(&path, SqliteOptions::new()).expect("a fresh store");
        let mut held = claim(&store, "held");
        let calls = calls(&store);
        let names: Vec<&str> = calls.iter().map(|(name, _)| *name).collect();
        let before = files(&path);

        let number = in_a_fork(|| {
            for (number, (_, call)) in (1..).zip(calls) {
                if !matches!(call(&store), Err(Error::Forked)) {
                    return number;
                }
            }
            AS_IT_SHOULD_BE
        });
        let wrong = usize::from(number).checked_sub(1).map(|at| names.get(at));
        assert_eq!(wrong, None, "the call that was not refused as forked, or none if it ended otherwise");
        assert!(files(&path) == before, "the child has changed the parent's files");

        held.renew().expect("the parent's claim stands");
        held.complete(Reply::Marker).expect("the parent's claim stands");
        claim(&store, "new").release().expect("the parent's store works on");
        drop(store);
        let store = open(&path, SqliteOptions::new()).expect("the store");
        let answer = store.try_claim(&scope("a"), &key("held"), &asks_for("x")).expect("an answer");
        assert_eq!(answer.completed().reply, Reply::Marker);
    });
}

/// Closing them in the child would write to the parent's file, or drop its locks.
#[cfg(target_os = "linux")]
#[test]
fn a_child_that_drops_a_forked_store_closes_none_of_its_files() {
    alone("forks::a_child_that_drops_a_forked_store_closes_none_of_its_files", || {
        let folder = folder();
        let path = folder.path().join("store.db");
        let store = open(&path, SqliteOptions::new()).expect("a fresh store");
        let held = claim(&store, "held");
        let before = files(&path);
        let mut owned = Some((store, held));
        let number = in_a_fork(|| {
            let handles_before = handles();
            drop(owned.take());
            if handles() == handles_before { AS_IT_SHOULD_BE } else { TOUCHED_A_HANDLE }
        });
        assert_eq!(number, AS_IT_SHOULD_BE);
        assert!(files(&path) == before, "the child has changed the parent's files");
        let (store, mut held) = owned.take().expect("it was the child's copy that was dropped");
        held.renew().expect("the parent's claim stands");
        held.complete(Reply::Marker).expect("the parent's claim stands");
        claim(&store, "new").release().expect("the parent's store works on");
    });
}

/// SQLite keeps what its process has locked in a table of its own, by file. A fork inherits the table without
/// the locks; a connection that it opens to the same file is told that the lock is there already, and takes
/// none. When the parent closes its own, it sees no lock of anybody's, writes the log back and deletes it,
/// under the child's feet; what the child commits from then on is nowhere.
#[test]
fn a_fork_of_a_process_that_has_the_file_open_is_not_granted_what_others_are_granted_again() {
    alone(
        "forks::a_fork_of_a_process_that_has_the_file_open_is_not_granted_what_others_are_granted_again",
        || {
            let folder = folder();
            let path = folder.path().join("store.db");
            let store = open(&path, SqliteOptions::new()).expect("a fresh store");
            drop(claim(&store, "before"));
            let (mut to_parent, mut from_child) = pipe();
            let (mut to_child, mut from_parent) = pipe();
            let child = Fork::start(|| {
                let opened = open(&path, SqliteOptions::new());
                tell(&mut to_parent);
                let Ok(opened) = opened else { return AS_IT_SHOULD_BE };
                hear(&mut from_parent);
                drop(claim(&opened, "after"));
                OPENED_AGAIN
            });
            hear(&mut from_child);
            drop(store);
            tell(&mut to_child);
            let is_granted = child.wait() == OPENED_AGAIN;
            let store = open(&path, SqliteOptions::new()).expect("the store");
            let answer = store.try_claim(&scope("a"), &key("after"), &asks_for("x")).expect("an answer");
            assert_eq!(answer.name(), if is_granted { "in progress" } else { "claimed" });
        },
    );
}

/// The child must not commit what the parent commits as well.
#[test]
fn work_that_forks_is_committed_by_the_parent_only() {
    alone("forks::work_that_forks_is_committed_by_the_parent_only", || {
        let folder = folder();
        let path = folder.path().join("store.db");
        let store = open(&path, SqliteOptions::new()).expect("a fresh store");
        let other = Connection::open(&path).expect("the file");
        other.execute_batch("CREATE TABLE orders (who TEXT)").expect("a table");
        let mut process = -1;
        let ran = store.atomically(&scope("a"), &key("k"), &asks_for("x"), |transaction| {
            // SAFETY: as in `Fork::start`.
            process = unsafe { fork() };
            assert!(process >= 0, "the process can't be forked");
            let who = if process == 0 {
                "the child"
            } else {
                // So that the child would be the first to commit.
                assert_eq!(Fork(process).wait(), AS_IT_SHOULD_BE);
                "the parent"
            };
            transaction.execute("INSERT INTO orders VALUES (?1)", [who])?;
            Ok::<_, rusqlite::Error>(Reply::Marker)
        });
        if process == 0 {
            let is_refused = ran.is_err_and(|error| matches!(error.store_error(), Some(Error::Forked)));
            // SAFETY: as in `Fork::start`.
            unsafe { _exit(if is_refused { AS_IT_SHOULD_BE } else { OPENED_AGAIN }.into()) }
        }
        drop(ran.expect("the parent's work"));
        let who: Vec<String> = other
            .prepare("SELECT who FROM orders")
            .and_then(|mut rows| rows.query_map([], |row| row.get(0))?.collect())
            .expect("orders");
        assert_eq!(who, ["the parent"]);
        claim(&store, "new").release().expect("the parent's store works on");
    });
}

/// What the child would still write, the completion, makes room in SQLite's memory: pages of the transaction that
/// the parent has committed by then would be written over the log's.
#[test]
fn work_that_forks_leaves_the_file_alone_in_the_child() {
    alone("forks::work_that_forks_leaves_the_file_alone_in_the_child", || {
        const ROWS: i64 = 500;
        let folder = folder();
        let path = folder.path().join("store.db");
        let store = open(&path, SqliteOptions::new()).expect("a fresh store");
        let other = Connection::open(&path).expect("the file");
        other.execute_batch("CREATE TABLE orders (content BLOB)").expect("a table");
        let (mut to_child, mut from_parent) = pipe();
        let mut process = -1;
        let ran = store.atomically(&scope("a"), &key("k"), &asks_for("x"), |transaction| {
            for _ in 0..ROWS {
                transaction.execute("INSERT INTO orders VALUES (zeroblob(3000))", [])?;
            }
            // SAFETY: as in `Fork::start`.
            process = unsafe { fork() };
            assert!(process >= 0, "the process can't be forked");
            if process == 0 {
                // Until the parent has committed.
                hear(&mut from_parent);
            }
            Ok::<_, rusqlite::Error>(StoredResponse::new(200).with_body(vec![b'P'; 500_000]).into())
        });
        if process == 0 {
            let is_refused = ran.is_err_and(|error| matches!(error.store_error(), Some(Error::Forked)));
            // SAFETY: as in `Fork::start`.
            unsafe { _exit(if is_refused { AS_IT_SHOULD_BE } else { OPENED_AGAIN }.into()) }
        }
        drop(ran.expect("the parent's work"));
        tell(&mut to_child);
        assert_eq!(Fork(process).wait(), AS_IT_SHOULD_BE);
        drop(store);
        let count = |sql: &str| -> i64 { other.query_row(sql, [], |row| row.get(0)).expect("a sound file") };
        assert_eq!(count("SELECT count(*) FROM orders"), ROWS);
        assert_eq!(count("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"), 1);
    });
}

/// More than SQLite keeps in memory, so that some of the transaction lies in the log already.
#[test]
fn work_that_forks_a_child_which_panics_is_committed_by_the_parent_all_the_same() {
    alone("forks::work_that_forks_a_child_which_panics_is_committed_by_the_parent_all_the_same", || {
        const ROWS: i64 = 3_000;
        let folder = folder();
        let path = folder.path().join("store.db");
        let store = open(&path, SqliteOptions::new()).expect("a fresh store");
        let other = Connection::open(&path).expect("the file");
        other.execute_batch("CREATE TABLE orders (content BLOB)").expect("a table");
        let mut is_the_child = false;
        let work = || {
            store.atomically(&scope("a"), &key("k"), &asks_for("x"), |transaction| {
                for _ in 0..ROWS {
                    transaction.execute("INSERT INTO orders VALUES (randomblob(2000))", [])?;
                }
                // SAFETY: as in `Fork::start`.
                let process = unsafe { fork() };
                is_the_child = process == 0;
                assert!(process > 0, "the child panics");
                assert_eq!(Fork(process).wait(), PANICKED);
                Ok::<_, rusqlite::Error>(Reply::Marker)
            })
        };
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        if is_the_child {
            // SAFETY: as in `Fork::start`.
            unsafe { _exit(PANICKED.into()) }
        }
        drop(ran.expect("no panic in the parent").expect("the parent's work"));
        let count = |sql: &str| -> i64 { other.query_row(sql, [], |row| row.get(0)).expect("a sound file") };
        assert_eq!(count("SELECT count(*) FROM orders"), ROWS);
        assert_eq!(count("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"), 1);
        assert_eq!(
            store.try_claim(&scope("a"), &key("k"), &asks_for("x")).expect("a store").name(),
            "completed"
        );
    });
}

/// There is nothing but memory to tell the two apart by, so a fork makes two stores of one; the docs say so.
#[test]
fn a_store_in_memory_is_a_store_of_its_own_in_the_child_and_both_grant_the_same_key() {
    alone("forks::a_store_in_memory_is_a_store_of_its_own_in_the_child_and_both_grant_the_same_key", || {
        let fixture = Fixture::in_memory();
        let answer = |name: &str| {
            let answer = fixture.store.try_claim(&scope("a"), &key(name), &asks_for("x"));
            answer.expect("an answer").name()
        };
        assert_eq!(answer("before"), "claimed");
        let in_the_child = || match (answer("before"), answer("after")) {
            ("in progress", "claimed") => AS_IT_SHOULD_BE,
            _ => ANSWERED_OTHERWISE,
        };
        assert_eq!(in_a_fork(in_the_child), AS_IT_SHOULD_BE);
        assert_eq!(answer("after"), "claimed", "nothing is known here of the child's claim");
    });
}

fn pipe() -> (PipeWriter, PipeReader) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    (writer, reader)
}

fn tell(writer: &mut PipeWriter) {
    writer.write_all(b"!").expect("the other end of the pipe");
}

fn hear(reader: &mut PipeReader) {
    reader.read_exact(&mut [0]).expect("the other end of the pipe");
}
