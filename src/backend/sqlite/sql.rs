//! Every statement of the SQLite backend, and the prefix that its tables carry.
//!
//! `{p}` stands for the prefix. Tables are named with their schema, so that a temporary table or an attached
//! database of the application can't stand in for one.

use crate::error::BackendError;
use crate::planted;

/// Records, readable in the `sqlite3` shell. The checks restate the invariants of a record; wide columns come
/// last, since SQLite reads a row from the left. `writer` tells the connections apart that may have granted a
/// claim; it is no part of the record.
///
/// No `IN` with more than two values: for it SQLite would build a table in memory, for each row that is written.
const CREATE_RECORD: &str = "
CREATE TABLE main.{p}record (
  scope TEXT NOT NULL,
  key TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('in_progress', 'completed')),
  token INTEGER NOT NULL CHECK (token >= 1),
  attempt INTEGER NOT NULL CHECK (attempt BETWEEN 1 AND 4294967295),
  created_at_ms INTEGER NOT NULL,
  lease_ms INTEGER NOT NULL CHECK (lease_ms BETWEEN 1 AND 3155760000000),
  retention_ms INTEGER NOT NULL CHECK (retention_ms BETWEEN 1 AND 3155760000000),
  lease_until_ms INTEGER NOT NULL,
  completed_at_ms INTEGER,
  expires_at_ms INTEGER NOT NULL,
  fingerprint_format INTEGER NOT NULL CHECK (fingerprint_format BETWEEN 0 AND 255),
  fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32),
  writer INTEGER NOT NULL,
  reply_kind TEXT CHECK (reply_kind = 'response' OR reply_kind = 'reference' OR reply_kind = 'marker'),
  reply_status INTEGER CHECK (reply_status BETWEEN 0 AND 65535),
  reply_checksum BLOB CHECK (length(reply_checksum) = 16),
  checkpoint_checksum BLOB CHECK (length(checkpoint_checksum) = 16),
  reply_reference TEXT,
  reply_headers BLOB,
  reply_body BLOB,
  checkpoint BLOB,
  PRIMARY KEY (scope, key),
  CHECK ((state = 'completed') = (completed_at_ms IS NOT NULL)),
  CHECK ((state = 'completed') = (reply_kind IS NOT NULL)),
  CHECK ((state = 'completed') = (reply_checksum IS NOT NULL)),
  CHECK ((checkpoint IS NULL) = (checkpoint_checksum IS NULL)),
  CHECK (state = 'completed' OR expires_at_ms >= lease_until_ms),
  CHECK (state = 'in_progress' OR checkpoint IS NULL)
) STRICT";

/// Makes a sweep cost what it removes.
const CREATE_EXPIRY_INDEX: &str = "CREATE INDEX main.{p}record_by_expiry ON {p}record (expires_at_ms)";

/// One row: what is true of the store as a whole.
const CREATE_META: &str = "
CREATE TABLE main.{p}meta (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  schema_version INTEGER NOT NULL,
  last_token INTEGER NOT NULL CHECK (last_token >= 0),
  store_id BLOB NOT NULL CHECK (length(store_id) = 16)
) STRICT";

const INSERT_META: &str =
    "INSERT INTO main.{p}meta (only_row, schema_version, last_token, store_id) VALUES (1, ?1, ?2, ?3)";

const DELETE_META: &str = "DELETE FROM main.{p}meta";

const READ_META: &str = "SELECT schema_version, store_id FROM main.{p}meta";

const READ_STORE_ID: &str = "SELECT store_id FROM main.{p}meta";

/// How many of the two names are taken, by a table or by anything else that a table of that name can't stand
/// beside.
const COUNT_TABLES: &str = "
SELECT count(*) FROM main.sqlite_schema
WHERE type <> 'trigger' AND name COLLATE NOCASE IN ('{p}record', '{p}meta')";

const READ_LAST_TOKEN: &str = "SELECT last_token FROM main.{p}meta";

const WRITE_LAST_TOKEN: &str = "UPDATE main.{p}meta SET last_token = ?1";

