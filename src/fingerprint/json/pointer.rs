//! JSON pointers (RFC 6901).

use super::JsonSelectionError;

/// A pointer, as it was written and taken apart. There is one way only to write each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pointer {
    text: String,
    tokens: Vec<String>,
}

/// The pointer of the document itself.
pub(super) static WHOLE: Pointer = Pointer { text: String::new(), tokens: Vec::new() };

impl Pointer {
    pub(super) fn new(text: &str) -> Result<Self, JsonSelectionError> {
        let tokens = match text.strip_prefix('/') {
            Some(tokens) => tokens.split('/').map(unescaped).collect::<Result<_, _>>(),
            None if text.is_empty() => Ok(Vec::new()),
            None => Err("it must be empty or begin with a slash"),
        };
        let tokens = tokens.map_err(|problem| JsonSelectionError::MalformedPointer { problem })?;
        Ok(Self { text: text.to_owned(), tokens })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn tokens(&self) -> &[String] {
        &self.tokens
    }

    pub(super) fn is_whole(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Whether `other` is this part of the document, or inside of it.
    pub(super) fn holds(&self, other: &Self) -> bool {
        other.tokens.starts_with(&self.tokens)
    }
}

fn unescaped(token: &str) -> Result<String, &'static str> {
    if token.split('~').skip(1).any(|escaped| !escaped.starts_with(['0', '1'])) {
        return Err("a tilde must be followed by 0 or 1");
    }
    // In this order, or `~01` would become a slash (section 4).
    Ok(token.replace("~1", "/").replace("~0", "~"))
}

/// Which element of an array a token names, if it can name one.
pub(super) fn index(token: &str) -> Option<usize> {
    let is_index = token == "0" || token.starts_with(|c: char| matches!(c, '1'..='9'));
    token.parse().ok().filter(|_| is_index)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 6901, section 5, and others.
    #[test]
    fn a_pointer_is_taken_apart_as_rfc_6901_says() -> Result<(), JsonSelectionError> {
        for (text, tokens) in [
            ("", vec![]),
            ("/foo", vec!["foo"]),
            ("/foo/0", vec!["foo", "0"]),
            ("/", vec![""]),
            ("/a~1b", vec!["a/b"]),
            ("/c%d", vec!["c%d"]),
            ("/i\\j", vec!["i\\j"]),
            ("/k\"l", vec!["k\"l"]),
            ("/ ", vec![" "]),
            ("/m~0n", vec!["m~n"]),
            ("/~01/~10/~0~1", vec!["~1", "/0", "~/"]),
            ("//a/", vec!["", "a", ""]),
        ] {
            assert_eq!(Pointer::new(text)?.tokens(), tokens, "{text}");
        }
        Ok(())
    }

    #[test]
    fn what_is_no_pointer_is_refused() {
        for text in ["a", " /a", "#/a", "0", "~0", "/~", "/a~", "/~2", "/~~0", "/a/~/b"] {
            let refused = Pointer::new(text);
            assert!(
                matches!(refused, Err(JsonSelectionError::MalformedPointer { .. })),
                "{text}: {refused:?}"
            );
        }
    }

    #[test]
    fn an_index_has_digits_only_and_no_leading_zero() {
        for (token, expected) in [("0", Some(0)), ("1", Some(1)), ("10", Some(10)), ("907", Some(907))] {
            assert_eq!(index(token), expected, "{token}");
        }
        for token in
            ["", "-", "00", "01", "+1", "-1", "1 ", "1e0", "1.0", "a", "99999999999999999999999", "\u{661}"]
        {
            assert_eq!(index(token), None, "{token}");
        }
    }

    #[test]
    fn a_part_holds_what_is_inside_of_it_and_not_what_only_begins_alike() -> Result<(), JsonSelectionError> {
        let holds = |outer: &str, inner: &str| Ok(Pointer::new(outer)?.holds(&Pointer::new(inner)?));
        for (outer, inner) in [("", ""), ("", "/a"), ("/a", "/a"), ("/a", "/a/b"), ("/a", "/a/")] {
            assert!(holds(outer, inner)?, "{outer}, {inner}");
        }
        for (outer, inner) in [("/a", ""), ("/a", "/ab"), ("/a/b", "/a"), ("/", "/a"), ("/a", "/a~1b")] {
            assert!(!holds(outer, inner)?, "{outer}, {inner}");
        }
        Ok(())
    }
}
