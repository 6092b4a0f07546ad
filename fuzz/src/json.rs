//! Fingerprints of JSON, held against `serde_json` as the parser and a second writer of the canonical form.

use super::input::Input;
use super::json_text::{Outline, canonical, integers_are_exact, is_same, members, numbers, respelt};
use super::reached::Reached;
use idempotency::{CanonicalJson, Fingerprint, JsonError, JsonSelectionError, MAX_JSON_DEPTH};
use serde_json::{Value, json};

/// What no JSON has in it: ends a part of the input.
const END: u8 = 0xff;
/// From here on, a number may have no canonical form of its own.
const FIRST_GAP: f64 = 9_007_199_254_740_992.0;

/// Two documents and two pointers, each up to an [`END`]. What is missing is empty.
///
/// # Panics
/// If a document is taken that is none, or one is refused for a reason that it does not give; if its canonical form is
/// another than it should be; if it matters how a document is written; if two documents have one fingerprint.
#[must_use]
pub fn run(data: &[u8]) -> Reached {
    let mut reached = Reached::default();
    let mut parts = data.split(|byte| *byte == END);
    let mut next = || parts.next().unwrap_or_default();
    let (one, other) = (next(), next());
    let pointers = [next(), next()].map(String::from_utf8_lossy);
    let mut taken = Vec::new();
    for text in [one, other] {
        if let Some(document) = document(text, &mut reached) {
            in_other_words(&document, data, &mut reached);
            for pointer in &pointers {
                included(&document, pointer, &mut reached);
                excluded(&document, pointer, &mut reached);
            }
            taken.push((document, Fingerprint::of_json_slice(text)));
        }
    }
    if let [(one, one_printed), (other, other_printed)] = &taken[..] {
        let is_same = is_same(one, other);
        assert_eq!(one_printed == other_printed, is_same, "{one} and {other}");
        reached.once(if is_same { "same documents" } else { "other documents" });
    }
    reached
}

/// The document of a text that is taken.
fn document(text: &[u8], reached: &mut Reached) -> Option<Value> {
    let answer = CanonicalJson::new().bytes_of_slice(text);
    let outline = Outline::of(text);
    let shown = text.escape_ascii();
    // Near the limit the other parser has a limit of its own.
    if outline.depth + 1 >= MAX_JSON_DEPTH {
        assert!(answer.is_err() || outline.depth <= MAX_JSON_DEPTH, "{shown}");
        reached.times("too deep", usize::from(matches!(answer, Err(JsonError::TooDeep { .. }))));
        return None;
    }
    let read = serde_json::from_slice::<Value>(text);
    let repeats = read.as_ref().is_ok_and(|value| members(value) != outline.members);
    let is_large = |value: &Value| numbers(value).into_iter().any(|number| number.abs() >= FIRST_GAP);
    match answer {
        Ok(bytes) => {
            let value = read.unwrap_or_else(|error| panic!("taken: {shown}: {error}"));
            assert!(!repeats, "taken with a repeated name: {shown}");
            assert!(integers_are_exact(&value), "taken with a number that is another one: {shown}");
            assert_eq!(String::from_utf8_lossy(&bytes), canonical(&value), "{shown}");
            assert_eq!(CanonicalJson::new().bytes(&value).as_ref(), Ok(&bytes), "{shown}");
            assert_eq!(CanonicalJson::new().bytes_of_slice(&bytes).as_ref(), Ok(&bytes), "{shown}");
            let read_back: Value = serde_json::from_slice(&bytes).expect("canonical JSON is JSON");
            assert!(is_same(&read_back, &value), "{shown}");
            reached.once("documents");
            reached.times("large numbers", usize::from(is_large(&value)));
            return Some(value);
        }
        Err(JsonError::InvalidUtf8 { at }) => {
            assert_eq!(str::from_utf8(text).map_err(|error| error.valid_up_to()), Err(at), "{shown}");
            reached.once("not UTF-8");
        }
        Err(JsonError::Syntax { at }) => {
            assert!(read.is_err() && at <= text.len(), "{shown}");
            reached.once("no JSON");
        }
        Err(JsonError::LoneSurrogate { at }) => {
            assert!(read.is_err() && text.get(at) == Some(&b'"'), "{shown}");
            reached.once("lone surrogates");
        }
        Err(JsonError::NumberOutOfRange { at }) => {
            assert!(read.is_err() && at.is_some_and(|at| at < text.len()), "{shown}");
            reached.once("beyond all doubles");
        }
        Err(JsonError::DuplicateMember { at }) => {
            assert!((repeats || read.is_err()) && text.get(at) == Some(&b'"'), "{shown}");
            reached.once("repeated names");
        }
        Err(JsonError::InexactNumber { at }) => {
            assert!(
                at.is_some_and(|at| at < text.len()) && (read.is_err() || read.is_ok_and(|v| is_large(&v))),
                "{shown}"
            );
            reached.once("inexact numbers");
        }
        Err(error) => panic!("{shown}: {error:?}"),
    }
    None
}

/// However a document is written, it is that document.
fn in_other_words(document: &Value, choices: &[u8], reached: &mut Reached) {
    let (text, compact) = (respelt(document, &mut Input::new(choices)), document.to_string());
    assert_eq!(Fingerprint::of_json_slice(text.as_bytes()), Fingerprint::of_json(document), "{text}");
    reached.times("documents in other words", usize::from(text != compact));
}

/// By RFC 6901, section 3.
fn is_pointer(pointer: &str) -> bool {
    let tildes_are_escapes = || pointer.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
    pointer.is_empty() || (pointer.starts_with('/') && tildes_are_escapes())
}

fn included(document: &Value, pointer: &str, reached: &mut Reached) {
    let selection = CanonicalJson::new().include(pointer);
    assert_eq!(selection.is_ok(), is_pointer(pointer), "{pointer}");
    let Ok(selection) = selection else { return reached.once("malformed pointers") };
    let expected = document.pointer(pointer).map(|part| {
        if pointer.is_empty() {
            return canonical(document);
        }
        format!(
            "{}\n{}",
            canonical(&json!({"exclude": [], "include": [pointer]})),
            canonical(&json!({pointer: part}))
        )
    });
    let expected = expected.ok_or(JsonError::NothingIncluded);
    reached.once(if expected.is_ok() { "included parts" } else { "nothing included" });
    assert_eq!(selection.bytes(document).map(text), expected, "{document} at {pointer}");
}

fn excluded(document: &Value, pointer: &str, reached: &mut Reached) {
    let selection = match CanonicalJson::new().exclude(pointer) {
        Ok(selection) => selection,
        Err(JsonSelectionError::ExcludedWhole) => return assert_eq!(pointer, ""),
        Err(_) => return assert!(!is_pointer(pointer), "{pointer}"),
    };
    let mut rest = document.clone();
    let (container, token) = pointer.rsplit_once('/').expect("a pointer to a part");
    let is_there = document.pointer(pointer).is_some();
    match rest.pointer_mut(container) {
        Some(Value::Array(elements)) if is_there => drop(elements.remove(token.parse().expect("an index"))),
        Some(Value::Object(object)) if is_there => {
            drop(object.remove(&token.replace("~1", "/").replace("~0", "~")));
        }
        _ => {}
    }
    let expected = [json!({"exclude": [pointer], "include": [""]}), json!({"": rest})];
    let expected = expected.iter().map(canonical).collect::<Vec<_>>().join("\n");
    assert_eq!(selection.bytes(document).map(text), Ok(expected), "{document} without {pointer}");
    reached.times("excluded parts", usize::from(is_there));
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("canonical JSON is UTF-8")
}
