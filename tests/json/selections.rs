//! What counts of a document: include and exclude, by JSON pointer (RFC 6901).

use crate::{bytes, canonical, refusal};
use idempotency::{CanonicalJson, Fingerprint, JsonError, JsonSelectionError};

fn selection(include: &[&str], exclude: &[&str]) -> CanonicalJson {
    let included = include.iter().try_fold(CanonicalJson::new(), |made, pointer| made.include(pointer));
    let both = exclude.iter().try_fold(included.expect("includes"), |made, pointer| made.exclude(pointer));
    both.expect("a selection")
}

/// What is left, without the line that says what was selected.
#[track_caller]
fn left(selection: &CanonicalJson, text: &str) -> String {
    let bytes = bytes(selection, text);
    let (_, left) = bytes.split_once('\n').expect("two lines");
    assert_eq!(canonical(left), left, "canonical itself");
    left.to_owned()
}

#[test]
fn of_a_document_that_is_not_selected_from_the_bytes_are_its_canonical_form() {
    let text = r#"{"b": [1.0], "a": null}"#;
    let whole = CanonicalJson::new();
    assert_eq!(bytes(&whole, text), r#"{"a":null,"b":[1]}"#);
    assert_eq!(whole, CanonicalJson::default());
    assert_eq!(bytes(&selection(&[""], &[]), text), bytes(&whole, text), "the pointer of the whole document");
}

#[test]
fn only_what_is_included_counts() {
    let amounts = selection(&["/amount", "/to/account"], &[]);
    let text = r#"{"amount": 5, "to": {"account": "a", "name": "A"}, "sent_at": 1}"#;
    assert_eq!(left(&amounts, text), r#"{"/amount":5,"/to/account":"a"}"#);
    let retry = r#"{"to": {"account": "a"}, "amount": 5.0, "sent_at": 2, "note": "n"}"#;
    assert_eq!(bytes(&amounts, text), bytes(&amounts, retry));
    let other = r#"{"amount": 5, "to": {"account": "b", "name": "A"}, "sent_at": 1}"#;
    assert_ne!(bytes(&amounts, text), bytes(&amounts, other));
}

#[test]
fn what_is_excluded_does_not_count_and_what_it_stood_in_does() {
    let untraced = selection(&[], &["/metadata/trace_id"]);
    let same = [
        r#"{"amount":5,"metadata":{"trace_id":"a"}}"#,
        r#"{"amount":5,"metadata":{"trace_id":null}}"#,
        r#"{"amount":5,"metadata":{"trace_id":{"metadata":{"trace_id":[]}}}}"#,
        r#"{"amount":5,"metadata":{}}"#,
    ];
    for text in same {
        assert_eq!(left(&untraced, text), r#"{"":{"amount":5,"metadata":{}}}"#);
    }
    for other in [
        r#"{"amount":5}"#,
        r#"{"amount":5,"metadata":null}"#,
        r#"{"amount":5,"metadata":[]}"#,
        r#"{"amount":5,"metadata":{"trace_ID":"a"}}"#,
        r#"{"amount":5,"metadata":{},"trace_id":"a"}"#,
        r#"{"amount":5,"metadata":{"inner":{"trace_id":"a"}}}"#,
    ] {
        assert_ne!(bytes(&untraced, same[0]), bytes(&untraced, other), "{other}");
    }
}

#[test]
fn what_is_excluded_of_what_is_included_does_not_count() {
    let both = selection(&["/order", "/customer"], &["/order/note", "/elsewhere"]);
    let text = r#"{"order":{"id":1,"note":"x"},"customer":2,"elsewhere":3,"other":4}"#;
    assert_eq!(left(&both, text), r#"{"/customer":2,"/order":{"id":1}}"#);
}

#[test]
fn absent_and_null_are_two_things() {
    let amount = selection(&["/a/amount", "/a/currency"], &[]);
    let texts = [
        (r#"{"a":{"amount":5,"currency":null}}"#, r#"{"/a/amount":5,"/a/currency":null}"#),
        (r#"{"a":{"amount":5}}"#, r#"{"/a/amount":5}"#),
        (r#"{"a":{"currency":null}}"#, r#"{"/a/currency":null}"#),
    ];
    for (text, expected) in texts {
        assert_eq!(left(&amount, text), expected);
    }
    // What leads nowhere leads nowhere, whatever stopped it.
    for text in [r#"{"a":{}}"#, r#"{"a":null}"#, r#"{"a":"amount"}"#, r#"{"a":[5]}"#, "{}", "[]", "7", "null"]
    {
        assert_eq!(amount.bytes_of_slice(text.as_bytes()), Err(JsonError::NothingIncluded), "{text}");
    }
}

#[test]
fn a_pointer_counts_the_elements_of_an_array_as_they_came() {
    let text = r#"["zero","one","two","three","four","five","six","seven","eight","nine","ten"]"#;
    let some = selection(&["/10", "/2", "/11", "/-", "/02", "/+2", "/2.0", "/99999999999999999999"], &[]);
    assert_eq!(left(&some, text), r#"{"/10":"ten","/2":"two"}"#);
    let others = selection(&[], &["/0", "/1", "/10", "/3", "/4", "/5", "/6", "/7", "/-", "/08"]);
    assert_eq!(left(&others, text), r#"{"":["two","eight","nine"]}"#);
    let third = selection(&["/2"], &["/0", "/1", "/2/secret"]);
    assert_eq!(left(&third, r#"[1,2,{"secret":3,"open":4}]"#), r#"{"/2":{"open":4}}"#);
    // A name that looks like an index, or that could not be one.
    assert_eq!(left(&some, r#"{"2":"a","02":"b","-":"c"}"#), r#"{"/-":"c","/02":"b","/2":"a"}"#);
}

#[test]
fn names_with_slashes_and_tildes_can_be_pointed_at() {
    let text = r#"{"a/b":1,"m~n":2,"~1":3,"":{"":4}," ":5,"a":{"b":6},"é\n":7,"/":8,"~0":9}"#;
    for (pointer, expected) in [
        ("/a~1b", "1"),
        ("/m~0n", "2"),
        ("/~01", "3"),
        ("//", "4"),
        ("/", r#"{"":4}"#),
        ("/ ", "5"),
        ("/a/b", "6"),
        ("/é\n", "7"),
        ("/~1", "8"),
        ("/~00", "9"),
    ] {
        let name = serde_json::to_string(pointer).expect("a string");
        assert_eq!(left(&selection(&[pointer], &[]), text), format!("{{{name}:{expected}}}"));
    }
    assert_eq!(left(&selection(&[], &["/a~1b", "/m~0n", "/a", "/", "/é\n", "/~1"]), text), {
        r#"{"":{" ":5,"~0":9,"~1":3}}"#
    });
}

#[test]
fn order_and_repetition_of_the_calls_make_no_difference() {
    let one = selection(&["/a", "/b/c"], &["/b/c/d", "/a/e"]);
    let same = selection(&["/b/c", "/a", "/a", "/b/c"], &["/a/e", "/b/c/d", "/a/e"]);
    let text = r#"{"a":{"e":1,"f":2},"b":{"c":{"d":3}}}"#;
    assert_eq!(one, same);
    assert_eq!(bytes(&one, text), bytes(&same, text));
    let mixed = CanonicalJson::new().exclude("/a/e").and_then(|made| made.include("/b/c")?.exclude("/b/c/d"));
    assert_eq!(mixed.and_then(|made| made.include("/a")), Ok(one));
}

#[test]
fn what_is_included_inside_of_what_is_included_changes_no_comparison() {
    let nested = selection(&["/a", "/a/b"], &[]);
    assert_eq!(left(&nested, r#"{"a":{"b":1,"c":2}}"#), r#"{"/a":{"b":1,"c":2},"/a/b":1}"#);
    assert_ne!(bytes(&nested, r#"{"a":{"b":1,"c":2}}"#), bytes(&nested, r#"{"a":{"b":1,"c":3}}"#));
}

#[test]
fn a_selection_that_leaves_nothing_is_refused() {
    let new = CanonicalJson::new;
    let refused = [
        new().exclude(""),
        new().include("").and_then(|made| made.exclude("")),
        new().include("/a").and_then(|made| made.exclude("/a")),
        new().exclude("/a").and_then(|made| made.include("/a")),
        new().include("/a/b").and_then(|made| made.exclude("/a")),
        new().exclude("/a").and_then(|made| made.include("/a/b")),
        new().include("/a").and_then(|made| made.include("/b")?.exclude("/b")),
        new().include("").and_then(|made| made.include("/a/b")?.exclude("/a")),
    ];
    for (at, refused) in refused.into_iter().enumerate() {
        assert_eq!(refused, Err(JsonSelectionError::ExcludedWhole), "{at}");
    }
    assert!(new().include("/ab").and_then(|made| made.exclude("/a")?.exclude("/ab/c")).is_ok());
}

#[test]
fn a_malformed_pointer_is_refused_before_there_is_a_document() {
    for pointer in ["a", "a/b", "#/a", " /a", "/~", "/~2", "/a~", "/~/b", "~0", "/a/~~1", "$.a", "."] {
        for refused in [CanonicalJson::new().include(pointer), CanonicalJson::new().exclude(pointer)] {
            assert!(
                matches!(refused, Err(JsonSelectionError::MalformedPointer { .. })),
                "{pointer}: {refused:?}"
            );
        }
    }
}

#[test]
fn numbers_are_looked_at_only_where_they_count() {
    let text = r#"{"amount": 5, "id": 9007199254740993, "far": [{"x": 1e400}]}"#;
    let refused = |canonical: CanonicalJson| refusal(canonical.bytes_of_slice(text.as_bytes()), b"numbers");
    assert_eq!(refused(CanonicalJson::new()), JsonError::InexactNumber { at: Some(20) });
    assert_eq!(refused(selection(&["/id"], &[])), JsonError::InexactNumber { at: Some(20) });
    assert_eq!(refused(selection(&[], &["/id"])), JsonError::NumberOutOfRange { at: Some(52) });
    assert_eq!(left(&selection(&["/amount"], &[]), text), r#"{"/amount":5}"#);
    assert_eq!(left(&selection(&[], &["/id", "/far/0/x"]), text), r#"{"":{"amount":5,"far":[{}]}}"#);
}

#[test]
fn everything_but_numbers_is_looked_at_where_it_does_not_count_too() {
    let amount = selection(&["/amount"], &["/excluded"]).with_max_depth(3);
    for (inside, expected) in [
        (r#"{"a":1,"a":1}"#, JsonError::DuplicateMember { at: 31 }),
        (r#""\udc00""#, JsonError::LoneSurrogate { at: 24 }),
        ("[[[]]]", JsonError::TooDeep { max: 3 }),
    ] {
        for name in ["excluded", "not_inc_"] {
            let text = format!(r#"{{"amount": 5,"{name}":{inside}}}"#);
            let error = refusal(amount.bytes_of_slice(text.as_bytes()), text.as_bytes());
            assert_eq!(error, expected, "{text}");
        }
    }
}

/// A document that looks like the bytes of a selection, and selections that find the same.
#[test]
fn two_selections_never_give_the_same_bytes() {
    let text = r#"{"a":1,"b":{"":1},"":{"a":1},"c":2,"d":3,",":{"":4}}"#;
    let selections = [
        CanonicalJson::new(),
        selection(&["/a"], &[]),
        selection(&["/a", "/c"], &[]),
        selection(&["/a"], &["/c"]),
        selection(&["/a"], &["/b"]),
        selection(&["/b/"], &[]),
        selection(&["/c"], &[]),
        selection(&["/d"], &[]),
        selection(&[], &["/c"]),
        selection(&[], &["/d"]),
        selection(&[""], &["/c", "/d"]),
        selection(&["", "/c"], &[]),
        selection(&["/,/"], &[]),
        selection(&["/", "/,"], &[]),
    ];
    for (at, one) in selections.iter().enumerate() {
        let two_lines = bytes(one, text);
        for other in &selections[at + 1..] {
            assert_ne!(two_lines, bytes(other, text), "{one:?} and {other:?}");
            assert_ne!(
                one.fingerprint_of_slice(text.as_bytes()),
                other.fingerprint_of_slice(text.as_bytes()),
                "{one:?} and {other:?}"
            );
        }
        if at > 0 {
            assert!(Fingerprint::of_json_slice(two_lines.as_bytes()).is_err(), "a document: {two_lines}");
        }
    }
}

#[test]
fn a_document_without_any_of_what_counts_is_refused_since_all_of_those_would_look_alike() {
    let amount = selection(&["/amount", "/fee"], &[]);
    for text in ["{}", r#"{"amonut": 5}"#, "[1, 2]", "5", "null", r#"{"amount/": {"fee": 1}}"#] {
        assert_eq!(amount.bytes_of_slice(text.as_bytes()), Err(JsonError::NothingIncluded), "{text}");
        let value = serde_json::from_str(text).expect("JSON");
        assert_eq!(amount.bytes(&value), Err(JsonError::NothingIncluded), "{text}");
    }
    for text in [r#"{"amount": null}"#, r#"{"fee": 0}"#] {
        assert_ne!(bytes(&amount, text), bytes(&amount, r#"{"amount": 5}"#), "{text}");
    }
}
