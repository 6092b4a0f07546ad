//! The suite that every backend has to pass, on those of this crate, on their wrappers, and on the example of
//! `docs/backends.md`; and the suite itself, on backends that each do one thing wrong.

#[cfg(unix)]
#[path = "../sqlite/alone.rs"]
mod alone;
mod backends;
mod file_per_key;
mod flawed;
#[cfg(unix)]
#[path = "../sqlite/fork.rs"]
mod fork;
