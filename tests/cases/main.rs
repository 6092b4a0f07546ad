//! What broke other stores, as operations of this one: claiming, ownership and endings. `tests/README.md`
//! says which test covers which case.

#[path = "../common/mod.rs"]
mod common;

mod claiming;
mod clock;
mod endings;
mod ownership;
mod periods;
#[cfg(feature = "sqlite")]
mod restored;
#[path = "../common/seed.rs"]
mod seed;
#[path = "../common/snapshot.rs"]
mod snapshot;
mod support;
mod taken_over;
mod tokens;
#[cfg(feature = "sqlite")]
mod tokens_of_a_file;
