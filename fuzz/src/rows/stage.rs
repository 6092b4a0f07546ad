//! A store on a file whose rows anybody can write, with two sound neighbours. Kept for the next input, since making one
//! takes longer than an input does.

use super::row::Row;
use idempotency::rusqlite::Connection;
use idempotency::{
    Backend, Command, Durability, FencingToken, Fingerprint, IdempotencyKey, ManualClock, Outcome, Period,
    RecordId, Reply, Scope, SqliteBackend, SqliteOptions, Timestamp,
};
use std::cell::RefCell;
use tempfile::TempDir;

pub const NOW: i64 = 1_000_000_000;

/// Which rows the table takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// The store's own one: values of the right types only, the checks off. A damaged page may hold such rows.
    OfItsTypes,
    /// One of the same columns without types: whatever SQLite can hold.
    OfAnyType,
}

thread_local! {
    static STAGES: RefCell<[Option<Stage>; 2]> = const { RefCell::new([None, None]) };
}

pub struct Stage {
    pub table: Table,
    pub backend: SqliteBackend,
    /// A connection of somebody else's.
    pub shell: Connection,
    /// The first number that a row of nobody's has.
    pub first_row: i64,
    neighbours: Vec<(i64, Row)>,
    _folder: TempDir,
}

impl Stage {
    /// The one of this thread, or a new one.
    pub fn of(table: Table) -> Self {
        STAGES.with_borrow_mut(|stages| stages[table as usize].take()).unwrap_or_else(|| Self::new(table))
    }

    /// For the next input, if this one went well.
    pub fn put_back(self) {
        STAGES.with_borrow_mut(|stages| {
            let table = self.table as usize;
            stages[table] = Some(self);
        });
    }

    fn new(table: Table) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("store.db");
        let open = || {
            let clock = ManualClock::new(Timestamp::from_millis(NOW));
            let options = SqliteOptions::new().with_clock(clock).with_durability(Durability::Normal);
            SqliteBackend::open(&path, options).expect("a store")
        };
        drop(open());
        let shell = Connection::open(&path).expect("the file");
        shell
            .execute_batch("PRAGMA synchronous = OFF; PRAGMA ignore_check_constraints = ON")
            .expect("settings");
        if table == Table::OfAnyType {
            let columns = super::row::COLUMNS;
            let remade = format!(
                "DROP TABLE idempotency_record;
                CREATE TABLE idempotency_record ({columns}, PRIMARY KEY (scope, key));
                CREATE INDEX idempotency_record_by_expiry ON idempotency_record (expires_at_ms)"
            );
            shell.execute_batch(&remade).expect("a table");
        }
        let backend = open();
        for (key, command) in neighbours() {
            let outcome = backend.execute(&key, &command).expect("a store");
            if let (Outcome::Claimed(grant), "done") = (outcome, key.key.as_str()) {
                backend.execute(&key, &completion(grant.token)).expect("a store");
            }
        }
        let neighbours = Row::all(&shell, 0);
        let first_row = neighbours.iter().map(|(number, _)| number + 1).max().expect("neighbours");
        Self { table, backend, shell, first_row, neighbours, _folder: folder }
    }

    /// The others are as they were, and are served.
    pub fn neighbours_stand(&self) {
        let mut rows = Row::all(&self.shell, 0);
        rows.retain(|(number, _)| *number < self.first_row);
        assert!(rows == self.neighbours, "the neighbours have changed");
        for (key, command) in neighbours() {
            let outcome = self.backend.execute(&key, &command);
            let is_served = match key.key.as_str() {
                "done" => matches!(&outcome, Ok(Outcome::Completed(done)) if done.reply == reply()),
                _ => matches!(outcome, Ok(Outcome::InProgress { .. })),
            };
            assert!(is_served, "{key}: {outcome:?}");
        }
    }

    /// Takes away what is not the neighbours'.
    pub fn clear(&self) {
        let sql = "DELETE FROM idempotency_record WHERE rowid >= ?1";
        self.shell
            .prepare_cached(sql)
            .and_then(|mut delete| delete.execute([self.first_row]))
            .expect("an empty table");
    }

    /// Whether the table, its checks on, would refuse the row: then SQLite may refuse any change of it, too.
    pub fn breaks_a_check(&self, row: &Row) -> bool {
        if self.table == Table::OfAnyType {
            return false;
        }
        let checks =
            |setting| self.shell.pragma_update(None, "ignore_check_constraints", setting).expect("a setting");
        checks("OFF");
        let taken = row.insert(&self.shell);
        checks("ON");
        self.clear();
        taken.is_none()
    }
}

pub fn id(scope: &str, key: &str) -> RecordId {
    RecordId::new(Scope::new(scope).expect("a scope"), IdempotencyKey::new(key).expect("a key"))
}

/// Claims that neither of the neighbours grants.
fn neighbours() -> [(RecordId, Command); 2] {
    let period = Period::from_millis(100_000).expect("a period");
    let claim =
        Command::Claim { fingerprint: Fingerprint::builder().finish(), lease: period, retention: period };
    [(id("n", "done"), claim.clone()), (id("n", "runs"), claim)]
}

fn reply() -> Reply {
    Reply::Reference("of the neighbour's".to_owned())
}

fn completion(token: FencingToken) -> Command {
    Command::Complete { token, reply: reply(), retention: Period::from_millis(100_000).expect("a period") }
}
