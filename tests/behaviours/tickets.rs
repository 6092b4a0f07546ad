//! A claim as plain data: it crosses processes whole, and what comes back in is validated.

use crate::common::{Answer, Fixture, asks_for, key, on_every_backend, scope, secs};
use idempotency::{Claim, Error, LostReason, StoredResponse, Ticket};
use serde_json::{Value, json};

fn claim(fixture: &Fixture, name: &str) -> Claim {
    let answer = fixture.store.try_claim(&scope("acct_1"), &key(name), &asks_for("pay"));
    answer.expect("an answer").claimed()
}

fn through_json(ticket: &Ticket) -> Ticket {
    let text = serde_json::to_string(ticket).expect("a ticket can be written down");
    serde_json::from_str(&text).expect("and read")
}

#[test]
fn a_ticket_that_was_written_down_completes_the_claim_it_was_made_from() {
    on_every_backend(|fixture| {
        let store = fixture.store_with(secs(77), secs(7_777));
        let (tenant, name, request) = (scope("ünï \"\\"), key("a\"b\\c é"), asks_for("pay"));
        store.try_claim(&tenant, &name, &request).expect("an answer").claimed().abandon().expect("an end");
        let claim = store.try_claim(&tenant, &name, &request).expect("an answer").claimed();
        let (token, ticket) = (claim.token(), claim.into_ticket());
        let read = through_json(&ticket);
        assert_eq!(read, ticket);
        assert_eq!((read.scope(), read.key(), read.fingerprint()), (&tenant, &name, &request));
        assert_eq!((read.token(), read.attempt(), read.store_id()), (token, 2, store.store_id()));
        assert_eq!((read.lease(), read.retention()), (secs(77), secs(7_777)));

        drop(store);
        fixture.reopen();
        // By a handle with another policy: the ticket's own retention wins.
        let done = fixture.store.complete(&read, StoredResponse::new(201)).expect("a completion");
        assert_eq!(done.expires_at, done.completed_at.saturating_add(secs(7_777)), "{}", fixture.name);
        let replayed = fixture.store.try_claim(&tenant, &name, &request).expect("an answer").completed();
        assert_eq!(replayed, done, "{}", fixture.name);
    });
}

#[test]
fn a_resumed_ticket_renews_by_its_own_lease() {
    on_every_backend(|fixture| {
        let store = fixture.store_with(secs(77), secs(7_777));
        let answer = store.try_claim(&scope("acct_1"), &key("k"), &asks_for("pay")).expect("an answer");
        let ticket = through_json(&answer.claimed().into_ticket());
        fixture.at(50);
        let mut resumed = fixture.store.resume(ticket).expect("a claim");
        resumed.renew().expect("a renewal");
        assert_eq!(
            resumed.lease_until(),
            crate::common::START.saturating_add(secs(50 + 77)),
            "{}",
            fixture.name
        );
    });
}

/// A ticket may lie in a queue while the crate is updated, so how it is written down stays.
#[test]
fn the_written_form_of_a_ticket_is_fixed() {
    let digest: Vec<u8> = (0..32).collect();
    let written = json!({
        "store_id": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255],
        "scope": "acct_1",
        "key": "8e03978e-40d5",
        "fingerprint_format": 255,
        "fingerprint": digest,
        "token": "9223372036854775807",
        "attempt": 3,
        "lease_ms": 90_000,
        "retention_ms": 86_400_000,
    });
    let ticket: Ticket = serde_json::from_value(written.clone()).expect("a ticket");
    assert_eq!(ticket.store_id().as_bytes()[15], 255);
    assert_eq!((ticket.scope(), ticket.key()), (&scope("acct_1"), &key("8e03978e-40d5")));
    assert_eq!(
        (ticket.fingerprint().format(), ticket.fingerprint().digest().as_slice()),
        (255, digest.as_slice())
    );
    assert_eq!((ticket.token().get(), ticket.attempt()), (i64::MAX, 3));
    assert_eq!((ticket.lease(), ticket.retention()), (secs(90), secs(24 * 3600)));
    assert_eq!(serde_json::to_value(&ticket).expect("a ticket can be written down"), written);
}

