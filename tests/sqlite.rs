//! What is particular to the store on a SQLite file: opening, options, schema, tokens in the file, and checksums.

#![cfg(feature = "sqlite")]

#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod common;

use common::{Answer, Fixture, START, asks_for, key, scope, secs};
use idempotency::{
    Clock, ClockOutOfRange, Error, IdempotencyStore, ManualClock, Reply, SqliteBackend, SqliteOptions,
    SqliteStore, StoredResponse, SystemClock, Timestamp,
};
use rusqlite::Connection;
use std::path::Path;

fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<SqliteStore, Error> {
    Ok(IdempotencyStore::new(SqliteBackend::open(path, options)?))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn shell(path: &Path) -> Connection {
    Connection::open(path).expect("a SQLite file")
}

#[test]
fn a_database_without_a_file_is_refused_in_every_spelling() {
    for path in [":memory:", "", "file::memory:", "file:x?mode=memory", "file::memory:?cache=shared"] {
        let refused = open(path, SqliteOptions::new()).expect_err(path);
        assert!(matches!(refused, Error::InvalidOption { .. }), "{path}: {refused:?}");
        assert!(refused.to_string().contains("in_memory()"), "{path}: {refused}");
    }
}

#[test]
fn an_unusable_prefix_is_refused_before_the_file_is_made() {
    let folder = folder();
    let path = folder.path().join("store.db");
    for prefix in ["", "9", "a b", "x; DROP TABLE", "sqlite_"] {
        let refused = open(&path, SqliteOptions::new().with_prefix(prefix)).expect_err(prefix);
        assert!(matches!(refused, Error::InvalidOption { .. }), "{prefix}: {refused:?}");
    }
    assert!(!path.exists());
}

#[test]
fn opening_turns_the_file_to_write_ahead_logging_and_makes_strict_tables() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let _store = open(&path, SqliteOptions::new()).expect("a fresh store");
    let shell = shell(&path);
    let mode: String = shell.query_row("PRAGMA journal_mode", [], |row| row.get(0)).expect("a mode");
    assert_eq!(mode, "wal");
    let strict: Vec<(String, bool)> = shell
        .prepare("SELECT name, strict FROM pragma_table_list WHERE schema = 'main' AND name LIKE 'idempotency%' ORDER BY name")
        .and_then(|mut tables| tables.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
        .expect("a list of tables");
    assert_eq!(strict, [("idempotency_meta".to_owned(), true), ("idempotency_record".to_owned(), true)]);
    let user_version: i64 = shell.query_row("PRAGMA user_version", [], |row| row.get(0)).expect("a number");
    assert_eq!(user_version, 0, "it is the application's");
}

#[test]
fn stores_with_different_prefixes_in_one_file_are_different_stores() {
    let folder = folder();
    let path = folder.path().join("app.db");
    shell(&path).execute_batch("CREATE TABLE orders (id TEXT)").expect("the application's own table");
    let one = open(&path, SqliteOptions::new().with_prefix("one_")).expect("a store beside it");
    let two = open(&path, SqliteOptions::new().with_prefix("two_")).expect("a second store");
    let (s, k) = (scope("a"), key("k"));
    let claim = one.try_claim(&s, &k, &asks_for("x")).expect("a store").claimed();
    two.try_claim(&s, &k, &asks_for("y")).expect("a store").claimed().complete(Reply::Marker).expect("held");
    assert_ne!(one.store_id(), two.store_id());
    let foreign = two.complete(&claim.ticket(), Reply::Marker).expect_err("a ticket of another store");
    assert!(matches!(foreign, Error::ClaimLost(_)), "{foreign:?}");
    claim.complete(Reply::Marker).expect("held");
    drop((one, two));
    let reopened = open(&path, SqliteOptions::new().with_prefix("one_")).expect("the first store");
    assert!(reopened.lookup(&s, &k).expect("a store").is_some());
}

#[test]
fn a_store_keeps_its_identity_across_handles_and_restarts() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let first = open(&path, SqliteOptions::new()).expect("a fresh store");
    let second = open(&path, SqliteOptions::new()).expect("the same store");
    let id = first.store_id();
    assert_eq!(second.store_id(), id);
    drop((first, second));
    assert_eq!(open(&path, SqliteOptions::new()).expect("the same store").store_id(), id);
}

