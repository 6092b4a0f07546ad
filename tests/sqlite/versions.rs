//! Files that earlier versions of this crate have written, opened by this one.
//!
//! `tests/data/version-1.db` has schema version 1, `version-2.db` has version 2. They were written by [`make`] below,
//! the first run at commit 70ce5af, and are never written anew: with another schema comes another file beside
//! them. The application's own table in them keeps two tickets as text.

use crate::common::{Answer, asks_for, key, scope, secs};
use crate::{folder, open, shell};
use idempotency::{
    ClaimOutcome, Completed, Error, FingerprintMismatch, ManualClock, Policy, Ran, Record, Reply,
    SqliteOptions, SqliteStore, State, StoreId, StoredResponse, Ticket, Timestamp,
};
use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::Duration;

/// What the clock showed when the file was begun.
const BEGUN: Timestamp = Timestamp::from_millis(1_700_000_000_000);
/// When the tests open it: every lease of 90 seconds is over, no retention of a day is.
const OPENED: Timestamp = Timestamp::from_millis(1_700_003_600_000);

/// The file's counter before the first claim: in the year 2223 of the wall clock, so that tokens above it are
/// above it because the file is heeded, whenever the tests run.
const LAST_TOKEN_AT_FIRST: i64 = 8_000_000_000_000_000_000;

const NEWEST: i64 = 2;

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

/// A copy of a file, on which a test may write.
struct Copy {
    version: i64,
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Copy {
    fn of(version: i64) -> Self {
        let folder = folder();
        let path = folder.path().join("store.db");
        let original = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/version-{version}.db"));
        std::fs::copy(original, &path).expect("a copy");
        Self { version, _folder: folder, path }
    }

    fn of_each_version() -> [Self; 2] {
        [1, NEWEST].map(Self::of)
    }

    fn open(&self) -> SqliteStore {
        let options = SqliteOptions::new().with_clock(ManualClock::new(OPENED));
        open(&self.path, options).expect("a store of an earlier version")
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

/// Every row of a table, in some order that stays.
fn rows(path: &Path, table: &str) -> Vec<Vec<Value>> {
    shell(path)
        .prepare(&format!("SELECT * FROM {table} ORDER BY rowid"))
        .and_then(|mut all| {
            let width = all.column_count();
            all.query_map([], |row| (0..width).map(|column| row.get(column)).collect())?.collect()
        })
        .expect("rows")
}

#[test]
fn what_is_written_today_has_the_schema_of_version_2() {
    let folder = folder();
    let path = folder.path().join("store.db");
    make(&path);
    let copy = Copy::of(NEWEST);
    let (then, now) = (schema(&copy.path), schema(&path));
    let names: Vec<&str> = then.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["idempotency_meta", "idempotency_record", "idempotency_record_by_expiry"]);
    assert_eq!(now, then, "another schema is another version: keep this file, and add one beside it");
    assert_eq!(copy.meta::<i64>("schema_version"), NEWEST);
}

#[test]
fn a_file_of_any_version_is_the_same_store_and_becomes_one_of_the_newest() {
    for copy in Copy::of_each_version() {
        let stored: [u8; 16] = copy.meta("store_id");
        let before = ["idempotency_record", "ticket"].map(|table| rows(&copy.path, table));
        assert_eq!(copy.meta::<i64>("schema_version"), copy.version);
        assert_eq!(copy.open().store_id(), StoreId::from_bytes(stored));
        assert_eq!(copy.meta::<i64>("schema_version"), NEWEST);
        assert_eq!(copy.meta::<[u8; 16]>("store_id"), stored);
        assert_eq!(schema(&copy.path), schema(&Copy::of(NEWEST).path));
        assert_eq!(["idempotency_record", "ticket"].map(|table| rows(&copy.path, table)), before);
        let verdict: String =
            shell(&copy.path).query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a verdict");
        assert_eq!(verdict, "ok");
    }
}

#[test]
fn a_file_of_version_1_that_is_opened_for_reading_only_stays_one() {
    let copy = Copy::of(1);
    let before = std::fs::read(&copy.path).expect("a file");
    let store = open(&copy.path, SqliteOptions::new().read_only()).expect("a store of version 1");
    assert_eq!(store.store_id(), StoreId::from_bytes(copy.meta("store_id")));
    assert_eq!(
        lookup(&store, "response").map(|record| record.state),
        None,
        "it has expired by the wall clock"
    );
    drop(store);
    assert!(std::fs::read(&copy.path).expect("a file") == before);
}

#[test]
fn no_kind_of_reply_is_stored_but_those_that_there_are_whether_a_connection_was_there_before_or_not() {
    const MISNAME: &str = "UPDATE idempotency_record SET reply_kind = 'other' WHERE key = 'marker'";
    for copy in Copy::of_each_version() {
        let earlier = shell(&copy.path);
        let refused = |connection: &Connection| {
            let error = connection.execute(MISNAME, []).expect_err("no kind of reply");
            assert_eq!(error.sqlite_error_code(), Some(ErrorCode::ConstraintViolation), "{error}");
        };
        refused(&earlier);
        let store = copy.open();
        refused(&earlier);
        refused(&shell(&copy.path));
        assert_eq!(claim(&store, "marker").completed().reply, Reply::Marker);
    }
}

#[test]
fn who_has_a_file_of_version_1_open_goes_on_when_another_opens_it() {
    const EXTEND: &str =
        "UPDATE idempotency_record SET lease_until_ms = lease_until_ms + 1 WHERE key = 'running'";
    let copy = Copy::of(1);
    let other = shell(&copy.path);
    let mut prepared = other.prepare(EXTEND).expect("a statement of that version");
    assert_eq!(prepared.execute([]).expect("a row"), 1);
    let store = copy.open();
    assert_eq!(prepared.execute([]).expect("a row"), 1);
    let lease_until = lookup(&store, "running").expect("a record").lease_until;
    assert_eq!(lease_until.as_millis(), BEGUN.saturating_add(LONGEST_LEASE).as_millis() + 2);
}

#[test]
fn a_file_of_version_1_can_be_opened_by_many_at_once_and_on_guarded_connections() {
    let copy = Copy::of(1);
    let guard = |connection: &Connection| {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true).map(drop)
    };
    let start = Barrier::new(8);
    std::thread::scope(|threads| {
        for caller in ["1", "2", "3", "4", "5", "6", "7", "8"] {
            let (start, copy) = (&start, &copy);
            threads.spawn(move || {
                start.wait();
                let store =
                    open(&copy.path, SqliteOptions::new().with_connection_setup(guard)).expect("a store");
                let guarded = store.atomically(&scope("a"), &key(caller), &asks_for("x"), |transaction| {
                    transaction.db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE).map(|is_set| {
                        assert!(is_set, "as the application has set it");
                        Reply::Marker
                    })
                });
                assert!(matches!(guarded, Ok(Ran::Executed(_))), "{guarded:?}");
            });
        }
    });
    assert_eq!(copy.meta::<i64>("schema_version"), NEWEST);
    assert_eq!(schema(&copy.path), schema(&Copy::of(NEWEST).path));
}

