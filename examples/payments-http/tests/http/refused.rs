//! Case 63: what is refused before the claim.

use crate::common::{Ends, KEY, PAYMENT, Running, TOKEN_A, hang_up, raw};
use idempotency::Policy;
use payments_http::app::{MAX_BODY_LEN, Service};
use payments_http::rate_limit::RateLimit;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

/// That `refused` has not asked the store, and left nothing there; and that the key then runs as if it had
/// never been sent.
#[track_caller]
fn assert_key_is_free(service: &Running) {
    assert_eq!(service.store_calls(), 0);
    assert_eq!(service.record(KEY), None);
    assert_eq!(service.ledger.tally(), (0, 0));
    let paid = service.client().post("/payments", KEY, PAYMENT);
    assert_eq!((paid.status, paid.is_replay()), (201, false));
    assert_eq!(service.record(KEY).map(|record| record.attempt), Some(1));
}

#[test]
fn without_a_credential_or_with_one_that_proves_nothing_the_store_is_not_asked() {
    let service = Running::service();
    let [key, length] = [format!("idempotency-key: {KEY}"), format!("content-length: {}", PAYMENT.len())];
    let valid = format!("authorization: Bearer {TOKEN_A}");
    let credentials: &[&[&str]] = &[
        &[],
        &["authorization: Bearer"],
        &["authorization: Bearer "],
        &["authorization: Bearer another-token"],
        &[&format!("authorization: Basic {TOKEN_A}")],
        &[&format!("authorization: {TOKEN_A}")],
        &[&format!("authorization: Bearer {}", &TOKEN_A[1..])],
        &[&format!("authorization: Bearer {TOKEN_A}x")],
        &[&valid, &valid],
        &["x-account: acct_a"],
    ];
    for credential in credentials {
        let headers = [key.as_str(), &length].into_iter().chain(credential.iter().copied());
        let headers: Vec<&[u8]> = headers.map(str::as_bytes).collect();
        let answer = raw(service.address, "POST /payments HTTP/1.1", &headers, PAYMENT.as_bytes());
        answer.assert_problem(401, "unauthorized", &[KEY, TOKEN_A]);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    assert_key_is_free(&service);
}

#[test]
fn what_the_rate_limit_refuses_does_not_ask_the_store() {
    let nothing_allowed = |service: &Service| {
        let rate_limit = RateLimit::new(0, Duration::from_secs(3_600));
        Service { rate_limit, ..service.clone() }.router().expect("a router")
    };
    let service = Running::with(Policy::new(), |service| {
        // The service itself, and beside it, on the same store, the one that lets nobody through.
        service.router().expect("a router").nest("/limited", nothing_allowed(service))
    });
    let refused = service.client().post("/limited/payments", KEY, PAYMENT);
    refused.assert_problem(429, "too-many-requests", &[KEY]);
    let seconds: u64 = refused.header("retry-after").and_then(|s| s.parse().ok()).expect("a Retry-After");
    assert!((1..=3_601).contains(&seconds), "{seconds}");
    assert_key_is_free(&service);
}

#[test]
fn a_body_over_the_limit_is_refused_before_the_claim_whether_or_not_it_says_its_length() {
    let service = Running::service();
    let key = format!("idempotency-key: {KEY}");
    let large = "x".repeat(MAX_BODY_LEN + 1);
    let length = format!("content-length: {}", large.len());
    let chunked = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    for (framing, body) in [(length.as_str(), &large), ("transfer-encoding: chunked", &chunked)] {
        let headers = [key.as_bytes(), framing.as_bytes()];
        let answer = service.client().raw("POST /payments HTTP/1.1", &headers, body.as_bytes());
        answer.assert_problem(413, "body-too-large", &[KEY]);
    }
    assert_key_is_free(&service);
}

#[test]
fn a_body_at_the_limit_is_taken_whether_or_not_it_says_its_length() {
    let service = Running::service();
    let key = format!("idempotency-key: {KEY}");
    let full = format!("{PAYMENT}{}", " ".repeat(MAX_BODY_LEN - PAYMENT.len()));
    let length = format!("content-length: {}", full.len());
    let chunked = format!("{:x}\r\n{full}\r\n0\r\n\r\n", full.len());
    let headers = [key.as_bytes(), length.as_bytes()];
    let first = service.client().raw("POST /payments HTTP/1.1", &headers, full.as_bytes());
    assert_eq!((first.status, first.is_replay()), (201, false));
    let headers = [key.as_bytes(), b"transfer-encoding: chunked"];
    let again = service.client().raw("POST /payments HTTP/1.1", &headers, chunked.as_bytes());
    again.assert_replays(&first);
}

#[test]
fn a_client_that_hangs_up_before_its_body_is_whole_has_asked_for_nothing() {
    let ends = Ends::new();
    let service = Running::with(Policy::new(), |service| ends.watch(service.router().expect("a router")));
    let mut stream = TcpStream::connect(service.address).expect("a connection");
    let half = &PAYMENT[..PAYMENT.len() / 2];
    let length = PAYMENT.len();
    write!(
        stream,
        "POST /payments HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {TOKEN_A}\r\n\
        idempotency-key: {KEY}\r\ncontent-length: {length}\r\n\r\n{half}"
    )
    .expect("half a request sent");
    hang_up(&stream);
    ends.wait();
    assert_key_is_free(&service);
}