#[test]
fn a_read_only_store_reads_and_refuses_every_write() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let read_only = || open(&path, SqliteOptions::new().read_only());
    assert!(matches!(read_only(), Err(Error::CannotOpen(_))), "no file, and none is made");
    assert!(!path.exists());

    let store = open(&path, SqliteOptions::new()).expect("a fresh store");
    let (s, k, f) = (scope("a"), key("k"), asks_for("x"));
    let ticket = store.try_claim(&s, &k, &f).expect("a store").claimed().into_ticket();
    let last_token = || -> i64 {
        shell(&path)
            .query_row("SELECT last_token FROM idempotency_meta", [], |row| row.get(0))
            .expect("a counter")
    };
    let before = (store.lookup(&s, &k).expect("a store"), last_token());

    let reader = read_only().expect("the same store");
    assert_eq!(reader.store_id(), store.store_id());
    assert_eq!(reader.lookup(&s, &k).expect("a store"), before.0);
    let refusals = [
        reader.try_claim(&s, &key("new"), &f).map(drop),
        reader.try_claim(&s, &k, &f).map(drop),
        reader.complete(&ticket, Reply::Marker).map(drop),
        reader.release(&ticket),
        reader.abandon(&ticket),
        reader.resume(ticket.clone()).and_then(|mut claim| claim.renew()),
        reader.forget(&s, &k).map(drop),
        reader.sweep(10).map(drop),
    ];
    for (call, refusal) in refusals.into_iter().enumerate() {
        assert!(matches!(refusal, Err(Error::ReadOnly(_))), "{call}: {refusal:?}");
    }
    assert_eq!((store.lookup(&s, &k).expect("a store"), last_token()), before);
}

#[test]
fn a_file_without_a_store_is_refused_for_reading_and_stays_as_it_was() {
    let folder = folder();
    let path = folder.path().join("app.db");
    shell(&path).execute_batch("CREATE TABLE orders (id TEXT)").expect("a table");
    let refused = open(&path, SqliteOptions::new().read_only()).expect_err("no store there");
    assert!(matches!(refused, Error::Foreign { .. }), "{refused:?}");
    let tables: i64 =
        shell(&path).query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).expect("a count");
    assert_eq!(tables, 1);
}

#[test]
fn what_is_no_store_of_this_version_is_refused_by_name_and_not_changed() {
    let set_up = |statements: &'static str| {
        move |path: &Path| {
            drop(open(path, SqliteOptions::new()).expect("a fresh store"));
            shell(path).execute_batch(statements).expect("a change");
        }
    };
    let text = |path: &Path| {
        std::fs::write(path, "This is no database, but it is longer than a header of SQLite. ".repeat(40))
            .expect("a file");
    };
    type Prepare = Box<dyn Fn(&Path)>;
    type IsRight = fn(&Error) -> bool;
    let cases: [(&str, Prepare, IsRight); 6] = [
        ("a text file", Box::new(text), |e| matches!(e, Error::Foreign { .. })),
        ("a newer schema", Box::new(set_up("UPDATE idempotency_meta SET schema_version = 2")), |e| {
            matches!(e, Error::NewerSchema { found: 2, known: 1 })
        }),
        ("version 0", Box::new(set_up("UPDATE idempotency_meta SET schema_version = 0")), |e| {
            matches!(e, Error::Foreign { .. })
        }),
        ("no meta table", Box::new(set_up("DROP TABLE idempotency_meta")), |e| {
            matches!(e, Error::Foreign { .. })
        }),
        ("no meta row", Box::new(set_up("DELETE FROM idempotency_meta")), |e| {
            matches!(e, Error::Foreign { .. })
        }),
        (
            "somebody else's tables",
            Box::new(|path: &Path| {
                shell(path)
                    .execute_batch("CREATE TABLE idempotency_meta (a); CREATE TABLE idempotency_record (b)")
                    .expect("tables");
            }),
            |e| matches!(e, Error::Foreign { .. }),
        ),
    ];
    for (name, prepare, is_right) in cases {
        let folder = folder();
        let path = folder.path().join("store.db");
        prepare(&path);
        let contents = |path: &Path| -> Option<Vec<String>> {
            let shell = Connection::open(path).ok()?;
            let mut tables = shell.prepare("SELECT sql FROM sqlite_schema ORDER BY name").ok()?;
            tables.query_map([], |row| row.get(0)).ok()?.collect::<Result<_, _>>().ok()
        };
        let before = contents(&path);
        let error = open(&path, SqliteOptions::new()).expect_err(name);
        assert!(is_right(&error), "{name}: {error:?}");
        assert!(!error.is_transient() && !error.is_indefinite(), "{name}: {error:?}");
        assert_eq!(contents(&path), before, "{name}");
    }
}

#[test]
fn a_failing_set_up_of_a_connection_fails_the_opening_with_its_own_error() {
    let folder = folder();
    let options = SqliteOptions::new().with_connection_setup(|_| Err(rusqlite::Error::QueryReturnedNoRows));
    let error = open(folder.path().join("store.db"), options).expect_err("the set-up failed");
    let source = std::error::Error::source(&error).expect("its own error");
    assert_eq!(source.to_string(), rusqlite::Error::QueryReturnedNoRows.to_string());
}

