//! Names go into logs as digests: what is printed of a scope, a key, a claim, a ticket or an error never
//! shows a value.

use crate::common::{Answer, asks_for, on_every_backend};
use idempotency::{Command, Grant, IdempotencyKey, RecordId, Reply, Scope, StoredResponse, Ticket};
use std::error::Error as StdError;
use std::fmt::{Debug, Display};

const SCOPE: &str = "tenant-4711-scope";
const KEY: &str = "client-0815-name";
const SAVED: &str = "halfway-9999-there";
const HEADER: &str = "session-5555-header";
const BODY: &str = "personal-1234-body";
const REFERENCE: &str = "customer-7777-reference";

#[track_caller]
fn assert_discreet(printed: &str) {
    assert!(!printed.is_empty());
    for secret in [SCOPE, KEY, SAVED, HEADER, BODY, REFERENCE] {
        // As text, as escaped text, and as a list of bytes.
        let bytes = secret.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>();
        for shown in [
            secret.to_owned(),
            secret.to_uppercase(),
            bytes.join(", "),
            bytes.join(",\n"),
            secret[..8].to_owned(),
        ] {
            assert!(!printed.contains(&shown), "{printed} shows {secret}");
        }
    }
}

#[track_caller]
fn assert_debug_is_discreet(value: &impl Debug) {
    assert_discreet(&format!("{value:?}"));
    let lines = format!("{value:#?}");
    assert_discreet(&lines);
    assert_discreet(&lines.split_whitespace().collect::<Vec<_>>().join(" "));
}

