//! What the fuzz targets run, as plain functions: the crate's test `fuzz_corpus` includes this file as it is, and runs
//! them on stable Rust.
//!
//! A target panics if it has found something, and says else what it has reached.

pub mod commands;
pub mod fingerprint;
pub mod header;
mod input;
pub mod json;
mod json_text;
mod names;
mod reached;
pub mod rows;
pub mod tickets;

pub use reached::Reached;

/// A target's body.
pub type Target = fn(&[u8]) -> Reached;

/// All of them, by the names of their folders in `fuzz/corpus`.
pub const TARGETS: [(&str, Target); 6] = [
    ("commands", commands::run),
    ("fingerprint", fingerprint::run),
    ("header", header::run),
    ("json", json::run),
    ("rows", rows::run),
    ("tickets", tickets::run),
];
