//! Reads JSON text. `serde_json` says whether it is JSON, and decodes the strings; taken apart it is here,
//! since a parser that is asked for values does not show how a number was written, and what it makes of one
//! depends on features that any crate of the program may turn on.

use super::tree::{Depth, Node};
use super::{JsonError, number};
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The document of a whole text.
pub(super) fn read(text: &[u8], depth: Depth) -> Result<Node<'_>, JsonError> {
    let text = str::from_utf8(text).map_err(|error| JsonError::InvalidUtf8 { at: error.valid_up_to() })?;
    // This does not recurse. It lets half a surrogate pair through, and nothing else that is no JSON.
    serde_json::from_str::<IgnoredAny>(text)
        .map_err(|error| JsonError::Syntax { at: byte_of(text, &error) })?;
    Reader { text, rest: text }.value(depth)
}

/// About where an error is. Columns are bytes, counted from 1, and 0 for the line feed before.
fn byte_of(text: &str, error: &serde_json::Error) -> usize {
    let lines_before = error.line().saturating_sub(1);
    let line_start: usize = text.split_inclusive('\n').take(lines_before).map(str::len).sum();
    line_start.saturating_add(error.column()).saturating_sub(1)
}

/// What is left of a text that is known to be JSON.
struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn at(&self) -> usize {
        self.text.len().saturating_sub(self.rest.len())
    }

    /// Reads over white space, and over `mark` if that is next.
    fn take(&mut self, mark: &str) -> bool {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
        let after = self.rest.strip_prefix(mark);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn value(&mut self, depth: Depth) -> Result<Node<'a>, JsonError> {
        if self.take("{") {
            self.members(depth.inside()?)
        } else if self.take("[") {
            self.elements(depth.inside()?)
        } else if self.take("null") {
            Ok(Node::Null)
        } else if self.take("true") {
            Ok(Node::Bool(true))
        } else if self.take("false") {
            Ok(Node::Bool(false))
        } else if self.rest.starts_with('"') {
            self.string().map(|value| Node::String(Cow::Owned(value)))
        } else {
            self.number()
        }
    }

    fn members(&mut self, depth: Depth) -> Result<Node<'a>, JsonError> {
        let mut names = BTreeSet::new();
        let mut members = Vec::new();
        while !self.take("}") {
            let at = self.at();
            let name = self.string()?;
            if !names.insert(name.clone()) {
                return Err(JsonError::DuplicateMember { at });
            }
            self.take(":");
            members.push((Cow::Owned(name), self.value(depth)?));
            self.take(",");
        }
        Ok(Node::Object(members))
    }

    fn elements(&mut self, depth: Depth) -> Result<Node<'a>, JsonError> {
        let mut elements = Vec::new();
        while !self.take("]") {
            elements.push(self.value(depth)?);
            self.take(",");
        }
        Ok(Node::Array(elements))
    }

    fn string(&mut self) -> Result<String, JsonError> {
        let error = JsonError::LoneSurrogate { at: self.at() };
        let mut strings = serde_json::Deserializer::from_str(self.rest).into_iter();
        let value = strings.next().and_then(Result::ok).ok_or(error.clone())?;
        self.rest = self.rest.get(strings.byte_offset()..).ok_or(error)?;
        Ok(value)
    }

    fn number(&mut self) -> Result<Node<'a>, JsonError> {
        let at = self.at();
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        match self.rest.split_at_checked(end) {
            // Not in JSON; but whatever it were, reading must come to an end.
            None | Some(("", _)) => Err(JsonError::Syntax { at }),
            Some((text, rest)) => {
                self.rest = rest;
                Ok(Node::Number(number::double(text, Some(at))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CanonicalJson, JsonError};

    fn error(text: &[u8]) -> Option<JsonError> {
        CanonicalJson::new().bytes_of_slice(text).err()
    }

    /// Counted by hand.
    #[test]
    fn an_error_says_which_byte_it_is_about() {
        for (text, expected) in [
            (&b"[\"\xc3\xa9\xff\"]"[..], JsonError::InvalidUtf8 { at: 4 }),
            (b"[\"\xc3\xa9\", \"x\\ud800\"]", JsonError::LoneSurrogate { at: 7 }),
            (b"{\"a\": 1, \"b\": 2, \"\\u0061\": 3}", JsonError::DuplicateMember { at: 17 }),
            (b"[1, 9007199254740993]", JsonError::InexactNumber { at: Some(4) }),
            (b"[ -1e400 ]", JsonError::NumberOutOfRange { at: Some(2) }),
        ] {
            assert_eq!(error(text), Some(expected), "{}", text.escape_ascii());
        }
    }

    /// Counted by hand; the parser is off by one for some errors.
    #[test]
    fn where_a_text_stops_being_json_is_known_to_a_byte() {
        for (text, expected) in [
            (&b""[..], 0),
            (b" \n ", 2),
            (b"[1,", 2),
            (b"[1}", 2),
            (b"[1] 2", 4),
            (b"{\n\"a\": 1,\n}", 10),
            (b"[\"\xc3\xa9\xc3\xa9\", \"\xc3\xa9\x01\"]", 12),
            (b"[\"a\nb\"]", 3),
            (b"\xef\xbb\xbf{}", 0),
        ] {
            let found = match error(text) {
                Some(JsonError::Syntax { at }) => at,
                _ => usize::MAX,
            };
            assert!(found.abs_diff(expected) <= 1, "{found}: {}", text.escape_ascii());
        }
    }
}
