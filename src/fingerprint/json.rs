//! Fingerprints of JSON (feature `json`): of what it says, not of how it is written.
//!
//! # Framing
//! The fingerprint has format byte 3 and one part, `json`, framed as every part is. Its value is what
//! [`CanonicalJson::bytes`] gives:
//!
//! - of a whole document, its canonical form by [RFC 8785](https://www.rfc-editor.org/rfc/rfc8785);
//! - of a selection, two lines, each in canonical form, with one line feed between them. The first is the
//!   selection, `{"exclude":[…],"include":[…]}`, its pointers in the order of their bytes; the second is an
//!   object that has, under each included pointer that leads to a value, that value.
//!
//! A canonical form has no line feed, so the two are never equal, nor are those of two selections. The tests
//! below fix both by vectors that another program computed.

mod error;
mod number;
mod pointer;
mod text;
mod tree;

pub use self::error::{JsonError, JsonSelectionError};

use self::pointer::{Pointer, WHOLE};
use self::tree::{Depth, Node};
use super::{Fingerprint, FingerprintBuilder, format};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The most levels of arrays and objects inside one another. `[1]` has one level.
pub const MAX_JSON_DEPTH: usize = 128;

const DEFAULT_MAX_LEN: usize = 1024 * 1024;

/// What counts of a JSON document, and how large it may be: gives its canonical bytes
/// ([RFC 8785](https://www.rfc-editor.org/rfc/rfc8785)) and their fingerprint.
///
/// Order of members, white space, and the spelling of numbers and strings make no difference; everything else
/// does, the order of an array's elements included.
///
/// ```
/// use idempotency::{CanonicalJson, Fingerprint};
///
/// let payment = CanonicalJson::new().exclude("/metadata/trace_id")?;
/// let request = |body: &[u8]| -> idempotency::Result<Fingerprint> {
///     let body = payment.bytes_of_slice(body)?;
///     let fields = Fingerprint::builder().field("method", "POST").field("path", "/payments");
///     Ok(fields.field("body", body).finish())
/// };
/// let first = request(br#"{"amount": 500, "metadata": {"trace_id": "a"}}"#)?;
/// let retry = request(br#"{"metadata": {"trace_id": "b"}, "amount": 5e2}"#)?;
/// let other = request(br#"{"amount": 501, "metadata": {"trace_id": "a"}}"#)?;
/// assert_eq!(first, retry);
/// assert_ne!(first, other);
/// # Ok::<(), idempotency::Error>(())
/// ```
///
/// # What counts
/// The whole document, until [`include`](Self::include) names a part of it: then the included parts, and
/// nothing else. What [`exclude`](Self::exclude) names does not count, inside of an included part either.
/// Pointers are those of [RFC 6901](https://www.rfc-editor.org/rfc/rfc6901):
///
/// - `""` is the whole document, `/a/0` the first element of the array in member `a`. In a name, `~1` stands
///   for `/`, and `~0` for `~`. There is no wildcard.
/// - A pointer that leads nowhere is no error, as long as another one leads somewhere: where nothing of what is
///   included is there, all documents would look alike, and [`JsonError::NothingIncluded`] refuses them. An
///   absent part is another content than a part that is `null`.
/// - The order of the calls makes no difference, nor does a pointer that is named twice. One inside of another
///   included one adds nothing to what counts.
/// - Of an excluded part not even its presence counts. What it stood in does: `{"a":{}}` is not `{}`, whether
///   `/a/b` is excluded or not. A pointer counts elements as they came, excluded ones included.
/// - The selection is part of the bytes. So two selections never give the same for different contents, and a
///   request whose retry comes after a change of the selection is a mismatch.
///
/// The document must be JSON as a whole, without repeated names, with no lone surrogates, and within the
/// limits. Only its numbers are not looked at where they don't count.
///
/// # Numbers
/// RFC 8785 has doubles only: `1`, `1.0` and `1e0` are one number, and `-0` is `0`. That would make one
/// number of 2⁵³ and 2⁵³+1, two accounts or two amounts. So from 2⁵³ (9,007,199,254,740,992) on, a number is
/// refused unless its canonical form is that very number: 2⁵³+2 and `1e30` are taken; 2⁵³+1 is not, however
/// it is written, nor is 2⁶⁰, which RFC 8785 writes as 1152921504606847000. Send larger ids as strings, or
/// exclude them.
///
/// Below, every integer is exact. **Fractions are rounded** to the nearest double: `0.1` and
/// `0.10000000000000001` are one number, and so may be any two that first differ in their 16th digit or
/// later, or are smaller than 1e-307. A [`Value`] holds what its parser made of the text, which may be
/// rounded already: `9007199254740993.0` is 2⁵³ there. Where numbers may be that large, fingerprint the bytes.
///
/// The feature turns on `float_roundtrip` of `serde_json`, for the whole program: without it, numbers are read one
/// step beside what is written now and then.
///
/// # Limits
/// [`MAX_JSON_DEPTH`] levels and 1 MiB, unless set otherwise; numbers 64 KiB. The deepest document needs a
/// stack of 512 KiB in an unoptimised build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanonicalJson {
    include: BTreeSet<Pointer>,
    exclude: BTreeSet<Pointer>,
    max_depth: usize,
    max_len: usize,
}

