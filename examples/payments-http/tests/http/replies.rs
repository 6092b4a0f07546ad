//! Cases 28 to 30: what is replayed.

use crate::common::{Answer, KEY, Running};
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::{MethodRouter, post};
use bytes::Bytes;
use futures_util::stream;
use idempotency::{Failures, Policy};
use std::convert::Infallible;

const MAX_LEN: usize = 1_000;

fn small_replies() -> Policy {
    Policy::new().with_max_reply_len(MAX_LEN)
}

/// Answers with the body that it is sent.
fn echo() -> MethodRouter {
    post(async |body: Bytes| body)
}

fn twice(service: &Running, key: &str, body: &str) -> [Answer; 2] {
    let [first, again] = [(); 2].map(|()| service.client().post("/op", key, body));
    assert!(!first.is_replay(), "{first:?}");
    assert!(again.is_replay(), "{again:?}");
    [first, again]
}

#[test]
fn every_status_that_a_response_can_have_is_replayed_as_itself() {
    let handler = async |status: String| StatusCode::from_bytes(status.as_bytes()).expect("a status");
    // So that 5xx are recorded, too.
    let service = Running::marked(Policy::new().with_failures(Failures::Record), post(handler));
    for status in 200..=599_u16 {
        let [first, again] = twice(&service, &status.to_string(), &status.to_string());
        assert_eq!((first.status, again.status), (status, status));
        assert!(again.body.is_empty());
    }
}

#[test]
fn bodies_that_look_like_nothing_are_replayed_as_themselves() {
    let service = Running::marked(Policy::new(), echo());
    for (number, body) in ["", "null", "\0\0\0", "false", "{}"].into_iter().enumerate() {
        for answer in twice(&service, &number.to_string(), body) {
            assert_eq!((answer.status, answer.body.as_slice()), (200, body.as_bytes()));
            assert_eq!(answer.header("content-length"), Some(body.len().to_string().as_str()));
        }
    }
}

const LONG_AGO: &str = "Thu, 01 Jan 1970 00:00:00 GMT";

/// Headers that a client depends on, and headers that belong to one answer only.
async fn with_headers() -> (StatusCode, HeaderMap, &'static str) {
    let of_each_kind: &[(&'static str, &[u8])] = &[
        ("content-type", b"application/vnd.payment+json"),
        ("location", b"/payments/pay_1"),
        ("etag", b"\"v1\""),
        ("link", b"<one>; rel=a"),
        ("link", b"<two>; rel=b"),
        ("content-disposition", b"attachment; filename=\xe9\xff"),
        ("set-cookie", b"session=1"),
        ("set-cookie", b"other=2"),
        ("date", LONG_AGO.as_bytes()),
        ("x-request-id", b"r-1"),
        ("x-trace-id", b"t-1"),
        ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("server-timing", b"db;dur=53"),
        ("www-authenticate", b"Bearer"),
        ("x-internal", b"1"),
    ];
    let mut all = HeaderMap::new();
    for (name, value) in of_each_kind {
        all.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).expect("a value"));
    }
    (StatusCode::CREATED, all, "{}")
}

#[test]
fn what_a_client_depends_on_is_replayed_and_what_belongs_to_one_answer_is_not() {
    let service = Running::marked(Policy::new(), post(with_headers));
    let [first, again] = twice(&service, KEY, "");
    let (_, sent, _) = futures_now(with_headers());
    for name in sent.keys() {
        let values: Vec<_> = sent.get_all(name).iter().map(HeaderValue::as_bytes).collect();
        assert_eq!(first.all(name.as_str()), values, "the first answer has all: {name}");
    }
    for name in ["content-type", "location", "etag", "link", "content-disposition"] {
        assert_eq!(again.all(name), first.all(name), "{name}");
    }
    assert_ne!(again.header("date"), Some(LONG_AGO));
    let mut names: Vec<_> = again.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let expected = [
        "content-disposition",
        "content-length",
        "content-type",
        "date",
        "etag",
        "idempotent-replayed",
        "link",
        "location",
    ];
    assert_eq!(names, expected);
}

/// What a future gives that never waits.
fn futures_now<T>(future: impl Future<Output = T>) -> T {
    futures_util::FutureExt::now_or_never(future).expect("a future that never waits")
}

#[test]
fn a_response_at_the_limit_is_replayed_whole() {
    let service = Running::marked(small_replies(), echo());
    for answer in twice(&service, KEY, &"x".repeat(MAX_LEN)) {
        assert_eq!(answer.body.len(), MAX_LEN);
        assert_eq!(answer.header("idempotent-body-omitted"), None);
    }
}

/// That the second answer says that it was done, where, and that there was more.
#[track_caller]
fn assert_body_is_omitted(again: &Answer) {
    assert_eq!((again.status, again.body.len()), (201, 0));
    assert_eq!(again.header("location"), Some("/op/1"));
    assert_eq!(again.header("idempotent-body-omitted"), Some("true"));
    assert_eq!(again.header("content-type"), None, "there is no content");
}

fn created(body: Body) -> Response {
    let response = Response::builder().status(201).header("location", "/op/1");
    response.header("content-type", "text/plain").body(body).expect("a response")
}

#[test]
fn a_response_over_the_limit_is_sent_whole_and_replayed_as_done_without_its_body() {
    let service = Running::marked(small_replies(), post(async |body: Bytes| created(body.into())));
    let [first, again] = twice(&service, KEY, &"x".repeat(MAX_LEN + 1));
    assert_eq!((first.status, first.body.len()), (201, MAX_LEN + 1));
    assert_eq!(first.header("idempotent-body-omitted"), None);
    assert_eq!(first.header("content-type"), Some("text/plain"));
    assert_body_is_omitted(&again);
}

#[test]
fn a_response_of_64_mib_in_pieces_is_sent_whole_and_not_held() {
    const PIECE: usize = 1024 * 1024;
    let handler = async || {
        let pieces = (0..64_u8).map(|number| Ok::<_, Infallible>(Bytes::from(vec![number; PIECE])));
        created(Body::from_stream(stream::iter(pieces)))
    };
    let service = Running::marked(Policy::new(), post(handler));
    let [first, again] = twice(&service, KEY, "");
    assert_eq!(first.body.len(), 64 * PIECE);
    let is_in_order =
        first.body.chunks(PIECE).zip(0..).all(|(piece, number)| piece.iter().all(|b| *b == number));
    assert!(is_in_order);
    assert_body_is_omitted(&again);
}

#[test]
fn headers_over_the_limit_are_sent_and_replayed_as_done_without_them() {
    let handler = async || {
        let mut response = created(Body::from("small"));
        for _ in 0..10 {
            let value = HeaderValue::from_str(&"l".repeat(7_000)).expect("a value");
            response.headers_mut().append("link", value);
        }
        response
    };
    let service = Running::marked(Policy::new(), post(handler));
    let [first, again] = twice(&service, KEY, "");
    assert_eq!((first.all("link").len(), first.body.as_slice()), (10, b"small".as_slice()));
    assert_eq!(again.all("link").len(), 0);
    assert_body_is_omitted(&again);
}
