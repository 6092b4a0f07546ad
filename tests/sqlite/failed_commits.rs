//! Cases 47 and 48, as far as a limit on the size of files can stand for a disk that fails: the commit's write
//! to the log fails, before anything of it is there or in the middle of it. The limit is one of the process.

use crate::alone::alone;
use crate::common::{Answer, START, asks_for, key, scope, secs};
use crate::trace::Trace;
use crate::{folder, open, shell};
use idempotency::{
    Claim, Error, ManualClock, Ran, Reply, RunError, SqliteOptions, SqliteStore, StoredResponse,
};
use rusqlite::Connection;
use std::path::PathBuf;

#[repr(C)]
struct Limits {
    soft: u64,
    hard: u64,
}

unsafe extern "C" {
    fn setrlimit(resource: i32, limits: *const Limits) -> i32;
    fn signal(signal: i32, handler: usize) -> usize;
}

const FILE_SIZE: i32 = 1;
const FILE_SIZE_SIGNAL: i32 = 25;
const IGNORE: usize = 1;
const UNLIMITED: u64 = u64::MAX;

/// From here on no write of this process goes beyond `bytes` of its file; it fails.
fn limit_files_to(bytes: u64) {
    // SAFETY: numbers, and a struct of the form that the call has on this system and that is there throughout.
    let done = unsafe {
        signal(FILE_SIZE_SIGNAL, IGNORE);
        setrlimit(FILE_SIZE, &Limits { soft: bytes, hard: UNLIMITED })
    };
    assert_eq!(done, 0, "the limit can't be set");
}

/// The store's log: a header, then a frame for each page that a commit writes.
const FRAME: u64 = 24 + 4_096;

/// How much of the commit finds room: nothing, a part of the first page, one page, three and nearly the
/// fourth. A claim writes four: of the record, of its two indexes, and of the counter.
const ROOMS: [u64; 4] = [0, 100, FRAME, 4 * FRAME - 1];

struct Failing {
    folder: tempfile::TempDir,
    path: PathBuf,
    clock: ManualClock,
    trace: &'static Trace,
    store: SqliteStore,
    /// Keeps the log from being written back and deleted when the store closes its connection.
    other: Connection,
}

impl Failing {
    /// Whether the disk is mended by the time that the store opens the file once more.
    fn new(is_mended: bool) -> Self {
        limit_files_to(UNLIMITED);
        let folder = folder();
        let path = folder.path().join("store.db");
        let (clock, trace) = (ManualClock::new(START), Trace::new());
        let options = trace.with_setup(SqliteOptions::new().with_clock(clock.clone()), move |_| {
            if is_mended {
                limit_files_to(UNLIMITED);
            }
            Ok(())
        });
        let store = open(&path, options).expect("a fresh store");
        let other = shell(&path);
        other.execute_batch("CREATE TABLE orders (id TEXT)").expect("the application's own table");
        Self { folder, path, clock, trace, store, other }
    }

    /// Leaves so much room for the next commit.
    fn leave(&self, room: u64) {
        let log = std::fs::metadata(self.path.with_extension("db-wal")).expect("a log").len();
        limit_files_to(log + room);
    }

    fn try_claim(&self, name: &str) -> Result<Claim, Error> {
        self.store.try_claim(&scope("a"), &key(name), &asks_for("x")).map(Answer::claimed)
    }

    /// What the other connection sees, and what a recovery finds after a crash at this moment: the number of
    /// orders and of records, and how many of those are completed.
    fn rows(&self, what: &str) -> [i64; 3] {
        limit_files_to(UNLIMITED);
        let crashed = self.folder.path().join("crashed.db");
        for extension in ["db", "db-wal"] {
            std::fs::copy(self.path.with_extension(extension), crashed.with_extension(extension))
                .expect("a copy");
        }
        let recovered = count(&shell(&crashed));
        assert_eq!(recovered, count(&self.other), "{what}: after a recovery");
        recovered
    }
}