impl CanonicalJson {
    /// The whole document counts.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            include: BTreeSet::new(),
            exclude: BTreeSet::new(),
            max_depth: MAX_JSON_DEPTH,
            max_len: DEFAULT_MAX_LEN,
        }
    }

    /// Of the document, only what is included counts: this, and what other calls name.
    ///
    /// # Errors
    /// [`JsonSelectionError::MalformedPointer`] if it is no JSON pointer,
    /// [`JsonSelectionError::ExcludedWhole`] if it lies inside of what is excluded.
    pub fn include(mut self, pointer: &str) -> Result<Self, JsonSelectionError> {
        self.include.insert(Pointer::new(pointer)?);
        self.checked()
    }

    /// This does not count, whether it is there or not, and whatever it is.
    ///
    /// # Errors
    /// [`JsonSelectionError::MalformedPointer`] if it is no JSON pointer,
    /// [`JsonSelectionError::ExcludedWhole`] if nothing would be left of the document, or of something that
    /// is included.
    pub fn exclude(mut self, pointer: &str) -> Result<Self, JsonSelectionError> {
        self.exclude.insert(Pointer::new(pointer)?);
        self.checked()
    }

    /// At most so many levels of arrays and objects, instead of [`MAX_JSON_DEPTH`]. More than that counts as
    /// that.
    #[must_use]
    pub const fn with_max_depth(mut self, levels: usize) -> Self {
        self.max_depth = if levels < MAX_JSON_DEPTH { levels } else { MAX_JSON_DEPTH };
        self
    }

    /// At most so many bytes of text, instead of 1 MiB. A [`Value`] has no text, and is taken in any size.
    #[must_use]
    pub const fn with_max_len(mut self, bytes: usize) -> Self {
        self.max_len = bytes;
        self
    }

    /// What counts of `document`, as bytes: to be a [`field`](FingerprintBuilder::field) of a fingerprint
    /// beside others. Without a selection it is the document's canonical form.
    ///
    /// # Errors
    /// [`JsonError`] if it is nested too deep, or has a number that RFC 8785 can't tell from another where it
    /// counts.
    pub fn bytes(&self, document: &Value) -> Result<Vec<u8>, JsonError> {
        self.selected(Node::of(document, Depth::new(self.max_depth))?)
    }

    /// As [`bytes`](Self::bytes), of JSON as it came. Only this form sees members of one name, and numbers
    /// before they are rounded.
    ///
    /// # Errors
    /// [`JsonError`] if it is too long (which is looked at first), nested too deep, no JSON, or if it repeats
    /// a name within an object, or has a number that RFC 8785 can't tell from another where it counts.
    pub fn bytes_of_slice(&self, text: &[u8]) -> Result<Vec<u8>, JsonError> {
        if text.len() > self.max_len {
            return Err(JsonError::TooLong { len: text.len(), max: self.max_len });
        }
        self.selected(text::read(text, Depth::new(self.max_depth))?)
    }

    /// The fingerprint of what counts of `document`.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub fn fingerprint(&self, document: &Value) -> Result<Fingerprint, JsonError> {
        self.bytes(document).map(fingerprint_of)
    }

    /// The fingerprint of what counts of JSON as it came.
    ///
    /// # Errors
    /// As [`bytes_of_slice`](Self::bytes_of_slice).
    pub fn fingerprint_of_slice(&self, text: &[u8]) -> Result<Fingerprint, JsonError> {
        self.bytes_of_slice(text).map(fingerprint_of)
    }

    fn checked(self) -> Result<Self, JsonSelectionError> {
        let is_excluded = |included: &Pointer| self.exclude.iter().any(|excluded| excluded.holds(included));
        if self.included().into_iter().any(is_excluded) {
            return Err(JsonSelectionError::ExcludedWhole);
        }
        Ok(self)
    }

    /// The whole document, if nothing else was named.
    fn included(&self) -> Vec<&Pointer> {
        if self.include.is_empty() { vec![&WHOLE] } else { self.include.iter().collect() }
    }

    fn selected(&self, mut document: Node<'_>) -> Result<Vec<u8>, JsonError> {
        let included = self.included();
        if self.exclude.is_empty() && included.iter().all(|pointer| pointer.is_whole()) {
            document.check_numbers()?;
            return canonical(&document);
        }
        for pointer in &self.exclude {
            document.exclude(pointer.tokens());
        }
        let mut found = BTreeMap::new();
        for pointer in &included {
            if let Some(part) = document.part(pointer.tokens()) {
                part.check_numbers()?;
                found.insert(pointer.as_str(), part);
            }
        }
        if found.is_empty() {
            return Err(JsonError::NothingIncluded);
        }
        let selection = BTreeMap::from([
            ("exclude", self.exclude.iter().map(Pointer::as_str).collect::<Vec<_>>()),
            ("include", included.into_iter().map(Pointer::as_str).collect()),
        ]);
        Ok([canonical(&selection)?, canonical(&found)?].join(&b'\n'))
    }
}

