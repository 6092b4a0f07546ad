//! Locks held by somebody else, and clocks that panic while one is held.

use crate::common::{Answer, START, asks_for, key, scope, secs};
use crate::{folder, open, shell};
use idempotency::{Clock, Error, SqliteOptions, Timestamp};

#[test]
fn a_file_locked_by_somebody_else_is_busy_and_nothing_is_done() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let store = open(&path, SqliteOptions::new().with_busy_timeout(secs(0))).expect("a fresh store");
    let (s, k, f) = (scope("a"), key("k"), asks_for("x"));
    let other = shell(&path);
    other.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
    let busy = store.try_claim(&s, &k, &f).expect_err("somebody else has the lock");
    assert!(matches!(busy, Error::Busy(_)) && busy.is_transient() && !busy.is_indefinite(), "{busy:?}");
    let cause = std::error::Error::source(&busy).and_then(|source| source.downcast_ref::<rusqlite::Error>());
    assert_eq!(cause.and_then(rusqlite::Error::sqlite_error_code), Some(rusqlite::ErrorCode::DatabaseBusy));
    other.execute_batch("ROLLBACK").expect("the lock given back");
    assert_eq!(store.try_claim(&s, &k, &f).expect("a store").claimed().attempt(), 1);
}

#[test]
fn a_clock_that_panics_leaves_the_store_usable_and_nothing_written() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    struct Panicking(Arc<AtomicBool>);
    impl Clock for Panicking {
        fn now(&self) -> Timestamp {
            assert!(!self.0.load(Ordering::SeqCst), "a clock of the caller's own that panics");
            START
        }
    }
    let folder = folder();
    let panics = Arc::new(AtomicBool::new(false));
    let clock = Panicking(Arc::clone(&panics));
    let store =
        open(folder.path().join("store.db"), SqliteOptions::new().with_clock(clock)).expect("a fresh store");
    let (s, k, print) = (scope("a"), key("k"), asks_for("x"));
    panics.store(true, Ordering::SeqCst);
    let unwound = catch_unwind(AssertUnwindSafe(|| store.try_claim(&s, &k, &print).map(drop)));
    assert!(unwound.is_err(), "the panic is the caller's");
    panics.store(false, Ordering::SeqCst);
    assert_eq!(store.try_claim(&s, &k, &print).expect("a store").claimed().attempt(), 1);
}
