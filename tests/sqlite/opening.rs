//! Opening: what is made, what is found, and what is refused.

use crate::common::{Answer, asks_for, key, scope};
use crate::{folder, open, shell};
use idempotency::{Error, Reply, SqliteOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// Neither a file nor a table is made, nor a log, nor a setting changed.
#[test]
fn a_store_that_must_exist_is_opened_to_be_written_and_none_is_made() {
    let folder = folder();
    let must_exist = |path: &std::path::Path| open(path, SqliteOptions::new().must_exist());
    let [missing, empty, text, app] =
        ["missing", "empty", "text", "app"].map(|name| folder.path().join(name));
    std::fs::write(&empty, "").expect("a file");
    std::fs::write(&text, "a text of more than a hundred bytes, which is no database ".repeat(4))
        .expect("a file");
    shell(&app).execute_batch("CREATE TABLE orders (id TEXT)").expect("a table");
    let before = [&empty, &text, &app].map(|path| std::fs::read(path).expect("a file"));

    for path in [missing.clone(), format!("file:{}", missing.display()).into()] {
        let refused = must_exist(&path).expect_err("no file");
        assert!(matches!(refused, Error::CannotOpen(_)), "{refused:?}");
    }
    for path in [&empty, &text, &app] {
        let refused = must_exist(path).expect_err("no store there");
        assert!(matches!(refused, Error::Foreign { .. }), "{}: {refused:?}", path.display());
    }
    assert!([&empty, &text, &app].map(|path| std::fs::read(path).expect("a file")) == before);
    let left = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, 3, "a file was made");

    drop(open(&app, SqliteOptions::new()).expect("a fresh store"));
    let store = must_exist(&app).expect("the store");
    store
        .try_claim(&scope("a"), &key("k"), &asks_for("x"))
        .expect("a store")
        .claimed()
        .release()
        .expect("held");
    let other_prefix = SqliteOptions::new().must_exist().with_prefix("other_");
    assert!(matches!(open(&app, other_prefix), Err(Error::Foreign { .. })));
    let reader = open(&app, SqliteOptions::new().must_exist().read_only()).expect("the store");
    assert!(matches!(reader.sweep(1), Err(Error::ReadOnly(_))));
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
fn a_set_up_that_locks_the_file_for_itself_is_refused_before_a_store_is_made() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let exclusive = |connection: &rusqlite::Connection| {
        connection.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |_| Ok(()))
    };
    let refused =
        open(&path, SqliteOptions::new().with_connection_setup(exclusive)).expect_err("its readers");
    assert!(matches!(refused, Error::InvalidOption { .. }), "{refused:?}");
    assert!(refused.to_string().contains("locking mode"), "{refused}");
    let tables: i64 =
        shell(&path).query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).expect("a file");
    assert_eq!(tables, 0);
}

#[test]
fn an_unknown_vfs_is_an_error_of_opening() {
    let folder = folder();
    let options = SqliteOptions::new().with_vfs("no such vfs");
    assert!(open(folder.path().join("store.db"), options).is_err());
}

/// How a file comes to be that is no store of this version, and what it is refused as.
struct Refused {
    name: &'static str,
    prepare: fn(&Path),
    is_right: fn(&Error) -> bool,
}

/// A fresh store, changed, and turned back to a rollback journal: opening it must not leave even that behind.
fn changed_store(path: &Path, statements: &str) {
    drop(open(path, SqliteOptions::new()).expect("a fresh store"));
    shell(path).execute_batch(statements).expect("a change");
    rollback_journal(path);
}

fn rollback_journal(path: &Path) {
    let mode: String = shell(path)
        .query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))
        .expect("no other connection");
    assert_eq!(mode, "delete");
}