/// The claim, in one statement: it may only grant, and the number of changed rows says whether it did. `?4`
/// is now.
///
/// An expired record is no record, so nothing of it is kept; a lapsed one is taken over with its attempt, its
/// first time and its checkpoint. Its `WHERE` says in SQL what `transition::grants` says in Rust; the
/// one-step table of the tests holds them together. From `reply_kind` on, it says what is true of every sound
/// record in progress, to the types: a damaged one is read then, and found to be damaged.
const CLAIM: &str = "
INSERT INTO main.{p}record AS stored (
  scope, key, state, token, attempt, created_at_ms, lease_ms, retention_ms, lease_until_ms, expires_at_ms,
  fingerprint_format, fingerprint, writer
) VALUES (?1, ?2, 'in_progress', ?3, 1, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (scope, key) DO UPDATE SET
  state = excluded.state,
  token = excluded.token,
  attempt = iif(stored.expires_at_ms <= ?4, 1, min(stored.attempt + 1, 4294967295)),
  created_at_ms = iif(stored.expires_at_ms <= ?4, ?4, stored.created_at_ms),
  lease_ms = excluded.lease_ms,
  retention_ms = excluded.retention_ms,
  lease_until_ms = excluded.lease_until_ms,
  completed_at_ms = NULL,
  expires_at_ms = excluded.expires_at_ms,
  fingerprint_format = excluded.fingerprint_format,
  fingerprint = excluded.fingerprint,
  writer = excluded.writer,
  reply_kind = NULL,
  reply_status = NULL,
  reply_checksum = NULL,
  checkpoint_checksum = iif(stored.expires_at_ms <= ?4, NULL, stored.checkpoint_checksum),
  reply_reference = NULL,
  reply_headers = NULL,
  reply_body = NULL,
  checkpoint = iif(stored.expires_at_ms <= ?4, NULL, stored.checkpoint)
WHERE stored.expires_at_ms <= ?4
  OR (stored.state = 'in_progress' AND stored.lease_until_ms <= ?4
    AND stored.fingerprint_format = excluded.fingerprint_format AND stored.fingerprint = excluded.fingerprint
    AND coalesce(stored.reply_kind, stored.reply_status, stored.reply_checksum, stored.reply_reference,
      stored.reply_headers, stored.reply_body, stored.completed_at_ms) IS NULL
    AND stored.token >= 1 AND stored.attempt BETWEEN 1 AND 4294967295
    AND stored.lease_ms BETWEEN 1 AND 3155760000000 AND stored.retention_ms BETWEEN 1 AND 3155760000000
    AND (typeof(stored.token), typeof(stored.attempt), typeof(stored.lease_ms), typeof(stored.retention_ms),
      typeof(stored.lease_until_ms), typeof(stored.fingerprint_format), typeof(stored.expires_at_ms))
      = ('integer', 'integer', 'integer', 'integer', 'integer', 'integer', 'integer'))";

/// The columns in the order in which `row` reads them, all but the checkpoint's two.
macro_rules! columns {
    () => {
        "expires_at_ms, state, token, attempt, created_at_ms, lease_ms, retention_ms, lease_until_ms, completed_at_ms,
  fingerprint_format, fingerprint, reply_kind, reply_status, reply_checksum, reply_reference, reply_headers, reply_body"
    };
}

const READ: &str = concat!(
    "SELECT ",
    columns!(),
    ", checkpoint_checksum, checkpoint FROM main.{p}record WHERE scope = ?1 AND key = ?2"
);

/// All of a record that tells what stands in a claim's way.
const LOOK: &str = concat!("SELECT ", columns!(), " FROM main.{p}record WHERE scope = ?1 AND key = ?2");

/// Every record in progress, and whose it is. Which of them are stuck is decided in Rust, and only there.
const LIST_IN_PROGRESS: &str =
    concat!("SELECT ", columns!(), ", scope, key FROM main.{p}record WHERE state = 'in_progress'");

/// What tells how each record stands, and how many bytes it holds. SQLite takes `octet_length` from the head
/// of the row, so no page is read for a reply or a checkpoint that lies outside of it.
const OUTLINE: &str = "
SELECT expires_at_ms, state, lease_until_ms,
  ifnull(octet_length(scope), 0) + ifnull(octet_length(key), 0) + ifnull(octet_length(reply_reference), 0)
    + ifnull(octet_length(reply_headers), 0) + ifnull(octet_length(reply_body), 0) + ifnull(octet_length(checkpoint), 0)
FROM main.{p}record";

/// Who granted the newest claim, and its number.
const READ_OWNER: &str = "SELECT token, writer FROM main.{p}record WHERE scope = ?1 AND key = ?2";

/// Writes what a renewal, or the end of a lease, changes. The token is the one that was read: no other
/// claim's row can be hit.
const EXTEND: &str = "
UPDATE main.{p}record SET lease_until_ms = ?4, expires_at_ms = ?5 WHERE scope = ?1 AND key = ?2 AND token = ?3";

/// Writes whatever a command other than a claim may change.
const UPDATE: &str = "
UPDATE main.{p}record SET state = ?4, lease_until_ms = ?5, completed_at_ms = ?6, expires_at_ms = ?7, reply_kind = ?8,
  reply_status = ?9, reply_checksum = ?10, checkpoint_checksum = ?11, reply_reference = ?12, reply_headers = ?13,
  reply_body = ?14, checkpoint = ?15
WHERE scope = ?1 AND key = ?2 AND token = ?3";

const DELETE: &str = "DELETE FROM main.{p}record WHERE scope = ?1 AND key = ?2 AND token = ?3";

/// Looks at nothing of the row but its expiry, so that an operator can remove a damaged one.
const FORGET: &str = "DELETE FROM main.{p}record WHERE scope = ?1 AND key = ?2 AND expires_at_ms > ?3";

/// The condition stands twice: what is deleted is judged where it is deleted, not only where it was chosen.
const SWEEP: &str = "
DELETE FROM main.{p}record WHERE expires_at_ms <= ?1 AND rowid IN (
  SELECT rowid FROM main.{p}record WHERE expires_at_ms <= ?1 ORDER BY expires_at_ms LIMIT ?2)";

const HAS_EXPIRED: &str = "SELECT EXISTS (SELECT 1 FROM main.{p}record WHERE expires_at_ms <= ?1)";

pub(super) const COUNT_SCHEMA: &str = "SELECT count(*) FROM main.sqlite_schema";
pub(super) const PAGE_COUNT: &str = "PRAGMA main.page_count";
pub(super) const FREE_PAGE_COUNT: &str = "PRAGMA main.freelist_count";
pub(super) const AUTO_VACUUM: &str = "PRAGMA main.auto_vacuum";

/// Turns the file to write-ahead logging, and answers with the mode that it has then.
pub(super) const USE_WRITE_AHEAD_LOG: &str = "PRAGMA main.journal_mode = WAL";

/// A number for a connection, to tell its claims from others'; never [`NO_WRITER`].
pub(super) const DRAW_WRITER: &str = "SELECT random() | 1";

/// In place of a connection's number, for claims in a transaction of the application's own: they are nobody's
/// to look for after a failed commit.
pub(super) const NO_WRITER: i64 = 0;

pub(super) const COMMIT: &str = "COMMIT";
pub(super) const ROLL_BACK: &str = "ROLLBACK";

/// The settings under which a connection can't write, or answers a write with rows. They are set only where
/// they are on: setting one has every statement prepared anew.
pub(super) const BARS_TO_WRITES: [(&str, &str); 2] = [
    ("PRAGMA query_only", "PRAGMA query_only = OFF"),
    ("PRAGMA count_changes", "PRAGMA count_changes = OFF"),
];

pub(super) const BAR_WRITES: &str = "PRAGMA query_only = ON";

/// A mark inside a transaction of the application's. Of savepoints with one name the newest is meant.
pub(super) const SET_MARK: &str = "SAVEPOINT idempotency";
pub(super) const CLEAR_MARK: &str = "RELEASE idempotency";
/// Undoes what was written since the mark, and takes it away.
pub(super) const BACK_TO_MARK: &str = "ROLLBACK TO idempotency; RELEASE idempotency";

pub(super) const LIST_DATABASES: &str = "PRAGMA database_list";
pub(super) const LIST_TEMPORARY: &str =
    "SELECT group_concat(type || ' ' || name || ' ' || tbl_name, ', ') FROM temp.sqlite_schema";
pub(super) const LOCKING_MODE: &str = "PRAGMA main.locking_mode";
pub(super) const MAX_PAGE_COUNT: &str = "PRAGMA main.max_page_count";

/// What the names of a store's tables start with, so that they can live in the application's own file beside
/// its tables.
#[derive(Clone, Debug)]
pub(super) struct Prefix(String);

impl Prefix {
    const MAX_LEN: usize = 64;

    pub(super) fn new(prefix: &str) -> Result<Self, BackendError> {
        let letters = prefix.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let starts_well = prefix.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let reserved = prefix.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("sqlite_"));
        if letters && starts_well && !reserved && prefix.len() <= Self::MAX_LEN {
            // SQLite's names ignore case, so two spellings of one prefix must be one store.
            Ok(Self(prefix.to_ascii_lowercase()))
        } else {
            Err(BackendError::invalid_option(
                "a table prefix has 1 to 64 ASCII letters, digits and underscores, and starts with no digit and not with sqlite_",
            ))
        }
    }
}

