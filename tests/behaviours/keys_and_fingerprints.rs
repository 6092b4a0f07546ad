//! Which names are names, which are the same one, and what tells a retry from a reused key.

use crate::common::{Answer, asks_for, key, on_every_backend, scope};
use idempotency::{Fingerprint, IdempotencyKey, KeyError, MAX_KEY_LEN, Reply, Scope, StoredResponse};
use std::collections::HashSet;

/// Both kinds of name are held to the same rules.
fn both(value: &str) -> [Result<(), KeyError>; 2] {
    [Scope::new(value).map(drop), IdempotencyKey::new(value).map(drop)]
}

fn both_within(value: &str, max: usize) -> [Result<(), KeyError>; 2] {
    [Scope::with_max_len(value, max).map(drop), IdempotencyKey::with_max_len(value, max).map(drop)]
}

/// Case 35.
#[test]
fn the_length_of_a_name_is_counted_in_bytes() {
    assert_eq!(MAX_KEY_LEN, 255);
    for taken in ["k".to_owned(), "k".repeat(255), "é".repeat(127) + "k", "\u{1F600}".repeat(63)] {
        assert_eq!(both(&taken), [Ok(()), Ok(())], "{} bytes", taken.len());
    }
    for refused in ["k".repeat(256), "é".repeat(128), "\u{1F600}".repeat(64), "k".repeat(1_000_000)] {
        let error = KeyError::TooLong { len: refused.len(), max: 255 };
        assert_eq!(both(&refused), [Err(error.clone()), Err(error)]);
    }
    assert_eq!(both(""), [Err(KeyError::Empty), Err(KeyError::Empty)]);
}

/// Case 35.
#[test]
fn a_program_may_publish_a_shorter_limit_and_no_longer_one() {
    assert_eq!(both_within(&"k".repeat(100), 100), [Ok(()), Ok(())]);
    for (len, max, said) in [(101, 100, 100), (1, 0, 0), (256, 256, 255), (256, usize::MAX, 255)] {
        let error = KeyError::TooLong { len, max: said };
        assert_eq!(both_within(&"k".repeat(len), max), [Err(error.clone()), Err(error)]);
    }
    assert_eq!(both_within(&"k".repeat(255), usize::MAX), [Ok(()), Ok(())]);
    let error = KeyError::TooLong { len: 102, max: 101 };
    assert_eq!(both_within(&"é".repeat(51), 101), [Err(error.clone()), Err(error)], "bytes here too");
}

/// Case 35: every control character of Unicode (U+0000–U+001F, U+007F–U+009F), wherever it stands.
#[test]
fn a_control_character_is_refused_wherever_it_stands() {
    for c in ('\0'..='\u{1f}').chain('\u{7f}'..='\u{9f}') {
        for (value, at) in [(format!("{c}k"), 0), (format!("k{c}k"), 1), (format!("éé{c}"), 4)] {
            let error = KeyError::ControlCharacter { at };
            assert_eq!(both(&value), [Err(error.clone()), Err(error)], "{c:?}");
        }
        assert!(both(&c.to_string()).iter().all(Result::is_err), "{c:?} alone");
    }
}

/// Case 35: Unicode's white space, not only ASCII's; with anything else beside it, it is a name.
#[test]
fn a_name_of_nothing_but_white_space_is_refused() {
    for white in
        [" ", "  ", "\u{a0}", "\u{3000}", "\u{2003} \u{a0}", "\u{1680}", "\u{2028}", "\u{202f}\u{205f}"]
    {
        assert_eq!(both(white), [Err(KeyError::OnlyWhiteSpace), Err(KeyError::OnlyWhiteSpace)], "{white:?}");
        assert_eq!(both(&format!("{white}k")), [Ok(()), Ok(())], "{white:?}");
        assert_eq!(both(&format!("k{white}")), [Ok(()), Ok(())], "{white:?}");
    }
}

/// Case 35: what is refused is an error of the name's own, so no backend can see it; what is taken, every
/// backend keeps.
#[test]
fn the_longest_and_the_oddest_names_are_kept_as_they_are() {
    let names = [
        "k".repeat(255),
        "é".repeat(127),
        "\u{1F600}".repeat(63),
        "'; DROP TABLE x; --".to_owned(),
        "%_*?[a]".to_owned(),
        "null".to_owned(),
        "0".to_owned(),
        "00".to_owned(),
        "0.0".to_owned(),
        "1e0".to_owned(),
        "1".to_owned(),
        "x'00'".to_owned(),
        "\u{feff}k".to_owned(),
        "k\u{200b}".to_owned(),
        "\u{10ffff}".to_owned(),
        "\\".to_owned(),
        "\"".to_owned(),
        "a/b".to_owned(),
    ];
    assert_all_apart(&names.each_ref().map(String::as_str));
}

