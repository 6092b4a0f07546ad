//! Case 43: much has expired, and is swept beside those who claim.

use crate::common::{Answer, START, asks_for, key, scope, secs};
use crate::trace::Trace;
use crate::{folder, open, shell};
use idempotency::{Durability, ManualClock, SqliteOptions, SqliteStore, Sweeper, Timestamp};
use std::path::Path;
use std::thread;
use std::time::Duration;

const EXPIRED: u32 = 300_000;
const LIVE: u32 = 1_000;
const THREADS: u32 = 8;
/// The most rows that one transaction of a sweep deletes.
const MOST: u32 = 1_000;
/// After as many claims a thread gives up waiting for the end of the sweep: many times what it takes.
const PATIENCE: u32 = 50_000;

/// Completed records that expire at `expires_at`.
fn insert(path: &Path, scope: &str, count: u32, expires_at: Timestamp) {
    let inserted = shell(path).execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
         INSERT INTO idempotency_record (scope, key, state, token, attempt, created_at_ms, lease_ms,
           retention_ms, lease_until_ms, completed_at_ms, expires_at_ms, fingerprint_format, fingerprint, writer,
           reply_kind, reply_checksum)
         SELECT ?1, 'key ' || i, 'completed', i, 1, 0, 1, 1, 1, 1, ?3, 2, zeroblob(32), 0, 'marker',
           zeroblob(16)
         FROM n",
        (scope, count, expires_at.as_millis()),
    );
    assert_eq!(inserted.expect("room for the rows"), usize::try_from(count).expect("a small number"));
}

/// Has the trace tell of each row that is inserted or deleted: it tells where a trigger runs.
fn trace_rows(path: &Path) {
    let triggers = "CREATE TRIGGER row_deleted AFTER DELETE ON idempotency_record BEGIN SELECT 1; END;
         CREATE TRIGGER row_inserted AFTER INSERT ON idempotency_record BEGIN SELECT 1; END";
    shell(path).execute_batch(triggers).expect("two triggers");
}

/// How many rows one transaction deleted and inserted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Changes {
    deleted: u32,
    inserted: u32,
}

/// The transactions that changed a row, in their order.
fn committed(lines: &[String]) -> Vec<Changes> {
    let mut transactions = Vec::new();
    let mut this = Changes::default();
    for line in lines {
        match line.as_str() {
            "-- TRIGGER row_deleted" => this.deleted += 1,
            "-- TRIGGER row_inserted" => this.inserted += 1,
            "COMMIT" => transactions.push(std::mem::take(&mut this)),
            "ROLLBACK" => this = Changes::default(),
            _ => {}
        }
    }
    transactions.retain(|changes| *changes != Changes::default());
    transactions
}

/// Claims fresh keys until `sweeper` has removed all; gives how many.
fn claim_beside(sweeper: &Sweeper, store: &SqliteStore, number: u32) -> u32 {
    let (scope, fingerprint) = (scope("claiming"), asks_for("it"));
    let mut claims = 0;
    while sweeper.removed() < u64::from(EXPIRED) && claims < PATIENCE {
        let key = key(&format!("{number} {claims}"));
        drop(store.try_claim(&scope, &key, &fingerprint).expect("an answer, and never busy").claimed());
        claims += 1;
    }
    claims
}

#[test]
fn of_300_000_expired_records_all_go_in_small_transactions_and_claims_are_made_between_them() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let trace = Trace::new();
    let options =
        SqliteOptions::new().with_clock(ManualClock::new(START)).with_durability(Durability::Normal);
    let store = open(&path, trace.on(options)).expect("a fresh store");
    insert(&path, "expired", EXPIRED, START);
    insert(&path, "live", LIVE, START.saturating_add(secs(1)));
    trace_rows(&path);
    drop(trace.take());

    let sweeper = store.spawn_sweeper(Duration::ZERO);
    let claims: Vec<u32> = thread::scope(|scope| {
        let (sweeper, store) = (&sweeper, &store);
        let threads: Vec<_> =
            (0..THREADS).map(|number| scope.spawn(move || claim_beside(sweeper, store, number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that ends well")).collect()
    });
    assert_eq!((sweeper.removed(), sweeper.failures()), (u64::from(EXPIRED), 0), "{sweeper:?}");
    sweeper.stop();

    let transactions = committed(&trace.take());
    let sum = |count: fn(&Changes) -> u32| transactions.iter().map(count).sum::<u32>();
    let claimed = claims.iter().sum::<u32>();
    assert_eq!((sum(|it| it.deleted), sum(|it| it.inserted)), (EXPIRED, claimed));
    assert!(transactions.iter().all(|it| it.deleted == 0 || it.inserted == 0), "each is one or the other");
    let largest = transactions.iter().map(|it| it.deleted).max();
    assert!(largest.is_some_and(|largest| largest <= MOST), "{largest:?} rows in one transaction");
    assert_turns_were_taken(&transactions, &claims);

    let rows = |scope: &str| -> u32 {
        let count = "SELECT count(*) FROM idempotency_record WHERE scope = ?1";
        shell(&path).query_row(count, [scope], |row| row.get(0)).expect("a count")
    };
    assert_eq!((rows("expired"), rows("live"), rows("claiming")), (0, LIVE, claimed));
}

/// Of eight threads that wait in the queue in which the sweep waits, some come before its next transaction.
fn assert_turns_were_taken(transactions: &[Changes], claims: &[u32]) {
    let is_sweep = |it: &Changes| it.deleted > 0;
    let first = transactions.iter().position(is_sweep).expect("a sweep");
    let last = transactions.iter().rposition(is_sweep).expect("a sweep");
    let beside = &transactions[first..=last];
    let sweeps = beside.iter().filter(|it| is_sweep(it)).count();
    // Claims share transactions.
    let claims_between: usize = beside.iter().map(|it| usize::try_from(it.inserted).expect("a count")).sum();
    let at_once_again = beside.windows(2).filter(|pair| is_sweep(&pair[0]) && is_sweep(&pair[1])).count();
    println!(
        "{claims_between} claims between {sweeps} transactions of the sweep, {at_once_again} of which came at \
         once after another; {claims:?} in each thread"
    );
    assert!(claims_between >= 2 * sweeps, "claims starve behind the sweep");
    assert!(at_once_again * 2 <= sweeps, "the sweep did not wait for its turn");
    let (sum, slowest) = (claims.iter().sum::<u32>(), claims.iter().min().copied().unwrap_or(0));
    assert!(4 * slowest * THREADS >= sum, "one of the threads starves");
}
