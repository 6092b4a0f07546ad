//! Orders that are paid through somebody else, on SQLite: the claim has a commit of its own, the slow call to
//! the provider holds no lock, and then the order's row and the reply are committed together.
//!
//! ```text
//! cargo run --release --example orders      plays the story, and prints a table of what happened
//! ```
//!
//! Read `shop.rs` first: it is what a program has to do. `provider.rs` is a pretended provider, and
//! `scenarios.rs` the story: what becomes of an order if the provider fails or declines, and if its owner dies,
//! is taken over, or comes twice.

mod provider;
mod scenarios;
mod shop;
#[path = "../shared/story.rs"]
mod story;

use std::error::Error;
use std::process::ExitCode;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const HELP: &str = "\
Orders whose claim is committed by itself, and whose row and reply are committed together.

Usage:
  orders           play the story and print what was expected and what happened
  orders --help    print this
Every run starts with an empty shop, in a temporary folder that is removed at the end.

Exit status: 0 if everything was as expected, 1 if not, 2 for wrong arguments or a database that failed
";

fn main() -> ExitCode {
    story::main("orders", HELP, scenarios::play)
}
