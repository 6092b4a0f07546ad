//! Damage in the file: found where it matters, and no obstacle where it does not.

use crate::common::{Answer, Fixture, START, asks_for, key, scope, secs};
use crate::shell;
use idempotency::{Error, Reply, StoredResponse};

/// Changes the fixture's rows as no program of ours would.
fn damage(fixture: &Fixture, statements: &str) {
    shell(&fixture.path().expect("a file"))
        .execute_batch(&format!("PRAGMA ignore_check_constraints = ON; {statements}"))
        .expect(statements);
}

#[test]
fn whatever_is_damaged_in_a_reply_or_a_checkpoint_is_corrupt_and_runs_nothing_again() {
    let damages = [
        "UPDATE idempotency_record SET reply_body = x'00'",
        "UPDATE idempotency_record SET reply_body = NULL",
        "UPDATE idempotency_record SET reply_headers = x'000000'",
        "UPDATE idempotency_record SET reply_status = 500",
        "UPDATE idempotency_record SET reply_kind = 'marker'",
        "UPDATE idempotency_record SET reply_checksum = zeroblob(16)",
        "UPDATE idempotency_record SET fingerprint_format = 7",
        "UPDATE idempotency_record SET key = 'moved' WHERE key = 'done'; UPDATE idempotency_record SET key = 'done' WHERE key = 'other'",
        "UPDATE idempotency_record SET checkpoint = x'00' WHERE key = 'lapsed'",
        "UPDATE idempotency_record SET checkpoint_checksum = zeroblob(16) WHERE key = 'lapsed'",
    ];
    for statements in damages {
        let f = Fixture::on_sqlite();
        let (s, print) = (scope("a"), asks_for("x"));
        for (name, body) in [("done", "the reply"), ("other", "another reply")] {
            let response = StoredResponse::new(201).with_header("a", "b").with_body(body);
            f.store
                .try_claim(&s, &key(name), &print)
                .expect("a store")
                .claimed()
                .complete(response)
                .expect("held");
        }
        let mut claim = f.store.try_claim(&s, &key("lapsed"), &print).expect("a store").claimed();
        claim.save_checkpoint("half-way").expect("held");
        f.at(90);

        damage(&f, statements);
        let shell = shell(&f.path().expect("a file"));
        let name = if statements.contains("checkpoint") { "lapsed" } else { "done" };
        let row = || -> (i64, i64) {
            shell
                .query_row("SELECT token, attempt FROM idempotency_record WHERE key = ?1", [name], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })
                .expect("the row")
        };
        let before = row();
        let error = f.store.try_claim(&s, &key(name), &print).expect_err(statements);
        assert!(matches!(error, Error::Corrupt { .. }), "{statements}: {error:?}");
        assert!(error.to_string().contains("Corrupt"), "{error}");
        let error = f.store.lookup(&s, &key(name)).expect_err(statements);
        assert!(matches!(error, Error::Corrupt { .. }), "{statements}: {error:?}");
        assert_eq!(row(), before, "{statements}: nothing was granted");
        f.store
            .try_claim(&s, &key("fresh"), &print)
            .expect("others go on")
            .claimed()
            .release()
            .expect("held");
    }
}

/// Columns that a record in progress can't have.
const IMPOSSIBLE: [&str; 18] = [
    "state = 'lapsed'",
    "token = 0",
    "token = -9223372036854775808",
    "attempt = 0",
    "attempt = 4294967296",
    "attempt = -1",
    "lease_ms = 0",
    "lease_ms = 9223372036854775807",
    "retention_ms = -1",
    "fingerprint_format = 256",
    "fingerprint = x''",
    "fingerprint = zeroblob(33)",
    "state = 'completed'",
    "completed_at_ms = 1",
    "expires_at_ms = lease_until_ms - 1",
    "reply_kind = 'marker'",
    "reply_kind = 'other'",
    "reply_checksum = x'01', reply_kind = 'marker'",
];

#[test]
fn rows_that_no_record_can_be_are_corrupt_and_an_operator_can_forget_them() {
    for columns in IMPOSSIBLE {
        let f = Fixture::on_sqlite();
        let (s, k, print) = (scope("a"), key("k"), asks_for("x"));
        let claim = f.store.try_claim(&s, &k, &print).expect("a store").claimed();
        damage(&f, &format!("UPDATE idempotency_record SET {columns}"));
        for (call, answer) in [
            ("lookup", f.store.lookup(&s, &k).map(drop)),
            ("claim", f.store.try_claim(&s, &k, &print).map(drop)),
            ("complete", f.store.complete(&claim.ticket(), Reply::Marker).map(drop)),
            ("release", f.store.release(&claim.ticket())),
        ] {
            assert!(matches!(answer, Err(Error::Corrupt { .. })), "{columns}, {call}: {answer:?}");
        }
        assert!(f.store.forget(&s, &k).expect(columns), "{columns}");
        assert_eq!(f.store.try_claim(&s, &k, &print).expect(columns).claimed().attempt(), 1, "{columns}");
    }
}

