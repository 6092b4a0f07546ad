//! The write-ahead log beside foreign readers, and that no read of ours keeps anybody from emptying it.

use crate::common::{Answer, START, asks_for, key, scope, secs};
use crate::{folder, open, shell};
use idempotency::{
    ClaimOutcome, Durability, Error, ManualClock, Ran, Reply, RunError, SqliteOptions, SqliteStore, Ticket,
};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn log_of(path: &Path) -> PathBuf {
    path.with_extension("db-wal")
}

fn log_len(path: &Path) -> u64 {
    std::fs::metadata(log_of(path)).expect("a log").len()
}

/// Tries to empty the log. Says whether a reader or a writer stood in the way.
fn is_in_use(other: &Connection) -> bool {
    other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).expect("a checkpoint")
}

/// A store beside the connection of somebody else, who never waits.
struct Beside {
    _folder: tempfile::TempDir,
    path: PathBuf,
    clock: ManualClock,
    store: SqliteStore,
    other: Connection,
}

impl Beside {
    fn new() -> Self {
        let folder = folder();
        let path = folder.path().join("store.db");
        let clock = ManualClock::new(START);
        let store = open(&path, SqliteOptions::new().with_clock(clock.clone())).expect("a fresh store");
        let other = shell(&path);
        other.busy_timeout(Duration::ZERO).expect("a busy timeout");
        other.execute_batch("CREATE TABLE beside (a)").expect("a table");
        Self { _folder: folder, path, clock, store, other }
    }

    /// Puts something into the log, makes `call`, and empties the log at once.
    #[track_caller]
    fn leaves_nothing<T>(&self, what: &str, call: impl FnOnce() -> T) -> T {
        self.other.execute_batch("INSERT INTO beside VALUES (1)").expect("a commit");
        assert_ne!(log_len(&self.path), 0);
        let answer = call();
        assert!(!is_in_use(&self.other), "{what} still reads");
        assert_eq!(log_len(&self.path), 0, "{what}");
        answer
    }

    fn claim(&self, name: &str) -> Result<ClaimOutcome, Error> {
        self.store.try_claim(&scope("a"), &key(name), &asks_for("x"))
    }

    fn ticket(&self, name: &str) -> Ticket {
        self.claim(name).expect("an answer").claimed().into_ticket()
    }
}

/// That the other tests of this file can fail.
#[test]
fn a_reader_keeps_the_log_from_being_emptied() {
    let b = Beside::new();
    let reader = shell(&b.path);
    reader.execute_batch("BEGIN; SELECT * FROM beside").expect("a read transaction");
    assert!(is_in_use(&b.other));
    reader.execute_batch("COMMIT").expect("its end");
    assert!(!is_in_use(&b.other));
}

#[test]
fn no_read_of_ours_outlives_its_call() {
    let b = Beside::new();
    let s = scope("a");
    b.leaves_nothing("opening", || drop(open(&b.path, SqliteOptions::new()).expect("the store")));

    let claim = b.leaves_nothing("a claim", || b.claim("k")).expect("an answer").claimed();
    let answer = b.leaves_nothing("a claim of what runs", || b.claim("k"));
    assert_eq!(answer.expect("an answer").name(), "in progress");
    let options = SqliteOptions::new().with_clock(b.clock.clone()).read_only();
    let reader = open(&b.path, options).expect("the store");
    let seen = b.leaves_nothing("a read-only look-up", || reader.lookup(&s, &key("k"))).expect("an answer");
    assert_eq!(seen.map(|record| record.attempt), Some(1));
    b.leaves_nothing("a look-up", || b.store.lookup(&s, &key("k"))).expect("an answer").expect("a record");
    assert_eq!(
        b.leaves_nothing("a look-up of nothing", || b.store.lookup(&s, &key("-"))).expect("none"),
        None
    );
    let mut claim = b.leaves_nothing("resuming", || b.store.resume(claim.into_ticket())).expect("a claim");
    b.leaves_nothing("a checkpoint", || claim.save_checkpoint("half-way")).expect("held");
    b.leaves_nothing("a renewal", || claim.renew()).expect("held");
    let ticket = claim.ticket();
    b.leaves_nothing("a completion", || claim.complete(Reply::Marker)).expect("held");
    b.leaves_nothing("a completion once more", || b.store.complete(&ticket, Reply::Marker)).expect("held");
    b.leaves_nothing("a replay", || b.claim("k")).expect("an answer").completed();
    let many = ["one", "two", "k"].map(|name| (s.clone(), key(name), asks_for("x")));
    for answer in b.leaves_nothing("claims in one call", || b.store.try_claim_many(&many)) {
        assert_ne!(answer.expect("an answer").name(), "mismatch");
    }
    let run = |name: &'static str, reply: Result<Reply, &'static str>| {
        b.store.atomically(&s, &key(name), &asks_for("x"), |_| reply)
    };
    let ran = b.leaves_nothing("work in a transaction", || run("run", Ok(Reply::Marker)));
    assert!(matches!(ran, Ok(Ran::Executed(_))), "{ran:?}");
    let ran = b.leaves_nothing("work that has run", || run("run", Ok(Reply::Marker)));
    assert!(matches!(ran, Ok(Ran::Replayed(_))), "{ran:?}");
    let ran = b.leaves_nothing("work that fails", || run("failed", Err("no")));
    assert!(matches!(ran, Err(RunError::Work("no"))), "{ran:?}");
    let [released, abandoned] = ["released", "abandoned"].map(|name| b.ticket(name));
    b.leaves_nothing("a release", || b.store.release(&released)).expect("held");
    b.leaves_nothing("an abandoning", || b.store.abandon(&abandoned)).expect("held");
    let taken_over = b.leaves_nothing("a takeover", || b.claim("abandoned")).expect("an answer").claimed();
    assert!(taken_over.is_takeover());
    assert!(b.leaves_nothing("a forget", || b.store.forget(&s, &key("abandoned"))).expect("an answer"));
    assert!(!b.leaves_nothing("a forget of nothing", || b.store.forget(&s, &key("-"))).expect("an answer"));
    assert_eq!(b.leaves_nothing("an idle sweep", || b.store.sweep(10)).expect("a sweep").removed, 0);
    b.clock.advance(secs(3 * 24 * 60 * 60));
    assert_eq!(b.leaves_nothing("a sweep of one", || b.store.sweep(1)).expect("a sweep").removed, 1);
    assert!(b.leaves_nothing("a sweep", || b.store.sweep_all()).expect("a sweep").removed > 1);
}

