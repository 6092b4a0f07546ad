//! Transactions that the store and the application share: business rows and reply are committed together, or
//! not at all.

#![cfg(feature = "sqlite")]

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod common;

mod atomically;
mod claim_in;
mod claim_in_and_others;
mod complete_in;
mod ended;
mod in_the_middle;
mod interrupted;
mod once_wrong;
mod one_transaction;
mod place;
mod reentrant;
mod rolled_back;
mod savepoints;
mod shop;
mod threads;
mod violations;
mod ways_to_fail;
mod what_work_may_do;
