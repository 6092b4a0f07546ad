//! The operations. All that they know of retries is the key that they hand on to the provider.

use crate::idempotent::{CurrentClaim, Principal, Problem};
use crate::provider::Provider;
use axum::extract::{Extension, Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::{Value, json};
use std::io::{self, Write};

/// `POST /payments`: charges `amount`, a whole number above zero. `card` says how the provider behaves.
///
/// # Errors
/// A 400 is recorded and replayed like a 201; after a 502 a retry asks the provider again.
pub async fn create(
    State(provider): State<Provider>,
    Extension(account): Extension<Principal>,
    claim: CurrentClaim,
    body: Bytes,
) -> Result<Response, Problem> {
    let order: Value = serde_json::from_slice(&body).unwrap_or_default();
    let amount = order["amount"].as_u64().filter(|amount| *amount > 0).ok_or_else(|| {
        let detail = "The body is a JSON object, and its `amount` a whole number above zero.";
        Problem::new(StatusCode::BAD_REQUEST, "payment-invalid", "The payment is unusable", detail)
    })?;
    let card = order["card"].as_str().unwrap_or_default();
    let charge = provider.charge(claim.downstream_key("charge"), account.as_str(), amount, card).await;
    let id = charge.map_err(|error| unreachable(&error))?.ok_or_else(silent)?;
    Ok(created(&format!("/payments/{id}"), &json!({ "id": id, "amount": amount })))
}

/// `POST /payments/{id}/refunds`: gives all of a payment back.
///
/// # Errors
/// As [`create`]; a 404, recorded too, for a payment that is not the account's.
pub async fn refund(
    State(provider): State<Provider>,
    Extension(account): Extension<Principal>,
    Path(payment): Path<String>,
    claim: CurrentClaim,
) -> Result<Response, Problem> {
    let found = provider.payment(account.as_str(), &payment).await.map_err(|error| unreachable(&error))?;
    let payment = found.ok_or_else(no_such_payment)?.id;
    let refund = provider.refund(claim.downstream_key("refund"), account.as_str(), &payment).await;
    let id = refund.map_err(|error| unreachable(&error))?;
    let location = format!("/payments/{payment}/refunds/{id}");
    Ok(created(&location, &json!({ "id": id, "payment": payment })))
}

/// `GET /payments/{id}`: not marked, so a key in the request means nothing.
///
/// # Errors
/// A 404 for a payment that is not the account's.
pub async fn show(
    State(provider): State<Provider>,
    Extension(account): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let found = provider.payment(account.as_str(), &id).await.map_err(|error| unreachable(&error))?;
    let payment = found.ok_or_else(no_such_payment)?;
    Ok(with_json(&json!({ "id": payment.id, "amount": payment.amount })))
}

fn created(location: &str, body: &Value) -> Response {
    (StatusCode::CREATED, [(header::LOCATION, location)], with_json(body)).into_response()
}

fn with_json(body: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn no_such_payment() -> Problem {
    let detail = "This account has no such payment.";
    Problem::new(StatusCode::NOT_FOUND, "payment-unknown", "There is no such payment", detail)
}

fn silent() -> Problem {
    let detail = "The money may have moved. Send the same request again, with the same key, to find out.";
    Problem::new(StatusCode::BAD_GATEWAY, "provider-silent", "The provider did not answer", detail)
}

fn unreachable(error: &io::Error) -> Problem {
    // Written, not printed: where nobody reads it, that is no reason to panic.
    let _ = writeln!(io::stderr(), "payments-http: the provider failed: {error}");
    silent()
}
