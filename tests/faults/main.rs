//! A disk that fails under the store: what was acknowledged is there; what was refused is not; what is called
//! indefinite is there or not, never half.

#![cfg(feature = "sqlite")]

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod common;

mod attached;
mod batches;
mod bench;
mod bit_flips;
mod caller;
mod commits;
#[path = "../common/dice.rs"]
#[expect(dead_code, reason = "no test here deals dice to threads")]
mod dice;
mod elsewhere;
mod everywhere;
mod judge;
mod lane;
mod log_cuts;
mod network;
mod opening;
mod platter;
mod power_loss;
mod rivals;
mod scenarios;
#[path = "../common/seed.rs"]
mod seed;
mod shim;
#[path = "../common/soak.rs"]
mod soak;
mod story;
mod swallowed;
mod tape;
mod together;
mod truth;
mod vfs;
