//! What the tests share.

mod answer;
mod client;
mod ends;
mod process;
mod provider;
mod service;
mod wait;

pub use self::answer::Answer;
pub use self::client::{hang_up, raw};
pub use self::ends::Ends;
pub use self::process::Place;
pub use self::service::Running;
pub use self::wait::until;

/// The tokens of two accounts.
pub const TOKEN_A: &str = "token-of-acct-a";
pub const TOKEN_B: &str = "token-of-acct-b";

/// What the key in a refused request must never be seen in.
pub const KEY: &str = "8e03978e-40d5-43e8-bc93-6894a57f9324";

/// A payment that anybody may make.
pub const PAYMENT: &str = r#"{"amount": 500}"#;
