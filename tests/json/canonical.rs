//! RFC 8785: which texts are one document, and how it is written.

use crate::{assert_apart, assert_one, canonical};
use idempotency::{CanonicalJson, Fingerprint};
use serde_json::{Value, json};

fn bytes_of_value(value: &Value) -> String {
    let bytes = CanonicalJson::new().bytes(value).unwrap_or_else(|error| panic!("{value}: {error}"));
    String::from_utf8(bytes).expect("UTF-8")
}

/// Section 3.2.2 and 3.2.3.
#[test]
fn the_example_of_the_rfc_comes_out_as_it_says() {
    let text = r#"{
        "numbers": [333333333.33333329, 1E30, 4.50,
                    2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"#;
    let expected = concat!(
        r#"{"literals":[null,true,false],"numbers":[333333333.3333333,"#,
        r#"1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#
    );
    assert_eq!(canonical(text), expected);
    assert_one(&[text, expected]);
}

/// Section 3.2.3: U+1F600 is two units of UTF-16, the first of which is less than U+FB33.
#[test]
fn members_are_ordered_by_their_units_of_utf_16() {
    let text = r#"{
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\ud83d\ude00": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis"
    }"#;
    let expected = concat!(
        r#"{"\r":"Carriage Return","1":"One","#,
        "\"\u{80}\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",",
        "\"\u{1f600}\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}"
    );
    assert_eq!(canonical(text), expected);
    // By code points, and so by bytes of UTF-8, it is the other way round.
    assert!("\u{e000}" < "\u{1f600}");
    assert_eq!(canonical(r#"{"\ue000":1,"\ud83d\ude00":2}"#), "{\"\u{1f600}\":2,\"\u{e000}\":1}");
    assert_eq!(bytes_of_value(&json!({"\u{e000}": 1, "\u{1f600}": 2})), "{\"\u{1f600}\":2,\"\u{e000}\":1}");
    // By what a name is, not by how it is escaped; and a beginning comes before what goes on.
    assert_eq!(canonical(r#"{"a\"":1,"a!":2,"a#":3,"a":4,"":5}"#), r#"{"":5,"a":4,"a!":2,"a\"":1,"a#":3}"#);
}

/// Appendix B, without NaN and the infinities, which JSON has no spelling for.
#[test]
fn numbers_are_written_as_appendix_b_says() {
    for (bits, expected) in [
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ] {
        assert_eq!(bytes_of_value(&json!(f64::from_bits(bits))), expected);
        assert_eq!(canonical(expected), expected, "what is canonical stays as it is");
    }
}

#[test]
fn a_number_is_one_however_it_is_written() {
    assert_one(&["1", "1.0", "1e0", "1E+0", "10e-1", "0.1e1", "0.0000000001e10", "1.000000000000000000000"]);
    assert_one(&["0", "-0", "0.0", "-0.0", "0e5", "-0E-5", "0e999999999999999999999999"]);
    assert_one(&["-12.5", "-125e-1", "-0.125E2"]);
    assert_one(&["9007199254740992", "9007199254740992.0", "9007199254740992e0", "9.007199254740992e15"]);
    assert_apart(&["1", "-1", "1.1", "10", "0", "\"1\"", "[1]", "9007199254740991", "9007199254740992"]);
    for value in [json!(1), json!(1_u64), json!(1.0), json!(1_i8), json!(1.0_f32)] {
        assert_eq!(bytes_of_value(&value), "1");
    }
}

/// Fractions are rounded, as `CanonicalJson` says.
#[test]
fn fractions_that_round_to_one_double_are_one_number() {
    assert_one(&["0.1", "0.10000000000000001", "0.1000000000000000055511151231257827"]);
    assert_one(&["0", "1e-400"]);
    assert_apart(&["0.1", "0.10000000000000002", "0.09999999999999999"]);
}

#[test]
fn spacing_order_of_members_and_escapes_make_no_difference() {
    assert_one(&[
        r#"{"a":"é/","b":[1,{"c":"\n","d":null}]}"#,
        "\r\n\t {\"b\" : [ 1 , {\"d\":null ,\"c\":\"\\n\"} ] ,\n\"a\"\t: \"\\u00E9\\/\"} \n",
        r#"{"\u0061":"\u00e9\u002f","\u0062":[1.0,{"c":"\u000a","d":null}]}"#,
    ]);
    assert_one(&[r#""\ud83d\ude00""#, "\"\u{1f600}\"", r#""\uD83D\uDE00""#]);
}

#[test]
fn everything_else_makes_a_difference() {
    assert_apart(&[
        "null",
        "false",
        "true",
        "0",
        "\"\"",
        "[]",
        "{}",
        "\"null\"",
        "\"0\"",
        "[null]",
        "[[]]",
        "[{}]",
        r#"{"":null}"#,
        r#"{"a":null}"#,
        r#"{"A":null}"#,
        r#"{"a":{}}"#,
        r#"{"a":[]}"#,
        r#"{"a":"null"}"#,
        r#"[1,2]"#,
        r#"[2,1]"#,
        r#"[12]"#,
        r#"[1,2,null]"#,
        r#"["1","2"]"#,
        r#"["1,2"]"#,
        r#"[[1],2]"#,
        r#"{"a":1,"b":2}"#,
        r#"{"a":2,"b":1}"#,
        r#"{"a":1}"#,
        r#"{"a":{"b":1}}"#,
        r#"{"b":{"a":1}}"#,
        // No normalisation: composed and decomposed é, and what looks alike.
        "\"é\"",
        "\"e\u{301}\"",
        "\"É\"",
        "\"k\"",
        "\"\u{212a}\"",
        "\" \"",
        "\"\u{a0}\"",
        "\"\\u0000\"",
        "\"\\\\n\"",
        "\"\\n\"",
        "\"\u{feff}\"",
    ]);
}

#[test]
fn json_is_another_format_than_the_same_bytes_and_fields() {
    let text = r#"{"a":1}"#;
    let json = crate::fingerprint(text);
    assert_eq!(json.format(), 3);
    assert_ne!(json, Fingerprint::of_request("", "", None, text));
    assert_ne!(json, Fingerprint::builder().field("json", text).finish());
    assert_eq!(json, Fingerprint::of_json(&json!({"a": 1.0})).expect("a document"));
}
