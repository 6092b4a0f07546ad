//! What has no fingerprint: every refusal is an error of its own kind, and nothing recurses without a bound.

use crate::{canonical, refusal, refused};
use idempotency::{CanonicalJson, Fingerprint, JsonError, MAX_JSON_DEPTH};
use serde_json::{Map, Value, json};
use std::error::Error as StdError;
use std::thread;

const MANY: usize = 1_000_000;
/// The length that is taken unless another is set.
const MEBIBYTE: usize = 1024 * 1024;

fn slices(levels: usize) -> [String; 3] {
    let nested = |open: &str, inside: &str, close: &str| {
        format!("{}{inside}{}", open.repeat(levels), close.repeat(levels))
    };
    let mixed = "[{\"a\":".repeat(levels / 2) + "1" + &"}]".repeat(levels / 2);
    [nested("[", "", "]"), nested("{\"a\":", "1", "}"), mixed]
}

fn values(levels: usize) -> [Value; 2] {
    let nest = |wrap: fn(Value) -> Value| (0..levels).fold(json!(1), |inner, _| wrap(inner));
    [
        nest(|inner| Value::Array(vec![inner])),
        nest(|inner| Value::Object(Map::from_iter([("a".to_owned(), inner)]))),
    ]
}

/// Dropping a deep value recurses, so it is taken apart.
fn take_apart(mut value: Value) {
    loop {
        value = match value {
            Value::Array(mut elements) => elements.pop().unwrap_or_default(),
            Value::Object(mut members) => members.remove("a").unwrap_or_default(),
            _ => return,
        };
    }
}

#[test]
fn a_million_levels_are_an_error_and_no_stack_overflow() {
    let vast = CanonicalJson::new().with_max_len(usize::MAX).with_max_depth(usize::MAX);
    let too_deep = JsonError::TooDeep { max: MAX_JSON_DEPTH };
    for text in slices(MANY) {
        assert_eq!(refusal(vast.bytes_of_slice(text.as_bytes()), b"deep"), too_deep);
        let unclosed = &text[..text.len() / 2];
        let error = refusal(vast.bytes_of_slice(unclosed.as_bytes()), b"deep and unclosed");
        assert!(matches!(error, JsonError::Syntax { .. }), "{error:?}");
    }
    for value in values(MANY) {
        assert_eq!(refusal(vast.bytes(&value), b"deep"), too_deep);
        assert_eq!(refusal(Fingerprint::of_json(&value), b"deep"), too_deep);
        take_apart(value);
    }
}

/// On half of what Rust gives a thread; optimised code needs a small part of that.
#[test]
fn the_deepest_document_that_is_taken_needs_little_stack() {
    let fingerprints = || {
        let of_slice = |text: String| Fingerprint::of_json_slice(text.as_bytes()).expect("a document");
        let of_value = |value: Value| Fingerprint::of_json(&value).expect("a document");
        let texts = slices(MAX_JSON_DEPTH).map(of_slice);
        let values = values(MAX_JSON_DEPTH).map(of_value);
        assert_eq!(texts[1], values[1]);
    };
    thread::Builder::new().stack_size(MEBIBYTE).spawn(fingerprints).expect("a thread").join().expect("room");
}

