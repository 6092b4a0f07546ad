//! Files and folders that can't be read, written or found: an error by name at open, and none tried again.

use crate::common::{Answer, asks_for, key, scope, secs};
use crate::trace::Trace;
use crate::{folder, open, shell};
use idempotency::{Error, Reply, SqliteOptions};
use std::path::Path;

/// A store with one completed record, closed.
fn store_at(path: &Path) {
    let store = open(path, SqliteOptions::new()).expect("a fresh store");
    let claim = store.try_claim(&scope("a"), &key("done"), &asks_for("x")).expect("an answer").claimed();
    claim.complete(Reply::Marker).expect("a completion");
}

/// Opens, and must be refused with an error that waiting does not change, after one attempt.
#[track_caller]
fn refused(path: &Path, options: SqliteOptions, what: &str) -> Error {
    let trace = Trace::new();
    // Time enough for many attempts, if there were any.
    let error = open(path, trace.on(options.with_busy_timeout(secs(1)))).expect_err(what);
    assert!(!error.is_transient() && !error.is_indefinite(), "{what}: {error:?}");
    assert!(trace.connections() <= 1, "{what}: {} connections", trace.connections());
    for statement in ["BEGIN", "journal_mode", "CREATE TABLE"] {
        assert!(trace.runs_of(statement) <= 1, "{what}: {:?}", trace.take());
    }
    error
}

/// What SQLite itself said.
#[cfg(unix)]
fn code(error: &Error) -> Option<i32> {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<rusqlite::Error>() {
            return error.sqlite_error().map(|failure| failure.extended_code);
        }
        source = error.source();
    }
    None
}

fn entries(folder: &Path) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .expect("a readable folder")
        .map(|entry| entry.expect("a readable entry").file_name())
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn a_path_that_leads_to_no_file_cannot_be_opened_and_nothing_is_made() {
    let folder = folder();
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("a file");
    std::fs::create_dir(folder.path().join("folder")).expect("a folder");
    for path in ["folder", "missing/store.db", "file/store.db"] {
        let error = refused(&folder.path().join(path), SqliteOptions::new(), path);
        assert!(matches!(error, Error::CannotOpen(_)), "{path}: {error:?}");
    }
    for path in ["folder", "missing/store.db", "file/store.db"] {
        let error = refused(&folder.path().join(path), SqliteOptions::new().read_only(), path);
        assert!(matches!(error, Error::CannotOpen(_)), "{path}: {error:?}");
    }
    assert_eq!(entries(folder.path()), ["file", "folder"]);
    assert_eq!(std::fs::metadata(file).expect("the file").len(), 0);
}

/// The connection is opened by then, and its set-up done: what fails is the first statement.
#[test]
fn a_log_that_cannot_be_opened_is_an_error_of_the_first_statement_and_not_tried_again() {
    let folder = folder();
    let path = folder.path().join("store.db");
    store_at(&path);
    let log = folder.path().join("store.db-wal");
    std::fs::create_dir(&log).expect("a folder where the log belongs");
    let error = refused(&path, SqliteOptions::new(), "a folder in place of the log");
    assert!(matches!(error, Error::CannotOpen(_)), "{error:?}");
    std::fs::remove_dir(&log).expect("a folder");
    let store = open(&path, SqliteOptions::new()).expect("the store");
    assert_eq!(
        store.try_claim(&scope("a"), &key("done"), &asks_for("x")).expect("an answer").name(),
        "completed"
    );
}

#[cfg(unix)]
mod modes {
    use super::*;
    use crate::ordinary_user::{as_an_ordinary_user, set_mode};

