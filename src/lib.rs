//! An embeddable idempotency-key storage engine: what a program links to make an operation safe to retry.
//!
//! A client sends "pay", the answer is lost, it sends "pay" again. The caller names the operation by a scope
//! and a key and proves with a fingerprint that it is the same request; the store lets exactly one of any
//! number of concurrent callers run it, and gives everyone else the recorded reply, or says that it is
//! running, or that the key was used for something else.
//!
//! It is **not** a cache (nothing is evicted before its time), a lock service, a job queue, or a web
//! middleware: it is synchronous, and knows no HTTP.
//!
//! ```
//! use idempotency::{ClaimOutcome, Fingerprint, IdempotencyKey, IdempotencyStore, Scope, StoredResponse};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("payments.db");
//! # #[cfg(feature = "sqlite")]
//! let store = IdempotencyStore::open(path)?; // durable; shared by threads and processes
//! # #[cfg(not(feature = "sqlite"))]
//! # let store = IdempotencyStore::in_memory();
//!
//! let scope = Scope::new("account 17")?; // from the authenticated principal, never from the request
//! let key = IdempotencyKey::from_header("\"8e03978e-40d5-43e8-bc93-6894a57f9324\"")?;
//! let body = br#"{"amount": 500, "currency": "EUR"}"#;
//! let fingerprint = Fingerprint::of_request("POST", "/payments", None, body);
//!
//! let (status, body) = match store.try_claim(&scope, &key, &fingerprint)? {
//!     ClaimOutcome::Claimed(claim) => {
//!         let _for_the_provider = claim.downstream_key("charge");
//!         // … charge …
//!         let done = claim.complete(StoredResponse::new(201).with_body(r#"{"id": "pay_1"}"#))?;
//!         done.reply.response().map(|r| (r.status(), r.body().clone())).unwrap_or_default()
//!     }
//!     ClaimOutcome::Completed(done) => {
//!         done.reply.response().map(|r| (r.status(), r.body().clone())).unwrap_or_default()
//!     }
//!     ClaimOutcome::InProgress(running) => (409, format!("again in {} s", running.retry_after_secs()).into()),
//!     ClaimOutcome::FingerprintMismatch(_) => (422, "this key was used for another request".into()),
//! };
//! assert_eq!((status, &body[..]), (201, br#"{"id": "pay_1"}"#.as_slice()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # When can it run twice?
//! At most one claim of a key stands at a time. An owner that dies is taken over after its lease, so work is
//! run **at least once** after a crash: its effect comes exactly once only if it shares the
//! transaction of the completion (module `transactions`), or is deduplicated downstream by
//! [`downstream_key`](Claim::downstream_key), or checks the [fencing token](FencingToken).
//!
//! # Limits
//! Scopes and keys [`MAX_KEY_LEN`] bytes; replies by [`Policy::with_max_reply_len`], headers
//! [`MAX_HEADERS_LEN`], checkpoints [`MAX_CHECKPOINT_LEN`]; leases and retentions [`Period::MAX`]; memory
//! stores by [`MemoryOptions`]. Times are whole milliseconds.

#![forbid(unsafe_code)]
#![deny(
    missing_debug_implementations,
    missing_docs,
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unreachable,
    clippy::unwrap_used
)]
#![cfg_attr(
    test,
    expect(clippy::indexing_slicing, reason = "a test that panics has failed, which is what it is for")
)]

mod answer;
#[cfg(feature = "tokio")]
pub mod async_store;
pub mod backend;
mod background;
mod claim;
#[cfg(any(feature = "sqlite", test))]
mod commit_queue;
mod error;
mod fingerprint;
pub mod header;
mod hex;
mod inspection;
mod into_bytes;
mod jitter;
mod keep_alive;
mod key;
mod metrics;
pub mod observability;
mod observed;
mod operators;
mod outcome;
#[cfg(not(idempotency_planted))]
mod planted;
#[cfg(idempotency_planted)]
#[doc(hidden)]
pub mod planted;
mod policy;
mod ran;
mod record;
mod reply;
mod run;
mod shared;
mod store;
mod sweeper;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
#[cfg(feature = "sqlite")]
pub mod transactions;
pub mod transition;
mod wait;

pub use self::metrics::{ErrorCounts, Metrics};
pub use answer::{ClaimOutcome, InProgress};
#[cfg(feature = "tokio")]
#[doc(inline)]
pub use async_store::{AsyncClaim, AsyncStore};
pub use backend::memory::{MemoryBackend, MemoryOptions};
#[cfg(feature = "sqlite")]
pub use backend::sqlite::{Durability, SqliteBackend, SqliteOptions};
#[doc(inline)]
pub use backend::{Backend, StoreId, Swept};
pub use claim::{Claim, CompleteError, Ticket};
pub use error::{BackendError, Error, ErrorKind, Result, Source};
#[cfg(feature = "json")]
pub use fingerprint::{CanonicalJson, JsonError, JsonSelectionError, MAX_JSON_DEPTH};
pub use fingerprint::{Fingerprint, FingerprintBuilder};
pub use inspection::{Stats, Stuck, StuckList, StuckReason};
pub use into_bytes::IntoBytes;
pub use key::{IdempotencyKey, KeyError, MAX_KEY_LEN, RecordId, Scope};
pub use outcome::{Completed, FingerprintMismatch, Grant, LostReason, Outcome};
pub use policy::{Failures, MAX_CHECKPOINT_LEN, MAX_HEADERS_LEN, MAX_REPLY_LEN, Policy, PolicyError};
pub use ran::{Ran, RunError};
pub use record::{FencingToken, Record, State, Violation};
pub use reply::{Headers, Reply, StoredResponse};
/// The SQLite library that the store uses, for transactions that are shared with it.
#[cfg(feature = "sqlite")]
pub use rusqlite;
#[cfg(feature = "sqlite")]
pub use store::SqliteStore;
pub use store::{DynStore, IdempotencyStore, MemoryStore};
pub use sweeper::Sweeper;
pub use time::{
    Clock, ClockOutOfRange, ManualClock, MonotonicClock, Period, PeriodError, SystemClock, Timestamp,
};
#[cfg(feature = "sqlite")]
#[doc(inline)]
pub use transactions::TxClaim;
#[doc(inline)]
pub use transition::{Command, Transition, Write};

/// Runs the README's code, so that what a newcomer copies works.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;

/// Runs the guide's code, for the same reason.
#[cfg(all(doctest, feature = "sqlite"))]
mod guide_doctests {
    #[cfg(feature = "tokio")]
    #[doc = include_str!("../docs/guide/async.md")]
    struct Async;
    #[doc = include_str!("../docs/guide/batch-job.md")]
    struct BatchJob;
    #[doc = include_str!("../docs/guide/calling-a-provider.md")]
    struct CallingAProvider;
    #[cfg(feature = "json")]
    #[doc = include_str!("../docs/guide/choosing.md")]
    struct Choosing;
    #[doc = include_str!("../docs/guide/for-callers.md")]
    struct ForCallers;
    #[doc = include_str!("../docs/guide/http-handler.md")]
    struct HttpHandler;
    #[doc = include_str!("../docs/guide/migrating.md")]
    struct Migrating;
    #[doc = include_str!("../docs/guide/queue-consumer.md")]
    struct QueueConsumer;
    #[doc = include_str!("../docs/guide/when-can-it-run-twice.md")]
    struct WhenCanItRunTwice;
}