#[test]
fn a_level_more_than_allowed_is_refused() {
    for max in [0, 1, 2, 3, MAX_JSON_DEPTH, MAX_JSON_DEPTH + 1, usize::MAX] {
        let canonical = CanonicalJson::new().with_max_depth(max);
        let max = max.min(MAX_JSON_DEPTH);
        let [arrays, objects, _] = slices(max);
        let [nested, named] = values(max);
        assert!(canonical.bytes(&nested).is_ok() && canonical.bytes(&named).is_ok(), "{max}");
        assert!(canonical.bytes_of_slice(objects.as_bytes()).is_ok(), "{max}");
        assert!(max == 0 || canonical.bytes_of_slice(arrays.as_bytes()).is_ok(), "{max}");
        for text in [format!("[{objects}]"), format!("{{\"a\":{objects}}}"), format!("[[],{objects},1]")] {
            let error = refusal(canonical.bytes_of_slice(text.as_bytes()), text.as_bytes());
            assert_eq!(error, JsonError::TooDeep { max });
        }
        for value in values(max + 1) {
            assert_eq!(refusal(canonical.bytes(&value), b"a value"), JsonError::TooDeep { max });
        }
    }
    // What stands side by side is no deeper, nor are brackets in a string.
    let flat = CanonicalJson::new().with_max_depth(2);
    assert!(flat.bytes_of_slice(br#"[[],[],{},{"a":"[[[[{{{{"}]"#).is_ok());
}

#[test]
fn members_of_one_name_are_refused_at_every_depth() {
    for text in [
        r#"{"a":1,"a":2}"#,
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"b":2,"a":{}}"#,
        r#"{"":0,"":0}"#,
        r#"[[[{"x":{"a":1,"a":2}}]]]"#,
        r#"{"x":{"y":{"b":0,"a":1,"a":2}}}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"/":1,"\/":2}"#,
        r#"{"\ud83d\ude00":1,"😀":2}"#,
        r#"{"\u00e9":1,"\u00E9":2}"#,
    ] {
        assert!(matches!(refused(text), JsonError::DuplicateMember { .. }), "{text}");
    }
    for text in
        [r#"{"a":1,"A":2}"#, r#"[{"a":1},{"a":2}]"#, r#"{"a":{"a":{"a":1}}}"#, "{\"é\":1,\"e\u{301}\":2}"]
    {
        assert!(!canonical(text).is_empty());
    }
}

#[test]
fn what_is_no_json_is_refused() {
    for text in [
        "",
        " ",
        "\n",
        "{",
        "[",
        "\"",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "[1",
        "[1,",
        "tru",
        "-",
        "{} {}",
        "1 2",
        "[]]",
        "{}}",
        "null,",
        "1;",
        "{}\0",
        "[]x",
        "\u{feff}{}",
        "{}\u{feff}",
        "\u{a0}{}",
        "[1,]",
        "{\"a\":1,}",
        "[,1]",
        "{,}",
        "[1 2]",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "{a:1}",
        "{1:1}",
        "{null:1}",
        "{\"a\":}",
        "'a'",
        "[1,,2]",
        "[1}",
        "{\"a\":1]",
        "{\"a\"}",
        "[\"a\":1]",
        "01",
        "-01",
        "+1",
        ".5",
        "1.",
        "1.e5",
        "1e",
        "1e+",
        "1ee5",
        "- 1",
        "--1",
        "0x10",
        "1_000",
        "1,000",
        "NaN",
        "Infinity",
        "-Infinity",
        "nan",
        "inf",
        "True",
        "NULL",
        "undefined",
        "nullnull",
        "truefalse",
        "\"\n\"",
        "\"\t\"",
        "\"\0\"",
        "\"\\a\"",
        "\"\\x41\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\\"",
        "\"a\"b\"",
        "// c\n1",
        "/* c */1",
        "1//",
        "#1",
        "\u{2028}1",
        "1\u{b}",
        "\u{c}1",
        "١",
    ] {
        assert!(matches!(refused(text), JsonError::Syntax { .. }), "{text:?}: {:?}", refused(text));
    }
}

#[test]
fn what_is_no_utf_8_is_refused() {
    for text in [
        &b"\"\xff\""[..],
        b"\"\xc3\"",
        b"{\"\xe9\":1}",
        b"[\"\xed\xa0\x80\"]",
        b"\"\xf5\x80\x80\x80\"",
        b"\"\xc0\xaf\"",
        b"\xff\xfe{\0}\0",
        b"1 \x80",
    ] {
        assert!(matches!(refused(text), JsonError::InvalidUtf8 { .. }), "{}", text.escape_ascii());
    }
}

#[test]
fn half_a_surrogate_pair_is_refused_in_values_and_names() {
    for half in [r"\ud83d", r"\uDE00", r"\ud83d\ud83d", r"\ude00\ud83d", r"\ud83dx", r"\ud83d\n", r"\udfff"] {
        for text in [
            format!(r#""{half}""#),
            format!(r#"["a",{{"b":"x{half}y"}}]"#),
            format!(r#"{{"{half}":1}}"#),
            format!(r#"{{"a":1,"b{half}":{{}}}}"#),
        ] {
            assert!(matches!(refused(&text), JsonError::LoneSurrogate { .. }), "{text}");
        }
    }
}

/// Case 37: rounding would make one number of two. 9007199254740993 is 2^53 + 1.
#[test]
fn a_number_that_a_double_can_not_tell_from_another_is_refused_however_it_is_written() {
    for number in [
        "9007199254740993",
        "9007199254740993.0",
        "9007199254740993e0",
        "900719925474099.3e1",
        "90071992547409930e-1",
        "-9007199254740993",
        "9007199254740993.5",
        "18446744073709551615",
        "18446744073709551617",
        "9223372036854775807",
        "-9223372036854775808",
        "123456789012345678901234567890",
    ] {
        for text in [number.to_owned(), format!("[0,{number}]"), format!(r#"{{"a":[{{"b":{number} }}]}}"#)] {
            assert!(matches!(refused(&text), JsonError::InexactNumber { at: Some(_) }), "{text}");
        }
    }
    for value in [json!(9_007_199_254_740_993_u64), json!(u64::MAX), json!(i64::MAX), json!(i64::MIN)] {
        let error = refusal(Fingerprint::of_json(&json!([{ "a": value }])), b"a value");
        assert_eq!(error, JsonError::InexactNumber { at: None });
    }
    for exact in ["9007199254740992", "-9007199254740992", "9007199254740994", "18014398509481984"] {
        assert_eq!(canonical(exact), exact);
        let value: Value = serde_json::from_str(exact).expect("a number");
        assert_eq!(Fingerprint::of_json(&value), Fingerprint::of_json_slice(exact.as_bytes()));
    }
}

#[test]
fn a_number_beyond_the_largest_double_is_refused() {
    for number in ["1e400", "-1e400", "1e309", "1.8e308", "1e99999999999999999999", "[0,-2E+308]"] {
        assert!(matches!(refused(number), JsonError::NumberOutOfRange { at: Some(_) }), "{number}");
    }
    assert_eq!(canonical("1.7976931348623157e308"), "1.7976931348623157e+308");
}

#[test]
fn the_length_is_looked_at_before_anything_else() {
    let short = CanonicalJson::new().with_max_len(4);
    assert!(short.bytes_of_slice(b"[1 ]").is_ok());
    for text in [&b"[1, "[..], b"[[[[", b"\xff\xff\xff\xff", b"    "] {
        assert_ne!(refusal(short.bytes_of_slice(text), text), JsonError::TooLong { len: 4, max: 4 });
        let longer = [text, b"]"].concat();
        let error = refusal(short.bytes_of_slice(&longer), &longer);
        assert_eq!(error, JsonError::TooLong { len: 5, max: 4 });
    }
    let padded = |len: usize| "1".to_owned() + &" ".repeat(len - 1);
    assert_eq!(canonical(&padded(MEBIBYTE)), "1");
    let error = refused(padded(MEBIBYTE + 1));
    assert_eq!(error, JsonError::TooLong { len: MEBIBYTE + 1, max: MEBIBYTE });
}

#[test]
fn many_small_values_come_out_whole() {
    for element in ["0", "-1.5", "\"\"", "\"\\n\"", "{}", "[]", "{\"\":0}", "null", "true", "false"] {
        let text = format!("[{}]", vec![element; 10_000].join(","));
        assert_eq!(canonical(&text), text);
    }
    let members: Vec<String> = (10_000..20_000).map(|name| format!("\"{name}\":0")).collect();
    let text = format!("{{{}}}", members.join(","));
    assert_eq!(canonical(&text), text);
}

#[test]
fn an_error_shows_nothing_of_the_text() {
    const SECRET: &str = "card-4111111111111111";
    let texts = [
        format!(r#"{{"{SECRET}":1,"{SECRET}":2}}"#),
        format!(r#"{{"a":"{SECRET}\ud800"}}"#),
        format!(r#"{{"a":"{SECRET}" b}}"#),
        format!(r#"["{SECRET}", 41111111111111111111]"#),
        format!(r#"["{SECRET}", 4111e4111]"#),
        format!(r#"{}"{SECRET}"{}"#, "[".repeat(200), "]".repeat(200)),
        SECRET.to_owned(),
        format!("\"{SECRET}"),
        SECRET.repeat(100_000),
    ];
    let mut errors: Vec<JsonError> = texts.iter().map(refused).collect();
    errors.push(refusal(Fingerprint::of_json(&json!({ SECRET: 4_111_111_111_111_111_111_u64 })), b"a value"));
    errors.push(refusal(Fingerprint::of_json_slice(&[SECRET.as_bytes(), b"\xff"].concat()), b"no UTF-8"));
    for error in errors {
        assert!(error.source().is_none(), "{error:?}");
        for shown in
            [error.to_string(), format!("{error:?}"), format!("{:?}", idempotency::Error::from(error))]
        {
            assert!(!shown.contains("card") && !shown.contains("4111"), "{shown}");
        }
    }
}
