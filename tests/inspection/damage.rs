//! Damage in the file: what can be told is told all the same.

use crate::common::{Answer, Fixture, START, asks_for, key, scope, secs};
use crate::counts;
use idempotency::{DynStore, Error, StoredResponse};
use rusqlite::Connection;

const SCHEMA: &str = "SELECT sql FROM sqlite_schema WHERE name = 'idempotency_record'";
const DAY: u64 = 24 * 60 * 60;

fn claim(store: &DynStore, name: &str) -> idempotency::Claim {
    store.try_claim(&scope("a"), &key(name), &asks_for("x")).expect("a store").claimed()
}

/// A lapsed claim, a running one and a completion, and one more of each beside it that stays sound.
fn fixture() -> Fixture {
    let f = Fixture::on_sqlite();
    for name in ["lapsed", "lapsed, sound"] {
        drop(claim(&f.store, name));
    }
    f.at(90);
    for name in ["running", "running, sound"] {
        drop(claim(&f.store, name));
    }
    for name in ["done", "done, sound"] {
        claim(&f.store, name).complete(StoredResponse::new(201).with_body("12345")).expect("held");
    }
    assert_eq!(told(&f), ([2, 2, 2, 0, 0], vec!["lapsed".to_owned(), "lapsed, sound".to_owned()]));
    f
}

/// The counts, and the keys of the stuck claims.
fn told(f: &Fixture) -> ([u64; 5], Vec<String>) {
    let stuck = f.store.stuck(10).expect("a list");
    (
        counts(f.store.stats().expect("counts")),
        stuck.into_iter().map(|stuck| stuck.id.key.as_str().to_owned()).collect(),
    )
}

/// Changes the row `name` as a flipped bit may: meanwhile its table keeps to no type and no constraint.
fn damage(f: &Fixture, name: &str, columns: &str) {
    let path = f.path().expect("a file");
    let shell = |sql: &str, parameters: &[&str]| {
        let shell = Connection::open(&path).expect("the file");
        shell
            .execute_batch("PRAGMA ignore_check_constraints = ON; PRAGMA writable_schema = ON")
            .and_then(|()| shell.execute(sql, rusqlite::params_from_iter(parameters)))
            .expect(columns)
    };
    let strict: String = Connection::open(&path)
        .and_then(|shell| shell.query_row(SCHEMA, [], |row| row.get(0)))
        .expect("the table's schema");
    let lax = ["TEXT", "INTEGER", "BLOB"]
        .iter()
        .fold(strict.replace(" STRICT", ""), |sql, kind| sql.replace(&format!("{kind} NOT NULL"), kind));
    let set_schema = "UPDATE sqlite_schema SET sql = ?1 WHERE name = 'idempotency_record'";
    assert_eq!(shell(set_schema, &[&lax]), 1);
    assert_eq!(shell(&format!("UPDATE idempotency_record SET {columns} WHERE key = ?1"), &[name]), 1);
    assert_eq!(shell(set_schema, &[&strict]), 1);
}

#[test]
fn a_record_of_which_it_can_not_be_told_how_it_stands_is_counted_as_damaged_and_listed_nowhere() {
    for columns in [
        "state = NULL",
        "state = 'lapsed'",
        "state = ''",
        "state = x'00'",
        "state = CAST(x'ff' AS TEXT)",
        "state = 7",
        "expires_at_ms = NULL",
        "expires_at_ms = 'never'",
        "expires_at_ms = x'00'",
        "expires_at_ms = 1e300",
        "lease_until_ms = NULL",
        "lease_until_ms = 'now'",
        "lease_until_ms = x'7fff'",
    ] {
        for (name, [in_progress, lapsed]) in [("lapsed", [2, 1]), ("running", [1, 2])] {
            let f = fixture();
            damage(&f, name, columns);
            let (counts, stuck) = told(&f);
            assert_eq!(counts, [in_progress, lapsed, 2, 0, 1], "{name}: {columns}");
            assert!(!stuck.iter().any(|listed| listed == "running"), "{name}: {columns}: {stuck:?}");
            assert_eq!(stuck.contains(&"lapsed".to_owned()), name != "lapsed", "{columns}: {stuck:?}");
            assert!(stuck.contains(&"lapsed, sound".to_owned()), "{columns}: {stuck:?}");
            let looked_up = f.store.lookup(&scope("a"), &key(name));
            assert!(matches!(looked_up, Err(Error::Corrupt { .. })), "{name}: {columns}: {looked_up:?}");
        }
    }
}

