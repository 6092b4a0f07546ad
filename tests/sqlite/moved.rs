//! What changes around a store while it is open, found when it opens its file again.

use crate::alone::alone;
use crate::common::{Answer, asks_for, key, scope};
use crate::{folder, open, shell};
use idempotency::{Error, Reply, RunError, SqliteOptions, SqliteStore};
use std::path::Path;

/// Has the store give its connection up, as after a commit that failed.
fn give_the_connection_up(store: &SqliteStore) {
    let ended = store.atomically(&scope("a"), &key("ended"), &asks_for("x"), |transaction| {
        transaction.execute_batch("ROLLBACK")?;
        Ok::<_, rusqlite::Error>(Reply::Marker)
    });
    let Err(RunError::NotRecorded { error: Error::TransactionEnded { committed: false }, .. }) = ended else {
        panic!("{ended:?}")
    };
}

/// Has the store close the connection that it reads with, as after a look that failed.
fn give_the_reader_up(store: &SqliteStore, path: &Path) {
    let shell = shell(path);
    shell.execute_batch("ALTER TABLE idempotency_record RENAME TO hidden").expect("a table");
    let error = store.lookup(&scope("a"), &key("k")).expect_err("there is no such table");
    assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
    shell.execute_batch("ALTER TABLE hidden RENAME TO idempotency_record").expect("a table");
}

#[test]
fn a_store_opened_by_a_relative_path_is_found_again_from_another_working_directory() {
    alone("moved::a_store_opened_by_a_relative_path_is_found_again_from_another_working_directory", || {
        let (home, elsewhere) = (folder(), folder());
        std::env::set_current_dir(home.path()).expect("a folder");
        let store = open("store.db", SqliteOptions::new()).expect("a fresh store");
        std::env::set_current_dir(elsewhere.path()).expect("another folder");
        give_the_connection_up(&store);
        let claim = store.try_claim(&scope("a"), &key("k"), &asks_for("x")).expect("the store").claimed();
        claim.complete(Reply::Marker).expect("held");
        let files = std::fs::read_dir(elsewhere.path()).expect("a folder").count();
        assert_eq!(files, 0, "a file was made elsewhere");
        std::env::set_current_dir("/").expect("the root");
    });
}

#[test]
fn a_store_whose_file_was_moved_away_is_not_made_anew_and_is_there_again_when_it_is_back() {
    let folder = folder();
    let (path, away) = (folder.path().join("store.db"), folder.path().join("away.db"));
    let store = open(&path, SqliteOptions::new()).expect("a fresh store");
    // A file that is open must not be moved: its log stays behind.
    give_the_connection_up(&store);
    give_the_reader_up(&store, &path);
    std::fs::rename(&path, &away).expect("a move");
    let ask = || store.try_claim(&scope("a"), &key("k"), &asks_for("x"));
    for _ in 0..2 {
        let error = ask().expect_err("nothing is there");
        assert!(matches!(error, Error::CannotOpen(_)), "{error:?}");
        assert!(!path.exists());
    }
    drop(open(&path, SqliteOptions::new()).expect("another store in its place"));
    let error = ask().expect_err("another store");
    assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
    std::fs::rename(&away, &path).expect("a move back");
    assert_eq!(ask().expect("the store").claimed().attempt(), 1);
}

#[test]
fn a_store_opened_by_a_uri_that_may_make_the_file_is_found_again_and_not_made_anew() {
    for mode in ["", "?mode=rwc", "?mode=rw"] {
        let folder = folder();
        let path = folder.path().join("store.db");
        drop(open(&path, SqliteOptions::new()).expect("a fresh store"));
        let uri = format!("file:{}{mode}", path.display());
        let store = open(uri, SqliteOptions::new()).expect("the store");
        give_the_connection_up(&store);
        let claim = store.try_claim(&scope("a"), &key("k"), &asks_for("x"));
        assert_eq!(claim.expect(mode).claimed().attempt(), 1, "{mode}");

        give_the_connection_up(&store);
        std::fs::rename(&path, path.with_extension("away")).expect("a move");
        let claim = store.try_claim(&scope("a"), &key("new"), &asks_for("x"));
        let error = claim.expect_err("nothing is there");
        assert!(matches!(error, Error::CannotOpen(_)), "{mode}: {error:?}");
        assert!(!path.exists(), "{mode}: a file was made");
    }
}

/// A deployment's `current`, say, that leads to a copy of the file from now on.
#[cfg(unix)]
#[test]
fn a_store_opened_by_a_link_stays_with_its_file_when_the_link_leads_elsewhere() {
    use std::os::unix::fs::symlink;
    let folder = folder();
    let [old, new, current] = ["old", "new", "current"].map(|name| folder.path().join(name));
    std::fs::create_dir(&old).and_then(|()| std::fs::create_dir(&new)).expect("folders");
    symlink(&old, &current).expect("a link");
    let store = open(current.join("store.db"), SqliteOptions::new()).expect("a fresh store");
    let copy = new.join("store.db").display().to_string();
    shell(&old.join("store.db")).execute("VACUUM INTO ?1", [copy]).expect("a copy");
    std::fs::remove_file(&current).and_then(|()| symlink(&new, &current)).expect("another link");
    give_the_connection_up(&store);
    drop(store.try_claim(&scope("a"), &key("k"), &asks_for("x")).expect("the store").claimed());
    let records = |folder: &Path| -> i64 {
        shell(&folder.join("store.db"))
            .query_row("SELECT count(*) FROM idempotency_record", [], |row| row.get(0))
            .expect("a count")
    };
    assert_eq!((records(&old), records(&new)), (1, 0));
}

/// Names that are no UTF-8 are told apart as well.
#[cfg(unix)]
#[test]
fn a_transaction_on_a_copy_with_an_odd_name_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let folder = folder();
    let odd = |name: &[u8]| folder.path().join(std::ffi::OsStr::from_bytes(name));
    let (path, copy) = (odd(b"\xff.db"), odd(b"copy-\xff.db"));
    let store = open(&path, SqliteOptions::new()).expect("a fresh store");
    let ticket =
        store.try_claim(&scope("a"), &key("k"), &asks_for("x")).expect("a store").claimed().into_ticket();
    shell(&path).execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("nobody reads");
    std::fs::copy(&path, &copy).expect("a copy");
    let complete_on = |path: &Path| {
        let mut connection = shell(path);
        let transaction = connection
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
            .expect("the write lock");
        store.complete_in(&transaction, &ticket, Reply::Marker)
    };
    assert!(matches!(complete_on(&copy), Err(Error::OtherDatabase(_))));
    assert!(complete_on(&path).is_ok());
}

/// In a database of UTF-16, SQLite can't give such a name back as it is.
#[cfg(unix)]
#[test]
fn a_store_with_an_odd_name_in_a_database_of_utf_16_is_found_again() {
    use std::os::unix::ffi::OsStrExt;
    let folder = folder();
    let path = folder.path().join(std::ffi::OsStr::from_bytes(b"\xff.db"));
    let options = SqliteOptions::new()
        .with_connection_setup(|connection| connection.pragma_update(None, "encoding", "UTF-16"));
    let store = open(&path, options).expect("a fresh store");
    give_the_connection_up(&store);
    assert_eq!(
        store.try_claim(&scope("a"), &key("k"), &asks_for("x")).expect("the store").claimed().attempt(),
        1
    );
}