impl Default for CanonicalJson {
    fn default() -> Self {
        Self::new()
    }
}

impl Fingerprint {
    /// Of a JSON document by what it says: order of members, white space and the spelling of numbers make no
    /// difference. [`CanonicalJson`] says it in full, sets limits, and leaves parts out.
    ///
    /// # Errors
    /// As [`CanonicalJson::bytes`]. The store was not asked; the request can't be told from others.
    pub fn of_json(document: &Value) -> Result<Self, JsonError> {
        CanonicalJson::new().fingerprint(document)
    }

    /// As [`of_json`](Self::of_json), of JSON as it came. Prefer it: a [`Value`] doesn't show any more that a
    /// name was repeated or a number rounded.
    ///
    /// ```
    /// use idempotency::Fingerprint;
    ///
    /// let fingerprint = Fingerprint::of_json_slice(br#"{"amount": 500, "currency": "EUR"}"#)?;
    /// assert_eq!(fingerprint, Fingerprint::of_json_slice(br#"{"currency":"EUR","amount":5e2}"#)?);
    /// assert!(Fingerprint::of_json_slice(br#"{"amount": 500, "amount": 1}"#).is_err());
    /// # Ok::<(), idempotency::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`CanonicalJson::bytes_of_slice`]. The store was not asked: the request is the client's mistake.
    pub fn of_json_slice(text: &[u8]) -> Result<Self, JsonError> {
        CanonicalJson::new().fingerprint_of_slice(text)
    }
}

fn fingerprint_of(bytes: Vec<u8>) -> Fingerprint {
    FingerprintBuilder::new(format::JSON).field("json", bytes).finish()
}

fn canonical(value: &impl Serialize) -> Result<Vec<u8>, JsonError> {
    serde_json_canonicalizer::to_vec(value).map_err(|_| JsonError::NotWritten)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex::Hex;

    /// Computed with Python's `hashlib` from the framing in the module's docs, on canonical forms written by
    /// hand.
    #[test]
    fn the_framing_is_fixed_by_vectors() -> Result<(), Box<dyn std::error::Error>> {
        let of = |canonical: &CanonicalJson, text: &str, bytes: &str, digest: &str| {
            assert_eq!(String::from_utf8_lossy(&canonical.bytes_of_slice(text.as_bytes())?), bytes);
            let fingerprint = canonical.fingerprint_of_slice(text.as_bytes())?;
            assert_eq!(fingerprint.format(), 3);
            assert_eq!(Hex(fingerprint.digest()).to_string(), digest, "{bytes}");
            Ok::<_, JsonError>(())
        };
        of(
            &CanonicalJson::new(),
            r#"{ "to": ["a", "b"], "currency": "EUR", "amount": 5e2 }"#,
            r#"{"amount":500,"currency":"EUR","to":["a","b"]}"#,
            "c42f89be3150f4c5b2ab20100994d0e0120161b958eeb66c60f2452c3bd0fc66",
        )?;
        of(
            &CanonicalJson::new().exclude("/metadata/trace_id")?,
            r#"{"amount": 500, "metadata": {"trace_id": 17}}"#,
            concat!(
                r#"{"exclude":["/metadata/trace_id"],"include":[""]}"#,
                "\n",
                r#"{"":{"amount":500,"metadata":{}}}"#
            ),
            "655ce9b26dde601591e94c31f3e50295ca53bd472d81a3bb97e521e6c0f2987d",
        )?;
        of(
            &CanonicalJson::new().include("/to/0")?.include("/currency")?.include("/amount")?,
            r#"{"amount": 500, "currency": null, "to": [], "note": ""}"#,
            concat!(
                r#"{"exclude":[],"include":["/amount","/currency","/to/0"]}"#,
                "\n",
                r#"{"/amount":500,"/currency":null}"#
            ),
            "3f2fc3bca9d2e089e155489aa752a01baece16dce5d6787adedb0cc215421489",
        )?;
        // The pointers in the order of their bytes, the members in that of RFC 8785.
        of(
            &CanonicalJson::new().include("/\u{1f600}")?.include("/\u{e000}")?,
            "{\"\u{e000}\": 1, \"\u{1f600}\": 2}",
            "{\"exclude\":[],\"include\":[\"/\u{e000}\",\"/\u{1f600}\"]}\n{\"/\u{1f600}\":2,\"/\u{e000}\":1}",
            "e31657a5921fcc0a7b86ad0546d2ed77955564dee54e457a91ccdebc7eb03c55",
        )?;
        Ok(())
    }
}
