//! JSON as text: what a text says before it is parsed, and a second writer of RFC 8785.

use super::input::Input;
use serde_json::Value;

/// How deep a text's brackets go, and how many members its objects have, with repeated names. Of a text that is JSON.
#[derive(Default)]
pub struct Outline {
    pub depth: usize,
    pub members: usize,
}

impl Outline {
    pub fn of(text: &[u8]) -> Self {
        let mut outline = Self::default();
        let (mut depth, mut is_in_string) = (0_usize, false);
        let mut bytes = text.iter();
        while let Some(byte) = bytes.next() {
            match byte {
                b'\\' if is_in_string => drop(bytes.next()),
                b'"' => is_in_string = !is_in_string,
                _ if is_in_string => {}
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.saturating_sub(1),
                b':' => outline.members += 1,
                _ => {}
            }
            outline.depth = outline.depth.max(depth);
        }
        outline
    }
}

/// How many members the objects of a value have.
pub fn members(value: &Value) -> usize {
    match value {
        Value::Array(elements) => elements.iter().map(members).sum(),
        Value::Object(object) => object.len() + object.values().map(members).sum::<usize>(),
        _ => 0,
    }
}

/// Equal, with all numbers as doubles.
pub fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let is_in = |(name, value): (&String, &Value)| other.get(name).is_some_and(|o| is_same(value, o));
            one.len() == other.len() && one.iter().all(is_in)
        }
        _ => one == other,
    }
}

/// The numbers of a value, as doubles.
pub fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Number(number) => vec![number.as_f64().expect("a double")],
        Value::Array(elements) => elements.iter().flat_map(numbers).collect(),
        Value::Object(object) => object.values().flat_map(numbers).collect(),
        _ => Vec::new(),
    }
}

/// Whether every integer of a value is the very number that its canonical form says. The parser holds them exactly.
pub fn integers_are_exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            number.is_f64() || canonical_number(number.as_f64().expect("a double")) == number.to_string()
        }
        Value::Array(elements) => elements.iter().all(integers_are_exact),
        Value::Object(object) => object.values().all(integers_are_exact),
        _ => true,
    }
}

/// The canonical form, by RFC 8785, section 3.2.
pub fn canonical(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) => value.to_string(),
        Value::Number(number) => canonical_number(number.as_f64().expect("a double")),
        Value::String(text) => canonical_string(text),
        Value::Array(elements) => {
            format!("[{}]", elements.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        Value::Object(object) => {
            let mut members: Vec<_> = object.iter().collect();
            members.sort_by_key(|(name, _)| name.encode_utf16().collect::<Vec<_>>());
            let member =
                |(name, value): (&String, &Value)| format!("{}:{}", canonical_string(name), canonical(value));
            format!("{{{}}}", members.into_iter().map(member).collect::<Vec<_>>().join(","))
        }
    }
}

/// ECMAScript's `Number::toString` (ECMA-262, section 6.1.6.1.20).
fn canonical_number(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let (digits, exponent) = scientific(&format!("{:e}", number.abs()));
    let digits = even_of_a_tie(number.abs(), &digits, exponent);
    let point = exponent + 1;
    let len = i32::try_from(digits.len()).expect("few digits");
    let zeros = |count: i32| "0".repeat(usize::try_from(count).expect("a number of zeros"));
    let size = match point {
        _ if len <= point && point <= 21 => format!("{digits}{}", zeros(point - len)),
        1..=21 => {
            let (whole, fraction) = digits.split_at(usize::try_from(point).expect("a place"));
            format!("{whole}.{fraction}")
        }
        -5..=0 => format!("0.{}{digits}", zeros(-point)),
        _ => {
            let (first, others) = digits.split_at(1);
            let point_and_others = if others.is_empty() { String::new() } else { format!(".{others}") };
            format!("{first}{point_and_others}e{:+}", point - 1)
        }
    };
    if number < 0.0 { format!("-{size}") } else { size }
}

/// Digits and exponent of a number in scientific notation.
fn scientific(number: &str) -> (String, i32) {
    let (mantissa, exponent) = number.split_once('e').expect("an exponent");
    (mantissa.replace('.', ""), exponent.parse().expect("an exponent"))
}

/// Of two shortest digits that are equally near to a number, ECMAScript takes the even ones, and Rust the larger.
fn even_of_a_tie(number: f64, digits: &str, exponent: i32) -> String {
    // Up to 767 digits are exact.
    let (exact, _) = scientific(&format!("{number:.800e}"));
    let smaller =
        exact.trim_end_matches('0').strip_suffix('5').filter(|smaller| smaller.len() == digits.len());
    let is_even = |digits: &&str| digits.ends_with(['0', '2', '4', '6', '8']);
    let is_the_number = |digits: &&str| {
        let power = exponent + 1 - i32::try_from(digits.len()).expect("few digits");
        format!("{digits}e{power}").parse() == Ok(number)
    };
    smaller.filter(is_even).filter(is_the_number).unwrap_or(digits).to_owned()
}

fn canonical_string(text: &str) -> String {
    let escaped = |c: char| match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\u{8}' => "\\b".to_owned(),
        '\t' => "\\t".to_owned(),
        '\n' => "\\n".to_owned(),
        '\u{c}' => "\\f".to_owned(),
        '\r' => "\\r".to_owned(),
        '\0'..='\u{1f}' => format!("\\u{:04x}", u32::from(c)),
        _ => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

/// The same document, written in another way: members in the other order, white space, escapes, exponents.
pub fn respelt(value: &Value, choices: &mut Input<'_>) -> String {
    let space = [" ", "", "\n\t", "\r"][choices.below(4)];
    match value {
        Value::Null | Value::Bool(_) => format!("{space}{value}"),
        Value::Number(number) => {
            let number = number.as_f64().expect("a double");
            match choices.below(3) {
                0 => format!("{number:e}"),
                1 => format!("{number:E}").replace('E', "E+0").replace("E+0-", "E-0"),
                _ => format!("{number}"),
            }
        }
        Value::String(text) => respelt_string(text, choices),
        Value::Array(elements) => {
            let elements: Vec<_> = elements.iter().map(|element| respelt(element, choices)).collect();
            format!("[{space}{}{space}]", elements.join(","))
        }
        Value::Object(object) => {
            let mut members: Vec<_> = object.iter().collect();
            members.reverse();
            let first = choices.below(members.len().max(1));
            members.rotate_left(first);
            let member = |(name, value): (&String, &Value)| {
                format!("{}{space}:{}", respelt_string(name, choices), respelt(value, choices))
            };
            format!("{{{space}{}{space}}}", members.into_iter().map(member).collect::<Vec<_>>().join(","))
        }
    }
}

fn respelt_string(text: &str, choices: &mut Input<'_>) -> String {
    let mut spelt = String::from("\"");
    for c in text.chars() {
        if choices.below(4) == 0 || c.is_ascii_control() || matches!(c, '"' | '\\') {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| spelt.push_str(&format!("\\u{unit:04X}")));
        } else {
            spelt.push(c);
        }
    }
    spelt + "\""
}
