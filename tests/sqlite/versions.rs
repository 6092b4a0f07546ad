//! Files that earlier versions of this crate have written, opened by this one.
//!
//! `tests/data/version-1.db` has schema version 1. It was written by [`make`] below, run at commit 70ce5af,
//! and is never written anew: with another schema comes another file beside it. The application's own table
//! in it keeps two tickets as text.

use crate::common::{Answer, asks_for, key, scope, secs};
use crate::{folder, open, shell};
use idempotency::{
    ClaimOutcome, Completed, Error, FingerprintMismatch, ManualClock, Policy, Record, Reply, SqliteOptions,
    SqliteStore, State, StoreId, StoredResponse, Ticket, Timestamp,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the clock showed when the file was begun.
const BEGUN: Timestamp = Timestamp::from_millis(1_700_000_000_000);
/// When the tests open it: every lease of 90 seconds is over, no retention of a day is.
const OPENED: Timestamp = Timestamp::from_millis(1_700_003_600_000);

/// The file's counter before the first claim: in the year 2223 of the wall clock, so that tokens above it are
/// above it because the file is heeded, whenever the tests run.
const LAST_TOKEN_AT_FIRST: i64 = 8_000_000_000_000_000_000;

const LONGEST_LEASE: Duration = Duration::from_secs(36_525 * 24 * 60 * 60);
const DAY: u64 = 24 * 60 * 60;

fn after(seconds: u64) -> Timestamp {
    BEGUN.saturating_add(secs(seconds))
}

/// Headers with a repeated name, in mixed case, with a value that is no text; a body with a NUL.
fn response() -> StoredResponse {
    StoredResponse::new(201)
        .with_header("Content-Type", "application/json")
        .with_header("set-cookie", "a=1")
        .with_header("Set-Cookie", "b=2")
        .with_header("set-cookie", "a=1")
        .with_header("x-bytes", [0x00, 0xff, 0x0d, 0x0a, 0x80])
        .with_body([0x7b, 0x00, 0xff, 0x7d])
}

/// One of each: what a store may have in it when it is closed.
fn make(path: &Path) {
    let clock = ManualClock::new(BEGUN);
    let store = open(path, SqliteOptions::new().with_clock(clock.clone())).expect("a fresh store");
    let application = shell(path);
    application
        .execute_batch(&format!(
            "UPDATE idempotency_meta SET last_token = {LAST_TOKEN_AT_FIRST};
             CREATE TABLE ticket (name TEXT PRIMARY KEY, json TEXT NOT NULL) STRICT"
        ))
        .expect("a table beside the store's");
    let s = scope("acct_1");
    let claim = |store: &SqliteStore, name: &str| {
        store.try_claim(&s, &key(name), &asks_for(name)).expect("an answer").claimed()
    };

    let longest = store.with_policy(Policy::new().with_lease(LONGEST_LEASE)).expect("a usable policy");
    let held = claim(&longest, "held");
    drop(claim(&longest, "running"));
    let short = Policy::new().with_lease(secs(1)).with_retention(secs(1));
    drop(claim(&store.with_policy(short).expect("a usable policy"), "given up"));
    claim(&store, "forgotten").complete_for(secs(1), Reply::Marker).expect("a completion");
    claim(&store, "lapsed").save_checkpoint("first").expect("a checkpoint");
    clock.set(after(90));
    let mut lapsed = claim(&store, "lapsed");
    lapsed.save_checkpoint([0x00, 0xff, b'2']).expect("a checkpoint");
    let late = claim(&store, "late");
    let [whole, empty, reference, marker] =
        ["response", "empty response", "reference", "marker"].map(|name| claim(&store, name));
    clock.set(after(100));
    whole.complete(response()).expect("a completion");
    empty.complete(StoredResponse::new(204)).expect("a completion");
    reference.complete(Reply::Reference("ord_1/é".to_owned())).expect("a completion");
    marker.complete(Reply::Marker).expect("a completion");

    for claim in [held, late] {
        let ticket = claim.into_ticket();
        let json = serde_json::to_string(&ticket).expect("a ticket as text");
        application
            .execute("INSERT INTO ticket VALUES (?1, ?2)", [ticket.key().as_str(), &json])
            .expect("a row beside the store's");
    }
    drop((store, longest));
    application.execute_batch("VACUUM").expect("a small file");
}

/// A copy of the file, on which a test may write.
struct Copy {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Copy {
    fn new() -> Self {
        let folder = folder();
        let path = folder.path().join("store.db");
        std::fs::copy(original(), &path).expect("a copy");
        Self { _folder: folder, path }
    }

    fn open(&self) -> SqliteStore {
        let options = SqliteOptions::new().with_clock(ManualClock::new(OPENED));
        open(&self.path, options).expect("a store of version 1")
    }

    /// The ticket that the application keeps under `name`.
    fn ticket(&self, name: &str) -> Ticket {
        let json: String = shell(&self.path)
            .query_row("SELECT json FROM ticket WHERE name = ?1", [name], |row| row.get(0))
            .expect("a ticket");
        serde_json::from_str(&json).expect("a ticket of an earlier version")
    }

    fn meta<T: rusqlite::types::FromSql>(&self, column: &str) -> T {
        let select = format!("SELECT {column} FROM idempotency_meta");
        shell(&self.path).query_row(&select, [], |row| row.get(0)).expect("the one row")
    }
}

fn original() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/version-1.db")
}

fn claim(store: &SqliteStore, name: &str) -> ClaimOutcome {
    store.try_claim(&scope("acct_1"), &key(name), &asks_for(name)).expect("an answer")
}

fn lookup(store: &SqliteStore, name: &str) -> Option<Record> {
    store.lookup(&scope("acct_1"), &key(name)).expect("a sound record")
}

/// The tables of the store in the file at `path`, as they were declared.
fn schema(path: &Path) -> Vec<(String, String)> {
    shell(path)
        .prepare(
            "SELECT name, sql FROM sqlite_schema WHERE name LIKE 'idempotency_%' AND sql IS NOT NULL ORDER BY name",
        )
        .and_then(|mut declared| declared.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
        .expect("a schema")
}

#[test]
fn what_is_written_today_has_the_schema_of_version_1() {
    let folder = folder();
    let path = folder.path().join("store.db");
    make(&path);
    let copy = Copy::new();
    let (mut then, now) = (schema(&copy.path), schema(&path));
    // The one thing that is spelled otherwise since, and allows the same values.
    let (_, record) = then.get_mut(1).expect("the table of the records");
    let spelled_then = "reply_kind IN ('response', 'reference', 'marker')";
    let spelled_now = "reply_kind = 'response' OR reply_kind = 'reference' OR reply_kind = 'marker'";
    assert!(record.contains(spelled_then), "{record}");
    *record = record.replace(spelled_then, spelled_now);
    let names: Vec<&str> = then.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["idempotency_meta", "idempotency_record", "idempotency_record_by_expiry"]);
    assert_eq!(now, then, "another schema is another version: keep this file, and add one beside it");
    assert_eq!(copy.meta::<i64>("schema_version"), 1);
}

#[test]
fn a_file_of_version_1_is_the_same_store_and_stays_one_of_version_1() {
    let copy = Copy::new();
    let stored: [u8; 16] = copy.meta("store_id");
    assert_eq!(copy.open().store_id(), StoreId::from_bytes(stored));
    assert_eq!(copy.meta::<i64>("schema_version"), 1, "a program of that version may have the file open");
    assert_eq!(copy.meta::<[u8; 16]>("store_id"), stored);
    let read_only = open(&copy.path, SqliteOptions::new().read_only()).expect("a store of version 1");
    assert_eq!(read_only.store_id(), StoreId::from_bytes(stored));
}

#[test]
fn replies_in_a_file_of_version_1_are_replayed_byte_for_byte() {
    let copy = Copy::new();
    let store = copy.open();
    for (name, reply) in [
        ("response", response().into()),
        ("empty response", StoredResponse::new(204).into()),
        ("reference", Reply::Reference("ord_1/é".to_owned())),
        ("marker", Reply::Marker),
    ] {
        let done: Completed = claim(&store, name).completed();
        assert_eq!(done.reply, reply, "{name}");
        assert_eq!(done.created_at, after(90), "{name}");
        assert_eq!(done.completed_at, after(100), "{name}");
        assert_eq!(done.expires_at, after(100 + DAY), "{name}");
        let mismatch = store.try_claim(&scope("acct_1"), &key(name), &asks_for("something else"));
        let Ok(ClaimOutcome::FingerprintMismatch(FingerprintMismatch { state, .. })) = mismatch else {
            panic!("{name}: {mismatch:?}")
        };
        assert_eq!(state, State::Completed, "{name}");
    }
}

#[test]
fn a_claim_that_stands_in_a_file_of_version_1_is_in_progress() {
    let copy = Copy::new();
    let store = copy.open();
    let ClaimOutcome::InProgress(running) = claim(&store, "running") else { panic!("its lease is long") };
    assert_eq!(running.lease_until, BEGUN.saturating_add(LONGEST_LEASE));
    assert_eq!(running.attempt, 1);
    let record = lookup(&store, "running").expect("a record");
    assert_eq!((record.state, record.created_at), (State::InProgress, BEGUN));
    assert_eq!(record.lease.as_duration(), LONGEST_LEASE);
    assert_eq!(record.retention.as_duration(), secs(DAY));
    assert_eq!((record.checkpoint, record.reply), (None, None));
}

#[test]
fn a_lapsed_claim_in_a_file_of_version_1_is_taken_over_with_its_attempt_and_its_checkpoint() {
    let copy = Copy::new();
    let store = copy.open();
    let before = lookup(&store, "lapsed").expect("a record");
    assert_eq!((before.attempt, before.lease_until), (2, after(180)));
    let taken_over = claim(&store, "lapsed").claimed();
    assert_eq!(taken_over.attempt(), 3);
    assert!(taken_over.is_takeover());
    assert_eq!(taken_over.checkpoint().map(|bytes| &bytes[..]), Some([0x00, 0xff, b'2'].as_slice()));
    let record = lookup(&store, "lapsed").expect("a record");
    assert_eq!(record.created_at, BEGUN);
    assert!(record.token > before.token);
    taken_over.complete(Reply::Marker).expect("a completion");
}

#[test]
fn what_has_expired_in_a_file_of_version_1_is_absent_and_can_be_claimed_or_swept() {
    let copy = Copy::new();
    let store = copy.open();
    for name in ["given up", "forgotten"] {
        assert_eq!(lookup(&store, name), None, "{name}");
    }
    let again = claim(&store, "given up").claimed();
    assert_eq!((again.attempt(), again.is_takeover()), (1, false));
    assert_eq!(store.sweep_all().expect("a sweep").removed, 1);
    assert_eq!(lookup(&store, "response").and_then(|record| record.reply), Some(response().into()));
}

#[test]
fn tokens_rise_above_the_last_one_of_a_file_of_version_1() {
    let copy = Copy::new();
    let mut last: i64 = copy.meta("last_token");
    assert!(last > LAST_TOKEN_AT_FIRST, "the claims of the file were counted");
    let store = copy.open();
    for name in ["new", "lapsed", "given up"] {
        let token = claim(&store, name).claimed().token().get();
        assert!(token > last, "{name}: {token} after {last}");
        last = token;
    }
    assert_eq!(copy.meta::<i64>("last_token"), last);
}

#[test]
fn a_claim_of_version_1_is_completed_with_its_ticket_while_it_stands_and_when_it_has_lapsed() {
    let copy = Copy::new();
    let store = copy.open();
    for name in ["held", "late"] {
        let ticket = copy.ticket(name);
        assert_eq!(ticket.store_id(), store.store_id(), "{name}");
        assert_eq!(ticket.fingerprint(), &asks_for(name), "{name}");
        let record = lookup(&store, name).expect("a record");
        assert_eq!((ticket.token(), ticket.attempt()), (record.token, record.attempt), "{name}");
        store.resume(ticket.clone()).expect("a claim").save_checkpoint("on").expect("a checkpoint");
        let done = store.complete(&ticket, response()).expect("a completion");
        assert_eq!((done.reply, done.completed_at), (response().into(), OPENED), "{name}");
        assert_eq!(done.expires_at, OPENED.saturating_add(secs(DAY)), "{name}");
        assert_eq!(claim(&store, name).completed().reply, response().into(), "{name}");
    }
}

#[test]
fn a_ticket_of_version_1_is_refused_when_its_claim_was_taken_over() {
    let copy = Copy::new();
    let store = copy.open();
    let new_owner = claim(&store, "late").claimed();
    let lost = store.complete(&copy.ticket("late"), Reply::Marker).expect_err("it was taken over");
    assert!(matches!(lost, Error::ClaimLost(_)), "{lost:?}");
    new_owner.complete(Reply::Marker).expect("a completion");
}
