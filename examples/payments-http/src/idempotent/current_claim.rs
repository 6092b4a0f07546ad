//! What the handler may know of the claim that it runs under: [`CurrentClaim`].

use super::refusal::Refusal;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use idempotency::Ticket;

/// The claim that the handler runs under, by extraction. Only behind the layer: elsewhere there is none, and
/// the request is answered with a 500 instead of being run without protection.
///
/// The layer ends the claim; a handler can't.
#[derive(Clone, Debug)]
pub struct CurrentClaim(Ticket);

impl CurrentClaim {
    pub(super) const fn new(ticket: Ticket) -> Self {
        Self(ticket)
    }

    /// What to send to the next provider as its idempotency key. `label` names the call: a handler that makes
    /// two gives them two. See [`Ticket::downstream_key`].
    #[must_use]
    pub fn downstream_key(&self, label: &str) -> String {
        self.0.downstream_key(label)
    }

    /// 1 for the first attempt, one more for each takeover.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.0.attempt()
    }

    /// Whether an earlier attempt ended without an answer, so that what it was to do may be done. If the
    /// provider behind does not deduplicate, ask it before doing it again.
    #[must_use]
    pub const fn is_takeover(&self) -> bool {
        self.attempt() > 1
    }
}

impl<S: Sync> FromRequestParts<S> for CurrentClaim {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let misconfigured = Refusal::Misconfigured("This route is not behind the idempotency layer.");
        parts.extensions.get().cloned().ok_or(misconfigured)
    }
}
