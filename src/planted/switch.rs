//! Which fault a process runs with, and those that are planted in Rust: each stands in the code where its name
//! is asked for.

use std::env;
use std::sync::LazyLock;

/// A fault.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// What `IDEMPOTENCY_PLANTED` calls it.
    pub name: &'static str,
    /// What the store does wrong with it.
    pub wrong: &'static str,
}

const fn variant(name: &'static str, wrong: &'static str) -> Variant {
    Variant { name, wrong }
}

/// All of them that are not edits of SQL.
#[rustfmt::skip]
pub const VARIANTS: &[Variant] = &[
    // The decision.
    variant("complete-without-token", "whoever completes is taken for the owner"),
    variant("release-without-token", "whoever releases or abandons is taken for the owner"),
    variant("takeover-released-as-first", "a takeover that is released frees the key, though an earlier attempt may have had the effect"),
    variant("deadline-late", "what has a deadline still stands at that very moment (`<` for `<=`)"),
    variant("deadline-early", "what has a deadline is over a millisecond before"),
    variant("replay-of-the-expired", "an expired record is still a record"),
    variant("takeover-for-another-request", "a lapsed claim is taken over for another request"),
    variant("replay-to-another-request", "a reply is replayed to another request"),
    variant("takeover-without-checkpoint", "a takeover loses the checkpoint"),
    variant("renewal-shortens", "a renewal after a step back of the clock shortens the lease"),
    variant("scope-ignored", "the same key of two scopes is one operation"),
    // In memory.
    variant("clock-before-the-lock", "the clock is read before the shard is had"),
    variant("token-of-the-record", "a takeover's token is one more than the one before it, and a first claim's is 1"),
    variant("claim-in-two-steps", "the shard is unlocked between the look at a record and the write"),
    variant("sweep-by-key-in-memory", "a sweep removes what it read as expired, though it was claimed anew since"),
    // The commit queue.
    variant("stranded-followers", "those whose commands were executed along with a leader that panicked are never told"),
    variant("turn-not-passed-on", "the next in line is not told that it leads"),
    // SQLite.
    variant("sweep-by-key-in-sqlite", "a sweep removes what it read as expired, though it was claimed anew since"),
    variant("grant-from-returning", "a grant is read from RETURNING through `query_row`, which hides that its commit failed"),
    variant("commit-unchecked", "an answer is believed although its commit failed"),
    variant("followers-before-the-commit", "those who share a leader's commit are answered as if it had succeeded"),
    variant("commit-not-settled", "a commit that failed is called undone, and what lies in the log comes back with a crash"),
    variant("doubt-called-definite", "a commit of which nobody knows what became is called undone"),
    variant("writer-ignored", "a rival that drew the same token is taken for the claim whose commit failed"),
    variant("sync-off", "nothing is synced"),
    variant("checksum-unchecked", "a damaged reply is replayed"),
    variant("fork-unnoticed", "a forked child goes on with its parent's connections"),
    variant("ended-transaction-unnoticed", "work that has ended its transaction is completed outside of it"),
    variant("completion-outside", "`atomically` commits the work first, and then its completion"),
];

static PLANTED: LazyLock<Option<String>> = LazyLock::new(|| {
    let name = env::var_os("IDEMPOTENCY_PLANTED")?.to_string_lossy().into_owned();
    assert!(all().any(|variant| variant.name == name), "IDEMPOTENCY_PLANTED: nothing is called {name:?}");
    Some(name)
});

/// Whether this process runs with what is called `name`.
pub(crate) fn is(name: &str) -> bool {
    PLANTED.as_deref() == Some(name)
}

/// All faults, edits of SQL included.
pub fn all() -> impl Iterator<Item = Variant> {
    #[cfg(feature = "sqlite")]
    let edits = super::EDITS.iter().map(|edit| edit.variant);
    #[cfg(not(feature = "sqlite"))]
    let edits = [].into_iter();
    VARIANTS.iter().copied().chain(edits)
}