#[track_caller]
fn assert_error_is_discreet(error: &(dyn StdError + 'static)) {
    let mut next = Some(error);
    while let Some(error) = next {
        assert_discreet(&error.to_string());
        assert_debug_is_discreet(&error);
        next = error.source();
    }
}

fn names() -> (Scope, IdempotencyKey) {
    (Scope::new(SCOPE).expect("a valid scope"), IdempotencyKey::new(KEY).expect("a valid key"))
}

fn whole_reply() -> Reply {
    StoredResponse::new(200).with_header(HEADER, HEADER).with_body(BODY).into()
}

#[test]
fn names_print_as_a_digest_that_tells_them_apart() {
    fn check<T: Debug + Display>(one: &T, same: &T, others: &[T]) {
        assert_debug_is_discreet(one);
        assert_discreet(&one.to_string());
        assert_eq!((format!("{one:?}"), one.to_string()), (format!("{same:?}"), same.to_string()));
        for other in others {
            assert_ne!(format!("{one:?}"), format!("{other:?}"));
            assert_ne!(one.to_string(), other.to_string());
        }
    }
    let (tenant, name) = names();
    let near = |value: &str| [value.to_uppercase(), format!("{value} "), value[1..].to_owned()];
    check(&tenant, &names().0, &near(SCOPE).map(|value| Scope::new(value).expect("a valid scope")));
    check(&name, &names().1, &near(KEY).map(|value| IdempotencyKey::new(value).expect("a valid key")));
    let id = RecordId::new(tenant.clone(), name.clone());
    let other_key = RecordId::new(tenant, IdempotencyKey::new("other").expect("a valid key"));
    let other_scope = RecordId::new(Scope::new("other").expect("a valid scope"), name);
    check(&id, &id.clone(), &[other_key, other_scope]);
}

#[test]
fn claims_tickets_and_answers_print_without_what_they_carry() {
    on_every_backend(|fixture| {
        let ((tenant, name), request) = (names(), asks_for("pay"));
        let mut claim = fixture.store.try_claim(&tenant, &name, &request).expect("an answer").claimed();
        claim.save_checkpoint(SAVED).expect("a checkpoint");
        assert_debug_is_discreet(&claim);
        assert_debug_is_discreet(&claim.ticket());
        let record = fixture.stored(&tenant, &name).expect("the record");
        assert_eq!(record.checkpoint.as_deref(), Some(SAVED.as_bytes()));
        assert_debug_is_discreet(&record);
        assert_debug_is_discreet(&Grant::of(&record));
        assert_debug_is_discreet(&Command::Checkpoint { token: record.token, bytes: SAVED.into() });
        assert_debug_is_discreet(&fixture.store.try_claim(&tenant, &name, &request).expect("in progress"));
        assert_debug_is_discreet(
            &fixture.store.try_claim(&tenant, &name, &asks_for("other")).expect("a mismatch"),
        );
        fixture.at(90);
        let taken_over = fixture.store.try_claim(&tenant, &name, &request).expect("a takeover");
        assert_debug_is_discreet(&taken_over);
        assert_debug_is_discreet(&taken_over.claimed().complete(whole_reply()).expect("a completion"));
        assert_debug_is_discreet(&fixture.store.try_claim(&tenant, &name, &request).expect("a replay"));
        assert_debug_is_discreet(&fixture.store);
        assert_debug_is_discreet(fixture.store.backend());
    });
}

#[test]
fn replies_print_their_size_instead_of_their_content() {
    assert_debug_is_discreet(&whole_reply());
    assert_debug_is_discreet(&Reply::Reference(REFERENCE.to_owned()));
    assert_debug_is_discreet(&StoredResponse::new(200).with_header(HEADER, HEADER).headers());
}

#[test]
fn errors_print_without_the_value_that_they_are_about() {
    for value in [format!("{KEY}\0"), format!("\u{7f}{KEY}"), KEY.repeat(20)] {
        assert_error_is_discreet(&Scope::new(&value).expect_err("a refusal"));
        assert_error_is_discreet(&IdempotencyKey::new(&value).expect_err("a refusal"));
    }
    for header in [
        format!("\"{KEY}"),
        format!("{KEY} {KEY}"),
        format!("\"{KEY}\"x"),
        format!("\"{KEY}\\x\""),
        format!("{KEY},"),
    ] {
        assert_error_is_discreet(&IdempotencyKey::from_header(&header).expect_err("a refusal"));
    }
}

#[test]
fn an_unrecorded_reply_and_a_lost_claim_print_without_what_they_carry() {
    on_every_backend(|fixture| {
        let ((tenant, name), request) = (names(), asks_for("pay"));
        let claim = fixture.store.try_claim(&tenant, &name, &request).expect("an answer").claimed();
        let oversized = Reply::Reference(REFERENCE.repeat(100_000));
        let refused = claim.complete(oversized).expect_err("a refusal");
        assert_error_is_discreet(&refused);
        let (_, claim, _) = refused.into_parts();
        fixture.store.forget(&tenant, &name).expect("an answer");
        let ticket = claim.ticket();
        assert_error_is_discreet(&fixture.store.complete(&ticket, whole_reply()).expect_err("a refusal"));
        assert_error_is_discreet(&fixture.store.resume(ticket).expect_err("a refusal"));
        let lost = claim.complete(whole_reply()).expect_err("a refusal");
        assert_error_is_discreet(&lost);
        assert_error_is_discreet(&idempotency::Error::from(lost));
    });
}

#[test]
fn a_ticket_that_can_not_be_read_is_refused_without_showing_its_names() {
    on_every_backend(|fixture| {
        let ((tenant, name), request) = (names(), asks_for("pay"));
        let ticket =
            fixture.store.try_claim(&tenant, &name, &request).expect("an answer").claimed().into_ticket();
        let honest = serde_json::to_value(&ticket).expect("a ticket can be written down");
        let long = [("scope", SCOPE.repeat(20)), ("key", KEY.repeat(20)), ("key", format!("{KEY}\0"))];
        for (field, value) in long {
            let mut hostile = honest.clone();
            hostile[field] = value.into();
            assert_error_is_discreet(&serde_json::from_value::<Ticket>(hostile).expect_err("a refusal"));
        }
    });
}
