//! Values of the `Idempotency-Key` header, held against a second parser: that one follows the algorithms of RFC 9651,
//! section 4.2, byte by byte.

use super::input::Input;
use super::names::{is_blank, is_name};
use super::reached::Reached;
use idempotency::{IdempotencyKey, KeyError, Scope};

/// The first byte is the longest key that is taken; the others are the header's value.
///
/// # Panics
/// If the crate takes another value than it should, or for another key, or tells a wrong reason for refusing it.
#[must_use]
pub fn run(data: &[u8]) -> Reached {
    let mut input = Input::new(data);
    let max = usize::from(input.next());
    let value = String::from_utf8_lossy(input.take(data.len()));
    let mut reached = Reached::default();

    let taken = IdempotencyKey::from_header_with_max_len(&value, max);
    assert_eq!(told(&taken), expected(&value, max), "{value:?}, at most {max}");
    reached.once(match told(&taken) {
        Told::Key(_) if value.contains('"') => "quoted keys",
        Told::Key(_) => "bare keys",
        Told::Malformed => "malformed",
        Told::Empty => "empty",
        Told::TooLong => "too long",
        Told::OnlyWhiteSpace => "only white space",
        Told::Other => "other",
    });
    assert_eq!(told(&IdempotencyKey::from_header(&value)), expected(&value, 255), "{value:?}");
    if let Ok(key) = taken {
        comes_back(key.as_str(), &mut reached);
        let has_parameters =
            value.trim_end_matches([' ', '\t']).ends_with(|c| c != '"') && value.contains('"');
        reached.times("keys with parameters", usize::from(has_parameters));
    }

    // What is no header is taken as it is, or not at all.
    let name = IdempotencyKey::new(&value);
    assert_eq!(name.is_ok(), is_name(&value), "{value:?}");
    assert_eq!(Scope::new(&value).is_ok(), name.is_ok(), "{value:?}");
    assert!(name.is_err() || name.is_ok_and(|name| name.as_str() == value), "{value:?}");
    reached
}

/// A key that came from a header is the same key in every way of writing it.
fn comes_back(key: &str, reached: &mut Reached) {
    let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
    let is_bare = key.bytes().all(|byte| byte.is_ascii_graphic() && !b"\",;".contains(&byte));
    let ways = [
        format!("\t {quoted} "),
        format!("{quoted};a;b=\"{key_free}\";c=1.5", key_free = "x;y"),
        if is_bare { format!(" {key}\t") } else { quoted },
    ];
    for way in ways {
        let read = IdempotencyKey::from_header(&way);
        assert_eq!(read.as_ref().map(IdempotencyKey::as_str), Ok(key), "{way:?}");
    }
    reached.times("keys that may be bare", usize::from(is_bare));
}

/// An answer, without what is only for people to read.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Key(String),
    Malformed,
    Empty,
    TooLong,
    OnlyWhiteSpace,
    Other,
}

fn told(answer: &Result<IdempotencyKey, KeyError>) -> Told {
    match answer {
        Ok(key) => Told::Key(key.as_str().to_owned()),
        Err(KeyError::MalformedHeader { .. }) => Told::Malformed,
        Err(KeyError::Empty) => Told::Empty,
        Err(KeyError::TooLong { .. }) => Told::TooLong,
        Err(KeyError::OnlyWhiteSpace) => Told::OnlyWhiteSpace,
        Err(_) => Told::Other,
    }
}

fn expected(value: &str, max: usize) -> Told {
    let outside: &[char] = &[' ', '\t'];
    let value = value.trim_start_matches(outside).trim_end_matches(outside);
    let key = if value.starts_with('"') {
        match Parser(value.as_bytes()).item() {
            Some(key) => key,
            None => return Told::Malformed,
        }
    } else {
        // Visible ASCII, but for what would end a value in a list, or begin another form.
        if value
            .bytes()
            .any(|byte| byte <= b' ' || byte >= 0x7f || byte == b'"' || byte == b',' || byte == b';')
        {
            return Told::Malformed;
        }
        value.to_owned()
    };
    match key.len() {
        0 => Told::Empty,
        len if len > max => Told::TooLong,
        _ if is_blank(&key) => Told::OnlyWhiteSpace,
        _ => Told::Key(key),
    }
}

