//! What callers rely on, one behaviour a test, on every backend it can apply to. `tests/README.md` says which
//! case of `cases.md` is where.

#[cfg_attr(
    feature = "sqlite",
    expect(dead_code, reason = "shared by test files that use different parts of it")
)]
#[path = "../common/mod.rs"]
mod common;

mod callers;
mod deadlines;
mod downstream_keys;
mod header_values;
mod hostile;
mod keys_and_fingerprints;
mod limits;
mod mismatches;
mod pure_core;
mod replies;
mod secrecy;
mod sweeping;
mod tickets;
mod time;
#[cfg(feature = "sqlite")]
mod time_zone;
