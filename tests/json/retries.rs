//! Fingerprints of JSON in a store: a retry is one, however its client writes it.

use crate::common::{Answer, key, on_every_backend, scope};
use idempotency::{CanonicalJson, ClaimOutcome, DynStore, Error, ErrorKind, Fingerprint, Reply, Result};

fn claim(store: &DynStore, body: &[u8]) -> Result<ClaimOutcome> {
    let fingerprint = Fingerprint::of_json_slice(body)?;
    store.try_claim(&scope("shop"), &key("order 1"), &fingerprint)
}

#[test]
fn a_retry_that_is_written_otherwise_is_replayed_and_another_request_is_a_mismatch() {
    on_every_backend(|fixture| {
        let first = claim(&fixture.store, br#"{"amount": 500, "currency": "EUR"}"#);
        first.expect("an answer").claimed().complete(Reply::Marker).expect("a completion");
        for (body, expected) in [
            (r#"{"currency":"EUR","amount":5e2}"#, "completed"),
            (r#"{"currency":"\u0045UR","amount":500.0}"#, "completed"),
            (r#"{"amount": 501, "currency": "EUR"}"#, "mismatch"),
            (r#"{"amount": "500", "currency": "EUR"}"#, "mismatch"),
            (r#"{"amount": 500, "currency": "EUR", "tip": null}"#, "mismatch"),
        ] {
            let answer = claim(&fixture.store, body.as_bytes()).expect("an answer");
            assert_eq!(answer.name(), expected, "{}: {body}", fixture.name);
        }
    });
}

#[test]
fn what_is_refused_never_reaches_the_store_and_says_that_it_will_not_get_better() {
    on_every_backend(|fixture| {
        for body in [&b"{"[..], b"{\"a\":1,\"a\":2}", b"[9007199254740993]", b"\xff", b""] {
            let error = claim(&fixture.store, body).expect_err("a refusal");
            assert!(matches!(error, Error::Json(_)), "{error:?}");
            assert!(!error.is_transient() && !error.is_indefinite(), "{error:?}");
            assert_eq!((error.kind(), error.suggested_status()), (ErrorKind::Refused, 400), "{error:?}");
        }
        let nothing = fixture.store.lookup(&scope("shop"), &key("order 1")).expect("an answer");
        assert!(nothing.is_none(), "{}", fixture.name);
        let claim = claim(&fixture.store, b"{}").expect("an answer").claimed();
        assert_eq!(claim.attempt(), 1, "{}", fixture.name);
    });
}

#[test]
fn a_selection_that_is_refused_is_not_the_clients_mistake() {
    for refused in [CanonicalJson::new().include("amount"), CanonicalJson::new().exclude("")] {
        let error = Error::from(refused.expect_err("a refusal"));
        assert!(matches!(error, Error::JsonSelection(_)), "{error:?}");
        assert_eq!((error.kind(), error.suggested_status()), (ErrorKind::Refused, 500), "{error:?}");
    }
}

#[test]
fn a_service_that_begins_to_read_its_requests_as_json_can_tell_a_retry_from_before() {
    on_every_backend(|fixture| {
        let (tenant, name, body) = (scope("shop"), key("order 1"), br#"{"amount": 500}"#);
        let before = Fingerprint::of_request("POST", "/orders", None, body);
        let _running = fixture.store.try_claim(&tenant, &name, &before).expect("an answer").claimed();
        let after = Fingerprint::of_json_slice(body).expect("a document");
        match fixture.store.try_claim(&tenant, &name, &after).expect("an answer") {
            ClaimOutcome::FingerprintMismatch(mismatch) => assert!(mismatch.is_format_change()),
            other => panic!("{}: {other:?}", fixture.name),
        }
    });
}

#[test]
fn canonical_bytes_can_be_one_field_among_others() -> Result<()> {
    let untraced = CanonicalJson::new().exclude("/trace_id")?;
    let request = |path: &str, body: &str| -> Result<Fingerprint> {
        let body = untraced.bytes_of_slice(body.as_bytes())?;
        Ok(Fingerprint::builder().field("path", path).field("body", body).finish())
    };
    let first = request("/orders", r#"{"amount": 500, "trace_id": 1}"#)?;
    assert_eq!(first, request("/orders", r#"{"trace_id": 2, "amount": 500}"#)?);
    assert_ne!(first, request("/refunds", r#"{"amount": 500, "trace_id": 1}"#)?);
    assert_ne!(first, request("/orders", r#"{"amount": 501, "trace_id": 1}"#)?);
    Ok(())
}
