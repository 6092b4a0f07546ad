//! Times are kept as whole milliseconds since 1970, and the machine's time zone has no part in them.

use crate::common::{Answer, START, asks_for, key, scope};
use idempotency::{
    Clock, IdempotencyStore, ManualClock, SqliteBackend, SqliteOptions, StoredResponse, SystemClock,
};
use rusqlite::Connection;
use rusqlite::types::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Tells this test binary, run again as a child, where to store.
const FOLDER: &str = "IDEMPOTENCY_TIME_ZONE_FOLDER";
const THIS_TEST: &str = "time_zone::stored_times_are_integer_milliseconds_in_every_time_zone";

/// The case's zone; then, for machines without a table of zones, rules that need none, with what the clocks
/// there say at midnight UTC.
const ZONES: [(&str, Option<&str>); 4] = [
    ("Pacific/Kiritimati", None),
    ("<+14>-14", Some("14:00")),
    ("<-1130>11:30", Some("12:30")),
    ("UTC0", Some("00:00")),
];

const TIMES: [&str; 6] =
    ["created_at_ms", "lease_until_ms", "completed_at_ms", "expires_at_ms", "lease_ms", "retention_ms"];

/// Case 42.
#[test]
fn stored_times_are_integer_milliseconds_in_every_time_zone() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        store_times(&PathBuf::from(folder));
        return;
    }
    let at = |seconds: i64| Value::Integer(START.as_millis() + seconds * 1_000);
    let (day, lease, retention) = (24 * 3600, Value::Integer(90_000), Value::Integer(86_400_000));
    let running = [at(0), at(97), Value::Null, at(97 + day), lease.clone(), retention.clone()];
    let done = [at(0), at(90), at(20), at(20 + day), lease, retention];
    for (zone, midnight) in ZONES {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let before = SystemClock.now();
        run_in(zone, folder.path());
        let after = SystemClock.now();

        let injected = Connection::open(folder.path().join("injected.db")).expect("a SQLite file");
        assert_eq!(times(&injected, "running"), running, "{zone}");
        assert_eq!(times(&injected, "done"), done, "{zone}");
        let local: String = injected
            .query_row("SELECT local FROM midnight", [], |row| row.get(0))
            .expect("what the child left there");
        assert!(
            midnight.is_none_or(|midnight| midnight == local),
            "{zone}: not where the child was: {local}"
        );

        // By the machine's clock: within the child's run, give or take a minute in which the clock may be
        // set.
        let system = Connection::open(folder.path().join("system.db")).expect("a SQLite file");
        let [Value::Integer(created), ..] = times(&system, "running") else { panic!("{zone}: no integer") };
        let minute = Duration::from_secs(60);
        let during = before.saturating_sub(minute).as_millis()..=after.saturating_add(minute).as_millis();
        assert!(during.contains(&created), "{zone}: {created} is not in {during:?}");
    }
}

/// Runs this very test in a child process, in another time zone: a zone can't be changed safely while threads
/// run.
fn run_in(zone: &str, folder: &Path) {
    let output = Command::new(std::env::current_exe().expect("the path of this test"))
        .args(["--exact", THIS_TEST])
        .env("TZ", zone)
        .env(FOLDER, folder)
        .output()
        .expect("a child process");
    assert!(output.status.success(), "{zone}: {output:?}");
    let ran = String::from_utf8_lossy(&output.stdout).contains("1 passed");
    assert!(ran, "{zone}: the child found no test of this name: {output:?}");
}

fn store_times(folder: &Path) {
    let (clock, file) = (ManualClock::new(START), folder.join("injected.db"));
    let options = SqliteOptions::new().with_clock(clock.clone());
    let injected = IdempotencyStore::new(SqliteBackend::open(&file, options).expect("a fresh store"));
    let claim = |name| {
        injected.try_claim(&scope("acct_1"), &key(name), &asks_for("pay")).expect("an answer").claimed()
    };
    let (mut running, done) = (claim("running"), claim("done"));
    clock.advance(Duration::from_secs(7));
    running.renew().expect("a renewal");
    clock.advance(Duration::from_secs(13));
    done.complete(StoredResponse::new(201)).expect("a completion");

    let local = "CREATE TABLE midnight AS SELECT strftime('%H:%M', 0, 'unixepoch', 'localtime') AS local";
    Connection::open(file).and_then(|file| file.execute_batch(local)).expect("a table beside the store's");

    let system = IdempotencyStore::open(folder.join("system.db")).expect("a fresh store");
    let answer = system.try_claim(&scope("acct_1"), &key("running"), &asks_for("pay")).expect("an answer");
    drop(answer.claimed());
}

/// Every time of one record, as SQLite holds it.
fn times(file: &Connection, name: &str) -> [Value; 6] {
    let listed: Vec<String> = file
        .prepare("SELECT name FROM pragma_table_info('idempotency_record') WHERE name GLOB '*_ms' OR type = 'REAL'")
        .and_then(|mut names| names.query_map([], |row| row.get(0))?.collect())
        .expect("the names of the columns");
    let mut known = TIMES;
    known.sort_unstable();
    let mut listed: Vec<&str> = listed.iter().map(String::as_str).collect();
    listed.sort_unstable();
    assert_eq!(listed, known, "a time that this test does not look at");
    let select = format!("SELECT {} FROM idempotency_record WHERE key = ?1", TIMES.join(", "));
    file.query_row(&select, [name], |row| {
        Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?])
    })
    .expect("a row")
}
