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

    let f = common::Fixture::on_sqlite();
    let a = scope("a");
    f.store
        .try_claim(&a, &key("damaged"), &asks_for("x"))
        .expect("a store")
        .claimed()
        .complete(Reply::Marker)
        .expect("held");
    let other = rusqlite::Connection::open(f.path().expect("a file")).expect("the same file");
    let changed =
        other.execute("UPDATE idempotency_record SET reply_checksum = zeroblob(16)", []).expect("a write");
    assert_eq!(changed, 1);

    let operations = ["first", "damaged", "last"].map(|name| (a.clone(), key(name), asks_for("x")));
    let mut answers = f.store.try_claim_many(&operations).into_iter();
    let mut next = || answers.next().expect("an answer for each");
    next().expect("a store").claimed().complete(Reply::Marker).expect("held, and committed");
    assert!(matches!(next(), Err(Error::Corrupt { .. })));
    next().expect("a store").claimed().complete(Reply::Marker).expect("held, and committed");
}
