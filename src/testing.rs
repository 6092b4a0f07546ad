//! For those who test against this crate, or write a backend (feature `testing`).
//!
//! The test doubles wrap a real backend instead of imitating one: what they don't change behaves as it does in
//! production. [`conformance`] is the suite that every backend has to pass.

pub mod conformance;
mod faulty;

pub use self::faulty::{Fault, FaultyBackend};
