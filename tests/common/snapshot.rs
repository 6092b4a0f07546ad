//! What is stored, byte for byte.

use crate::common::Fixture;
use idempotency::{IdempotencyKey, Record, Scope};

/// All that is stored: one record as the store reads it, and every row as it lies in the file, where there is
/// one.
#[derive(Debug, PartialEq)]
pub struct Snapshot {
    pub record: Option<Record>,
    #[cfg(feature = "sqlite")]
    rows: Vec<Vec<rusqlite::types::Value>>,
}

pub fn snapshot(fixture: &Fixture, scope: &Scope, key: &IdempotencyKey) -> Snapshot {
    Snapshot {
        record: fixture.stored(scope, key),
        #[cfg(feature = "sqlite")]
        rows: fixture.path().map_or_else(Vec::new, |path| rows(&path).expect("readable rows")),
    }
}

#[cfg(feature = "sqlite")]
fn rows(path: &std::path::Path) -> rusqlite::Result<Vec<Vec<rusqlite::types::Value>>> {
    let connection = rusqlite::Connection::open(path)?;
    let mut statement = connection.prepare("SELECT * FROM idempotency_record ORDER BY scope, key")?;
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect())?;
    rows.collect()
}
