//! Case 66, and handlers that end without a response.

use crate::common::{Answer, KEY, Running};
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{MethodRouter, post};
use futures_util::stream;
use idempotency::{Failures, Policy, Reply};
use payments_http::idempotent::CurrentClaim;
use std::io;

/// Answers with the status that it is sent, and says which attempt it was.
fn failing() -> MethodRouter {
    post(async |claim: CurrentClaim, status: String| {
        let status = StatusCode::from_bytes(status.as_bytes()).expect("a status");
        (status, format!("attempt {}, takeover {}", claim.attempt(), claim.is_takeover()))
    })
}

fn text(answer: &Answer) -> &str {
    str::from_utf8(&answer.body).expect("text")
}

/// The answers to a request and its retry under `policy`, as text, and whether the second was a replay.
fn twice(policy: Policy, status: &str) -> (String, String, bool) {
    let service = Running::marked(policy, failing());
    let [first, retry] = [(); 2].map(|()| service.client().post("/op", KEY, status));
    assert_eq!((first.status, retry.status), (status.parse().unwrap_or(0), first.status));
    assert!(!first.is_replay());
    (text(&first).to_owned(), text(&retry).to_owned(), retry.is_replay())
}

#[test]
fn after_a_5xx_the_retry_runs_at_once_and_is_told_that_it_is_not_the_first() {
    for status in ["500", "502", "503", "504"] {
        let (first, retry, is_replay) = twice(Policy::new(), status);
        assert_eq!((first.as_str(), is_replay), ("attempt 1, takeover false", false));
        assert_eq!(retry, "attempt 2, takeover true");
    }
}

#[test]
fn by_policy_a_5xx_frees_the_key_or_is_replayed() {
    let released = twice(Policy::new().with_failures(Failures::Release), "503");
    let again = "attempt 1, takeover false".to_owned();
    assert_eq!(released, (again.clone(), again.clone(), false));
    let recorded = twice(Policy::new().with_failures(Failures::Record), "503");
    assert_eq!(recorded, (again.clone(), again, true));
}

#[test]
fn a_4xx_of_the_handlers_own_is_replayed_unless_the_policy_takes_it_for_a_failure() {
    for status in ["400", "402", "404", "409", "422", "429"] {
        assert!(twice(Policy::new(), status).2, "{status}");
    }
    let later = |reply: &Reply| reply.response().is_some_and(|response| response.status() == 429);
    let (_, retry, is_replay) = twice(Policy::new().failure_if(later), "429");
    assert_eq!((retry.as_str(), is_replay), ("attempt 2, takeover true", false));
}

#[test]
fn after_a_failure_the_key_stays_bound_to_its_request() {
    let service = Running::marked(Policy::new(), failing());
    assert_eq!(service.client().post("/op", KEY, "500").status, 500);
    service.client().post("/op", KEY, "200").assert_problem(422, "idempotency-key-reused", &[KEY]);
}

/// That a first attempt, which ends without a response, is told so, and its retry runs at once.
#[track_caller]
fn assert_first_attempt_fails(service: &Running) {
    let failed = service.client().post("/op", KEY, "");
    failed.assert_problem(500, "operation-failed", &[KEY, "secret"]);
    let retry = service.client().post("/op", KEY, "");
    assert_eq!((retry.status, text(&retry), retry.is_replay()), (200, "attempt 2", false));
    service.client().post("/op", KEY, "").assert_replays(&retry);
}

#[test]
fn a_handler_that_panics_is_abandoned_and_the_server_lives_on() {
    let service = Running::marked(
        Policy::new(),
        post(async |claim: CurrentClaim| {
            assert!(claim.is_takeover(), "a planned panic with a secret");
            format!("attempt {}", claim.attempt())
        }),
    );
    assert_first_attempt_fails(&service);
}

#[test]
fn a_response_that_breaks_off_is_abandoned() {
    let service = Running::marked(
        Policy::new(),
        post(async |claim: CurrentClaim| {
            let rest = if claim.is_takeover() { Ok("2") } else { Err(io::Error::other("a secret")) };
            Response::new(Body::from_stream(stream::iter([Ok("attempt "), rest])))
        }),
    );
    assert_first_attempt_fails(&service);
}