#[test]
fn no_read_of_ours_outlives_a_call_that_fails() {
    let b = Beside::new();
    let s = scope("a");
    let owner = b.ticket("k");
    let other_request =
        b.leaves_nothing("a mismatch", || b.store.try_claim(&s, &key("k"), &asks_for("something else")));
    assert_eq!(other_request.expect("an answer").name(), "mismatch");
    b.clock.advance(secs(90));
    drop(b.claim("k").expect("an answer").claimed());
    let lost = b.leaves_nothing("a late completion", || b.store.complete(&owner, Reply::Marker));
    assert!(matches!(lost, Err(Error::ClaimLost(_))), "{lost:?}");
    let lost = b.leaves_nothing("a late release", || b.store.release(&owner));
    assert!(matches!(lost, Err(Error::ClaimLost(_))), "{lost:?}");
    let lost = b.leaves_nothing("resuming too late", || b.store.resume(owner));
    assert!(matches!(lost, Err(Error::ClaimLost(_))), "{lost:?}");

    let damaged = b.ticket("damaged");
    b.other
        .execute_batch(
            "PRAGMA ignore_check_constraints = ON;
             UPDATE idempotency_record SET attempt = 0 WHERE key = 'damaged'",
        )
        .expect("damage");
    for (what, answer) in [
        ("a look-up", b.leaves_nothing("a look-up", || b.store.lookup(&s, &key("damaged")).map(drop))),
        ("a claim", b.leaves_nothing("a claim", || b.claim("damaged").map(drop))),
        ("a release", b.leaves_nothing("a release", || b.store.release(&damaged))),
    ] {
        assert!(matches!(answer, Err(Error::Corrupt { .. })), "{what}: {answer:?}");
    }
    b.clock.set(idempotency::Timestamp::from_millis(i64::MAX));
    for (what, answer) in [
        ("a look-up", b.leaves_nothing("a look-up", || b.store.lookup(&s, &key("k")).map(drop))),
        ("a claim", b.leaves_nothing("a claim", || b.claim("k").map(drop))),
        ("a sweep", b.leaves_nothing("a sweep", || b.store.sweep_all().map(drop))),
    ] {
        assert!(matches!(answer, Err(Error::Clock(_))), "{what}: {answer:?}");
    }
}

/// Each claim writes three pages at least, so together many times what the log grows to before it is written back
/// (4,000 pages).
const CLAIMS: u64 = 10_000;
const PAGE: u64 = 4_096;
/// What the log is cut back to.
const LIMIT: u64 = 32 * 1_024 * 1_024;
const _: () = assert!(CLAIMS * 3 * PAGE > 3 * LIMIT);

/// With `Durability::Normal`: the log is as long as with `Full`, and the disk is not made to sync 10,000
/// times.
#[test]
fn a_log_that_grew_beside_a_foreign_reader_is_cut_back_when_the_reader_has_ended() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let options = SqliteOptions::new().with_durability(Durability::Normal);
    let store = open(&path, options).expect("a fresh store");
    let claim = |number: u64| {
        let answer = store.try_claim(&scope("a"), &key(&number.to_string()), &asks_for("x"));
        drop(answer.expect("an answer").claimed());
    };
    let reader = shell(&path);
    reader.execute_batch("BEGIN; SELECT * FROM idempotency_meta").expect("a read transaction");
    (0..CLAIMS).for_each(claim);
    let grown = log_len(&path);
    assert!(grown > CLAIMS * 3 * PAGE, "{grown} bytes: the reader held nothing up");
    reader.execute_batch("COMMIT").expect("its end");
    // The first writes the log back, the second begins it anew.
    (CLAIMS..CLAIMS + 2).for_each(claim);
    let cut = log_len(&path);
    assert!(cut <= LIMIT, "{cut} of {grown} bytes");
    claim(CLAIMS + 2);
    assert_eq!(
        store.lookup(&scope("a"), &key("0")).expect("an answer").map(|record| record.attempt),
        Some(1),
        "nothing was lost with it"
    );
}
