//! Lists of parts: no two have one fingerprint, and each has the one that the documented framing gives.
//!
//! Two lists that are drawn at random differ in everything, so the second is made from the first, by edits that a
//! careless framing would not see: bytes that move over a border, parts that are split, merged, swapped or repeated.

use super::input::Input;
use super::reached::Reached;
use idempotency::Fingerprint;
use sha2::{Digest, Sha256};
use std::io::{self, Read};

const FIELDS: u8 = 2;
const REQUEST: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    name: String,
    value: Vec<u8>,
}

/// A list, then edits, until the bytes are used up.
///
/// # Panics
/// If two lists have one fingerprint, or a list has another one than the framing gives.
#[must_use]
pub fn run(data: &[u8]) -> Reached {
    let mut input = Input::new(data);
    let mut reached = Reached::default();
    let one = list(&mut input);
    let mut other = one.clone();
    let fingerprint = as_documented(&one, &mut input);
    as_request(&one);
    reached.times("parts", one.len());
    while !input.is_empty() {
        let edited = edit(&mut other, &mut input);
        reached.times(edited.unwrap_or("edits without a place"), 1);
        let is_same = as_documented(&other, &mut input) == fingerprint;
        assert_eq!(is_same, one == other, "{one:?} and {other:?}");
        reached.once(if is_same { "same lists" } else { "other lists" });
    }
    reached
}

fn list(input: &mut Input<'_>) -> Vec<Part> {
    (0..input.below(5))
        .map(|_| {
            let len = input.below(12);
            let name = input.take(len).iter().copied().map(char::from).collect();
            let len = input.next();
            // Now and then longer than what a reader is asked for at a time.
            let repeated = if len == u8::MAX { 300 } else { 1 };
            Part { name, value: input.take(usize::from(len % 32)).repeat(repeated) }
        })
        .collect()
}

/// Changes the list in one place, and says how; none if there is no such place in it.
fn edit(list: &mut Vec<Part>, input: &mut Input<'_>) -> Option<&'static str> {
    let (kind, at, byte) = (input.next() % 9, usize::from(input.next()), input.next());
    let at = at % list.len().max(1);
    Some(match kind {
        0 => {
            let part = list.get_mut(at).filter(|part| part.value.first().is_some_and(u8::is_ascii))?;
            part.name.push(char::from(part.value.remove(0)));
            "bytes from a value to its name"
        }
        1 => {
            let part = list.get_mut(at)?;
            let moved = part.name.pop()?;
            part.value.splice(..0, moved.to_string().into_bytes());
            "bytes from a name to its value"
        }
        2 => {
            let [first, second] = list.get_mut(at..at + 2)? else { return None };
            let moved = first.value.pop().filter(u8::is_ascii)?;
            second.name.insert(0, char::from(moved));
            "bytes from a value to the next name"
        }
        3 => {
            let part = list.get_mut(at)?;
            let value = part.value.split_off(usize::from(byte) % (part.value.len() + 1));
            let name = part.name.clone();
            list.insert(at + 1, Part { name, value });
            "splits"
        }
        4 => {
            list.get(at + 1)?;
            let Part { name, value } = list.remove(at + 1);
            list[at].value.extend(name.bytes().chain(value));
            "merges"
        }
        5 => {
            list.get(at + 1)?;
            list.swap(at, at + 1);
            "swaps"
        }
        6 => {
            list.insert(at, list.get(at)?.clone());
            "repetitions"
        }
        7 => {
            list.get(at)?;
            list.remove(at);
            "removals"
        }
        _ => {
            *list.get_mut(at)?.value.last_mut()? ^= byte;
            "changed bytes"
        }
    })
}

/// The list's fingerprint, by fields and by readers.
fn as_documented(list: &[Part], input: &mut Input<'_>) -> Fingerprint {
    let framed = framed(FIELDS, list);
    let read_back: Vec<_> =
        list.iter().map(|part| (part.name.clone(), part.value.len(), digest(&part.value))).collect();
    assert_eq!(unframed(&framed), Some(read_back), "the framing itself is ambiguous");

    let fields =
        list.iter().fold(Fingerprint::builder(), |b, part| b.field(&part.name, &part.value)).finish();
    assert_eq!((fields.format(), *fields.digest()), (FIELDS, digest(&framed)), "{list:?}");
    let chunk = input.below(7) + 1;
    let streamed = list.iter().try_fold(Fingerprint::builder(), |builder, part| {
        builder.reader(&part.name, Halting { rest: &part.value, chunk, is_interrupted: false })
    });
    assert_eq!(streamed.expect("a reader that does not fail").finish(), fields, "{list:?}");
    assert_ne!(Fingerprint::from_bytes(*fields.digest()), fields);
    fields
}

/// A request is four parts of given names, in a format of its own.
fn as_request(list: &[Part]) {
    let [method, path, query, body] = [0, 1, 2, 3].map(|at| list.get(at));
    let text = |part: Option<&Part>| part.map_or("", |part| part.name.as_str()).to_owned();
    let (method, path, query) = (text(method), text(path), query.map(|part| part.name.as_str()));
    let body = body.map_or(&[][..], |part| &part.value);
    let fingerprint = Fingerprint::of_request(&method, &path, query, body);
    let parts = [
        ("method", method.as_bytes()),
        ("path", path.as_bytes()),
        ("query", query.unwrap_or_default().as_bytes()),
        ("body", body),
    ];
    let parts = parts.map(|(name, value)| Part { name: name.to_owned(), value: value.to_owned() });
    assert_eq!((fingerprint.format(), *fingerprint.digest()), (REQUEST, digest(&framed(REQUEST, &parts))));
}

/// What is hashed, by the docs of the module `fingerprint`.
fn framed(format: u8, list: &[Part]) -> Vec<u8> {
    let mut framed = vec![format];
    for Part { name, value } in list {
        framed.extend((name.len() as u64).to_be_bytes());
        framed.extend(name.bytes());
        framed.extend((value.len() as u64).to_be_bytes());
        framed.extend(digest(value));
    }
    framed
}

/// The names, lengths and digests that were framed.
fn unframed(framed: &[u8]) -> Option<Vec<(String, usize, [u8; 32])>> {
    let mut rest = &framed[1..];
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (len, after) = rest.split_first_chunk::<8>()?;
        let (name, after) = after.split_at_checked(usize::try_from(u64::from_be_bytes(*len)).ok()?)?;
        let (len, after) = after.split_first_chunk::<8>()?;
        let (digest, after) = after.split_first_chunk::<32>()?;
        let len = usize::try_from(u64::from_be_bytes(*len)).ok()?;
        parts.push((String::from_utf8(name.to_vec()).ok()?, len, *digest));
        rest = after;
    }
    Some(parts)
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Gives a few bytes at a time, and is interrupted before each.
struct Halting<'a> {
    rest: &'a [u8],
    chunk: usize,
    is_interrupted: bool,
}

impl Read for Halting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.is_interrupted = !self.is_interrupted;
        if self.is_interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        // Of a long value all that is asked for.
        let chunk = if self.rest.len() > 1_000 { buffer.len() } else { self.chunk };
        let len = chunk.min(self.rest.len()).min(buffer.len());
        let (read, rest) = self.rest.split_at(len);
        buffer[..len].copy_from_slice(read);
        self.rest = rest;
        Ok(len)
    }
}
