//! The `Idempotency-Key` of a request.

use super::refusal::Refusal;
use axum::http::HeaderMap;
use idempotency::{IdempotencyKey, header};

/// The key in `headers`: one header, whose value is an RFC 9651 string or the bare value that many clients
/// send.
///
/// More than one is refused even where all say the same: a proxy that doubles or joins headers must not get
/// to choose the operation's name.
pub(super) fn key_of(headers: &HeaderMap) -> Result<IdempotencyKey, Refusal> {
    let mut values = headers.get_all(header::IDEMPOTENCY_KEY).iter();
    let value = values.next().ok_or(Refusal::KeyMissing)?;
    if values.next().is_some() {
        return Err(Refusal::KeyRepeated);
    }
    let value = value.to_str().map_err(|_| Refusal::KeyNotAscii)?;
    IdempotencyKey::from_header(value).map_err(Refusal::KeyMalformed)
}