fn count(connection: &Connection) -> [i64; 3] {
    [
        "SELECT count(*) FROM orders",
        "SELECT count(*) FROM idempotency_record",
        "SELECT count(*) FROM idempotency_record WHERE state = 'completed'",
    ]
    .map(|select| connection.query_row(select, [], |row| row.get(0)).expect("a count"))
}

/// Whether it says that the disk failed and nothing was done.
#[track_caller]
fn is_of_the_disk(error: &Error, what: &str) {
    assert!(matches!(error, Error::Unavailable(Some(_))), "{what}: {error:?}");
    assert!(error.is_transient() && !error.is_indefinite(), "{what}: {error:?}");
}

#[test]
fn a_claim_whose_commit_failed_is_not_made_and_can_be_made_at_once() {
    alone("failed_commits::a_claim_whose_commit_failed_is_not_made_and_can_be_made_at_once", || {
        for room in ROOMS {
            let what = format!("{room} bytes of room");
            let f = Failing::new(true);
            let earlier = f.try_claim("earlier").expect("a sound disk").token();
            f.leave(room);
            is_of_the_disk(&f.try_claim("k").expect_err(&what), &what);
            assert_eq!(f.trace.connections(), 3, "{what}: one that reads; given up, and opened once more");
            assert_eq!(f.trace.runs_of("INSERT INTO main.idempotency_record"), 2, "{what}: tried again");
            assert_eq!(f.rows(&what), [0, 1, 0], "{what}");
            let claim = f.try_claim("k").expect(&what);
            assert_eq!((claim.attempt(), claim.is_takeover()), (1, false), "{what}");
            assert!(claim.token() > earlier, "{what}");
            assert_eq!(f.trace.connections(), 3, "{what}: the new connection is kept");
        }
    });
}

/// The small commit that settles it writes one page, so it depends on the room whether that succeeds.
#[test]
fn a_failed_commit_that_cannot_be_settled_is_indefinite_and_one_that_can_is_not() {
    alone(
        "failed_commits::a_failed_commit_that_cannot_be_settled_is_indefinite_and_one_that_can_is_not",
        || {
            for room in ROOMS {
                let what = format!("{room} bytes of room");
                let f = Failing::new(false);
                f.leave(room);
                let error = f.try_claim("k").expect_err(&what);
                if room < FRAME {
                    assert!(matches!(error, Error::Indefinite(Some(_))), "{what}: {error:?}");
                    for error in [
                        f.try_claim("k").expect_err("the disk is as before"),
                        f.store.lookup(&scope("a"), &key("k")).expect_err("the disk is as before"),
                    ] {
                        assert!(!error.is_indefinite(), "{what}: it was not even begun: {error:?}");
                    }
                } else {
                    is_of_the_disk(&error, &what);
                }
                assert_eq!(f.rows(&what), [0, 0, 0], "{what}");
                assert_eq!(f.store.lookup(&scope("a"), &key("k")).expect(&what), None, "{what}");
                assert_eq!(f.try_claim("k").expect(&what).attempt(), 1, "{what}");
                assert_eq!(f.rows(&what), [0, 1, 0], "{what}");
            }
        },
    );
}

#[test]
fn a_completion_whose_commit_failed_comes_back_and_its_claim_stands() {
    alone("failed_commits::a_completion_whose_commit_failed_comes_back_and_its_claim_stands", || {
        let large: Reply = StoredResponse::new(201).with_body(vec![b'a'; 50_000]).into();
        for room in [0, 100, FRAME, 5 * FRAME] {
            let what = format!("{room} bytes of room");
            let f = Failing::new(true);
            let claim = f.try_claim("k").expect("a sound disk");
            let before = f.store.lookup(claim.scope(), claim.key()).expect("an answer");
            f.leave(room);
            let (error, claim, reply) = claim.complete(large.clone()).expect_err(&what).into_parts();
            is_of_the_disk(&error, &what);
            assert_eq!(reply, large);
            assert_eq!(f.rows(&what), [0, 1, 0], "{what}");
            assert_eq!(f.store.lookup(claim.scope(), claim.key()).expect(&what), before, "{what}");
            assert_eq!(claim.complete(reply).expect(&what).reply, large, "{what}");
            assert_eq!(f.rows(&what), [0, 1, 1], "{what}");
        }
    });
}