#[test]
fn an_unknown_vfs_is_an_error_of_opening() {
    let folder = folder();
    let options = SqliteOptions::new().with_vfs("no such vfs");
    assert!(open(folder.path().join("store.db"), options).is_err());
}

#[test]
fn a_file_locked_by_somebody_else_is_busy_and_nothing_is_done() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let store = open(&path, SqliteOptions::new().with_busy_timeout(secs(0))).expect("a fresh store");
    let (s, k, f) = (scope("a"), key("k"), asks_for("x"));
    let other = shell(&path);
    other.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
    let busy = store.try_claim(&s, &k, &f).expect_err("somebody else has the lock");
    assert!(matches!(busy, Error::Busy(_)) && busy.is_transient() && !busy.is_indefinite(), "{busy:?}");
    other.execute_batch("ROLLBACK").expect("the lock given back");
    assert_eq!(store.try_claim(&s, &k, &f).expect("a store").claimed().attempt(), 1);
}

#[test]
fn the_last_token_is_granted_and_then_none_though_all_else_goes_on() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let store = open(&path, SqliteOptions::new()).expect("a fresh store");
    let (s, f) = (scope("a"), asks_for("x"));
    shell(&path).execute("UPDATE idempotency_meta SET last_token = ?1", [i64::MAX - 1]).expect("a change");
    let last = store.try_claim(&s, &key("last"), &f).expect("one is left").claimed();
    assert_eq!(last.token().get(), i64::MAX);
    for _ in 0..2 {
        let exhausted = store.try_claim(&s, &key("next"), &f).expect_err("none is left");
        assert!(matches!(exhausted, Error::TokensExhausted), "{exhausted:?}");
    }
    assert_eq!(store.try_claim(&s, &key("last"), &f).expect("no token needed").name(), "in progress");
    last.complete(Reply::Marker).expect("no token needed");
    assert_eq!(store.try_claim(&s, &key("last"), &f).expect("no token needed").name(), "completed");
    assert_eq!(store.lookup(&s, &key("next")).expect("a store"), None);
}

#[test]
fn a_new_stores_tokens_start_at_the_wall_clock_whatever_clock_it_is_given() {
    let folder = folder();
    let before = SystemClock.now().as_millis();
    let options = SqliteOptions::new().with_clock(ManualClock::new(Timestamp::from_millis(0)));
    let store = open(folder.path().join("store.db"), options).expect("a fresh store");
    let claim = store.try_claim(&scope("a"), &key("k"), &asks_for("x")).expect("a store").claimed();
    assert!(claim.token().get() / 1_000_000 >= before);
}

#[test]
fn whatever_is_damaged_in_a_reply_or_a_checkpoint_is_corrupt_and_runs_nothing_again() {
    let damages = [
        "UPDATE idempotency_record SET reply_body = x'00'",
        "UPDATE idempotency_record SET reply_body = NULL",
        "UPDATE idempotency_record SET reply_headers = x'000000'",
        "UPDATE idempotency_record SET reply_status = 500",
        "UPDATE idempotency_record SET reply_kind = 'marker'",
        "UPDATE idempotency_record SET reply_checksum = zeroblob(16)",
        "UPDATE idempotency_record SET fingerprint_format = 7",
        "UPDATE idempotency_record SET key = 'moved' WHERE key = 'done'; UPDATE idempotency_record SET key = 'done' WHERE key = 'other'",
        "UPDATE idempotency_record SET checkpoint = x'00' WHERE key = 'lapsed'",
        "UPDATE idempotency_record SET checkpoint_checksum = zeroblob(16) WHERE key = 'lapsed'",
    ];
    for damage in damages {
        let f = Fixture::on_sqlite();
        let (s, print) = (scope("a"), asks_for("x"));
        for (name, body) in [("done", "the reply"), ("other", "another reply")] {
            let response = StoredResponse::new(201).with_header("a", "b").with_body(body);
            f.store
                .try_claim(&s, &key(name), &print)
                .expect("a store")
                .claimed()
                .complete(response)
                .expect("held");
        }
        let mut claim = f.store.try_claim(&s, &key("lapsed"), &print).expect("a store").claimed();
        claim.save_checkpoint("half-way").expect("held");
        f.at(90);

        let shell = shell(&f.path().expect("a file"));
        shell.execute_batch(&format!("PRAGMA ignore_check_constraints = ON; {damage}")).expect(damage);
        let name = if damage.contains("checkpoint") { "lapsed" } else { "done" };
        let row = || -> (i64, i64) {
            shell
                .query_row("SELECT token, attempt FROM idempotency_record WHERE key = ?1", [name], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })
                .expect("the row")
        };
        let before = row();
        let error = f.store.try_claim(&s, &key(name), &print).expect_err(damage);
        assert!(matches!(error, Error::Corrupt { .. }), "{damage}: {error:?}");
        assert!(error.to_string().contains("Corrupt"), "{error}");
        let error = f.store.lookup(&s, &key(name)).expect_err(damage);
        assert!(matches!(error, Error::Corrupt { .. }), "{damage}: {error:?}");
        assert_eq!(row(), before, "{damage}: nothing was granted");
        f.store
            .try_claim(&s, &key("fresh"), &print)
            .expect("others go on")
            .claimed()
            .release()
            .expect("held");
    }
}

