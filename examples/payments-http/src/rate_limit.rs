//! How many requests an account may send: [`RateLimit`]. In front of the idempotency layer, so that what it
//! refuses costs no claim; replays and polls count as well.

use crate::idempotent::{Principal, Problem, unauthorized};
use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A number of requests in each window of time, an account at a time, in this process. A service of several
/// processes counts at its gateway.
#[derive(Clone, Debug)]
pub struct RateLimit {
    requests: u32,
    window: Duration,
    // As many as there are accounts.
    windows: Arc<Mutex<HashMap<Principal, Window>>>,
}

#[derive(Debug)]
struct Window {
    ends: Instant,
    left: u32,
}

impl RateLimit {
    /// At most `requests` in each `window`.
    #[must_use]
    pub fn new(requests: u32, window: Duration) -> Self {
        Self { requests, window, windows: Arc::default() }
    }

    /// Counts a request of `principal`; if that was one too many, how long until the next window.
    fn count(&self, principal: &Principal) -> Result<(), Duration> {
        let now = Instant::now();
        let fresh = || Window { ends: now + self.window, left: self.requests };
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let window = windows.entry(principal.clone()).or_insert_with(fresh);
        if window.ends <= now {
            *window = fresh();
        }
        window.left = window.left.checked_sub(1).ok_or_else(|| window.ends - now)?;
        Ok(())
    }
}

/// Refuses what is over the limit, with a 429.
pub async fn limit_rate(
    State(limit): State<RateLimit>,
    principal: Option<Extension<Principal>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(Extension(principal)) = principal else { return unauthorized().into_response() };
    match limit.count(&principal) {
        Ok(()) => next.run(request).await,
        Err(wait) => too_many_requests(wait).into_response(),
    }
}

fn too_many_requests(wait: Duration) -> Problem {
    Problem::new(
        StatusCode::TOO_MANY_REQUESTS,
        "too-many-requests",
        "Too many requests",
        "Nothing was done. Send the same request again later, with the same key.",
    )
    .with_retry_after(wait.as_secs() + 1)
}