/// Case 34.
#[test]
fn names_are_compared_byte_by_byte() {
    assert_all_apart(&[
        "Key-A",
        "key-a",
        "key-a ",
        " key-a",
        "key-a\u{a0}",
        "KEY-A",
        "key\u{2010}a",
        // Composed and decomposed.
        "é",
        "e\u{301}",
        "E\u{301}",
        "É",
        "ê",
        "Å",
        "A\u{30a}",
        "\u{212b}",
        // What case folding and compatibility forms would join.
        "ß",
        "SS",
        "ss",
        "ẞ",
        "ſs",
        "ı",
        "i",
        "İ",
        "I",
        "K",
        "\u{212a}",
        "k",
        "ﬁ",
        "fi",
        "１",
        "1",
        "σ",
        "ς",
    ]);
}

/// As keys of one scope and as scopes of one key: a record for each, and each holds its own request.
fn assert_all_apart(names: &[&str]) {
    on_every_backend(|fixture| {
        let own = |name: &str| asks_for(name);
        let ids = || {
            let keys = names.iter().map(|name| (scope("one"), key(name), own(name)));
            keys.chain(names.iter().map(|name| (scope(name), key("one"), own(name))))
        };
        for (tenant, name, request) in ids() {
            let claim = fixture.store.try_claim(&tenant, &name, &request).expect("an answer").claimed();
            assert_eq!(claim.attempt(), 1, "{}", fixture.name);
            let reference = format!("{}|{}", tenant.as_str(), name.as_str());
            claim.complete(Reply::Reference(reference)).expect("a completion");
        }
        for restarted in [false, true] {
            if restarted {
                fixture.reopen();
            }
            for (tenant, name, request) in ids() {
                let done = fixture.store.try_claim(&tenant, &name, &request).expect("an answer").completed();
                let reference = format!("{}|{}", tenant.as_str(), name.as_str());
                assert_eq!(done.reply.reference(), Some(reference.as_str()), "{}", fixture.name);
            }
        }
    });
}

/// Part lists whose parts run into one another if only their bytes are strung together (case 33), and their
/// like.
pub const PART_LISTS: [(&str, &str); 9] = [
    ("ab", "c"),
    ("a", "bc"),
    ("a:b", "c"),
    ("a", "b:c"),
    ("abc", ""),
    ("", "abc"),
    ("a\0b", "c"),
    ("a", "b\0c"),
    ("c", "ab"),
];

/// Case 33.
#[test]
fn part_lists_that_run_into_one_another_give_fingerprints_of_their_own() {
    let mut all = HashSet::new();
    let mut made = 0;
    let mut add = |fingerprint| {
        made += 1;
        all.insert(fingerprint)
    };
    for (first, second) in PART_LISTS {
        let one_field = Fingerprint::builder().field(first, second).finish();
        let two_values = Fingerprint::builder().field("n", first).field("n", second).finish();
        let two_names = Fingerprint::builder().field(first, "").field(second, "").finish();
        let requests = [
            Fingerprint::of_request(first, second, None, "body"),
            Fingerprint::of_request("POST", first, second, "body"),
            Fingerprint::of_request("POST", "/", first, second),
        ];
        assert!(add(one_field) && add(two_values) && add(two_names), "{first:?}, {second:?}");
        assert!(requests.into_iter().all(&mut add), "{first:?}, {second:?}");
    }
    assert_eq!(made, PART_LISTS.len() * 6);
}

/// Case 33: the pairs that are valid as (scope, key) are that many records.
#[test]
fn scope_and_key_do_not_run_into_one_another() {
    on_every_backend(|fixture| {
        let mut records = 0;
        for (first, second) in PART_LISTS {
            let (Ok(tenant), Ok(name)) = (Scope::new(first), IdempotencyKey::new(second)) else { continue };
            let request = asks_for(&format!("{first}|{second}"));
            let claim = fixture.store.try_claim(&tenant, &name, &request).expect("an answer").claimed();
            claim
                .complete(StoredResponse::new(200).with_body(format!("{first}|{second}")))
                .expect("a completion");
            records += 1;
        }
        assert_eq!(records, 5, "of the nine, two have an empty part and two a NUL");
        fixture.at(24 * 3600);
        let swept = fixture.store.sweep_all().expect("a sweep");
        assert_eq!(swept.removed, records, "{}", fixture.name);
    });
}