#[test]
fn rows_that_no_record_can_be_are_corrupt_not_a_panic() {
    let damages = [
        "state = 'lapsed'",
        "token = 0",
        "token = -9223372036854775808",
        "attempt = 0",
        "attempt = 4294967296",
        "attempt = -1",
        "lease_ms = 0",
        "lease_ms = 9223372036854775807",
        "retention_ms = -1",
        "fingerprint_format = 256",
        "fingerprint = x''",
        "fingerprint = zeroblob(33)",
        "state = 'completed'",
        "completed_at_ms = 1",
        "expires_at_ms = lease_until_ms - 1",
        "reply_kind = 'marker'",
        "reply_kind = 'other'",
        "reply_checksum = x'01', reply_kind = 'marker'",
        "checkpoint = x'01'",
        "checkpoint_checksum = zeroblob(16)",
    ];
    for damage in damages {
        let f = Fixture::on_sqlite();
        let (s, k) = (scope("a"), key("k"));
        let claim = f.store.try_claim(&s, &k, &asks_for("x")).expect("a store").claimed();
        shell(&f.path().expect("a file"))
            .execute_batch(&format!(
                "PRAGMA ignore_check_constraints = ON; UPDATE idempotency_record SET {damage}"
            ))
            .expect(damage);
        for (call, answer) in [
            ("lookup", f.store.lookup(&s, &k).map(drop)),
            ("claim", f.store.try_claim(&s, &k, &asks_for("x")).map(drop)),
            ("complete", f.store.complete(&claim.ticket(), Reply::Marker).map(drop)),
            ("forget", f.store.forget(&s, &k).map(drop)),
        ] {
            assert!(matches!(answer, Err(Error::Corrupt { .. })), "{damage}, {call}: {answer:?}");
        }
    }
}

#[test]
fn a_clock_that_cannot_be_believed_is_an_error_and_writes_nothing() {
    common::on_every_backend(|f| {
        let (s, k, print) = (scope("a"), key("k"), asks_for("x"));
        let claim = f.store.try_claim(&s, &k, &print).expect("a store").claimed();
        let before = f.store.lookup(&s, &k).expect("a store");
        for millis in [-1, i64::MIN, i64::MAX, 253_402_300_800_000] {
            f.clock.set(Timestamp::from_millis(millis));
            for (call, answer) in [
                ("claim", f.store.try_claim(&s, &k, &print).map(drop)),
                ("complete", f.store.complete(&claim.ticket(), Reply::Marker).map(drop)),
                ("lookup", f.store.lookup(&s, &k).map(drop)),
                ("sweep", f.store.sweep(1).map(drop)),
            ] {
                match answer {
                    Err(Error::Clock(ClockOutOfRange { millis: shown })) => assert_eq!(shown, millis),
                    other => panic!("{}, {call} at {millis}: {other:?}", f.name),
                }
            }
        }
        f.clock.set(START);
        assert_eq!(f.store.lookup(&s, &k).expect("a store"), before, "{}", f.name);
        claim.complete(Reply::Marker).expect("held");
    });
}

#[test]
fn a_clock_that_panics_leaves_the_store_usable_and_nothing_written() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    struct Panicking(Arc<AtomicBool>);
    impl Clock for Panicking {
        fn now(&self) -> Timestamp {
            assert!(!self.0.load(Ordering::SeqCst), "a clock of the caller's own that panics");
            START
        }
    }
    let folder = folder();
    let panics = Arc::new(AtomicBool::new(false));
    let clock = Panicking(Arc::clone(&panics));
    let store =
        open(folder.path().join("store.db"), SqliteOptions::new().with_clock(clock)).expect("a fresh store");
    let (s, k, print) = (scope("a"), key("k"), asks_for("x"));
    panics.store(true, Ordering::SeqCst);
    let unwound = catch_unwind(AssertUnwindSafe(|| store.try_claim(&s, &k, &print).map(drop)));
    assert!(unwound.is_err(), "the panic is the caller's");
    panics.store(false, Ordering::SeqCst);
    assert_eq!(store.try_claim(&s, &k, &print).expect("a store").claimed().attempt(), 1);
}
