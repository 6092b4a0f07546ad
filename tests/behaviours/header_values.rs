//! The `Idempotency-Key` header: an RFC 9651 string with parameters (section 4.2.3), or the bare value that
//! many clients send.

use idempotency::{IdempotencyKey, KeyError};

/// Header value, and the key that it gives.
const TAKEN: &[(&str, &str)] = &[
    // The two forms, and what may stand around them (case 35).
    ("k", "k"),
    (r#""k""#, "k"),
    (r#" "k" "#, "k"),
    ("  k  ", "k"),
    ("\tk\t", "k"),
    ("\t \"k\" \t ", "k"),
    // The examples of the IETF draft, section 2.1, and what clients really send.
    (r#""8e03978e-40d5-43e8-bc93-6894a57f9324""#, "8e03978e-40d5-43e8-bc93-6894a57f9324"),
    ("8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"),
    (r#""clkyoesmbgybucifusbbtdsbohtyuuwz""#, "clkyoesmbgybucifusbbtdsbohtyuuwz"),
    ("KG5LxwFBepaKHyUD", "KG5LxwFBepaKHyUD"),
    // Within quotes everything from space to tilde is itself (RFC 9651, section 3.3.3) …
    (r#"" k ""#, " k "),
    (r#""a b""#, "a b"),
    (r#""a,b;c=d""#, "a,b;c=d"),
    (r#""a, b""#, "a, b"),
    (r#""~!#$%&'()*+-./:<>?@[]^_`{|}""#, "~!#$%&'()*+-./:<>?@[]^_`{|}"),
    // … and two escapes.
    (r#""\"""#, "\""),
    (r#""\\""#, "\\"),
    (r#""a\"b""#, "a\"b"),
    (r#""a\\b""#, r"a\b"),
    (r#""\\\"\\""#, r#"\"\"#),
    (r#""\"k\"""#, r#""k""#),
    // Bare: visible ASCII, in which nothing is an escape.
    (r"a\b", r"a\b"),
    (r"\", r"\"),
    ("~!#$%&'()*+-./:<=>?@[]^_`{|}", "~!#$%&'()*+-./:<=>?@[]^_`{|}"),
    ("'k'", "'k'"),
    ("123", "123"),
    ("?1", "?1"),
    (":aGk=:", ":aGk=:"),
    ("(a)", "(a)"),
    ("a=b", "a=b"),
    // Parameters after a string are ignored (sections 3.1.2 and 4.2.3.2): each kind of bare item, and none.
    (r#""k";a"#, "k"),
    (r#""k"; a"#, "k"),
    (r#""k";   a"#, "k"),
    (r#""k";a=1"#, "k"),
    (r#""k";a=-1"#, "k"),
    (r#""k";a=0042"#, "k"),
    (r#""k";a=999999999999999"#, "k"),
    (r#""k";a=-999999999999.999"#, "k"),
    (r#""k";a=1.5"#, "k"),
    (r#""k";a="""#, "k"),
    (r#""k";a="v""#, "k"),
    (r#""k";a="x;y=\"z\\\", w""#, "k"),
    (r#""k";a=tok"#, "k"),
    (r#""k";a=*tok/en:x!#$%&'*+-.^_`|~"#, "k"),
    (r#""k";a=:aGVsbG8=:"#, "k"),
    (r#""k";a=:+/9:"#, "k"),
    (r#""k";a=::"#, "k"),
    (r#""k";a=?0"#, "k"),
    (r#""k";a=?1"#, "k"),
    (r#""k";a=@1659578233"#, "k"),
    (r#""k";a=@-1"#, "k"),
    (r#""k";a=%"f%c3%bc; x""#, "k"),
    (r#""k";a=%"\""#, "k"),
    (r#""k";a=%"""#, "k"),
    (r#""k";a;b=2;c="3""#, "k"),
    (r#""k";a=1;a=2"#, "k"),
    (r#""k";a=?1;b=:aA==:;c=@1;d=%"x";e=t; f"#, "k"),
    (r#""k";*"#, "k"),
    (r#""k";*a-z_0.9*=1"#, "k"),
    ("\"k\";a=1 \t", "k"),
];

/// Neither a string with parameters nor a bare value.
const MALFORMED: &[&str] = &[
    // Quotes that do not close, or close too early.
    "\"",
    "\"k",
    "k\"",
    "k\"k",
    "\"k\\",
    "\"k\\\"",
    "\"\"\"",
    "\"k\"\"",
    // Escapes that are none.
    r#""\k""#,
    r#""\n""#,
    r#""a\ b""#,
    r#""\u0041""#,
    // What no string may have: controls, DEL, and all beyond ASCII.
    "\"a\tb\"",
    "\"a\0b\"",
    "\"a\nb\"",
    "\"a\r\nb\"",
    "\"\u{7f}\"",
    "\"é\"",
    "\"\u{a0}\"",
    // What no bare value may have.
    "a b",
    "a\tb",
    "a,b",
    "a, b",
    ",",
    "a;b",
    "k;",
    ";",
    "k;a=1",
    "é",
    "k\0",
    "k\u{7f}",
    "\u{1}",
    // Only spaces and tabs are dropped around it.
    "\nk",
    "k\r\n",
    "\u{a0}k",
    "k\u{3000}",
    "\u{feff}k",
    "\u{b}\"k\"",
    // Lists, inner lists, and other bare items in quotes' company.
    r#""k","l""#,
    r#""k", "l""#,
    r#""k" "l""#,
    r#"("k")"#,
    r#"("k" "l")"#,
    r#"k="v""#,
    r#"%"k""#,
    r#"W/"k""#,
    // After the string: only parameters, and they must be some (section 4.2.3.2).
    r#""k"x"#,
    r#""k" x"#,
    r#""k"="v""#,
    r#""k" ;a"#,
    "\"k\"\t;a",
    r#""k";"#,
    r#""k"; "#,
    r#""k";;a"#,
    r#""k";a;"#,
    "\"k\";\ta",
    r#""k";A"#,
    r#""k";1"#,
    r#""k";-a"#,
    r#""k";_a"#,
    r#""k";é"#,
    r#""k";a b"#,
    r#""k";a ;b"#,
    r#""k";a,b"#,
    r#""k";a =1"#,
    r#""k";a= 1"#,
    r#""k";"a""#,
    // A value must be a bare item (section 4.2.3.1), and a whole one.
    r#""k";a="#,
    r#""k";a=;b"#,
    r#""k";a=1,"l""#,
    r#""k";a=1 b"#,
    r#""k";a="x"#,
    r#""k";a="x\""#,
    r#""k";a="\x""#,
    "\"k\";a=\"\u{7f}\"",
    r#""k";a="é""#,
    r#""k";a="x"y"#,
    r#""k";a=-"#,
    r#""k";a=--1"#,
    r#""k";a=+1"#,
    r#""k";a=1."#,
    r#""k";a=.1"#,
    r#""k";a=1.2345"#,
    r#""k";a=1.2.3"#,
    r#""k";a=1234567890123456"#,
    r#""k";a=1234567890123.1"#,
    r#""k";a=1x"#,
    r#""k";a=!tok"#,
    r#""k";a=(1)"#,
    r#""k";a=t{}"#,
    r#""k";a=t=u"#,
    r#""k";a=:aGk="#,
    r#""k";a=:a b:"#,
    r#""k";a=:a-_:"#,
    r#""k";a=?"#,
    r#""k";a=?2"#,
    r#""k";a=?1x"#,
    r#""k";a=@"#,
    r#""k";a=@1.5"#,
    r#""k";a=@x"#,
    r#""k";a=%"x"#,
    r#""k";a=%x"#,
    r#""k";a=%"%""#,
    r#""k";a=%"%C3%BC""#,
    r#""k";a=%"%zz""#,
    r#""k";a=%"%c3""#,
    r#""k";a=%"é""#,
];

#[test]
fn well_formed_headers_give_the_key_they_carry() {
    for (header, wanted) in TAKEN {
        let key = IdempotencyKey::from_header(header);
        assert_eq!(key.as_ref().map(IdempotencyKey::as_str), Ok(*wanted), "{header:?}");
        let named = IdempotencyKey::new(wanted);
        assert_eq!(key, named, "{header:?}: the same key as the one that was made from the value itself");
    }
}

#[test]
fn malformed_headers_are_refused() {
    for header in MALFORMED {
        let refused = IdempotencyKey::from_header(header);
        assert!(matches!(refused, Err(KeyError::MalformedHeader { .. })), "{header:?} gave {refused:?}");
    }
}

/// Case 35: well formed, and no key all the same.
#[test]
fn a_header_is_held_to_the_rules_for_keys() {
    for empty in ["", " ", "  ", "\t", " \t ", "\"\"", " \"\" ", "\"\";a=1"] {
        assert_eq!(IdempotencyKey::from_header(empty), Err(KeyError::Empty), "{empty:?}");
    }
    for white in ["\" \"", "\"   \"", "\t\"  \";a "] {
        assert_eq!(IdempotencyKey::from_header(white), Err(KeyError::OnlyWhiteSpace), "{white:?}");
    }
}

#[test]
fn only_the_key_counts_towards_its_length() {
    let escaped = |quotes: usize| format!("  \"{}\";a=\"{}\"  ", "\\\"".repeat(quotes), "p".repeat(1_000));
    let quoted = |len: usize| format!("\"{}\"", "k".repeat(len));
    let bare = |len: usize| format!("\t{}\t", "k".repeat(len));
    for of in [&escaped as &dyn Fn(usize) -> String, &quoted, &bare] {
        for max in [1, 100, 255] {
            let at =
                |len| IdempotencyKey::from_header_with_max_len(&of(len), max).map(|key| key.as_str().len());
            assert_eq!(at(max), Ok(max));
            assert_eq!(at(max + 1), Err(KeyError::TooLong { len: max + 1, max }));
        }
        assert_eq!(IdempotencyKey::from_header(&of(255)).map(|key| key.as_str().len()), Ok(255));
        let too_long = Err(KeyError::TooLong { len: 256, max: 255 });
        assert_eq!(IdempotencyKey::from_header(&of(256)), too_long);
        assert_eq!(IdempotencyKey::from_header_with_max_len(&of(256), usize::MAX), too_long);
    }
}

/// Every string of one or two ASCII characters, in quotes and bare: taken, or not, as the grammar says, and
/// never something else.
#[test]
fn every_short_value_is_taken_or_refused_as_the_grammar_says() {
    let ascii = || (0..=0x7f_u8).map(char::from);
    let values =
        ascii().map(String::from).chain(ascii().flat_map(|a| ascii().map(move |b| format!("{a}{b}"))));
    let (mut quoted_keys, mut bare_keys) = (0, 0);
    for value in values {
        let quoted = format!("\"{}\"", value.replace('\\', r"\\").replace('"', "\\\""));
        let sendable = value.chars().all(|c| (' '..='~').contains(&c)) && !value.chars().all(|c| c == ' ');
        let key = IdempotencyKey::from_header(&quoted);
        assert_eq!(key.ok().as_ref().map(IdempotencyKey::as_str), sendable.then_some(&*value), "{quoted:?}");
        quoted_keys += usize::from(sendable);

        let inner = value.trim_matches([' ', '\t']);
        let bare =
            !inner.is_empty() && inner.chars().all(|c| ('!'..='~').contains(&c) && !"\",;".contains(c));
        let key = IdempotencyKey::from_header(&value);
        assert_eq!(key.ok().as_ref().map(IdempotencyKey::as_str), bare.then_some(inner), "{value:?}");
        bare_keys += usize::from(bare);
    }
    // 95 characters from space to tilde; 91 of them in a bare value, alone or with a space or tab on one
    // side.
    assert_eq!(quoted_keys, 94 + 95 * 95 - 1);
    assert_eq!(bare_keys, 91 + 91 * 91 + 91 * 4);
}
