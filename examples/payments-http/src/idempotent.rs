//! The idempotency layer for axum: [`idempotent`], with the store and the endpoint in an [`Idempotent`].
//!
//! ```no_run
//! # use axum::{Router, middleware::from_fn_with_state, routing::{get, post}};
//! # use payments_http::idempotent::{AnyStore, CurrentClaim, Idempotent, idempotent};
//! # use tokio_util::task::TaskTracker;
//! # async fn pay(claim: CurrentClaim) -> String { claim.downstream_key("charge") }
//! # async fn show() {}
//! # fn router(store: AnyStore, operations: TaskTracker) -> Result<Router, idempotency::KeyError> {
//! let layer = Idempotent::new(store, "payments", operations)?;
//! let router = Router::new()
//!     .route("/payments", post(pay).route_layer(from_fn_with_state(layer, idempotent)).get(show));
//! # Ok(router)
//! # }
//! ```
//!
//! It acts on the methods that it is put around, and needs in front of it an authentication that puts a
//! [`Principal`] into the request's extensions; without one it answers 401. The request's body is read
//! before the claim, up to axum's `DefaultBodyLimit`.
//!
//! Requests are held in memory, and responses up to what can be recorded of them: not for streams.

mod current_claim;
mod key;
mod principal;
mod problem;
mod refusal;
mod report;
mod response;

pub use self::current_claim::CurrentClaim;
pub use self::principal::{Principal, PrincipalError};
pub use self::problem::Problem;
pub use self::refusal::{Refusal, unauthorized};
pub use self::response::IDEMPOTENT_BODY_OMITTED;

use self::key::key_of;
use self::report::report;
use self::response::{Answer, replay};
use axum::body::Body;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{FromRequest, OriginalUri, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use idempotency::{
    AsyncClaim, AsyncStore, Backend, Error, Fingerprint, IdempotencyKey, KeyError, LostReason, MAX_KEY_LEN,
    Ran, Reply, RunError, Scope,
};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

/// A store for tasks, on whatever backend.
pub type AnyStore = AsyncStore<Arc<dyn Backend>>;

/// What the layer needs to know of one endpoint. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Idempotent {
    store: AnyStore,
    endpoint: Arc<str>,
    operations: TaskTracker,
}

impl Idempotent {
    /// The layer for `endpoint`, by the policy of this handle of the store. What it runs is counted by
    /// `operations`: wait for them before the process ends.
    ///
    /// Keys belong to a principal and an endpoint. The endpoint's name stands in the stored records, so it is
    /// chosen here, for good, and not taken from the route's pattern: who renames a parameter of the pattern
    /// must not make every key new. Nor is it the path, which the client writes: one key for the refunds of
    /// two payments is a mistake, and is found, since the path is part of the fingerprint.
    ///
    /// # Errors
    /// If the name is empty, longer than 126 bytes, or has control characters.
    pub fn new(store: AnyStore, endpoint: &str, operations: TaskTracker) -> Result<Self, KeyError> {
        let endpoint = Scope::with_max_len(endpoint, MAX_KEY_LEN - Principal::MAX_LEN - 1)?;
        Ok(Self { store, endpoint: endpoint.as_str().into(), operations })
    }

    fn scope(&self, principal: &Principal) -> Result<Scope, Refusal> {
        Scope::new(format!("{}/{}", principal.as_str(), self.endpoint))
            .map_err(|_| Refusal::Misconfigured("The endpoint has no usable name."))
    }

    /// Runs the handler if that is this request's to do, and says what to answer.
    async fn run(
        &self,
        operation: &Operation,
        mut request: Request,
        next: Next,
    ) -> Result<Response, Refusal> {
        let Operation { scope, key, fingerprint } = operation;
        let max_body_len = self.store.policy().max_reply_len();
        let (send, mut sent) = oneshot::channel();
        let work = async move |claim: &mut AsyncClaim| {
            request.extensions_mut().insert(CurrentClaim::new(claim.ticket()));
            let answer = Answer::of(next.run(request).await, max_body_len).await?;
            // The receiver is below, and waits.
            let _ = send.send(answer.sent);
            Ok(Reply::from(answer.recorded))
        };
        match self.store.run(scope, key, fingerprint, work).await {
            Ok(ran) => answer(ran, sent.try_recv().ok()),
            Err(failed) => self.answer_failed(&failed, sent.try_recv().ok()),
        }
    }

