//! What operators must hear of: [`report`].

use std::error::Error;
use std::io::{self, Write};

/// Writes that the store failed, and why, on one line. Put your service's log here. What the crate's errors
/// say shows no key.
pub(super) fn report(what: &str, error: &dyn Error) {
    let mut causes: Vec<_> =
        std::iter::successors(Some(error), |&error| error.source()).map(ToString::to_string).collect();
    // Some errors repeat what their cause says.
    causes.dedup();
    // Written, not printed: where nobody reads it, that is no reason to panic.
    let _ = writeln!(io::stderr(), "idempotent: {what}: {}", causes.join(": "));
}
