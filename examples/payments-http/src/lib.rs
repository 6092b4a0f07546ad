//! A payment service over HTTP, on an idempotency store.
//!
//! Two parts. [`idempotent`] is the layer: copy that folder into a service of your own. The rest is the
//! service that it is shown in: [`app`] says in which order everything stands around the handlers, and why;
//! [`payments`] are the handlers; [`provider`] is the pretended payment provider behind them.

#![forbid(unsafe_code)]

pub mod accounts;
pub mod app;
pub mod idempotent;
pub mod options;
pub mod payments;
pub mod provider;
pub mod rate_limit;
pub mod server;