/// Every field at the ends of what it may be, then beyond them, and of every wrong kind.
#[test]
fn what_is_read_as_a_ticket_is_validated() {
    let fixture = Fixture::in_memory();
    let honest = serde_json::to_value(claim(&fixture, "k").ticket()).expect("a ticket can be written down");
    let with = |field: &str, value: Value| {
        let mut changed = honest.clone();
        changed[field] = value;
        serde_json::from_value::<Ticket>(changed)
    };
    let longest_ms = 36_525_i64 * 86_400_000;
    for (field, value) in [
        ("scope", json!("s".repeat(255))),
        ("key", json!("é".repeat(127))),
        ("fingerprint_format", json!(0)),
        ("token", json!("1")),
        ("token", json!(i64::MAX.to_string())),
        ("attempt", json!(1)),
        ("attempt", json!(u32::MAX)),
        ("lease_ms", json!(1)),
        ("lease_ms", json!(longest_ms)),
        ("retention_ms", json!(1)),
        ("retention_ms", json!(longest_ms)),
    ] {
        assert!(with(field, value.clone()).is_ok(), "{field}: {value}");
    }

    let names = [
        "".to_owned(),
        " ".to_owned(),
        "a\0".to_owned(),
        "\u{85}".to_owned(),
        "k".repeat(256),
        "é".repeat(128),
    ];
    let mut hostile: Vec<(&str, Value)> =
        names.iter().flat_map(|name| [("scope", json!(name)), ("key", json!(name))]).collect();
    hostile.extend([
        ("store_id", json!(vec![0; 15])),
        ("store_id", json!(vec![0; 17])),
        ("store_id", json!(vec![256; 16])),
        ("store_id", json!(vec![-1; 16])),
        ("fingerprint", json!(vec![0; 31])),
        ("fingerprint", json!(vec![0; 33])),
        ("fingerprint_format", json!(-1)),
        ("fingerprint_format", json!(256)),
        // A number, as a reader that holds numbers as doubles would have written it.
        ("token", json!(1_796_040_414_554_426_251_i64)),
        ("attempt", json!(0)),
        ("attempt", json!(-1)),
        ("attempt", json!(u64::from(u32::MAX) + 1)),
    ]);
    let no_tokens =
        ["", "0", "+5", "007", "-1", " 1", "1 ", "1.5", "1e3", "0x1", "one", "9223372036854775808"];
    hostile.extend(no_tokens.map(|token| ("token", json!(token))));
    for field in ["lease_ms", "retention_ms"] {
        hostile.extend([0, -1, i64::MIN, longest_ms + 1, i64::MAX].map(|millis| (field, json!(millis))));
    }
    let fields = [
        "store_id",
        "scope",
        "key",
        "fingerprint_format",
        "fingerprint",
        "token",
        "attempt",
        "lease_ms",
        "retention_ms",
    ];
    for field in fields {
        let wrong_kinds = [Value::Null, json!({}), json!([]), json!(true), json!(1.5), json!([[1]])];
        hostile.extend(wrong_kinds.map(|value| (field, value)));
    }
    for (field, value) in hostile {
        assert!(with(field, value.clone()).is_err(), "{field}: {value}");
    }

    for field in fields {
        let mut without = honest.clone();
        assert!(without.as_object_mut().expect("an object").remove(field).is_some());
        assert!(serde_json::from_value::<Ticket>(without).is_err(), "without {field}");
    }
    assert!(with("checkpoint", json!("")).is_err(), "a field that no ticket has");
    assert!(serde_json::from_str::<Ticket>(&format!("{honest}{honest}")).is_err(), "two of them");
    assert!(with("key", honest["key"].clone()).is_ok(), "what was changed above was what was refused");
}

/// What a ticket says beside its token is not believed: a forged, stale or foreign one writes nothing.
#[test]
fn a_ticket_that_proves_no_claim_writes_nothing() {
    on_every_backend(|fixture| {
        let tenant = scope("acct_1");
        let owned = claim(fixture, "k").into_ticket();
        let honest = serde_json::to_value(&owned).expect("a ticket can be written down");
        let with = |field: &str, value: Value| {
            let mut changed = honest.clone();
            changed[field] = value;
            serde_json::from_value::<Ticket>(changed).expect("a well-formed ticket")
        };
        let before = fixture.stored(&tenant, &key("k"));
        let token = owned.token().get();
        for (forged, reason) in [
            (with("token", json!((token + 1).to_string())), LostReason::Running),
            (with("token", json!((token - 1).to_string())), LostReason::Running),
            (with("token", json!("1")), LostReason::Running),
            (with("store_id", json!(vec![0; 16])), LostReason::Gone),
            (with("scope", json!("acct_2")), LostReason::Gone),
            (with("key", json!("other")), LostReason::Gone),
        ] {
            let lost =
                |error: Error| assert!(matches!(error, Error::ClaimLost(r) if r == reason), "{error:?}");
            lost(fixture.store.complete(&forged, StoredResponse::new(200)).expect_err("a refusal"));
            lost(fixture.store.resume(forged.clone()).expect_err("a refusal"));
            if reason == LostReason::Running {
                lost(fixture.store.release(&forged).expect_err("a refusal"));
                lost(fixture.store.abandon(&forged).expect_err("a refusal"));
            } else if forged.store_id() == owned.store_id() {
                // Nothing is there, so there is nothing to end (docs/design.md, section 2).
                fixture.store.release(&forged).expect("already gone");
                fixture.store.abandon(&forged).expect("already gone");
            } else {
                lost(fixture.store.release(&forged).expect_err("a refusal"));
                lost(fixture.store.abandon(&forged).expect_err("a refusal"));
            }
            assert_eq!(fixture.stored(&tenant, &key("k")), before, "{}", fixture.name);
            assert_eq!(
                fixture.stored(forged.scope(), forged.key()),
                before.clone().filter(|_| forged.id() == owned.id())
            );
        }
        fixture.store.complete(&owned, StoredResponse::new(201)).expect("the honest one is as good as ever");
    });
}
