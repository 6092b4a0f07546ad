//! Test doubles, for those who test against this crate (feature `testing`).
//!
//! They wrap a real backend instead of imitating one: what they don't change behaves as it does in
//! production.

mod faulty;

pub use self::faulty::{Fault, FaultyBackend};