#[test]
fn replies_in_a_file_of_any_version_are_replayed_byte_for_byte() {
    for copy in Copy::of_each_version() {
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
}

#[test]
fn a_claim_that_stands_in_a_file_of_any_version_is_in_progress() {
    for copy in Copy::of_each_version() {
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
}

#[test]
fn a_lapsed_claim_in_a_file_of_any_version_is_taken_over_with_its_attempt_and_its_checkpoint() {
    for copy in Copy::of_each_version() {
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
}

#[test]
fn what_has_expired_in_a_file_of_any_version_is_absent_and_can_be_claimed_or_swept() {
    for copy in Copy::of_each_version() {
        let store = copy.open();
        for name in ["given up", "forgotten"] {
            assert_eq!(lookup(&store, name), None, "{name}");
        }
        let again = claim(&store, "given up").claimed();
        assert_eq!((again.attempt(), again.is_takeover()), (1, false));
        assert_eq!(store.sweep_all().expect("a sweep").removed, 1);
        assert_eq!(lookup(&store, "response").and_then(|record| record.reply), Some(response().into()));
    }
}

#[test]
fn tokens_rise_above_the_last_one_of_a_file_of_any_version() {
    for copy in Copy::of_each_version() {
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
}

#[test]
fn a_claim_of_any_version_is_completed_with_its_ticket_while_it_stands_and_when_it_has_lapsed() {
    for copy in Copy::of_each_version() {
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
}

#[test]
fn a_ticket_of_any_version_is_refused_when_its_claim_was_taken_over() {
    for copy in Copy::of_each_version() {
        let store = copy.open();
        let new_owner = claim(&store, "late").claimed();
        let lost = store.complete(&copy.ticket("late"), Reply::Marker).expect_err("it was taken over");
        assert!(matches!(lost, Error::ClaimLost(_)), "{lost:?}");
        new_owner.complete(Reply::Marker).expect("a completion");
    }
}
