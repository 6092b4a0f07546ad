//! An embeddable idempotency-key storage engine: what a program links to make an operation safe to retry.
//!
//! A client sends "pay", the answer is lost, it sends "pay" again. The caller names the operation by a scope and a key and proves
//! with a fingerprint that it is the same request; the store lets exactly one of any number of concurrent callers run it, and gives
//! everyone else the recorded reply, or says that it is running, or that the key was used for something else.

#![forbid(unsafe_code)]
#![deny(
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
pub mod backend;
mod claim;
mod error;
mod fingerprint;
pub mod header;
mod key;
mod outcome;
mod policy;
mod record;
mod reply;
mod store;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
pub mod transition;

pub use answer::{ClaimOutcome, InProgress};
pub use backend::memory::{MemoryBackend, MemoryOptions};
#[cfg(feature = "sqlite")]
pub use backend::sqlite::{Durability, SqliteBackend, SqliteOptions};
pub use backend::{Backend, StoreId, Swept};
pub use claim::{Claim, CompleteError, Ticket};
pub use error::{BackendError, Error, Source};
pub use fingerprint::{Fingerprint, FingerprintBuilder};
pub use key::{IdempotencyKey, KeyError, MAX_KEY_LEN, RecordId, Scope};
pub use outcome::{Completed, FingerprintMismatch, Grant, LostReason, Outcome};
pub use policy::{Failures, MAX_CHECKPOINT_LEN, MAX_HEADERS_LEN, MAX_REPLY_LEN, Policy, PolicyError};
pub use record::{FencingToken, Record, State, Violation};
pub use reply::{Headers, Reply, StoredResponse};
#[cfg(feature = "sqlite")]
pub use store::SqliteStore;
pub use store::{DynStore, IdempotencyStore, MemoryStore};
pub use time::{
    Clock, ClockOutOfRange, ManualClock, MonotonicClock, Period, PeriodError, SystemClock, Timestamp,
};
pub use transition::{Command, Transition, Write};
