//! What a claim leaves of the expired record that it writes over.

use crate::common::{Answer, START, asks_for, key, scope};
use crate::{folder, open, shell};
use idempotency::{ManualClock, Period, SqliteOptions, StoredResponse};
use rusqlite::types::Value;

/// An expired record is no record: nothing of a reply that somebody thinks gone may lie on in the file.
#[test]
fn a_claim_over_an_expired_completion_keeps_nothing_of_its_reply() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let clock = ManualClock::new(START);
    let store = open(&path, SqliteOptions::new().with_clock(clock.clone())).expect("a fresh store");
    let (s, k) = (scope("a"), key("k"));
    let reply_columns = || -> Vec<Value> {
        shell(&path)
            .query_row(
                "SELECT reply_kind, reply_status, reply_checksum, reply_reference, reply_headers, reply_body
                 FROM idempotency_record",
                [],
                |row| (0..6).map(|column| row.get(column)).collect(),
            )
            .expect("one row")
    };
    for reply in [
        StoredResponse::new(201).with_header("x-secret", "a").with_body("b").into(),
        idempotency::Reply::Reference("c".to_owned()),
    ] {
        let claim = store.try_claim(&s, &k, &asks_for("x")).expect("a store").claimed();
        claim.complete(reply).expect("held");
        assert!(reply_columns().iter().any(|column| *column != Value::Null));
        clock.advance(Period::MAX);
        let claim = store.try_claim(&s, &k, &asks_for("y")).expect("a store").claimed();
        assert_eq!(reply_columns(), vec![Value::Null; 6]);
        claim.release().expect("held");
        clock.set(START);
    }
}
