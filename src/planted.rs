//! Faults of the store that are planted one at a time, to see that a test fails for each: `just planted`.
//!
//! They are there only with `--cfg idempotency_planted`. Then `IDEMPOTENCY_PLANTED` names the one that a process
//! runs with; without it, the store is as it was written. In every other build [`is`] is `false`, and an optimised
//! one has nothing of what it guards.

#[cfg(all(idempotency_planted, feature = "sqlite"))]
mod statements;
#[cfg(idempotency_planted)]
mod switch;

#[cfg(all(idempotency_planted, feature = "sqlite"))]
pub(crate) use self::statements::edit;
#[cfg(all(idempotency_planted, feature = "sqlite"))]
pub use self::statements::{EDITS, NOT_ONCE};
#[cfg(idempotency_planted)]
pub(crate) use self::switch::is;
#[cfg(idempotency_planted)]
pub use self::switch::{VARIANTS, Variant, all};

use std::time::Duration;

/// How long a fault that leaves a gap for others leaves it open.
pub(crate) const GAP: Duration = Duration::from_millis(1);

/// Whether this process runs with what is called `name`.
#[cfg(not(idempotency_planted))]
pub(crate) const fn is(_name: &str) -> bool {
    false
}

/// The SQL of `statement`, with the planted edit if that is one of this statement.
#[cfg(all(not(idempotency_planted), feature = "sqlite"))]
pub(crate) const fn edit<'s>(_statement: &str, sql: &'s str) -> &'s str {
    sql
}
