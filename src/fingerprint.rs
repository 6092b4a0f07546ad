//! What an operation asks for, as a digest: tells a retry from a reused key.
//!
//! # Framing
//! A fingerprint is SHA-256 over one format byte and then, for each part in order:
//!
//! ```text
//! u64 big-endian length of the name  ‖ name
//! u64 big-endian length of the value ‖ SHA-256 of the value
//! ```
//!
//! No two lists of parts give the same input. The value stands in as its own digest so that a stream, whose
//! length is known only at its end, gets the same fingerprint as the same bytes in memory. The tests below
//! fix it by vectors that another program computed.

#[cfg(feature = "json")]
mod json;

#[cfg(feature = "json")]
pub use self::json::{CanonicalJson, JsonError, JsonSelectionError, MAX_JSON_DEPTH};

use crate::hex::Hex;
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::{self, Read};

/// The byte that says how a digest was made. One that stands in a file never changes its meaning.
mod format {
    pub(super) const REQUEST: u8 = 1;
    pub(super) const FIELDS: u8 = 2;
    #[cfg(feature = "json")]
    pub(super) const JSON: u8 = 3;
    pub(super) const BYTES: u8 = 255;
}

/// A digest of what an operation asks for, and the format it was made in. Both are stored and compared.
///
/// The same request must give the same fingerprint in every retry, so leave out what changes between attempts
/// (time stamps, trace ids, signatures). It is a SHA-256 without a secret: who can guess the whole request
/// can check the guess.
///
/// ```
/// use idempotency::Fingerprint;
///
/// let whole = Fingerprint::of_request("POST", "/payments", "", br#"{"amount": 500}"#);
/// let chosen = Fingerprint::builder().field("amount", "500").field("currency", "EUR").finish();
/// assert_ne!(whole, chosen);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    format: u8,
    digest: [u8; 32],
}

impl Fingerprint {
    /// Of a request as its bytes are: other spacing or another order of members is another request.
    ///
    /// `query` is what stands after the `?`: a `&str` or an `Option<&str>`; none and an empty one are the
    /// same.
    #[must_use]
    pub fn of_request<'q>(
        method: &str,
        path: &str,
        query: impl Into<Option<&'q str>>,
        body: impl AsRef<[u8]>,
    ) -> Self {
        FingerprintBuilder::new(format::REQUEST)
            .field("method", method)
            .field("path", path)
            .field("query", query.into().unwrap_or_default())
            .field("body", body)
            .finish()
    }

    /// Of chosen fields, one after the other.
    #[must_use]
    pub fn builder() -> FingerprintBuilder {
        FingerprintBuilder::new(format::FIELDS)
    }

    /// A digest that the caller made. It has a format of its own, so it never equals one made here.
    #[must_use]
    pub const fn from_bytes(digest: [u8; 32]) -> Self {
        Self { format: format::BYTES, digest }
    }

    /// A fingerprint as it was stored, for those who write a backend.
    #[must_use]
    pub const fn from_stored(format: u8, digest: [u8; 32]) -> Self {
        Self { format, digest }
    }

    /// How the digest was made.
    #[must_use]
    pub const fn format(&self) -> u8 {
        self.format
    }

    /// The digest.
    #[must_use]
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.digest;
        write!(f, "Fingerprint({}:{})", self.format, Hex(&[a, b, c, d]))
    }
}

/// Collects the parts of a [`Fingerprint`]. The order counts, and a name may be repeated.
#[derive(Clone)]
pub struct FingerprintBuilder {
    format: u8,
    hasher: Sha256,
}

impl FingerprintBuilder {
    fn new(format: u8) -> Self {
        Self { format, hasher: Sha256::new_with_prefix([format]) }
    }

    /// Adds a part whose bytes are at hand.
    #[must_use]
    pub fn field(mut self, name: &str, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        self.part(name, length(bytes), &Sha256::digest(bytes).into());
        self
    }

    /// Adds a part that is read to its end, without holding it in memory. Gives the same fingerprint as
    /// [`field`](Self::field) with the same bytes.
    ///
    /// # Errors
    /// What `reader` fails with. The fingerprint can't be finished then; what was read from `reader` is gone.
    pub fn reader(mut self, name: &str, mut reader: impl Read) -> io::Result<Self> {
        let mut hasher = Sha256::new();
        let mut len: u64 = 0;
        let mut buffer = [0; 8 * 1024];
        loop {
            let read = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let chunk = buffer.get(..read).ok_or(io::ErrorKind::InvalidData)?;
            hasher.update(chunk);
            len = len.saturating_add(length(chunk));
        }
        self.part(name, len, &hasher.finalize().into());
        Ok(self)
    }