#[test]
fn whatever_else_was_to_be_committed_is_not_done_if_that_failed() {
    alone("failed_commits::whatever_else_was_to_be_committed_is_not_done_if_that_failed", || {
        for (room, what) in [(0, "no room"), (100, "100 bytes")] {
            let f = Failing::new(true);
            let mut claims = ["renewed", "saved", "released", "abandoned"]
                .map(|name| f.try_claim(name).expect("a sound disk"));
            let stored = || {
                ["renewed", "saved", "released", "abandoned"]
                    .map(|name| f.store.lookup(&scope("a"), &key(name)).expect("a record"))
            };
            let before = stored();
            f.clock.advance(secs(10));
            let check = |call: &str, call_it: &mut dyn FnMut() -> Result<(), Error>| {
                f.leave(room);
                is_of_the_disk(&call_it().expect_err(call), call);
                limit_files_to(UNLIMITED);
                assert!(stored() == before, "{what}, {call}");
            };
            check("a renewal", &mut || claims[0].renew());
            check("a checkpoint", &mut || claims[1].save_checkpoint("half-way"));
            check("a release", &mut || f.store.release(&claims[2].ticket()));
            check("an abandoning", &mut || f.store.abandon(&claims[3].ticket()));
            check("a forget", &mut || f.store.forget(&scope("a"), &key("released")).map(drop));
            let operations = ["one", "two"].map(|name| (scope("a"), key(name), asks_for("x")));
            let many = || f.store.try_claim_many(&operations).into_iter().try_for_each(|it| it.map(drop));
            check("claims in one call", &mut || many());
            assert_eq!(f.rows(what), [0, 4, 0], "{what}");
        }
    });
}

#[test]
fn work_whose_commit_failed_is_not_recorded_and_leaves_no_row() {
    alone("failed_commits::work_whose_commit_failed_is_not_recorded_and_leaves_no_row", || {
        for room in ROOMS {
            let what = format!("{room} bytes of room");
            let f = Failing::new(true);
            let run = || {
                f.store.atomically(&scope("a"), &key("k"), &asks_for("x"), |transaction| {
                    transaction.execute("INSERT INTO orders VALUES ('one')", [])?;
                    Ok::<Reply, rusqlite::Error>(Reply::Marker)
                })
            };
            // A connection that is opened makes room again: that which reads is to be open before.
            assert_eq!(f.store.lookup(&scope("a"), &key("k")).expect("a sound disk"), None, "{what}");
            f.leave(room);
            let answer = run();
            let Err(RunError::NotRecorded { reply, error }) = answer else { panic!("{what}: {answer:?}") };
            assert_eq!(reply, Reply::Marker, "{what}");
            is_of_the_disk(&error, &what);
            assert_eq!(f.rows(&what), [0, 0, 0], "{what}");
            let again = run();
            assert!(matches!(again, Ok(Ran::Executed(_))), "{what}: {again:?}");
            assert_eq!(f.rows(&what), [1, 1, 1], "{what}");
        }
    });
}

#[test]
fn a_sweep_whose_commit_failed_has_removed_nothing_and_the_next_one_removes_it_all() {
    alone(
        "failed_commits::a_sweep_whose_commit_failed_has_removed_nothing_and_the_next_one_removes_it_all",
        || {
            let f = Failing::new(true);
            for name in ["one", "two", "three"] {
                f.try_claim(name).expect("a sound disk").complete(Reply::Marker).expect("a sound disk");
            }
            f.clock.advance(secs(2 * 24 * 60 * 60));
            f.leave(100);
            drop(f.store.sweep_all().expect_err("no room"));
            assert_eq!(f.rows("after the failure"), [0, 3, 3]);
            assert_eq!(f.store.sweep_all().expect("a mended disk").removed, 3);
            assert_eq!(f.rows("after the second"), [0, 0, 0]);
        },
    );
}
