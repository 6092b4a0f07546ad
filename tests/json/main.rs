//! Fingerprints of JSON (case 37): what is one document and what is not, what a selection leaves of it, and
//! what is refused.

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod common;
#[path = "../common/dice.rs"]
#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod dice;
#[path = "../common/seed.rs"]
mod seed;

mod canonical;
mod documents;
mod properties;
mod refusals;
mod retries;
mod selections;

use idempotency::{CanonicalJson, Fingerprint, JsonError};
use std::fmt::Debug;

/// The canonical form of a text, as text.
#[track_caller]
fn canonical(text: &str) -> String {
    bytes(&CanonicalJson::new(), text)
}

#[track_caller]
fn bytes(canonical: &CanonicalJson, text: &str) -> String {
    let bytes = canonical.bytes_of_slice(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    String::from_utf8(bytes).expect("UTF-8")
}

#[track_caller]
fn fingerprint(text: &str) -> Fingerprint {
    Fingerprint::of_json_slice(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[track_caller]
fn refused(text: impl AsRef<[u8]>) -> JsonError {
    refusal(Fingerprint::of_json_slice(text.as_ref()), &text.as_ref()[..text.as_ref().len().min(100)])
}

#[track_caller]
fn refusal<T: Debug>(answer: Result<T, JsonError>, text: &[u8]) -> JsonError {
    answer.expect_err(&text.escape_ascii().to_string())
}

/// All of one fingerprint.
#[track_caller]
fn assert_one(texts: &[&str]) {
    for text in texts {
        assert_eq!(fingerprint(text), fingerprint(texts[0]), "{text} and {}", texts[0]);
    }
}

/// No two of one fingerprint.
#[track_caller]
fn assert_apart(texts: &[&str]) {
    for (at, text) in texts.iter().enumerate() {
        for other in &texts[at + 1..] {
            assert_ne!(fingerprint(text), fingerprint(other), "{text} and {other}");
        }
    }
}
