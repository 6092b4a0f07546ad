//! What a program would do without this crate: an upsert of its own, on a connection of its own, into the very
//! table that the store has, in a file that the store has made.
//!
//! It is what a careful programmer writes: prepared once, one statement and so one transaction a claim, the log
//! and the durability as the store has them. It draws no fencing token and keeps no counter.

use crate::common::request::Request;
use idempotency::rusqlite::{Connection, Error, ErrorCode, Statement, params};
use idempotency::{Clock, IdempotencyKey, Policy, SystemClock};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Longer than any bench takes, so that a connection which is starved waits instead of failing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(120);

/// In the column that tells the store's connections apart: as long as theirs.
const WRITER: i64 = i64::MAX;

/// Inserts a claim, or takes over what has expired. The token is as long as one of the store's, and no more.
const UPSERT: &str = "
INSERT INTO idempotency_record AS stored (scope, key, state, token, attempt, created_at_ms, lease_ms, retention_ms,
  lease_until_ms, expires_at_ms, fingerprint_format, fingerprint, writer)
VALUES (?1, ?2, 'in_progress', ?3 * 1000000, 1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (scope, key) DO UPDATE SET state = 'in_progress', token = ?3 * 1000000, attempt = 1, created_at_ms = ?3,
  lease_ms = ?4, retention_ms = ?5, lease_until_ms = ?6, expires_at_ms = ?7, fingerprint_format = ?8, fingerprint = ?9,
  writer = ?10, completed_at_ms = NULL, reply_kind = NULL, reply_status = NULL, reply_checksum = NULL,
  checkpoint_checksum = NULL, reply_reference = NULL, reply_headers = NULL, reply_body = NULL, checkpoint = NULL
WHERE stored.expires_at_ms <= ?3";

/// Reads what the store reads for a replay.
const SELECT: &str = "
SELECT expires_at_ms, state, token, attempt, created_at_ms, lease_ms, retention_ms, lease_until_ms, completed_at_ms,
  fingerprint_format, fingerprint, reply_kind, reply_status, reply_checksum, reply_reference, reply_headers, reply_body,
  checkpoint_checksum, checkpoint
FROM idempotency_record WHERE scope = ?1 AND key = ?2";

/// Deletes one record.
const DELETE: &str = "DELETE FROM idempotency_record WHERE scope = ?1 AND key = ?2";

/// Inserts the claims `?1` to `?2` of `?5`, with random keys; they were made, one after the other, in the `?4` ms
/// after `?3`.
const FILL: &str = "
WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2),
  drawn(hex, at) AS MATERIALIZED (SELECT lower(hex(randomblob(16))), ?3 + i * ?4 / ?5 FROM n)
INSERT INTO idempotency_record (scope, key, state, token, attempt, created_at_ms, lease_ms, retention_ms,
  lease_until_ms, expires_at_ms, fingerprint_format, fingerprint, writer)
SELECT ?6, substr(hex, 1, 8) || '-' || substr(hex, 9, 4) || '-4' || substr(hex, 14, 3) || '-8' || substr(hex, 18, 3)
    || '-' || substr(hex, 21), 'in_progress', at * 1000000, 1, at, ?7, ?8, at + ?7, at + ?7 + ?8, ?9, ?10, ?11
FROM drawn";

/// How many rows a filling inserts at a time.
const FILL_CHUNK: usize = 500_000;

/// Each page is written once, at the end, and nothing is to survive a crash: a filling is not measured.
const BEGIN_FILL: &str = "
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -2000000; PRAGMA temp_store = MEMORY;
BEGIN IMMEDIATE";

/// When records that live were made, as of now: within the default retention.
pub const LIVING: Range<Duration> = Duration::ZERO..Duration::from_secs(12 * 3600);
/// When records were made that have expired by now, under the default policy.
pub const EXPIRED: Range<Duration> = Duration::from_secs(48 * 3600)..Duration::from_secs(72 * 3600);

/// How often something had to be tried again, since the file was busy beyond [`BUSY_TIMEOUT`] or could not be
/// waited for.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// Prints how often something had to be tried again.
pub fn say_how_often_busy() {
    println!("raw statements that were tried again, the file being busy: {}", BUSY.load(Ordering::Relaxed));
}

/// At how many pages of the log the store writes it back: with SQLite's own 1,000 this side would pay for four
/// times as many.
const WRITE_BACK_PAGES: i64 = 4_000;

/// A connection of the program's own.
pub struct Raw(Connection);

/// What a replay hands out, in memory of the program's own.
pub struct Reply {
    pub status: u16,
    pub headers: Vec<u8>,
    pub body: Vec<u8>,
}

