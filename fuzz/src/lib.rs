//! What the fuzz targets run, as plain functions: a test can run them too.

pub mod commands;
