//! Work inside `atomically` that swallows an error after which SQLite has rolled the transaction back (case
//! 49).

use crate::bench::{Bench, SCOPE, Setting, shell};
use crate::common::{asks_for, key, scope};
use crate::vfs::{Fault, File, Operation};
use idempotency::{Error, Reply, RunError};
use rusqlite::{Transaction, ffi};

/// Makes SQLite fail inside the transaction in such a way.
type Failure = (&'static str, fn(&Bench, &Transaction<'_>));

const FAILURES: [Failure; 3] = [
    ("IOERR", |bench, transaction| fail_to_read(bench, transaction, ffi::SQLITE_IOERR_READ)),
    ("NOMEM", |bench, transaction| fail_to_read(bench, transaction, ffi::SQLITE_IOERR_NOMEM)),
    ("FULL", |_, transaction| {
        let pages: u32 = transaction.query_row("PRAGMA page_count", [], |row| row.get(0)).expect("a number");
        let set =
            |most: u32| transaction.query_row(&format!("PRAGMA max_page_count = {most}"), [], |_| Ok(()));
        set(pages).expect("a limit");
        let full = transaction.execute("INSERT INTO orders (id) VALUES (?1)", ["7".repeat(20_000)]);
        assert_eq!(full.expect_err("no room").sqlite_error_code(), Some(rusqlite::ErrorCode::DiskFull));
        set(u32::MAX - 1).expect("no limit");
    }),
];

fn fail_to_read(bench: &Bench, transaction: &Transaction<'_>, code: i32) {
    bench.disk.fail(Fault::of(&[Operation::Read], File::Main).with_code(code));
    let read = transaction.query_row("SELECT sum(length(content)) FROM filler", [], |_| Ok(()));
    assert_eq!(bench.disk.heal().failed(), 1);
    assert!(read.is_err());
}

/// With a table that the store's connection has never read.
fn bench() -> Bench {
    let bench = Bench::new(Setting::PLAIN);
    shell(&bench.path)
        .execute_batch(
            "CREATE TABLE filler (content BLOB) STRICT;
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
             INSERT INTO filler SELECT zeroblob(1000) FROM n;",
        )
        .expect("a table");
    bench.forget_pages();
    bench
}

#[test]
fn work_that_swallows_an_error_that_rolled_it_back_is_told_so_and_no_completion_is_written() {
    for (name, fail) in FAILURES {
        for goes_on in [false, true] {
            let bench = bench();
            let ran = bench.store.atomically(&scope(SCOPE), &key("a"), &asks_for("x"), |transaction| {
                transaction.execute("INSERT INTO orders (id) VALUES ('before')", [])?;
                fail(&bench, transaction);
                assert!(transaction.is_autocommit(), "{name}: SQLite has rolled back");
                if goes_on {
                    let _swallowed = transaction.execute("INSERT INTO orders (id) VALUES ('after')", []);
                }
                Ok::<_, rusqlite::Error>(Reply::Marker)
            });
            match ran {
                Err(RunError::NotRecorded { reply: Reply::Marker, error }) => assert!(
                    matches!(error, Error::TransactionEnded { committed: false }),
                    "{name}, {goes_on}: {error:?}"
                ),
                other => panic!("{name}, {goes_on}: {other:?}"),
            }
            let stored = bench.stored_if_killed();
            assert_eq!(stored.record("a"), None, "{name}, {goes_on}");
            // What it goes on with would be committed by itself, and is denied.
            assert_eq!(stored.orders, [] as [String; 0], "{name}, {goes_on}");
            assert_eq!(bench.stored(), stored, "{name}, {goes_on}");
        }
    }
}