    /// The fingerprint of all parts added.
    #[must_use]
    pub fn finish(self) -> Fingerprint {
        Fingerprint { format: self.format, digest: self.hasher.finalize().into() }
    }

    fn part(&mut self, name: &str, len: u64, digest: &[u8; 32]) {
        self.hasher.update(length(name.as_bytes()).to_be_bytes());
        self.hasher.update(name);
        self.hasher.update(len.to_be_bytes());
        self.hasher.update(digest);
    }
}

impl fmt::Debug for FingerprintBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FingerprintBuilder").field("format", &self.format).finish_non_exhaustive()
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(fingerprint: &Fingerprint) -> String {
        fingerprint.digest().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Computed with Python's `hashlib` from the framing in the module's docs.
    #[test]
    fn the_framing_is_fixed_by_vectors() {
        let request = Fingerprint::of_request("POST", "/payments", "", br#"{"amount": 500}"#);
        assert_eq!(request.format(), 1);
        assert_eq!(hex(&request), "18c998c69322b716d078246c81f11c78fdfbf076e13a9ce4692e8f791fde3ede");

        let fields = Fingerprint::builder().field("amount", "500").field("currency", "EUR").finish();
        assert_eq!(fields.format(), 2);
        assert_eq!(hex(&fields), "4c538906a14982ad466cb2bc2f8eb526f1a53edf4c1a8b90962f5e1fa105e668");

        let nothing = Fingerprint::builder().finish();
        assert_eq!(hex(&nothing), "dbc1b4c900ffe48d575b5da5c638040125f65db0fe3e24494b76ea986457d986");
    }

    #[test]
    fn no_query_and_an_empty_one_are_the_same() {
        let of = |query: Option<&str>| Fingerprint::of_request("GET", "/", query, b"");
        assert_eq!(of(None), of(Some("")));
        assert_ne!(of(None), of(Some("a=1")));
    }

    #[test]
    fn a_reader_gives_what_the_same_bytes_give() -> io::Result<()> {
        /// Gives one byte at a time and is interrupted before each.
        struct Halting<'a>(&'a [u8], bool);
        impl Read for Halting<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.1 = !self.1;
                if self.1 {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                let one = buffer.len().min(1);
                self.0.read(&mut buffer[..one])
            }
        }
        let bytes: Vec<u8> = (0..20_000_u32).flat_map(u32::to_le_bytes).collect();
        let held = Fingerprint::builder().field("file", &bytes).field("tail", "x").finish();
        let streamed = Fingerprint::builder().reader("file", bytes.as_slice())?.field("tail", "x").finish();
        let halting =
            Fingerprint::builder().reader("file", Halting(&bytes, false))?.field("tail", "x").finish();
        assert_eq!(held, streamed);
        assert_eq!(held, halting);
        Ok(())
    }

    #[test]
    fn a_reader_that_fails_gives_no_fingerprint() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
        }
        let failed = Fingerprint::builder().reader("file", Broken).map(FingerprintBuilder::finish);
        assert_eq!(failed.map_err(|error| error.kind()), Err(io::ErrorKind::UnexpectedEof));
    }

    #[test]
    fn order_and_repetition_count() {
        let finish = |parts: &[(&str, &str)]| {
            parts.iter().fold(Fingerprint::builder(), |b, (name, value)| b.field(name, value)).finish()
        };
        let all = [
            finish(&[("a", "1"), ("b", "2")]),
            finish(&[("b", "2"), ("a", "1")]),
            finish(&[("a", "1"), ("b", "2"), ("b", "2")]),
            finish(&[("a1", ""), ("b", "2")]),
            finish(&[("", "a1"), ("b", "2")]),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(all.iter().skip(i + 1).all(|other| one != other), "{i}");
        }
    }

    #[test]
    fn a_digest_of_the_callers_own_never_equals_one_made_here() {
        let made = Fingerprint::builder().field("a", "b").finish();
        assert_ne!(Fingerprint::from_bytes(*made.digest()), made);
        assert_eq!(Fingerprint::from_stored(made.format(), *made.digest()), made);
    }
}
