//! What is particular to the store on a SQLite file.

#![cfg(feature = "sqlite")]

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod common;

mod access;
#[cfg(unix)]
mod alone;
mod corruption;
mod crowd;
mod damage;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod failed_commits;
#[cfg(unix)]
mod fork;
#[cfg(target_os = "linux")]
mod forked_looks;
#[cfg(unix)]
mod forks;
#[cfg(target_os = "linux")]
mod forks_under_load;
mod full;
mod full_inside;
mod lean;
mod leftovers;
mod library;
mod locks;
mod log;
mod looks;
mod moved;
mod opening;
#[cfg(unix)]
mod ordinary_user;
mod readers;
mod snapshots;
#[cfg(target_os = "linux")]
#[path = "../common/soak.rs"]
mod soak;
mod sweeping;
mod trace;
mod versions;

use idempotency::{Error, IdempotencyStore, SqliteBackend, SqliteOptions, SqliteStore};
use rusqlite::Connection;
use std::path::Path;

fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<SqliteStore, Error> {
    Ok(IdempotencyStore::new(SqliteBackend::open(path, options)?))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A connection of somebody else's.
fn shell(path: &Path) -> Connection {
    Connection::open(path).expect("a SQLite file")
}
