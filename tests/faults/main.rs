//! A disk that fails under the store: what was acknowledged is there; what was refused is not; what is called
//! indefinite is there or not, never half.

#![cfg(feature = "sqlite")]

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod common;

mod attached;
mod batches;
mod bench;
mod commits;
mod elsewhere;
mod everywhere;
mod opening;
mod rivals;
mod scenarios;
mod shim;
mod swallowed;
mod together;
mod truth;
mod vfs;
