//! Random documents, and random ways to write each.

use crate::dice::Dice;
use proptest::collection::{btree_map, vec};
use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use serde_json::{Map, Number, Value};

/// Documents with everything that JSON has; every number is one that RFC 8785 can tell from all others.
pub fn documents() -> impl Strategy<Value = Value> {
    tree(prop_oneof![scalars(), numbers()], texts().boxed())
}

/// Documents that are often alike: few names, few values.
pub fn small_documents() -> impl Strategy<Value = Value> {
    let names = prop_oneof![Just("a"), Just("b"), Just("0"), Just("1"), Just("~"), Just("/"), Just("")];
    tree(prop_oneof![Just(Value::Null), (0..3).prop_map(Value::from)], names.prop_map(str::to_owned).boxed())
}

fn tree(
    leaves: impl Strategy<Value = Value> + 'static,
    names: BoxedStrategy<String>,
) -> impl Strategy<Value = Value> {
    leaves.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::Array),
            btree_map(names.clone(), inner, 0..5).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn scalars() -> impl Strategy<Value = Value> {
    prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::Bool), texts().prop_map(Value::String)]
}

fn numbers() -> impl Strategy<Value = Value> {
    let whole = -9_007_199_254_740_992..=9_007_199_254_740_992_i64;
    let double = any::<u64>().prop_map(f64::from_bits).prop_filter("JSON has no others", |f| f.is_finite());
    prop_oneof![
        (-20..20_i64).prop_map(Value::from),
        whole.prop_map(Value::from),
        (-1_000_000..1_000_000_i32).prop_map(|cents| Value::from(f64::from(cents) / 100.0)),
        double.prop_map(Value::from),
    ]
}

fn texts() -> impl Strategy<Value = String> {
    let any_letter = any::<char>();
    let odd =
        ["\"", "\\", "/", "\0", "\n", "\r\t", "\u{8}\u{c}", "\u{7f}", "\u{e000}", "\u{1f600}", "é", "~", ""];
    let piece =
        prop_oneof![(0..odd.len()).prop_map(move |at| odd[at].to_owned()), any_letter.prop_map(String::from)];
    vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

/// Writes `document` in one of the many ways.
pub fn spelt(document: &Value, dice: &mut Dice) -> String {
    let written = match document {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => spelt_number(number, dice),
        Value::String(text) => spelt_text(text, dice),
        Value::Array(elements) => {
            let elements: Vec<String> = elements.iter().map(|element| spelt(element, dice)).collect();
            format!("[{}{}]", elements.join(","), white_space(dice))
        }
        Value::Object(members) => {
            let mut written: Vec<String> = Vec::new();
            for (name, value) in members {
                let name = format!("{}{}{}", white_space(dice), spelt_text(name, dice), white_space(dice));
                written.insert(dice.between(0, written.len()), format!("{name}:{}", spelt(value, dice)));
            }
            format!("{{{}{}}}", written.join(","), white_space(dice))
        }
    };
    format!("{}{written}{}", white_space(dice), white_space(dice))
}

fn white_space(dice: &mut Dice) -> &'static str {
    ["", "", "", " ", "\n", "\t", "\r\n", "  "][dice.between(0, 7)]
}

fn spelt_number(number: &Number, dice: &mut Dice) -> String {
    let plain = number.to_string();
    let double = number.as_f64().expect("a double");
    let Some(whole) = number.as_i64() else {
        let spellings = [plain, format!("{double:e}"), format!("{double:E}"), format!("{double}")];
        return spellings[dice.between(0, 3)].clone();
    };
    match dice.between(0, 6) {
        0 => format!("{whole}.0"),
        1 => format!("{whole}e0"),
        2 => format!("{whole}.000E+00"),
        3 if whole != 0 => format!("{whole}0e-1"),
        4 => format!("{double:e}"),
        5 if whole == 0 => "-0.0".to_owned(),
        _ => plain,
    }
}

fn spelt_text(text: &str, dice: &mut Dice) -> String {
    let letters = text.chars().map(|letter| {
        let mut units = [0; 2];
        let units = letter.encode_utf16(&mut units);
        let short = match letter {
            '"' => Some("\\\""),
            '\\' => Some("\\\\"),
            '/' => Some("\\/"),
            '\u{8}' => Some("\\b"),
            '\u{c}' => Some("\\f"),
            '\n' => Some("\\n"),
            '\r' => Some("\\r"),
            '\t' => Some("\\t"),
            _ => None,
        };
        match (dice.between(0, 3), short) {
            (0, Some(short)) => short.to_owned(),
            (1 | 2, _) if !matches!(letter, '"' | '\\' | '\0'..='\u{1f}') => letter.to_string(),
            (3, _) => units.iter().map(|unit| format!("\\u{unit:04X}")).collect(),
            _ => units.iter().map(|unit| format!("\\u{unit:04x}")).collect(),
        }
    });
    format!("\"{}\"", letters.collect::<String>())
}

/// The pointers of all values in a document, the document's own included.
pub fn pointers(document: &Value) -> Vec<String> {
    let under = |name: &str, value: &Value| {
        let name = name.replace('~', "~0").replace('/', "~1");
        pointers(value).into_iter().map(move |pointer| format!("/{name}{pointer}")).collect::<Vec<_>>()
    };
    let inside: Vec<Vec<String>> = match document {
        Value::Array(elements) => {
            elements.iter().enumerate().map(|(at, value)| under(&at.to_string(), value)).collect()
        }
        Value::Object(members) => members.iter().map(|(name, value)| under(name, value)).collect(),
        _ => Vec::new(),
    };
    [vec![String::new()], inside.concat()].concat()
}

/// Documents that differ from `document` in one place: a leaf, a name, an element more or less, an order.
pub fn changed(document: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    for pointer in pointers(document) {
        let value = document.pointer(&pointer).expect("a pointer of this document");
        for other in changes_of(value) {
            let mut copy = document.clone();
            *copy.pointer_mut(&pointer).expect("the same pointer") = other;
            all.push(copy);
        }
    }
    all
}

fn changes_of(value: &Value) -> Vec<Value> {
    match value {
        Value::Null => vec![Value::Bool(false), "null".into(), Value::Array(vec![])],
        Value::Bool(flag) => vec![Value::Bool(!flag), Value::Null, flag.to_string().into()],
        Value::Number(number) => {
            let double = number.as_f64().expect("a double");
            let next = [double.next_up(), double.next_down()].into_iter().filter(|f| f.is_finite());
            next.map(Value::from).chain([number.to_string().into(), Value::Null]).collect()
        }
        Value::String(text) => vec![format!("{text}x").into(), format!(" {text}").into(), Value::Null],
        Value::Array(elements) => {
            let mut all = vec![Value::Array([elements.as_slice(), &[Value::Null]].concat()), Value::Null];
            for at in 0..elements.len() {
                let mut fewer = elements.clone();
                fewer.remove(at);
                all.push(Value::Array(fewer));
                if elements.get(at + 1).is_some_and(|next| *next != elements[at]) {
                    let mut swapped = elements.clone();
                    swapped.swap(at, at + 1);
                    all.push(Value::Array(swapped));
                }
            }
            all
        }
        Value::Object(members) => {
            let mut all = vec![Value::Null, Value::Array(vec![])];
            for (name, value) in members {
                let mut fewer: Map<String, Value> = members.clone();
                fewer.remove(name);
                all.push(Value::Object(fewer.clone()));
                let renamed = format!("{name}\u{1}renamed");
                fewer.insert(renamed, value.clone());
                all.push(Value::Object(fewer));
            }
            all
        }
    }
}
