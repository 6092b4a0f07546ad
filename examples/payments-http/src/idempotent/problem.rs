//! An error as a client reads it: `application/problem+json` (RFC 9457).

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::borrow::Cow;

/// What every `type` starts with: pages of your API's documentation, if you have them. A client compares the
/// whole, and need not fetch it.
const TYPES: &str = "https://payments.example/problems/";

/// An error answer. `kind` is what a program acts on, `title` says the same to a person, and `detail` what is
/// wrong with this request. None of them may hold what the client sent, its key above all: answers are logged
/// and shown in places that requests are not.
#[derive(Clone, Debug)]
pub struct Problem {
    status: StatusCode,
    kind: &'static str,
    title: &'static str,
    detail: Cow<'static, str>,
    header: Option<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// A problem whose `type` ends with `kind`.
    #[must_use]
    pub fn new(
        status: StatusCode,
        kind: &'static str,
        title: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, kind, title, detail: detail.into(), header: None }
    }

    /// With a `Retry-After` of so many seconds.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: u64) -> Self {
        self.header = Some((header::RETRY_AFTER, seconds.into()));
        self
    }

    /// With the challenge that a 401 must have (RFC 9110, section 11.6.1).
    #[must_use]
    pub fn with_bearer_challenge(mut self) -> Self {
        self.header = Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { status, kind, title, detail, header } = self;
        let body = json!({
            "type": format!("{TYPES}{kind}"),
            "title": title,
            "status": status.as_u16(),
            "detail": detail,
        });
        let content_type = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (status, content_type, body.to_string()).into_response();
        response.headers_mut().extend(header);
        response
    }
}
