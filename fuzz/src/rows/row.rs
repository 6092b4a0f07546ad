//! A row of the table of records, whatever stands in it.

use super::super::input::Input;
use super::seal;
use idempotency::rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use idempotency::rusqlite::{self, Connection, Statement};

/// The columns, in the order of [`Column`].
pub const COLUMNS: &str = "scope, key, state, token, attempt, created_at_ms, lease_ms, retention_ms, lease_until_ms, \
    completed_at_ms, expires_at_ms, fingerprint_format, fingerprint, writer, reply_kind, reply_status, reply_checksum, \
    checkpoint_checksum, reply_reference, reply_headers, reply_body, checkpoint";
pub const WIDTH: usize = 22;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Scope,
    Key,
    State,
    Token,
    Attempt,
    CreatedAt,
    Lease,
    Retention,
    LeaseUntil,
    CompletedAt,
    ExpiresAt,
    Format,
    Fingerprint,
    Writer,
    Kind,
    Status,
    ReplyChecksum,
    CheckpointChecksum,
    Reference,
    Headers,
    Body,
    Checkpoint,
}

/// A value, of any type that SQLite has. Its text need not be UTF-8.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

pub fn text(text: &str) -> Cell {
    Cell::Text(text.as_bytes().to_vec())
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(bytes) => ValueRef::Text(bytes),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl FromSql for Cell {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Real(number) => Self::Real(number),
            ValueRef::Text(bytes) => Self::Text(bytes.to_vec()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Row(pub Vec<Cell>);

impl Row {
    pub fn cell(&self, column: Column) -> &Cell {
        &self.0[column as usize]
    }

    pub fn set(&mut self, column: Column, cell: Cell) {
        self.0[column as usize] = cell;
    }

    /// Writes it as a new row; gives its number, or none if the table takes no such row.
    pub fn insert(&self, connection: &Connection) -> Option<i64> {
        let places = vec!["?"; WIDTH].join(", ");
        let sql = format!("INSERT INTO idempotency_record ({COLUMNS}) VALUES ({places})");
        let inserted =
            prepared(connection, &sql, |insert| insert.execute(rusqlite::params_from_iter(&self.0)));
        inserted.ok().map(|_| connection.last_insert_rowid())
    }

    /// All rows from the number `first` on.
    pub fn all(connection: &Connection, first: i64) -> Vec<(i64, Self)> {
        let sql = format!("SELECT rowid, {COLUMNS} FROM idempotency_record WHERE rowid >= ?1 ORDER BY rowid");
        let rows = prepared(connection, &sql, |select| {
            let rows = select.query_map([first], |row| {
                Ok((row.get(0)?, Self((1..=WIDTH).map(|column| row.get(column)).collect::<Result<_, _>>()?)))
            })?;
            rows.collect()
        });
        rows.expect("a readable table")
    }

    /// Puts hostile values into it until the bytes are used up.
    pub fn edit(&mut self, input: &mut Input<'_>, now: i64) {
        while !input.is_empty() {
            let column = input.below(WIDTH + 2);
            if column < WIDTH {
                self.0[column] = hostile(input, now);
            } else if column == WIDTH {
                seal::reply(self);
            } else {
                seal::checkpoint(self);
            }
        }
    }
}

fn prepared<T>(
    connection: &Connection,
    sql: &str,
    run: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    run(&mut *connection.prepare_cached(sql)?)
}

fn hostile(input: &mut Input<'_>, now: i64) -> Cell {
    const NUMBERS: [i64; 16] = [
        0,
        1,
        -1,
        2,
        255,
        256,
        65_535,
        65_536,
        4_294_967_295,
        4_294_967_296,
        3_155_760_000_000,
        3_155_760_000_001,
        i64::MAX,
        i64::MIN,
        i64::MAX - 1,
        200,
    ];
    const WORDS: [&str; 8] =
        ["in_progress", "completed", "response", "reference", "marker", "", "\0", "lapsed"];
    const LENGTHS: [usize; 8] = [0, 1, 15, 16, 17, 31, 32, 33];
    match input.below(8) {
        0 => Cell::Null,
        1 => Cell::Integer(NUMBERS[input.below(NUMBERS.len())]),
        2 => Cell::Integer(now + i64::from(input.next().cast_signed())),
        3 => {
            let bytes = input.take(8);
            let mut bits = [0; 8];
            bits[..bytes.len()].copy_from_slice(bytes);
            Cell::Real(f64::from_bits(u64::from_be_bytes(bits)))
        }
        4 => text(WORDS[input.below(WORDS.len())]),
        5 => Cell::Text(some_bytes(input)),
        6 => Cell::Blob(vec![0; LENGTHS[input.below(LENGTHS.len())]]),
        _ => Cell::Blob(some_bytes(input)),
    }
}

fn some_bytes(input: &mut Input<'_>) -> Vec<u8> {
    let len = input.below(48);
    input.take(len).to_vec()
}