#[test]
fn a_claim_that_can_not_be_told_of_is_counted_and_not_listed_and_the_others_are() {
    for columns in [
        "scope = NULL",
        "scope = ''",
        "scope = x'61'",
        "scope = CAST(x'61ff' AS TEXT)",
        "scope = 'a' || char(10)",
        "scope = printf('%.256c', 'a')",
        "key = ' '",
        "token = 0",
        "token = NULL",
        "attempt = -1",
        "attempt = 4294967296",
        "attempt = 'one'",
        "created_at_ms = NULL",
        "lease_ms = 0",
        "lease_ms = 9223372036854775807",
        "retention_ms = -1",
        "fingerprint = x''",
        "completed_at_ms = 1",
        "reply_kind = 'marker'",
        "expires_at_ms = lease_until_ms - 1",
    ] {
        let f = fixture();
        let by_its_expiry = columns.starts_with("expires_at_ms");
        damage(&f, if by_its_expiry { "running" } else { "lapsed" }, columns);
        let (counts, stuck) = told(&f);
        assert_eq!(counts, [2, 2, 2, 0, 0], "{columns}");
        let sound = if by_its_expiry { vec!["lapsed", "lapsed, sound"] } else { vec!["lapsed, sound"] };
        assert_eq!(stuck, sound, "{columns}");
    }
}

/// What is wrong with a reply or a checkpoint is not looked for.
#[test]
fn damage_that_does_not_hide_how_a_record_stands_changes_no_count() {
    for (name, columns) in [
        ("done", "reply_body = NULL"),
        ("done", "reply_checksum = zeroblob(16)"),
        ("done", "reply_kind = 'other', attempt = -1, token = NULL"),
        ("lapsed", "checkpoint = x'00'"),
        ("lapsed", "checkpoint_checksum = x'00'"),
    ] {
        let f = fixture();
        damage(&f, name, columns);
        let stuck = vec!["lapsed".to_owned(), "lapsed, sound".to_owned()];
        assert_eq!(told(&f), ([2, 2, 2, 0, 0], stuck), "{columns}");
    }
}

#[test]
fn a_row_that_has_expired_is_counted_as_such_whatever_else_is_wrong_with_it() {
    for columns in ["state = NULL", "state = 'lapsed', lease_until_ms = 'now', scope = x'00'", "attempt = -1"]
    {
        let f = fixture();
        damage(&f, "lapsed", columns);
        f.clock.set(START.saturating_add(secs(90 + DAY)));
        let (counts, stuck) = told(&f);
        // The lapsed ones and the completed ones expire 90 s and a day after the start, the others 90 s
        // later.
        assert_eq!(counts, [0, 2, 0, 4, 0], "{columns}");
        assert_eq!(stuck, ["running", "running, sound"], "{columns}");
    }
}

/// The first bytes of a body lie in its row's page, the others in pages of their own; their lengths in the
/// row's head. Here those pages are damaged, so whoever reads them is told so.
#[test]
fn counting_reads_no_page_of_a_large_reply_or_checkpoint() {
    const PAGE: usize = 4_096;
    const LARGE: usize = 20 * PAGE;
    let f = Fixture::on_sqlite();
    let mut saved = claim(&f.store, "saved");
    let body = vec![0xa5; LARGE];
    claim(&f.store, "done").complete(StoredResponse::new(201).with_body(body)).expect("held");
    saved.save_checkpoint(vec![0xa5; 15 * PAGE]).expect("held");
    let path = f.path().expect("a file");
    let shell = Connection::open(&path).expect("the file");
    shell.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("nobody reads");
    let mut bytes = std::fs::read(&path).expect("a file");
    let is_overflow = |page: &&mut [u8]| page[4..].iter().all(|byte| *byte == 0xa5);
    let damaged = bytes
        .chunks_mut(PAGE)
        .filter(is_overflow)
        // Each begins with the number of the next.
        .map(|page| page[..4].fill(0xff))
        .count();
    assert!(damaged > 30, "{damaged} pages");
    std::fs::write(&path, bytes).expect("a file");

    // SQLite's memory of the file is older than the damage.
    let store = {
        use idempotency::{SqliteBackend, SqliteOptions};
        let options = SqliteOptions::new().with_clock(f.clock.clone()).read_only();
        crate::common::on(SqliteBackend::open(&path, options).expect("the store"))
    };
    for name in ["done", "saved"] {
        let read = store.lookup(&scope("a"), &key(name));
        assert!(matches!(read, Err(Error::Corrupt { .. })), "{name}: {read:?}");
    }
    let stats = store.stats().expect("counts");
    assert_eq!(counts(stats), [1, 0, 1, 0, 0]);
    let names = ("a".len() + "saved".len()) + ("a".len() + "done".len());
    assert_eq!(stats.bytes, u64::try_from(names + LARGE + 15 * PAGE).expect("a small number"));
    f.at(90);
    assert_eq!(store.stuck(10).expect("a list").len(), 1);
}
