//! Names of HTTP headers, in lower case: those that idempotency is carried by, and those that a replay may
//! carry. Names only: the crate knows no HTTP.
//!
//! The `Idempotency-Key` header is a convention: its IETF draft lapsed at revision 07.

/// What a client names its operation with: `Idempotency-Key`.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// What marks an answer as a replay: `Idempotent-Replayed: true`.
pub const IDEMPOTENT_REPLAYED: &str = "idempotent-replayed";
/// When to ask again: `Retry-After`, in seconds (RFC 9110, section 10.2.3).
pub const RETRY_AFTER: &str = "retry-after";

/// Whether a client depends on the header `name`, and it is as true in a replay as it was the first time.
/// Case does not count.
///
/// A list of what is kept, not of what is dropped, since a header that nobody thought of may carry a secret
/// or belong to one connection: what describes the body (`content-type`, `content-encoding`, …), what names
/// the resource (`location`, `etag`, `last-modified`, `link`), what governs its use (`cache-control`,
/// `expires`, `vary`, `deprecation`, `sunset`, …). So `set-cookie`, `date`, trace ids and hop-by-hop headers
/// (RFC 9110, section 7.6.1) go, and a program adds those of its own that it wants replayed. `content-length`
/// goes too: whoever sends the body knows it.
#[must_use]
pub fn is_replayable(name: &str) -> bool {
    REPLAYABLE.iter().any(|kept| kept.eq_ignore_ascii_case(name))
}

const REPLAYABLE: [&str; 21] = [
    "accept-patch",
    "accept-post",
    "accept-ranges",
    "allow",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-location",
    "content-range",
    "content-type",
    "deprecation",
    "digest",
    "etag",
    "expires",
    "last-modified",
    "link",
    "location",
    "preference-applied",
    "sunset",
    "vary",
];
