//! Case 11 on a file: what operators, other handles, other processes and restored copies do to it.

use crate::common::{Answer, Fixture, asks_for, key, scope};
use crate::snapshot::snapshot;
use crate::support::{handle_on_file, lost, reply};
use crate::tokens::grants_one_more_and_then_none;
use idempotency::{Claim, DynStore, Error, FencingToken, IdempotencyStore, LostReason};
use std::path::Path;
use std::process::Command;

/// Runs `sql` on a connection of its own, as an operator does.
fn by_hand(fixture: &Fixture, sql: &str) {
    let path = fixture.path().expect("a file");
    let connection = rusqlite::Connection::open(path).expect("the file");
    connection.execute_batch(sql).expect("a change by hand");
}

fn claim(store: &DynStore) -> Claim {
    store.try_claim(&scope("tenant"), &key("k"), &asks_for("pay")).expect("an answer").claimed()
}

/// Claims and releases the one key.
fn one_token(store: &DynStore) -> FencingToken {
    let claim = claim(store);
    let token = claim.token();
    claim.release().expect("a claim that stands");
    token
}

#[test]
fn tokens_that_are_exhausted_stay_so_when_the_file_is_reopened() {
    let mut fixture = Fixture::on_sqlite();
    by_hand(&fixture, &format!("UPDATE idempotency_meta SET last_token = {}", i64::MAX - 2));
    let claim = claim(&fixture.store);
    assert_eq!(claim.token().get(), i64::MAX - 1);
    grants_one_more_and_then_none(&fixture, &fixture.store, claim);
    fixture.reopen();
    let refused = fixture.store.try_claim(&scope("tenant"), &key("new"), &asks_for("pay"));
    assert!(matches!(refused, Err(Error::TokensExhausted)), "{refused:?}");
}

#[test]
fn tokens_rise_on_when_the_records_are_deleted_by_hand() {
    let mut fixture = Fixture::on_sqlite();
    let owner = claim(&fixture.store);
    by_hand(&fixture, "DELETE FROM idempotency_record");
    let next = claim(&fixture.store);
    assert!(next.token() > owner.token());
    let before = snapshot(&fixture, owner.scope(), owner.key());
    let stale = owner.complete(reply("late")).map(drop).map_err(Error::from);
    assert_eq!(lost(stale), LostReason::Running);
    assert_eq!(snapshot(&fixture, next.scope(), next.key()), before);

    let last = next.token();
    drop(next);
    by_hand(&fixture, "DELETE FROM idempotency_record");
    fixture.reopen();
    assert!(claim(&fixture.store).token() > last);
}

/// Each is done to the closed file, and undone by nothing but opening it again.
#[test]
fn tokens_rise_on_over_the_reopening_of_a_file_that_lost_its_counter() {
    for sql in [
        "UPDATE idempotency_meta SET last_token = 0",
        "DELETE FROM idempotency_record; UPDATE idempotency_meta SET last_token = 0",
        "DROP TABLE idempotency_record; DROP TABLE idempotency_meta",
    ] {
        let mut fixture = Fixture::on_sqlite();
        let last = (0..10).map(|_| one_token(&fixture.store)).max().expect("ten tokens");
        by_hand(&fixture, sql);
        fixture.reopen();
        let token = one_token(&fixture.store);
        assert!(token > last, "{sql}: {token} after {last}");
    }
}

#[test]
fn tokens_rise_on_in_a_restored_older_copy_of_the_file_and_an_owner_from_after_the_copy_has_lost() {
    let mut fixture = Fixture::on_sqlite();
    let path = fixture.path().expect("a file");
    let copy = path.with_extension("copy");
    one_token(&fixture.store);
    for restored in 0..3 {
        fixture.reopen();
        // A consistent copy, whether or not the log was written back.
        by_hand(&fixture, &format!("VACUUM INTO '{}'", copy.display()));
        let tokens: Vec<_> = (0..20).map(|_| one_token(&fixture.store)).collect();
        let owner = claim(&fixture.store);
        let ticket = owner.into_ticket();
        assert!(tokens.iter().all(|token| *token < ticket.token()));

        fixture.store = IdempotencyStore::in_memory().erase();
        for suffix in ["-wal", "-shm"] {
            let mut beside = path.clone().into_os_string();
            beside.push(suffix);
            assert!(!Path::new(&beside).exists(), "the last handle that closes leaves nothing behind");
        }
        std::fs::rename(&copy, &path).expect("the copy in place of the file");
        fixture.store = handle_on_file(&fixture, |options| options);
        let gone = fixture.store.complete(&ticket, reply("late")).map(drop);
        assert_eq!(lost(gone), LostReason::Gone, "restored {restored} times before");
        let next = claim(&fixture.store);
        assert!(next.token() > ticket.token(), "restored {restored} times before");
        let stale = fixture.store.complete(&ticket, reply("late")).map(drop);
        assert_eq!(lost(stale), LostReason::Running, "restored {restored} times before");
        next.release().expect("a claim that stands");
    }
}

