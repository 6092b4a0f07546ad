//! Claiming many operations at once.

#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod common;

use common::{Answer, asks_for, key, on_every_backend, scope};
use idempotency::Reply;

#[test]
fn a_batch_is_answered_in_order_and_two_equal_keys_give_one_claim() {
    on_every_backend(|f| {
        let a = scope("a");
        f.store
            .try_claim(&a, &key("done"), &asks_for("x"))
            .expect("a store")
            .claimed()
            .complete(Reply::Marker)
            .expect("held");
        let operations: Vec<_> =
            [("done", "x"), ("new", "x"), ("done", "other"), ("new", "x"), ("last", "x")]
                .map(|(name, what)| (a.clone(), key(name), asks_for(what)))
                .into();
        let answers: Vec<_> =
            f.store.try_claim_many(&operations).into_iter().map(|answer| answer.expect("a store")).collect();
        let names: Vec<_> = answers.iter().map(Answer::name).collect();
        assert_eq!(names, ["completed", "claimed", "mismatch", "in progress", "claimed"], "{}", f.name);
        let claims: Vec<_> =
            answers.into_iter().filter(|answer| answer.name() == "claimed").map(Answer::claimed).collect();
        assert_eq!(claims[0].key(), &key("new"));
        assert_eq!(claims[1].key(), &key("last"));
        assert!(claims[0].token() < claims[1].token(), "{}", f.name);
        for claim in claims {
            claim.complete(Reply::Marker).expect("each claim of a batch can be completed");
        }
    });
}

#[test]
fn a_batch_of_any_size_is_answered_whole() {
    on_every_backend(|f| {
        let operations: Vec<_> =
            (0..2_501).map(|n| (scope("a"), key(&format!("{}", n % 2_500)), asks_for("x"))).collect();
        let answers = f.store.try_claim_many(&operations);
        let names: Vec<_> = answers.iter().map(|answer| answer.as_ref().expect("a store").name()).collect();
        assert_eq!(names.len(), 2_501, "{}", f.name);
        assert_eq!(names.iter().filter(|name| **name == "claimed").count(), 2_500, "{}", f.name);
        assert_eq!(names.last(), Some(&"in progress"), "{}", f.name);
    });
}

#[test]
fn an_empty_batch_has_no_answers() {
    on_every_backend(|f| assert!(f.store.try_claim_many(&[]).is_empty(), "{}", f.name));
}

#[cfg(feature = "sqlite")]
#[test]
fn one_damaged_record_in_a_batch_fails_alone() {
    use idempotency::Error;

    // Damage that the store finds, damage that SQLite finds when the lapsed record is taken over, and damage that
    // the store finds only once it has taken the record over.
    for (ending, damage) in [
        ("complete", "reply_checksum = zeroblob(16)"),
        ("abandon", "checkpoint_checksum = zeroblob(16)"),
        ("save and abandon", "checkpoint = x'01'"),
    ] {
        let f = common::Fixture::on_sqlite();
        let a = scope("a");
        let mut claim = f.store.try_claim(&a, &key("damaged"), &asks_for("x")).expect("a store").claimed();
        if ending == "save and abandon" {
            claim.save_checkpoint("half-way").expect("held");
        }
        if ending == "complete" {
            claim.complete(Reply::Marker).expect("held");
        } else {
            claim.abandon().expect("held");
        }
        let other = rusqlite::Connection::open(f.path().expect("a file")).expect("the same file");
        other.pragma_update(None, "ignore_check_constraints", true).expect("a setting");
        let changed = other.execute(&format!("UPDATE idempotency_record SET {damage}"), []).expect("a write");
        assert_eq!(changed, 1);
        let row = || -> (i64, i64, i64) {
            let columns =
                "SELECT token, attempt, lease_until_ms FROM idempotency_record WHERE key = 'damaged'";
            other.query_row(columns, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("it stays")
        };
        let before = row();

        let operations = ["first", "damaged", "last"].map(|name| (a.clone(), key(name), asks_for("x")));
        let mut answers = f.store.try_claim_many(&operations).into_iter();
        let mut next = || answers.next().expect("an answer for each");
        next().expect("a store").claimed().complete(Reply::Marker).expect("held, and committed");
        let damaged = next();
        assert!(matches!(damaged, Err(Error::Corrupt { .. })), "{damage}: {damaged:?}");
        assert_eq!(row(), before, "{damage}: nothing of the takeover is left");
        next().expect("a store").claimed().complete(Reply::Marker).expect("held, and committed");
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn the_last_token_goes_to_the_first_of_a_batch() {
    use idempotency::Error;

    let f = common::Fixture::on_sqlite();
    let other = rusqlite::Connection::open(f.path().expect("a file")).expect("the same file");
    other.execute("UPDATE idempotency_meta SET last_token = ?1", [i64::MAX - 1]).expect("a write");
    let operations = ["first", "second"].map(|name| (scope("a"), key(name), asks_for("x")));
    let mut answers = f.store.try_claim_many(&operations).into_iter();
    let first = answers.next().expect("an answer for each").expect("one token is left").claimed();
    assert_eq!(first.token().get(), i64::MAX);
    let second = answers.next().expect("an answer for each");
    assert!(matches!(second, Err(Error::TokensExhausted)), "{second:?}");
    first.complete(Reply::Marker).expect("held");
}

/// Nobody knows what such a backend has done, so nothing may be called definite.
#[test]
fn a_backend_that_does_not_answer_a_batch_whole_leaves_its_outcome_unknown() {
    use idempotency::{Backend, BackendError, Command, Outcome, Record, RecordId, StoreId, Swept, Timestamp};

    #[derive(Debug)]
    struct Terse(std::sync::Arc<dyn Backend>);
    impl Backend for Terse {
        fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
            self.0.execute(id, command)
        }
        fn execute_many(&self, batch: &[(RecordId, Command)]) -> Vec<Result<Outcome, BackendError>> {
            self.0.execute_many(batch).into_iter().take(1).collect()
        }
        fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
            self.0.read(id)
        }
        fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
            self.0.sweep(limit)
        }
        fn store_id(&self) -> StoreId {
            self.0.store_id()
        }
    }
    on_every_backend(|f| {
        let store = common::on(Terse(std::sync::Arc::clone(f.store.backend())));
        let operations = ["first", "second"].map(|name| (scope("a"), key(name), asks_for("x")));
        let answers = store.try_claim_many(&operations);
        assert!(matches!(answers.as_slice(), [Ok(_), Err(error)] if error.is_indefinite()), "{answers:?}");
    });
}