impl Raw {
    /// Opens the file of a store, with its statements prepared.
    pub fn open(path: &Path) -> Self {
        let connection = Connection::open(path).expect("the file of a store");
        connection.busy_timeout(BUSY_TIMEOUT).expect("a timeout");
        let mode: String =
            retried(|| connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)));
        assert_eq!(mode, "wal");
        connection.pragma_update(None, "synchronous", "FULL").expect("a setting");
        connection.pragma_update(None, "wal_autocheckpoint", WRITE_BACK_PAGES).expect("a setting");
        drop(retried(|| connection.prepare_cached(UPSERT)));
        Self(connection)
    }

    /// Claims a key that is free, in a transaction of its own.
    pub fn claim(&self, request: &Request, key: &IdempotencyKey) {
        let mut upsert = retried(|| self.0.prepare_cached(UPSERT));
        let policy = Policy::new();
        let (lease, retention) = (policy.lease(), policy.retention());
        let changed = retried(|| {
            let now = SystemClock.now();
            upsert.execute(params![
                request.scope.as_str(),
                key.as_str(),
                now.as_millis(),
                millis(lease),
                millis(retention),
                now.saturating_add(lease).as_millis(),
                now.saturating_add(lease).saturating_add(retention).as_millis(),
                request.fingerprint.format(),
                request.fingerprint.digest(),
                WRITER,
            ])
        });
        assert_eq!(changed, 1, "a claim that is granted");
    }

    pub fn select(&self) -> Select<'_> {
        Select(self.0.prepare(SELECT).expect("the columns of a store"))
    }

    /// Adds `count` claims with random keys, of these `ages`, oldest first, to the store at `path`, which is not
    /// open.
    pub fn fill(path: &Path, request: &Request, count: usize, ages: &Range<Duration>) {
        let connection = Connection::open(path).expect("the file of a store");
        let policy = Policy::new();
        connection.execute_batch(BEGIN_FILL).expect("a file that nobody else has open");
        let oldest = SystemClock.now().saturating_sub(ages.end).as_millis();
        for first in (0..count).step_by(FILL_CHUNK) {
            let end = count.min(first + FILL_CHUNK);
            let filled = connection.execute(
                FILL,
                params![
                    number(first),
                    number(end),
                    oldest,
                    millis(ages.end - ages.start),
                    number(count),
                    request.scope.as_str(),
                    millis(policy.lease()),
                    millis(policy.retention()),
                    request.fingerprint.format(),
                    request.fingerprint.digest(),
                    WRITER,
                ],
            );
            assert_eq!(filled.expect("rows with random keys"), end - first);
        }
        connection.execute_batch("COMMIT; PRAGMA journal_mode = WAL").expect("a commit");
    }

    /// Deletes the records of `keys`, so that the next repeat finds the table as it was.
    pub fn remove(&self, request: &Request, keys: &[IdempotencyKey]) {
        self.0.execute_batch("BEGIN IMMEDIATE").expect("a transaction");
        let mut delete = self.0.prepare_cached(DELETE).expect("the columns of a store");
        for key in keys {
            let deleted = delete.execute([request.scope.as_str(), key.as_str()]).expect("a deletion");
            assert_eq!(deleted, 1, "a record that was claimed");
        }
        self.0.execute_batch("COMMIT").expect("a commit");
        self.empty_log();
    }

    /// Writes the log back into the file.
    fn empty_log(&self) {
        let is_busy: bool =
            self.0.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).expect("an answer");
        assert!(!is_busy, "nobody else is at the file");
    }
}

/// The statement that reads a record, prepared.
pub struct Select<'c>(Statement<'c>);

impl Select<'_> {
    /// The reply to a request that has completed: every column is read, and what is handed out is copied.
    pub fn replay(&mut self, request: &Request, key: &IdempotencyKey) -> Reply {
        let now = SystemClock.now().as_millis();
        let read = self.0.query_row([request.scope.as_str(), key.as_str()], |row| {
            let expires_at: i64 = row.get(0)?;
            let is_completed = row.get_ref(1)?.as_str()? == "completed";
            for number in 2..=8 {
                std::hint::black_box(row.get::<_, i64>(number)?);
            }
            let format: u8 = row.get(9)?;
            let is_same = row.get_ref(10)?.as_blob()? == request.fingerprint.digest();
            let is_response = row.get_ref(11)?.as_str()? == "response";
            for unused in [13, 14, 17, 18] {
                std::hint::black_box(row.get_ref(unused)?);
            }
            assert!(expires_at > now && is_completed && is_same && is_response);
            assert_eq!(format, request.fingerprint.format());
            Ok(Reply { status: row.get(12)?, headers: row.get(15)?, body: row.get(16)? })
        });
        read.expect("a record")
    }
}

/// What `attempt` comes to once the file is not busy.
fn retried<T>(mut attempt: impl FnMut() -> Result<T, Error>) -> T {
    loop {
        match attempt() {
            Ok(done) => break done,
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                BUSY.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => panic!("a statement that failed: {error}"),
        }
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).expect("a count")
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).expect("a period")
}