    #[test]
    fn a_file_that_cannot_be_written_is_read_only_at_open_and_can_be_read() {
        as_an_ordinary_user(
            "access::modes::a_file_that_cannot_be_written_is_read_only_at_open_and_can_be_read",
            || {
                let folder = folder();
                let path = folder.path().join("store.db");
                for journal in ["wal", "delete"] {
                    store_at(&path);
                    shell(&path).pragma_update(None, "journal_mode", journal).expect("a mode");
                    set_mode(&path, 0o444);
                    let before = std::fs::read(&path).expect("a file");
                    let error = refused(&path, SqliteOptions::new(), journal);
                    assert!(matches!(error, Error::ReadOnly(_)), "{journal}: {error:?}");
                    assert_eq!(code(&error), Some(rusqlite::ffi::SQLITE_READONLY), "{journal}: {error:?}");
                    assert!(std::fs::read(&path).expect("a file") == before, "{journal}: it was changed");

                    let reader = open(&path, SqliteOptions::new().read_only()).expect(journal);
                    let record = reader.lookup(&scope("a"), &key("done")).expect(journal).expect("a record");
                    assert_eq!(record.reply, Some(Reply::Marker), "{journal}");
                    drop(reader);
                    for name in entries(folder.path()) {
                        std::fs::remove_file(folder.path().join(name)).expect("a file of SQLite's");
                    }
                }
            },
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_cannot_be_opened() {
        as_an_ordinary_user("access::modes::a_file_that_cannot_be_read_cannot_be_opened", || {
            let folder = folder();
            let path = folder.path().join("store.db");
            store_at(&path);
            set_mode(&path, 0o000);
            for options in [SqliteOptions::new(), SqliteOptions::new().read_only()] {
                let error = refused(&path, options, "mode 000");
                assert!(matches!(error, Error::CannotOpen(_)), "{error:?}");
            }
            set_mode(&path, 0o600);
            open(&path, SqliteOptions::new()).expect("the store");
        });
    }

    #[test]
    fn a_store_in_a_folder_that_cannot_be_written_is_read_only_and_a_fresh_one_cannot_be_made() {
        as_an_ordinary_user(
            "access::modes::a_store_in_a_folder_that_cannot_be_written_is_read_only_and_a_fresh_one_cannot_be_made",
            || {
                let folder = folder();
                let path = folder.path().join("store.db");
                for journal in ["wal", "delete"] {
                    store_at(&path);
                    shell(&path).pragma_update(None, "journal_mode", journal).expect("a mode");
                    set_mode(folder.path(), 0o555);
                    let error = refused(&path, SqliteOptions::new(), journal);
                    assert!(matches!(error, Error::ReadOnly(_)), "{journal}: {error:?}");
                    assert_eq!(
                        code(&error),
                        Some(rusqlite::ffi::SQLITE_READONLY_DIRECTORY),
                        "{journal}: {error:?}"
                    );
                    let error = refused(&folder.path().join("new.db"), SqliteOptions::new(), "a fresh store");
                    assert!(matches!(error, Error::CannotOpen(_)), "{error:?}");
                    set_mode(folder.path(), 0o755);
                    assert_eq!(entries(folder.path()), ["store.db"], "{journal}");
                    drop(open(&path, SqliteOptions::new()).expect("the store"));
                    std::fs::remove_file(&path).expect("the store's file");
                }
            },
        );
    }

    #[test]
    fn a_store_in_a_folder_that_cannot_be_entered_cannot_be_opened() {
        as_an_ordinary_user(
            "access::modes::a_store_in_a_folder_that_cannot_be_entered_cannot_be_opened",
            || {
                let folder = folder();
                let path = folder.path().join("store.db");
                store_at(&path);
                set_mode(folder.path(), 0o600);
                for options in [SqliteOptions::new(), SqliteOptions::new().read_only()] {
                    let error = refused(&path, options, "a closed folder");
                    assert!(matches!(error, Error::CannotOpen(_)), "{error:?}");
                }
                set_mode(folder.path(), 0o700);
                open(&path, SqliteOptions::new()).expect("the store");
            },
        );
    }

    /// The files were opened while the folder let them be.
    #[test]
    fn a_folder_that_is_closed_to_writing_under_an_open_store_is_not_in_its_way() {
        as_an_ordinary_user(
            "access::modes::a_folder_that_is_closed_to_writing_under_an_open_store_is_not_in_its_way",
            || {
                let folder = folder();
                let path = folder.path().join("store.db");
                let store = open(&path, SqliteOptions::new()).expect("a fresh store");
                set_mode(folder.path(), 0o555);
                let claim =
                    store.try_claim(&scope("a"), &key("k"), &asks_for("x")).expect("an answer").claimed();
                claim.complete(Reply::Marker).expect("a completion");
                drop(store);
                set_mode(folder.path(), 0o755);
                let store = open(&path, SqliteOptions::new()).expect("the store");
                let answer = store.try_claim(&scope("a"), &key("k"), &asks_for("x")).expect("an answer");
                assert_eq!(answer.completed().reply, Reply::Marker);
            },
        );
    }
}