/// Where a takeover would be due: the claim's one statement must not grant what a look-up calls damaged.
#[test]
fn a_damaged_record_is_not_taken_over_when_its_lease_ends() {
    for columns in [
        "state = 'in_progress'",
        "state = 'in_progress', completed_at_ms = NULL",
        "state = 'in_progress', reply_kind = NULL",
        "state = 'in_progress', completed_at_ms = NULL, reply_kind = NULL, reply_checksum = NULL, attempt = 0",
        "state = 'in_progress', completed_at_ms = NULL, reply_kind = NULL, reply_checksum = NULL, attempt = 4294967296",
        "state = 'in_progress', completed_at_ms = NULL, reply_kind = NULL, reply_checksum = NULL, token = 0",
        "state = 'in_progress', completed_at_ms = NULL, reply_kind = NULL, reply_checksum = NULL, lease_ms = 0",
        "state = 'in_progress', completed_at_ms = NULL, reply_kind = NULL, reply_checksum = NULL, retention_ms = 0",
        "state = 'in_progress', completed_at_ms = NULL, reply_kind = NULL",
        "state = 'in_progress', completed_at_ms = NULL, reply_kind = NULL, reply_checksum = NULL, reply_status = 200",
        "state = 'in_progress', completed_at_ms = NULL, reply_kind = NULL, reply_checksum = NULL, reply_body = x''",
    ] {
        let f = Fixture::on_sqlite();
        let (s, k, print) = (scope("a"), key("k"), asks_for("x"));
        f.store.try_claim(&s, &k, &print).expect("a store").claimed().complete(Reply::Marker).expect("held");
        damage(&f, &format!("UPDATE idempotency_record SET {columns}"));
        f.at(90);
        for (call, answer) in [
            ("lookup", f.store.lookup(&s, &k).map(drop)),
            ("claim", f.store.try_claim(&s, &k, &print).map(drop)),
            ("claims", f.store.try_claim_many(&[(s.clone(), k.clone(), print)]).remove(0).map(drop)),
        ] {
            assert!(matches!(answer, Err(Error::Corrupt { .. })), "{columns}, {call}: {answer:?}");
        }
    }
}

#[test]
fn a_row_that_has_expired_is_absent_whatever_else_is_wrong_with_it() {
    for columns in IMPOSSIBLE.into_iter().filter(|columns| !columns.contains("expires_at_ms")) {
        let f = Fixture::on_sqlite();
        let (s, print) = (scope("a"), asks_for("x"));
        for name in ["claimed again", "swept"] {
            let claim = f.store.try_claim(&s, &key(name), &print).expect("a store").claimed();
            claim.complete(Reply::Marker).expect("held");
        }
        damage(&f, &format!("UPDATE idempotency_record SET {columns}"));
        f.at(24 * 60 * 60);
        for name in ["claimed again", "swept"] {
            assert_eq!(f.store.lookup(&s, &key(name)).expect(columns), None, "{columns}");
            assert!(!f.store.forget(&s, &key(name)).expect(columns), "{columns}");
        }
        let again = f.store.try_claim(&s, &key("claimed again"), &print).expect(columns).claimed();
        assert_eq!(again.attempt(), 1, "{columns}");
        again.complete(Reply::Marker).expect(columns);
        assert_eq!(f.store.sweep_all().expect(columns).removed, 1, "{columns}");
    }
}

#[test]
fn a_damaged_checkpoint_is_never_handed_out_and_never_in_its_owners_way() {
    for columns in ["checkpoint = x'01'", "checkpoint = x''", "checkpoint_checksum = zeroblob(16)"] {
        let f = Fixture::on_sqlite();
        let (s, print) = (scope("a"), asks_for("x"));
        let claims = ["completed", "saved again", "renewed"].map(|name| {
            let mut claim = f.store.try_claim(&s, &key(name), &print).expect("a store").claimed();
            claim.save_checkpoint("half-way").expect("held");
            claim
        });
        damage(&f, &format!("UPDATE idempotency_record SET {columns}"));
        let [completed, mut saved, mut renewed] = claims;
        f.at(60);
        renewed.renew().expect("it leaves the checkpoint");
        assert_eq!(renewed.lease_until(), START.saturating_add(secs(150)), "{columns}");
        let corrupt = f.store.resume(renewed.ticket()).expect_err(columns);
        assert!(matches!(corrupt, Error::Corrupt { .. }), "{columns}: {corrupt:?}");
        completed.complete(Reply::Marker).expect("it drops the checkpoint");
        saved.save_checkpoint("further").expect("it replaces the checkpoint");
        let saved = f.store.resume(saved.into_ticket()).expect(columns);
        assert_eq!(saved.checkpoint().map(|bytes| &bytes[..]), Some(b"further".as_slice()), "{columns}");
        assert_eq!(f.store.try_claim(&s, &key("renewed"), &print).expect(columns).name(), "in progress");
        renewed.abandon().expect("it leaves the checkpoint");
        let corrupt = f.store.try_claim(&s, &key("renewed"), &print).expect_err(columns);
        assert!(matches!(corrupt, Error::Corrupt { .. }), "{columns}: {corrupt:?}");
    }
}

/// SQLite checks what a statement writes, so such a row is found by the claim itself.
#[test]
fn a_row_that_breaks_a_constraint_of_its_table_is_corrupt_when_it_is_taken_over() {
    let f = Fixture::on_sqlite();
    let (s, k, print) = (scope("a"), key("k"), asks_for("x"));
    let mut claim = f.store.try_claim(&s, &k, &print).expect("a store").claimed();
    claim.save_checkpoint("half-way").expect("held");
    damage(&f, "UPDATE idempotency_record SET checkpoint = NULL");
    f.at(90);
    let corrupt = f.store.try_claim(&s, &k, &print).expect_err("a damaged row");
    assert!(matches!(corrupt, Error::Corrupt { .. }), "{corrupt:?}");
    claim.complete(Reply::Marker).expect("it drops the checkpoint and its checksum");
}
