//! What the layer itself answers: [`Refusal`].

use super::problem::Problem;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use idempotency::KeyError;
use std::borrow::Cow;

/// An answer that is the layer's own, and not the handler's.
#[derive(Debug)]
pub enum Refusal {
    /// No authentication stands in front of the layer, or it let the request through without a principal.
    NoPrincipal,
    /// There is no `Idempotency-Key`.
    KeyMissing,
    /// There is more than one.
    KeyRepeated,
    /// It has bytes that are no visible ASCII.
    KeyNotAscii,
    /// It is neither an RFC 9651 string nor a bare key, or too long.
    KeyMalformed(KeyError),
    /// The request's body is over the limit.
    BodyTooLarge,
    /// The request's body did not arrive whole.
    BodyBroken,
    /// Another request with this key is still running.
    InProgress {
        /// When to ask again, in seconds.
        retry_after: u64,
    },
    /// The key was used for another request.
    KeyReused,
    /// The store did not answer, so this request ran nothing.
    StoreFailed {
        /// When to ask again, in seconds.
        retry_after: u64,
    },
    /// The handler ended without a response; what it was to do may be done.
    HandlerFailed,
    /// The layer, or the extractor of its claim, is used where it can't be.
    Misconfigured(&'static str),
}

impl Refusal {
    /// As the client reads it.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let bad_key = |kind, detail: Cow<'static, str>| {
            Problem::new(StatusCode::BAD_REQUEST, kind, "The idempotency key is missing or unusable", detail)
        };
        match self {
            Self::NoPrincipal => unauthorized(),
            Self::KeyMissing => bad_key(
                "idempotency-key-missing",
                "This operation needs an Idempotency-Key header. Make a key before the first attempt, and send it with every retry.".into(),
            ),
            Self::KeyRepeated => bad_key(
                "idempotency-key-repeated",
                "The request has more than one Idempotency-Key header.".into(),
            ),
            Self::KeyNotAscii => bad_key(
                "idempotency-key-malformed",
                "The Idempotency-Key header has characters that are no visible ASCII.".into(),
            ),
            Self::KeyMalformed(error) => bad_key("idempotency-key-malformed", error.to_string().into()),
            Self::BodyTooLarge => Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "body-too-large",
                "The request's body is too large",
                "Nothing was done. The key is free.",
            ),
            Self::BodyBroken => Problem::new(
                StatusCode::BAD_REQUEST,
                "body-broken",
                "The request's body did not arrive whole",
                "Nothing was done. The key is free.",
            ),
            Self::InProgress { retry_after } => Problem::new(
                StatusCode::CONFLICT,
                "operation-in-progress",
                "The operation is still running",
                "Another request with this key has not been answered yet. Send the same request again later.",
            )
            .with_retry_after(*retry_after),
            Self::KeyReused => Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency-key-reused",
                "The idempotency key was used for another request",
                "A key names one operation: method, path, query and body must be the same in every retry. Nothing was done.",
            ),
            Self::StoreFailed { retry_after } => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "not-now",
                "The operation can't be run safely now",
                "What keeps it from running twice did not answer. Send the same request again later, with the same key.",
            )
            .with_retry_after(*retry_after),
            Self::HandlerFailed => Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "operation-failed",
                "The operation failed",
                "It may have been done. Send the same request again, with the same key, to find out.",
            ),
            Self::Misconfigured(detail) => Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "misconfigured",
                "The server is not set up correctly",
                *detail,
            ),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        self.problem().into_response()
    }
}

/// What to answer to a request without a credential, or with one that proves nothing.
#[must_use]
pub fn unauthorized() -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "The request has no valid credential",
        "Send an Authorization header with a bearer token.",
    )
    .with_bearer_challenge()
}
