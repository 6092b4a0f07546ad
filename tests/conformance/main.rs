//! The suite that every backend has to pass, on those of this crate and on their wrappers.

mod backends;
