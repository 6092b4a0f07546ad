//! Names of the HTTP headers that idempotency is carried by, in lower case. Names only: the crate knows no HTTP.
//!
//! The `Idempotency-Key` header is a convention: its IETF draft lapsed at revision 07.

/// What a client names its operation with: `Idempotency-Key`.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// What marks an answer as a replay: `Idempotent-Replayed: true`.
pub const IDEMPOTENT_REPLAYED: &str = "idempotent-replayed";
/// When to ask again: `Retry-After`, in seconds (RFC 9110, section 10.2.3).
pub const RETRY_AFTER: &str = "retry-after";