#[test]
fn tokens_rise_over_two_handles_that_alternate_on_one_key() {
    let fixture = Fixture::on_sqlite();
    let other = handle_on_file(&fixture, |options| options);
    let mut last = one_token(&fixture.store);
    for round in 0..40 {
        // Not in step, so that a handle with numbers in reserve would give out an old one.
        let store = if round % 3 == 0 { &other } else { &fixture.store };
        let token = one_token(store);
        assert!(token > last, "round {round}: {token} after {last}");
        last = token;
    }
}

/// The file that a child process of this program is to claim on.
const CHILD: &str = "IDEMPOTENCY_TEST_CHILD_CLAIMS_ON";
const TOKEN: &str = "token of the child: ";

#[test]
fn tokens_rise_over_two_processes_that_alternate_on_one_key() {
    if let Some(path) = std::env::var_os(CHILD) {
        let store = IdempotencyStore::open(path).expect("the parent's file").erase();
        println!("\n{TOKEN}{}", one_token(&store));
        return;
    }
    let fixture = Fixture::on_sqlite();
    let mut last = one_token(&fixture.store);
    for round in 0..5 {
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--exact",
                "--nocapture",
                "tokens_of_a_file::tokens_rise_over_two_processes_that_alternate_on_one_key",
            ])
            .env(CHILD, fixture.path().expect("a file"))
            .output()
            .expect("a child that ends");
        assert!(child.status.success(), "{child:?}");
        let output = String::from_utf8(child.stdout).expect("text");
        let theirs = output.lines().find_map(|line| line.strip_prefix(TOKEN)).expect("a token");
        let theirs = FencingToken::new(theirs.parse().expect("a number")).expect("a token");
        let ours = one_token(&fixture.store);
        assert!(last < theirs && theirs < ours, "round {round}: {last}, {theirs}, {ours}");
        last = ours;
    }
}

/// As SQLite's backup does into a file that is in use: other handles see its old content from one transaction
/// to the next.
#[test]
fn tokens_rise_on_when_an_older_content_is_restored_into_the_open_file() {
    let fixture = Fixture::on_sqlite();
    let copy = fixture.path().expect("a file").with_extension("copy");
    by_hand(&fixture, &format!("VACUUM INTO '{}'", copy.display()));
    let owner = claim(&fixture.store);
    let restore = |from: &Path| {
        let from = rusqlite::Connection::open(from).expect("the copy");
        let (meta, records): (i64, i64) = from
            .query_row(
                "SELECT last_token, (SELECT count(*) FROM idempotency_record) FROM idempotency_meta",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .expect("the copy's counter");
        assert_eq!(records, 0);
        by_hand(
            &fixture,
            &format!("DELETE FROM idempotency_record; UPDATE idempotency_meta SET last_token = {meta}"),
        );
    };
    restore(&copy);
    let next = claim(&fixture.store);
    assert!(next.token() > owner.token());
    assert_eq!(lost(owner.complete(reply("late")).map(drop).map_err(Error::from)), LostReason::Running);
    restore(&copy);
    // A handle that has not seen what the other one granted.
    let late = claim(&handle_on_file(&fixture, |options| options));
    assert!(late.token() > next.token());
    restore(&copy);
    assert!(claim(&fixture.store).token() > late.token());
}

/// As above, for a handle that was open all the while and has never claimed.
#[test]
fn tokens_rise_on_over_a_restore_for_a_handle_that_saw_none_of_what_was_granted() {
    let fixture = Fixture::on_sqlite();
    let idle = handle_on_file(&fixture, |options| options);
    by_hand(&fixture, "CREATE TABLE kept AS SELECT last_token FROM idempotency_meta");
    let owner = claim(&fixture.store);
    by_hand(
        &fixture,
        "DELETE FROM idempotency_record; UPDATE idempotency_meta SET last_token = (SELECT last_token FROM kept)",
    );
    assert!(claim(&idle).token() > owner.token());
    assert_eq!(lost(owner.complete(reply("late")).map(drop).map_err(Error::from)), LostReason::Running);
}

#[test]
fn a_counter_that_is_gone_is_corrupt() {
    let fixture = Fixture::on_sqlite();
    by_hand(&fixture, "DELETE FROM idempotency_meta");
    let refused = fixture.store.try_claim(&scope("tenant"), &key("k"), &asks_for("pay"));
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
}

#[test]
fn nothing_is_granted_where_the_counter_can_not_be_moved() {
    let fixture = Fixture::on_sqlite();
    by_hand(
        &fixture,
        "CREATE TRIGGER stuck BEFORE UPDATE ON idempotency_meta BEGIN SELECT RAISE(IGNORE); END",
    );
    for _ in 0..2 {
        let refused = fixture.store.try_claim(&scope("tenant"), &key("k"), &asks_for("pay"));
        assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
        assert_eq!(fixture.store.lookup(&scope("tenant"), &key("k")).expect("a store"), None);
    }
}