macro_rules! statements {
    ($($name:ident: $template:ident,)*) => {
        /// The statements for one prefix.
        #[derive(Debug)]
        pub(super) struct Statements {
            $(pub(super) $name: String,)*
        }

        impl Statements {
            pub(super) fn new(prefix: &Prefix) -> Self {
                Self { $($name: planted::edit(stringify!($name), $template).replace("{p}", &prefix.0),)* }
            }
        }
    };
}

statements! {
    create_record: CREATE_RECORD,
    create_expiry_index: CREATE_EXPIRY_INDEX,
    create_meta: CREATE_META,
    insert_meta: INSERT_META,
    delete_meta: DELETE_META,
    read_meta: READ_META,
    read_store_id: READ_STORE_ID,
    count_tables: COUNT_TABLES,
    read_last_token: READ_LAST_TOKEN,
    write_last_token: WRITE_LAST_TOKEN,
    claim: CLAIM,
    read: READ,
    look: LOOK,
    list_in_progress: LIST_IN_PROGRESS,
    outline: OUTLINE,
    read_owner: READ_OWNER,
    extend: EXTEND,
    update: UPDATE,
    delete: DELETE,
    forget: FORGET,
    sweep: SWEEP,
    has_expired: HAS_EXPIRED,
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::StatementStatus;

    #[test]
    fn a_prefix_is_a_plain_identifier() {
        for good in ["idempotency_", "_", "a", "A9_", "pay_sqlite_", &"x".repeat(64)] {
            assert!(Prefix::new(good).is_ok(), "{good}");
        }
        for bad in ["", "9a", "a-b", "a b", "a\"", "a;", "é_", "sqlite_", "SQLite_x", &"x".repeat(65)] {
            assert!(Prefix::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_table_is_built_in_memory_to_write_a_record() -> rusqlite::Result<()> {
        let Ok(prefix) = Prefix::new("t_") else { return Err(rusqlite::Error::InvalidQuery) };
        let statements = Statements::new(&prefix);
        let connection = rusqlite::Connection::open_in_memory()?;
        connection.execute(&statements.create_record, [])?;
        connection.execute(&statements.create_expiry_index, [])?;
        let steps = |sql: &str| -> rusqlite::Result<Vec<String>> {
            let mut explained = connection.prepare(&format!("EXPLAIN {sql}"))?;
            let mut rows = explained.raw_query();
            let mut steps = Vec::new();
            while let Some(row) = rows.next()? {
                steps.push(row.get("opcode")?);
            }
            Ok(steps)
        };
        let builds_a_table = |steps: &[String]| steps.iter().any(|step| step == "OpenEphemeral");
        assert!(builds_a_table(&steps(&statements.sweep)?), "a sweep makes a list of what it removes");
        for sql in [&statements.claim, &statements.update, &statements.extend] {
            let steps = steps(sql)?;
            assert!(steps.iter().any(|step| step == "Insert"), "{sql}");
            assert!(!builds_a_table(&steps), "{sql}");
        }
        Ok(())
    }

    /// Steps that SQLite's machine takes for one sweep of a store with `live` live records. Counted, not
    /// timed.
    fn idle_sweep_steps(live: u32) -> rusqlite::Result<i32> {
        let Ok(prefix) = Prefix::new("t_") else { return Err(rusqlite::Error::InvalidQuery) };
        let statements = Statements::new(&prefix);
        let connection = rusqlite::Connection::open_in_memory()?;
        connection.execute(&statements.create_record, [])?;
        connection.execute(&statements.create_expiry_index, [])?;
        let inserted = connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
             INSERT INTO t_record (scope, key, state, token, attempt, created_at_ms, lease_ms, retention_ms, lease_until_ms,
               expires_at_ms, fingerprint_format, fingerprint, writer)
             SELECT 's', i, 'in_progress', i, 1, 0, 1, 1, 1, 1000 + i, 2, zeroblob(32), 0 FROM n",
            [live],
        )?;
        assert_eq!(u32::try_from(inserted), Ok(live));
        let mut sweep = connection.prepare(&statements.sweep)?;
        let mut has_expired = connection.prepare(&statements.has_expired)?;
        assert_eq!(sweep.execute([1_000, 100])?, 0);
        assert!(!has_expired.query_row([1_000], |row| row.get::<_, bool>(0))?);
        let steps = [&sweep, &has_expired].map(|statement| statement.get_status(StatementStatus::VmStep));
        assert_eq!(sweep.execute([1_001, 100])?, 1, "it finds the one that has expired");
        Ok(steps.into_iter().sum())
    }

    #[test]
    fn an_idle_sweep_costs_the_same_however_many_records_are_live() -> rusqlite::Result<()> {
        let few = idle_sweep_steps(10)?;
        assert!(few > 0);
        assert_eq!(idle_sweep_steps(100_000)?, few);
        Ok(())
    }
}
