//! The `Idempotency-Key` header, byte for byte.

use crate::common::{Answer, KEY, PAYMENT, Running};

fn pay(service: &Running, keys: &[&[u8]]) -> Answer {
    let length = format!("content-length: {}", PAYMENT.len());
    let headers: Vec<&[u8]> = [length.as_bytes()].into_iter().chain(keys.iter().copied()).collect();
    service.client().raw("POST /payments HTTP/1.1", &headers, PAYMENT.as_bytes())
}

fn header(value: impl AsRef<[u8]>) -> Vec<u8> {
    [b"Idempotency-Key: ", value.as_ref()].concat()
}

#[test]
fn a_request_without_a_key_or_with_an_unusable_one_is_told_what_is_wrong_and_not_what_it_sent() {
    let service = Running::service();
    let own = header(KEY);
    pay(&service, &[]).assert_problem(400, "idempotency-key-missing", &[]);

    for repeated in [[own.clone(), own.clone()], [own.clone(), header("another-key")]] {
        let [one, other] = &repeated;
        pay(&service, &[one, other]).assert_problem(400, "idempotency-key-repeated", &[KEY, "another-key"]);
    }

    let long = "k".repeat(256);
    let malformed = [
        format!("\"{KEY}"),
        format!("{KEY}\""),
        format!("{KEY} {KEY}"),
        format!("{KEY},another-key"),
        format!("\"{KEY}\", \"another-key\""),
        format!("\"{KEY}\\n\""),
        format!("\"{KEY}\"?"),
        String::new(),
        "\"\"".to_owned(),
        "   ".to_owned(),
        "\"   \"".to_owned(),
        long.clone(),
    ];
    for value in malformed {
        let answer = pay(&service, &[&header(&value)]);
        answer.assert_problem(400, "idempotency-key-malformed", &[KEY, "another-key", &long]);
    }

    for bytes in ["\u{e9}".as_bytes(), b"\xe9", b"\xff\xfe", b"\"\xc3\xa9\""] {
        let value = [KEY.as_bytes(), bytes].concat();
        pay(&service, &[&header(value)]).assert_problem(400, "idempotency-key-malformed", &[KEY]);
    }
    assert_eq!((service.store_calls(), service.ledger.tally()), (0, (0, 0)));
}

#[test]
fn the_quoted_and_the_bare_form_of_a_key_are_one_key_whatever_the_headers_name_looks_like() {
    let service = Running::service();
    let first = pay(&service, &[&header(KEY)]);
    assert_eq!((first.status, first.is_replay()), (201, false));
    for same in [
        format!("Idempotency-Key: \"{KEY}\""),
        format!("idempotency-key: \"{KEY}\"; a=1"),
        format!("IDEMPOTENCY-KEY:{KEY}\t "),
    ] {
        pay(&service, &[same.as_bytes()]).assert_replays(&first);
    }
    let longest = pay(&service, &[&header("k".repeat(255))]);
    assert_eq!((longest.status, longest.is_replay()), (201, false));
    assert_eq!(service.ledger.tally(), (2, 2));
}
