//! Fencing tokens for stores that live in memory.

use crate::record::FencingToken;
use crate::sync::{AtomicI64, Ordering};
use std::sync::LazyLock;

/// The last token that was drawn.
#[derive(Debug)]
pub(super) struct TokenCounter(AtomicI64);

/// What every memory store of this process draws from, so that a store made anew grants higher tokens than
/// those before it. It starts at the wall clock, so that a restarted process does too.
static OF_THE_PROCESS: LazyLock<TokenCounter> =
    LazyLock::new(|| TokenCounter(AtomicI64::new(FencingToken::at_wall_clock().get())));

impl TokenCounter {
    /// A counter whose first token is `first`.
    pub(super) fn starting_at(first: FencingToken) -> Self {
        Self(AtomicI64::new(first.get().saturating_sub(1)))
    }

    pub(super) fn of_the_process() -> &'static Self {
        &OF_THE_PROCESS
    }

    /// The next token, or none if `i64::MAX` has been drawn: the counter never wraps.
    pub(super) fn draw(&self) -> Option<FencingToken> {
        // Relaxed: each draw is one atomic step on one location, and whoever sees a record has gone through
        // its shard's lock.
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| last.checked_add(1))
            .ok()
            .and_then(|last| FencingToken::new(last.saturating_add(1)))
    }
}
