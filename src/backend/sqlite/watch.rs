//! What becomes of a transaction while work of the application's is inside it: [`Watch`].

use rusqlite::{Connection, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Watches the commits and rollbacks of a connection, and denies it to commit anything more in work whose
/// transaction was rolled back: by itself, or by SQLite, as on a full disk. Such work may not have noticed, and
/// each statement that it goes on with would be committed by itself.
#[derive(Clone, Default)]
pub(super) struct Watch(Arc<AtomicU8>);

/// What the work has done to its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is as it was: open.
    Open,
    /// Committed, or about to be.
    Committed,
    /// Rolled back, and nothing was committed since.
    RolledBack,
}

/// Nobody's work is in there.
const IDLE: u8 = 0;
const OPEN: u8 = 1;
const COMMITTED: u8 = 2;
const ROLLED_BACK: u8 = 3;

impl Watch {
    /// Has the connection tell of its commits and rollbacks.
    pub(super) fn over(&self, connection: &mut Connection) -> Result<()> {
        let Self(state) = self.clone();
        connection.commit_hook(Some(move || {
            Self::step(&state, OPEN, COMMITTED);
            state.load(Ordering::Relaxed) == ROLLED_BACK
        }))?;
        let Self(state) = self.clone();
        connection.rollback_hook(Some(move || Self::step(&state, OPEN, ROLLED_BACK)))
    }

    /// Has the connection tell nothing any more. To be called before it is closed: rusqlite frees the hooks
    /// first, and SQLite calls one if it finds a transaction open.
    pub(super) fn lift(connection: &mut Connection) {
        // They fail only where there is no memory left to note it.
        let _is_lifted = connection.commit_hook(None::<fn() -> bool>);
        let _is_lifted = connection.rollback_hook(None::<fn()>);
    }

    fn step(state: &AtomicU8, from: u8, to: u8) {
        // All on one thread, the one that has the connection: an order of their own is enough.
        let _it_was_another = state.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// From here on, the application's work is in there.
    pub(super) fn begin(&self) {
        self.0.store(OPEN, Ordering::Relaxed);
    }

    /// Up to here, and what it came to.
    pub(super) fn end(&self) -> Fate {
        match self.0.swap(IDLE, Ordering::Relaxed) {
            OPEN => Fate::Open,
            ROLLED_BACK => Fate::RolledBack,
            _ => Fate::Committed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_end_of_a_transaction_counts_and_nothing_is_committed_after_a_rollback() -> Result<()> {
        for (work, fate, rows) in [
            ("INSERT INTO t VALUES (1)", Fate::Open, 0),
            ("INSERT INTO t VALUES (1); COMMIT", Fate::Committed, 1),
            (
                "INSERT INTO t VALUES (1); COMMIT; BEGIN; INSERT INTO t VALUES (2); ROLLBACK",
                Fate::Committed,
                1,
            ),
            ("INSERT INTO t VALUES (1); ROLLBACK", Fate::RolledBack, 0),
            ("INSERT INTO t VALUES (1); ROLLBACK; INSERT INTO t VALUES (2)", Fate::RolledBack, 0),
            (
                "INSERT INTO t VALUES (1); ROLLBACK; BEGIN; INSERT INTO t VALUES (2); COMMIT",
                Fate::RolledBack,
                0,
            ),
            ("INSERT OR ROLLBACK INTO t VALUES (0)", Fate::RolledBack, 0),
        ] {
            let mut connection = Connection::open_in_memory()?;
            let watch = Watch::default();
            watch.over(&mut connection)?;
            connection.execute_batch("CREATE TABLE t (a CHECK (a > 0)); BEGIN IMMEDIATE")?;
            watch.begin();
            let _denied = connection.execute_batch(work);
            assert_eq!(watch.end(), fate, "{work}");
            if !connection.is_autocommit() {
                connection.execute_batch("ROLLBACK")?;
            }
            let count: i64 = connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0))?;
            assert_eq!(count, rows, "{work}");
            assert_eq!(
                connection.execute("INSERT INTO t VALUES (3)", [])?,
                1,
                "{work}: others are not denied"
            );
        }
        Ok(())
    }
}
