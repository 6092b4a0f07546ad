//! What the layer acts on, and what it needs around it.

use crate::common::{KEY, PAYMENT, Running, raw};
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use idempotency::Policy;
use payments_http::accounts::authenticate;
use payments_http::idempotent::{CurrentClaim, Idempotent, idempotent};
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Says how often it was called.
fn counting() -> impl Fn() -> Ready<String> + Clone + Send + Sync + 'static {
    let calls = Arc::new(AtomicUsize::new(0));
    move || ready((calls.fetch_add(1, Ordering::SeqCst) + 1).to_string())
}

async fn key_for_a_provider(claim: CurrentClaim) -> String {
    claim.downstream_key("charge")
}

#[test]
fn methods_and_routes_that_are_not_marked_pass_untouched() {
    let service = Running::with(Policy::new(), |service| {
        let layer = Idempotent::new(service.store.clone(), "op", service.operations.clone());
        let layer = from_fn_with_state(layer.expect("a layer"), idempotent);
        Router::new()
            .route("/marked", post(counting()).route_layer(layer).get(counting()).put(counting()))
            .route("/unmarked", post(counting()))
            .layer(from_fn_with_state(service.accounts.clone(), authenticate))
    });
    let client = service.client();
    let keys: [&[&[u8]]; 3] =
        [&[b"idempotency-key: k"], &[], &[b"idempotency-key: a b", b"idempotency-key: c"]];
    for line in ["GET /marked HTTP/1.1", "PUT /marked HTTP/1.1", "POST /unmarked HTTP/1.1"] {
        for (calls, headers) in (1..).zip(keys) {
            let answer = client.raw(line, headers, b"");
            assert_eq!((answer.status, &answer.body), (200, &calls.to_string().into_bytes()), "{line}");
            assert!(!answer.is_replay());
        }
    }
    assert_eq!(client.raw("DELETE /marked HTTP/1.1", &[], b"").status, 405);
    assert_eq!(service.store_calls(), 0);

    // And the marked one does not.
    assert_eq!(client.raw("POST /marked HTTP/1.1", &[], b"").status, 400);
    let first = client.post("/marked", KEY, "");
    client.post("/marked", KEY, "").assert_replays(&first);
}

#[test]
fn a_handler_that_wants_a_claim_and_is_not_marked_is_not_run() {
    let service = Running::with(Policy::new(), |service| {
        let unmarked = Router::new().route("/op", post(key_for_a_provider));
        unmarked.layer(from_fn_with_state(service.accounts.clone(), authenticate))
    });
    service.client().post("/op", KEY, "").assert_problem(500, "misconfigured", &[KEY]);
    assert_eq!(service.store_calls(), 0);
}

#[test]
fn without_an_authentication_in_front_of_it_the_layer_answers_nobody() {
    let service = Running::with(Policy::new(), |service| {
        let layer = Idempotent::new(service.store.clone(), "op", service.operations.clone());
        let layer = from_fn_with_state(layer.expect("a layer"), idempotent);
        Router::new().route("/op", post(key_for_a_provider).route_layer(layer))
    });
    let headers: [&[u8]; 3] = [b"idempotency-key: k", b"authorization: Bearer x", b"content-length: 0"];
    raw(service.address, "POST /op HTTP/1.1", &headers, b"").assert_problem(401, "unauthorized", &[]);
    assert_eq!(service.store_calls(), 0);
}

#[test]
fn in_a_nested_router_the_whole_path_tells_one_request_from_another() {
    let service = Running::with(Policy::new(), |service| {
        let layer = Idempotent::new(service.store.clone(), "op", service.operations.clone());
        let layer = from_fn_with_state(layer.expect("a layer"), idempotent);
        let inner = Router::new().route("/op", post(async || "done").route_layer(layer));
        let both = Router::new().nest("/one", inner.clone()).nest("/other", inner);
        both.layer(from_fn_with_state(service.accounts.clone(), authenticate))
    });
    let client = service.client();
    assert_eq!(client.post("/one/op", KEY, "").status, 200);
    client.post("/other/op", KEY, "").assert_problem(422, "idempotency-key-reused", &[KEY]);
}

#[test]
fn the_key_for_the_provider_is_the_same_in_each_attempt_and_shows_nothing() {
    let service = Running::service();
    let client = service.client();
    let payment = r#"{"amount": 500, "card": "tok_answer_lost"}"#;
    assert_eq!(client.post("/payments", KEY, payment).status, 502);
    assert_eq!(client.post("/payments", KEY, payment).status, 201);
    client.post("/payments", "another-key", PAYMENT);
    let keys: Vec<_> = service.ledger.calls().into_iter().map(|call| call.key).collect();
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[1], keys[2]);
    assert!(keys.iter().all(|key| !key.contains(KEY) && !key.contains("acct_a")));
}

#[test]
fn an_endpoint_without_a_usable_name_is_refused_when_it_is_marked() {
    let _service = Running::with(Policy::new(), |service| {
        for name in ["", "a\nb", &"n".repeat(127)] {
            assert!(Idempotent::new(service.store.clone(), name, service.operations.clone()).is_err());
        }
        assert!(Idempotent::new(service.store.clone(), &"n".repeat(126), service.operations.clone()).is_ok());
        Router::new().route("/", get(async || ()))
    });
}
