//! What work leaves behind on the store's connection, or does to the store's own tables: later calls work, or
//! say what is wrong.

use crate::common::{Answer, START, secs};
use crate::shop::{Shop, claim, executed, no_work, open, order, reply, rows, run};
use idempotency::rusqlite;
use idempotency::{Error, Policy, Reply, RunError};
use std::time::Duration;

#[test]
fn tables_and_indexes_that_the_work_makes_are_committed_with_the_reply() {
    let shop = Shop::new();
    executed(shop.run(|tx| {
        tx.execute_batch(
            "CREATE TABLE notes (text TEXT);
             CREATE INDEX by_text ON notes (text);
             INSERT INTO notes VALUES ('it')",
        )?;
        Ok::<_, rusqlite::Error>(Reply::Marker)
    }));
    let notes: i64 =
        shop.connection().query_row("SELECT count(*) FROM notes", [], |row| row.get(0)).expect("notes");
    assert_eq!(notes, 1);
    assert!(matches!(shop.run(no_work), Ok(idempotency::Ran::Replayed(_))));
}

#[test]
fn temporary_tables_of_the_works_that_have_the_stores_names_stand_in_for_nothing() {
    let shop = Shop::new();
    let first = executed(shop.run(|tx| {
        tx.execute_batch(
            "CREATE TEMP TABLE idempotency_record AS SELECT * FROM main.idempotency_record;
             CREATE TEMP TABLE idempotency_meta AS SELECT * FROM main.idempotency_meta",
        )?;
        order(tx, "a book")?;
        Ok::<_, rusqlite::Error>(reply(201, "it"))
    }));
    assert_eq!(shop.column::<String>("state"), "completed");
    assert_eq!(crate::shop::replayed(shop.run(no_work)), first);
    shop.at(24 * 60 * 60);
    shop.must_run("another book", 1);
}

/// It is the application's own file: what it does there is committed.
#[test]
fn a_store_whose_counter_the_work_has_taken_away_grants_nothing_more_and_says_so() {
    for statements in ["DELETE FROM idempotency_meta", "DROP TABLE idempotency_meta"] {
        let shop = Shop::new();
        executed(shop.run(|tx| {
            order(tx, "a book")?;
            tx.execute_batch(statements)?;
            Ok::<_, rusqlite::Error>(reply(201, "it"))
        }));
        let before = rows(&shop.connection(), "SELECT * FROM idempotency_record");
        shop.at(24 * 60 * 60);
        for refused in [claim(&shop.store).map(drop), shop.run(no_work).map(drop).map_err(of_the_store)] {
            let error = refused.expect_err(statements);
            assert!(!error.is_transient() && !error.is_indefinite(), "{statements}: {error:?}");
        }
        assert_eq!(rows(&shop.connection(), "SELECT * FROM idempotency_record"), before, "{statements}");
        let refused = open(shop.path(), shop.options()).map(drop);
        assert!(matches!(refused, Err(Error::Foreign { .. })), "{statements}: {refused:?}");
    }
}

#[track_caller]
fn of_the_store(error: RunError<rusqlite::Error>) -> Error {
    match error {
        RunError::Store(error) => error,
        other => panic!("wanted the store's error, got {other:?}"),
    }
}

#[test]
fn a_counter_that_the_work_sets_back_grants_no_token_again() {
    let shop = Shop::new();
    executed(shop.run(|tx| {
        tx.execute("UPDATE idempotency_meta SET last_token = 0", [])?;
        Ok::<_, rusqlite::Error>(Reply::Marker)
    }));
    let first: i64 = shop.column("token");
    shop.at(24 * 60 * 60);
    assert!(shop.claim().token().get() > first);
}

#[test]
fn work_on_a_lease_of_a_millisecond_is_recorded_however_long_it_takes() {
    let shop = Shop::new();
    let hasty = shop.store.with_policy(Policy::new().with_lease(Duration::from_millis(1))).expect("a policy");
    let done = executed(run(&hasty, |tx| {
        shop.at(23 * 60 * 60);
        order(tx, "a book")?;
        Ok::<_, rusqlite::Error>(reply(201, "it"))
    }));
    assert_eq!(done.completed_at, START.saturating_add(secs(23 * 60 * 60)));
    assert_eq!(crate::shop::replayed(shop.run(no_work)), done);
}

#[test]
fn a_clock_that_steps_back_during_the_work_ends_nothing_and_the_reply_is_kept_for_its_retention_from_there() {
    let shop = Shop::new();
    shop.at(100);
    let done = executed(shop.run(|tx| {
        shop.at(0);
        order(tx, "a book")?;
        Ok::<_, rusqlite::Error>(reply(201, "it"))
    }));
    assert_eq!((done.created_at, done.completed_at), (START.saturating_add(secs(100)), START));
    assert_eq!(done.expires_at, START.saturating_add(secs(24 * 60 * 60)));
    assert_eq!(crate::shop::replayed(shop.run(no_work)), done);
}

#[test]
fn settings_of_the_connections_set_up_do_not_break_the_store() {
    for statements in [
        "PRAGMA busy_timeout = 1",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA synchronous = OFF",
        "PRAGMA foreign_keys = OFF",
        "PRAGMA recursive_triggers = ON",
        "PRAGMA temp_store = FILE",
        "PRAGMA cache_size = 1; PRAGMA cache_spill = 1",
        "PRAGMA read_uncommitted = ON",
        "PRAGMA reverse_unordered_selects = ON",
        "PRAGMA case_sensitive_like = ON",
        "PRAGMA automatic_index = OFF",
        "ATTACH ':memory:' AS idempotency; CREATE TABLE idempotency.idempotency_meta (store_id)",
        "CREATE TEMP TABLE idempotency_meta (store_id); CREATE TEMP TABLE idempotency_record (scope)",
    ] {
        let shop = Shop::set_up_by(statements);
        for attempt in 1..=2 {
            let done = executed(shop.run(|tx| {
                order(tx, &format!("{attempt}"))?;
                Ok::<_, rusqlite::Error>(reply(201, vec![1; 100_000]))
            }));
            assert_eq!(crate::shop::replayed(shop.run(no_work)), done, "{statements}");
            shop.clock.time.advance(secs(24 * 60 * 60));
        }
        assert_eq!(shop.orders(), ["1", "2"], "{statements}");
        let mode: String =
            shop.connection().query_row("PRAGMA journal_mode", [], |row| row.get(0)).expect("a mode");
        assert_eq!(mode, "wal", "{statements}");
    }
}

/// What the work has set is still set when the next command comes.
#[test]
fn settings_that_the_work_leaves_on_the_connection_do_not_break_later_calls() {
    for statements in [
        "PRAGMA foreign_keys = OFF",
        "PRAGMA defer_foreign_keys = ON",
        "PRAGMA recursive_triggers = ON",
        "PRAGMA read_uncommitted = ON",
        "PRAGMA reverse_unordered_selects = ON",
        "PRAGMA cache_size = 1",
        "PRAGMA journal_size_limit = 0",
        "PRAGMA wal_autocheckpoint = 1",
    ] {
        let shop = Shop::new();
        executed(shop.run(|tx| {
            tx.execute_batch(statements)?;
            Ok::<_, rusqlite::Error>(Reply::Marker)
        }));
        shop.at(24 * 60 * 60);
        shop.must_run("a book", 1);
        assert_eq!(claim(&shop.handle()).expect(statements).name(), "completed", "{statements}");
        assert_eq!(shop.store.sweep_all().expect(statements).removed, 0, "{statements}");
    }
}