/// The input that is left, as in the RFC.
struct Parser<'a>(&'a [u8]);

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn consume(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn consume_if(&mut self, is_wanted: impl Fn(u8) -> bool) -> Option<u8> {
        self.peek().filter(|byte| is_wanted(*byte))?;
        self.consume()
    }

    /// Section 4.2.3, of a string; nothing may follow.
    fn item(mut self) -> Option<String> {
        let value = self.string()?;
        // Section 4.2.3.2.
        while self.consume_if(|byte| byte == b';').is_some() {
            while self.consume_if(|byte| byte == b' ').is_some() {}
            // Section 4.2.3.3.
            self.consume_if(|byte| byte.is_ascii_lowercase() || byte == b'*')?;
            let goes_on =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte);
            while self.consume_if(goes_on).is_some() {}
            if self.consume_if(|byte| byte == b'=').is_some() {
                self.bare_item()?;
            }
        }
        self.0.is_empty().then_some(value)
    }

    /// Section 4.2.3.1.
    fn bare_item(&mut self) -> Option<()> {
        match self.peek()? {
            b'-' | b'0'..=b'9' => self.number().map(drop),
            b'"' => self.string().map(drop),
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => {
                // Section 4.2.6.
                let goes_on = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte);
                while self.consume_if(goes_on).is_some() {}
                Some(())
            }
            b':' => {
                // Section 4.2.7; whether it decodes need not be told.
                self.consume()?;
                let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
                while self.consume_if(is_base64).is_some() {}
                self.consume_if(|byte| byte == b':').map(drop)
            }
            b'?' => {
                self.consume()?;
                self.consume_if(|byte| byte == b'0' || byte == b'1').map(drop)
            }
            b'@' => {
                self.consume()?;
                self.number().filter(|is_integer| *is_integer).map(drop)
            }
            b'%' => self.display_string(),
            _ => None,
        }
    }

    /// Section 4.2.5.
    fn string(&mut self) -> Option<String> {
        let mut value = String::new();
        self.consume_if(|byte| byte == b'"')?;
        loop {
            let byte = match self.consume()? {
                b'\\' => self.consume_if(|byte| byte == b'"' || byte == b'\\')?,
                b'"' => return Some(value),
                byte @ 0x20..=0x7e => byte,
                _ => return None,
            };
            value.push(char::from(byte));
        }
    }

    /// Section 4.2.4: whether it is an integer.
    fn number(&mut self) -> Option<bool> {
        self.consume_if(|byte| byte == b'-');
        self.peek().filter(u8::is_ascii_digit)?;
        let (mut number, mut is_integer) = (Vec::new(), true);
        while let Some(byte) = self.consume_if(|byte| byte.is_ascii_digit() || (is_integer && byte == b'.')) {
            if byte == b'.' {
                if number.len() > 12 {
                    return None;
                }
                is_integer = false;
            }
            number.push(byte);
            if number.len() > if is_integer { 15 } else { 16 } {
                return None;
            }
        }
        let behind = number.iter().rev().take_while(|byte| **byte != b'.').count();
        (is_integer || (1..=3).contains(&behind)).then_some(is_integer)
    }

    /// Section 4.2.10.
    fn display_string(&mut self) -> Option<()> {
        self.consume()?;
        self.consume_if(|byte| byte == b'"')?;
        let mut decoded = Vec::new();
        loop {
            decoded.push(match self.consume()? {
                b'%' => {
                    let mut octet = 0;
                    for _ in 0..2 {
                        let digit = self.consume()?;
                        octet = octet * 16 + "0123456789abcdef".bytes().position(|known| known == digit)?;
                    }
                    u8::try_from(octet).ok()?
                }
                b'"' => return String::from_utf8(decoded).is_ok().then_some(()),
                byte @ 0x20..=0x7e => byte,
                _ => return None,
            });
        }
    }
}
