//! What changes around a store while it is open, found when it opens its file again.

use crate::alone::alone;
use crate::common::{Answer, asks_for, key, scope};
use crate::{folder, open};
use idempotency::{Error, Reply, RunError, SqliteOptions, SqliteStore};

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
    give_the_connection_up(&store);
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
