//! What a program would do without this crate: an upsert of its own, on a connection of its own, into the very
//! table that the store has, in a file that the store has made.
//!
//! It is what a careful programmer writes: prepared once, one statement and so one transaction a claim, the log
//! and the durability as the store has them. It draws no fencing token and keeps no counter.

use crate::common::request::Request;
use idempotency::rusqlite::{Connection, Error, ErrorCode, Statement, params};
use idempotency::{Clock, IdempotencyKey, Policy, SystemClock};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Longer than any bench takes, so that a connection which is starved waits instead of failing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(120);

/// Inserts a claim, or takes over what has expired.
const UPSERT: &str = "
INSERT INTO idempotency_record AS stored (scope, key, state, token, attempt, created_at_ms, lease_ms, retention_ms,
  lease_until_ms, expires_at_ms, fingerprint_format, fingerprint, writer)
VALUES (?1, ?2, 'in_progress', 1, 1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 1)
ON CONFLICT (scope, key) DO UPDATE SET state = 'in_progress', token = 1, attempt = 1, created_at_ms = ?3,
  lease_ms = ?4, retention_ms = ?5, lease_until_ms = ?6, expires_at_ms = ?7, fingerprint_format = ?8, fingerprint = ?9,
  writer = 1, completed_at_ms = NULL, reply_kind = NULL, reply_status = NULL, reply_checksum = NULL,
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

/// Inserts `?1` claims with random keys, made between `?2` and a day later.
const FILL: &str = "
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1),
  drawn(hex, at) AS MATERIALIZED (SELECT lower(hex(randomblob(16))), ?2 + abs(random() % 86400000) FROM n)
INSERT INTO idempotency_record (scope, key, state, token, attempt, created_at_ms, lease_ms, retention_ms,
  lease_until_ms, expires_at_ms, fingerprint_format, fingerprint, writer)
SELECT ?3, substr(hex, 1, 8) || '-' || substr(hex, 9, 4) || '-4' || substr(hex, 14, 3) || '-8' || substr(hex, 18, 3)
    || '-' || substr(hex, 21), 'in_progress', 1, 1, at, ?4, ?5, at + ?4, at + ?4 + ?5, ?6, ?7, 1
FROM drawn";

/// How often a claim had to be tried again, since the file was busy beyond [`BUSY_TIMEOUT`].
pub static BUSY: AtomicUsize = AtomicUsize::new(0);

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
        let mode: String = connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
            .expect("an answer");
        assert_eq!(mode, "wal");
        connection.pragma_update(None, "synchronous", "FULL").expect("a setting");
        connection.prepare_cached(UPSERT).expect("the columns of a store");
        Self(connection)
    }

    /// Claims a key that is free, in a transaction of its own.
    pub fn claim(&self, request: &Request, key: &IdempotencyKey) {
        let mut upsert = self.0.prepare_cached(UPSERT).expect("the columns of a store");
        let policy = Policy::new();
        let (lease, retention) = (policy.lease(), policy.retention());
        loop {
            let now = SystemClock.now();
            let changed = upsert.execute(params![
                request.scope.as_str(),
                key.as_str(),
                now.as_millis(),
                millis(lease),
                millis(retention),
                now.saturating_add(lease).as_millis(),
                now.saturating_add(lease).saturating_add(retention).as_millis(),
                request.fingerprint.format(),
                request.fingerprint.digest(),
            ]);
            match changed {
                Ok(changed) => break assert_eq!(changed, 1, "a claim that is granted"),
                Err(error) if is_busy(&error) => BUSY.fetch_add(1, Ordering::Relaxed),
                Err(error) => panic!("a claim that failed: {error}"),
            };
        }
    }

    pub fn select(&self) -> Select<'_> {
        Select(self.0.prepare(SELECT).expect("the columns of a store"))
    }

    /// Adds `count` claims with random keys, in order of their keys as if they had come one by one. They began
    /// to be made `age` ago, over a day.
    pub fn fill(&self, request: &Request, count: usize, age: Duration) {
        let policy = Policy::new();
        // Not durable, and much in memory: nobody measures this.
        self.0
            .execute_batch(
                "PRAGMA synchronous = OFF; PRAGMA cache_size = -1000000; PRAGMA wal_autocheckpoint = 100000",
            )
            .expect("settings");
        let filled = self.0.execute(
            FILL,
            params![
                i64::try_from(count).expect("a count"),
                SystemClock.now().saturating_sub(age).as_millis(),
                request.scope.as_str(),
                millis(policy.lease()),
                millis(policy.retention()),
                request.fingerprint.format(),
                request.fingerprint.digest(),
            ],
        );
        assert_eq!(filled.expect("rows with random keys"), count);
        self.empty_log();
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
    pub fn empty_log(&self) {
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

fn is_busy(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).expect("a period")
}