    fn answer_failed(
        &self,
        failed: &RunError<axum::Error>,
        sent: Option<Response>,
    ) -> Result<Response, Refusal> {
        match failed {
            // Fail closed: whoever runs it now may run it twice.
            RunError::Store(error) => {
                report("nothing was run, the store failed", error);
                Err(Refusal::StoreFailed { retry_after: self.retry_after_secs() })
            }
            // It took longer than its lease. What the one records that took over is what all clients get.
            RunError::NotRecorded {
                error: error @ Error::ClaimLost(LostReason::Running | LostReason::Completed),
                ..
            } => {
                report("an operation took longer than its lease", error);
                Err(Refusal::InProgress { retry_after: self.retry_after_secs() })
            }
            // The money has moved, and the client is told so: after an error it might pay once more, with
            // another key. A retry with this one takes over when the lease is over.
            RunError::NotRecorded { error, .. } => {
                report("an operation has run, and its answer may not be recorded", error);
                sent.ok_or(Refusal::HandlerFailed)
            }
            RunError::Work(error) => {
                report("a handler's response broke off", error);
                Err(Refusal::HandlerFailed)
            }
        }
    }

    /// As [`idempotency::InProgress::retry_after_secs`], where nothing is known of a lease.
    fn retry_after_secs(&self) -> u64 {
        let hint = self.store.policy().retry_after();
        hint.as_secs().saturating_add(u64::from(hint.subsec_nanos() > 0)).max(1)
    }
}

/// What to answer. `sent` is the handler's own response, if it has run: it has the headers that are not
/// replayed, too.
fn answer(ran: Ran, sent: Option<Response>) -> Result<Response, Refusal> {
    match ran {
        Ran::Executed(_) | Ran::Failed(_) => sent.ok_or(Refusal::HandlerFailed),
        Ran::Replayed(done) => done
            .reply
            .response()
            .and_then(replay)
            .ok_or(Refusal::Misconfigured("The key's record is no response: another program wrote it.")),
        Ran::InProgress(running) => Err(Refusal::InProgress { retry_after: running.retry_after_secs() }),
        Ran::FingerprintMismatch(_) => Err(Refusal::KeyReused),
    }
}

/// What a request asks for, once it is known to be one that the store may be asked for.
struct Operation {
    scope: Scope,
    key: IdempotencyKey,
    fingerprint: Fingerprint,
}

/// The middleware: `route_layer(from_fn_with_state(Idempotent, idempotent))`.
///
/// From the claim on, everything runs in a task of its own: a client that hangs up ends the future of its
/// request, but not that task, so what has begun is also recorded. Task-locals and the current tracing span
/// do not follow it there.
///
/// # Errors
/// What is answered in place of the handler; see [`Refusal`].
pub async fn idempotent(
    State(layer): State<Idempotent>,
    OriginalUri(uri): OriginalUri,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let scope = layer.scope(request.extensions().get().ok_or(Refusal::NoPrincipal)?)?;
    let key = key_of(request.headers())?;
    let (request, body) = buffered(request).await?;
    let fingerprint = Fingerprint::of_request(request.method().as_str(), uri.path(), uri.query(), body);
    let operation = Operation { scope, key, fingerprint };

    let operations = layer.operations.clone();
    let ran = operations.spawn(async move { layer.run(&operation, request, next).await });
    // It ends without an answer if the handler panics: then the claim is abandoned.
    ran.await.unwrap_or(Err(Refusal::HandlerFailed))
}

/// The request with its body read to the end, and the body.
async fn buffered(request: Request) -> Result<(Request, Bytes), Refusal> {
    let (parts, body) = request.into_parts();
    let request = Request::from_parts(parts.clone(), body);
    let body = Bytes::from_request(request, &()).await.map_err(|rejection| match rejection {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => Refusal::BodyTooLarge,
        _ => Refusal::BodyBroken,
    })?;
    Ok((Request::from_parts(parts, Body::from(body.clone())), body))
}
