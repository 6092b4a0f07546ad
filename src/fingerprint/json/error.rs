//! Why a document was refused, or a selection.

use std::fmt;

/// Why a JSON document has no fingerprint. The store was not asked.
///
/// It is the client's mistake: the same text is refused every time. The error says where in the text, in
/// bytes from its start, and never shows anything of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// Longer than allowed. It was not read.
    #[error("JSON of {len} bytes is longer than {max} bytes")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The most it may have.
        max: usize,
    },
    /// More arrays and objects inside one another than allowed.
    #[error("JSON is nested deeper than {max} levels")]
    TooDeep {
        /// The most levels it may have.
        max: usize,
    },
    /// Not UTF-8.
    #[error("JSON that is not UTF-8, at byte {at}")]
    InvalidUtf8 {
        /// The first byte that is none.
        at: usize,
    },
    /// Not JSON by [RFC 8259](https://www.rfc-editor.org/rfc/rfc8259): nothing at all, more than one value, a
    /// byte order mark, …
    #[error("not JSON, at about byte {at}")]
    Syntax {
        /// Where it stops being JSON, give or take a byte.
        at: usize,
    },
    /// Half a surrogate pair: such a string has no UTF-8.
    #[error("a JSON string with a lone surrogate, at byte {at}")]
    LoneSurrogate {
        /// Where the string starts.
        at: usize,
    },
    /// Two members of one object have the same name: readers disagree on which one counts.
    #[error("a JSON object with two members of one name, at byte {at}")]
    DuplicateMember {
        /// Where the second one starts.
        at: usize,
    },
    /// A number of 2⁵³ or more that its canonical form does not give exactly; to be sent as a string.
    #[error("a JSON number of 2^53 or more that its canonical form does not give exactly{}", Place(at))]
    InexactNumber {
        /// Where it starts; nowhere, for a [`Value`](serde_json::Value).
        at: Option<usize>,
    },
    /// A number beyond the largest double.
    #[error("a JSON number beyond the largest double{}", Place(at))]
    NumberOutOfRange {
        /// Where it starts; nowhere, for a [`Value`](serde_json::Value).
        at: Option<usize>,
    },
    /// A number of more digits than allowed. No double needs as many.
    #[error("a JSON number of more than {max} bytes{}", Place(at))]
    NumberTooLong {
        /// Where it starts; nowhere, for a [`Value`](serde_json::Value).
        at: Option<usize>,
        /// The most bytes it may have.
        max: usize,
    },
    /// None of the parts that are included is there, so that all such documents would look alike.
    #[error("JSON without any of the parts that count")]
    NothingIncluded,
    /// The library that writes the canonical form failed. No input is known to cause it.
    #[error("the canonical JSON could not be written")]
    NotWritten,
}

/// Why a selection can't be used: the program's mistake, which shows before there is a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonSelectionError {
    /// A pointer that is none by [RFC 6901](https://www.rfc-editor.org/rfc/rfc6901).
    #[error("malformed JSON pointer: {problem}")]
    MalformedPointer {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The document, or something that is included, is excluded as a whole: all requests would look alike.
    #[error("a selection of JSON that excludes what it includes")]
    ExcludedWhole,
}

struct Place<'a>(&'a Option<usize>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |at| write!(f, ", at byte {at}"))
    }
}