#[test]
fn what_is_no_store_of_this_version_is_refused_by_name_and_not_changed() {
    let foreign: fn(&Error) -> bool = |error| matches!(error, Error::Foreign { .. });
    let cases = [
        Refused {
            name: "a text file",
            prepare: |path| {
                std::fs::write(path, "No database, but longer than the header of one. ".repeat(40))
                    .expect("a file");
            },
            is_right: foreign,
        },
        Refused {
            name: "a newer schema",
            prepare: |path| changed_store(path, "UPDATE idempotency_meta SET schema_version = 2"),
            is_right: |error| matches!(error, Error::NewerSchema { found: 2, known: 1 }),
        },
        Refused {
            name: "version 0",
            prepare: |path| changed_store(path, "UPDATE idempotency_meta SET schema_version = 0"),
            is_right: foreign,
        },
        Refused {
            name: "no meta table",
            prepare: |path| changed_store(path, "DROP TABLE idempotency_meta"),
            is_right: foreign,
        },
        Refused {
            name: "no meta row",
            prepare: |path| changed_store(path, "DELETE FROM idempotency_meta"),
            is_right: foreign,
        },
        Refused {
            name: "somebody else's tables",
            prepare: |path| {
                shell(path)
                    .execute_batch("CREATE TABLE idempotency_meta (a); CREATE TABLE IDEMPOTENCY_RECORD (b)")
                    .expect("tables");
            },
            is_right: foreign,
        },
        Refused {
            name: "somebody else's record table beside our meta table",
            prepare: |path| {
                changed_store(path, "ALTER TABLE idempotency_record RENAME COLUMN writer TO author");
            },
            is_right: foreign,
        },
        Refused {
            name: "somebody else's view",
            prepare: |path| {
                shell(path).execute_batch("CREATE VIEW idempotency_record AS SELECT 1").expect("a view");
            },
            is_right: foreign,
        },
    ];
    for Refused { name, prepare, is_right } in cases {
        let folder = folder();
        let path = folder.path().join("store.db");
        prepare(&path);
        let before = std::fs::read(&path).expect("a file");
        for options in [SqliteOptions::new(), SqliteOptions::new().read_only()] {
            let error = open(&path, options).expect_err(name);
            assert!(is_right(&error), "{name}: {error:?}");
            assert!(!error.is_transient() && !error.is_indefinite(), "{name}: {error:?}");
        }
        assert!(std::fs::read(&path).expect("a file") == before, "{name}: the file was changed");
    }
}

#[test]
fn a_prefix_is_the_same_in_upper_and_lower_case() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let lower = open(&path, SqliteOptions::new().with_prefix("pay_")).expect("a fresh store");
    let upper = open(&path, SqliteOptions::new().with_prefix("PAY_")).expect("the same store");
    assert_eq!(lower.store_id(), upper.store_id());
}

#[test]
fn the_longest_wait_that_a_duration_can_name_is_no_panic() {
    let folder = folder();
    for timeout in [Duration::MAX, Duration::from_millis(2_147_483_648), Duration::ZERO] {
        let options = SqliteOptions::new().with_busy_timeout(timeout);
        assert!(open(folder.path().join("store.db"), options).is_ok(), "{timeout:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_path_need_not_be_utf_8() {
    use std::os::unix::ffi::OsStrExt;
    let folder = folder();
    let path = folder.path().join(std::ffi::OsStr::from_bytes(b"store-\xff.db"));
    let store = open(&path, SqliteOptions::new()).expect("a file with an odd name");
    let claim = store.try_claim(&scope("a"), &key("k"), &asks_for("x")).expect("a store").claimed();
    claim.complete(Reply::Marker).expect("held");
    assert!(path.exists());
}

#[test]
fn a_nul_in_a_path_or_a_name_is_refused_as_an_option() {
    let folder = folder();
    let odd_path: PathBuf = folder.path().join("a\0b");
    let odd_vfs = SqliteOptions::new().with_vfs("a\0b");
    for refused in [open(odd_path, SqliteOptions::new()), open(folder.path().join("store.db"), odd_vfs)] {
        let error = refused.expect_err("a NUL");
        assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
    }
}
