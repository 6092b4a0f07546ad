//! How it all stands together: [`Service`].

use crate::accounts::{Accounts, authenticate};
use crate::idempotent::{AnyStore, Idempotent, idempotent};
use crate::payments;
use crate::provider::Provider;
use crate::rate_limit::{RateLimit, limit_rate};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use idempotency::KeyError;
use tokio_util::task::TaskTracker;

/// The most that the body of a request may have, in bytes: 64 KiB.
pub const MAX_BODY_LEN: usize = 64 * 1024;

/// What the service is made of.
#[derive(Clone, Debug)]
pub struct Service {
    /// The store. An endpoint with other leases or failures gets a handle with a policy of its own.
    pub store: AnyStore,
    /// The provider behind it.
    pub provider: Provider,
    /// Who may use it.
    pub accounts: Accounts,
    /// How much.
    pub rate_limit: RateLimit,
    /// Where operations run: a server waits for them before it ends.
    pub operations: TaskTracker,
}

impl Service {
    /// The routes, and what stands around them. `layer` wraps what is there already, so the last one is the
    /// first that a request meets:
    ///
    /// 1. authentication: without a principal there is no scope, and nothing to count by;
    /// 2. the rate limit: what it refuses must not hold a key;
    /// 3. the limit on bodies, which the idempotency layer reads by;
    /// 4. that layer, only on the methods of the routes that are marked for it.
    ///
    /// Whatever 1 to 3 refuse has not reached the store: the same key can be used again.
    ///
    /// # Errors
    /// If the name of an endpoint is unusable.
    pub fn router(&self) -> Result<Router, KeyError> {
        let marked = |endpoint| {
            let layer = Idempotent::new(self.store.clone(), endpoint, self.operations.clone())?;
            Ok(from_fn_with_state(layer, idempotent))
        };
        Ok(Router::new()
            .route("/payments", post(payments::create).route_layer(marked("payments")?))
            .route("/payments/{id}", get(payments::show))
            .route("/payments/{id}/refunds", post(payments::refund).route_layer(marked("refunds")?))
            .with_state(self.provider.clone())
            .layer(DefaultBodyLimit::max(MAX_BODY_LEN))
            .layer(from_fn_with_state(self.rate_limit.clone(), limit_rate))
            .layer(from_fn_with_state(self.accounts.clone(), authenticate)))
    }
}
