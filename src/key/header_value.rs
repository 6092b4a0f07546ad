//! RFC 9651 (structured field values), as far as an `Idempotency-Key` header needs it: a string, with
//! parameters after it.
//!
//! The parameters carry nothing for a key. They are read all the same, since a field of which any part fails
//! to parse is no structured field at all (section 4.2), and half of somebody's value must not become a key.

/// The string of which `quoted` is all that follows the opening quote, if only parameters follow the closing
/// one; else what is wrong.
pub(super) fn string_item(quoted: &str) -> Result<String, &'static str> {
    let (value, rest) = string(quoted)?;
    parameters(rest).ok_or("something other than parameters after the closing quote")?;
    Ok(value)
}

/// A string after its opening quote (section 4.2.5), and what follows its closing one.
fn string(quoted: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next() {
            Some('"') => return Ok((value, chars.as_str())),
            Some('\\') => match chars.next() {
                Some(escaped @ ('"' | '\\')) => value.push(escaped),
                _ => return Err("a backslash before something other than a quote or a backslash"),
            },
            Some(c @ ' '..='~') => value.push(c),
            Some(_) => return Err("a character that a quoted key can't have"),
            None => return Err("no closing quote"),
        }
    }
}

/// Reads over parameters to the end (section 4.2.3.2): `;name` or `;name=value`.
fn parameters(mut rest: &str) -> Option<()> {
    while !rest.is_empty() {
        let name = rest.strip_prefix(';')?.trim_start_matches(' ');
        name.strip_prefix(|c: char| c.is_ascii_lowercase() || c == '*')?;
        let after = name.trim_start_matches(|c: char| {
            c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '.' | '*')
        });
        rest = match after.strip_prefix('=') {
            Some(value) => after_bare_item(value)?,
            None => after,
        };
    }
    Some(())
}

/// What follows a bare item, whichever it is (section 4.2.3.1).
fn after_bare_item(value: &str) -> Option<&str> {
    let mut chars = value.chars();
    let first = chars.next()?;
    let inside = chars.as_str();
    match first {
        '"' => string(inside).ok().map(|(_, after)| after),
        '%' => after_display_string(inside.strip_prefix('"')?),
        ':' => {
            let (encoded, after) = inside.split_once(':')?;
            let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
            encoded.chars().all(is_base64).then_some(after)
        }
        '?' => inside.strip_prefix(['0', '1']),
        '@' => after_digits(unsigned(inside), 15),
        '-' | '0'..='9' => after_number(unsigned(value)),
        'a'..='z' | 'A'..='Z' | '*' => Some(inside.trim_start_matches(is_token_character)),
        _ => None,
    }
}

fn unsigned(number: &str) -> &str {
    number.strip_prefix('-').unwrap_or(number)
}

/// An integer of up to 15 digits, or a decimal of up to 12 before and 3 behind the point (section 4.2.4).
fn after_number(number: &str) -> Option<&str> {
    match after_digits(number, 12).and_then(|after| after.strip_prefix('.')) {
        Some(fraction) => after_digits(fraction, 3),
        None => after_digits(number, 15),
    }
}

fn after_digits(number: &str, max: usize) -> Option<&str> {
    let after = number.trim_start_matches(|c: char| c.is_ascii_digit());
    let count = number.len().saturating_sub(after.len());
    (1..=max).contains(&count).then_some(after)
}

/// Section 4.2.10: percent-encoded UTF-8, in which a backslash is itself.
fn after_display_string(quoted: &str) -> Option<&str> {
    let (inside, after) = quoted.split_once('"')?;
    let mut decoded = Vec::with_capacity(inside.len());
    let mut bytes = inside.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => (lower_hex(bytes.next()?)? << 4) | lower_hex(bytes.next()?)?,
            b' '..=b'~' => byte,
            _ => return None,
        });
    }
    str::from_utf8(&decoded).is_ok().then_some(after)
}

fn lower_hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit.wrapping_sub(b'0')),
        b'a'..=b'f' => Some(digit.wrapping_sub(b'a').wrapping_add(10)),
        _ => None,
    }
}

/// Section 3.3.4, with `tchar` of RFC 9110, section 5.6.2.
fn is_token_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~:/".contains(c)
}
