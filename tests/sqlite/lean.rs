//! What a claim makes SQLite run: counted, not timed.

use crate::common::{Answer as _, asks_for, key, scope, secs};
use crate::trace::Trace;
use crate::{folder, open};
use idempotency::{Claim, Clock as _, IdempotencyKey, ManualClock, Policy, Scope, SqliteOptions, Timestamp};
use rusqlite::Connection;

const FRESH: usize = 10;

/// The statements of the store's, each by what it begins with, and how often it was run.
fn runs(trace: &Trace) -> [(&'static str, usize); 6] {
    [
        "SELECT last_token",
        "INSERT INTO main.idempotency_record",
        "SELECT expires_at_ms",
        "UPDATE main.idempotency_meta",
        "BEGIN",
        "COMMIT",
    ]
    .map(|text| (text, trace.runs_of(text)))
}

#[test]
fn claims_that_share_a_transaction_move_the_counter_once_and_only_takeovers_are_read_back() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
    let trace = Trace::new();
    let store = open(&path, trace.on(SqliteOptions::new().with_clock(clock.clone()))).expect("a fresh store");
    let store = store.with_policy(Policy::new().with_lease(secs(1))).expect("a usable policy");
    let asked = |number: usize| (scope("a"), key(&number.to_string()), asks_for("x"));
    let claim = |asked: &[(Scope, IdempotencyKey, _)]| -> Vec<Claim> {
        store.try_claim_many(asked).into_iter().map(|answer| answer.expect("an answer").claimed()).collect()
    };
    let all: Vec<_> = (0..FRESH + 1).map(asked).collect();

    drop(claim(&all[..1]));
    clock.set(clock.now().saturating_add(secs(2)));
    trace.take();
    let claims = claim(&all);
    assert!(claims[0].is_takeover() && claims[1..].iter().all(|claim| !claim.is_takeover()));
    assert_eq!(
        runs(trace),
        [
            ("SELECT last_token", 1),
            ("INSERT INTO main.idempotency_record", FRESH + 1),
            ("SELECT expires_at_ms", 1),
            ("UPDATE main.idempotency_meta", 1),
            ("BEGIN", 1),
            ("COMMIT", 1),
        ]
    );
    let last: i64 = Connection::open(&path)
        .and_then(|shell| shell.query_row("SELECT last_token FROM idempotency_meta", [], |row| row.get(0)))
        .expect("the counter");
    assert_eq!(claims.last().map(|claim| claim.token().get()), Some(last));
}
