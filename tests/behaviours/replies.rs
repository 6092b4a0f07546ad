//! Replies come back as they went in.

use crate::common::{Answer, Fixture, asks_for, key, on_every_backend, scope};
use bytes::Bytes;
use idempotency::{Reply, StoredResponse};

/// Claims and completes one key for each reply; every way to get a reply back gives that one, after a restart
/// too.
fn come_back_as_they_went_in(fixture: &mut Fixture, replies: &[Reply]) {
    let (tenant, request) = (scope("acct_1"), asks_for("pay"));
    let key_of = |index: usize| key(&format!("key-{index}"));
    for (index, reply) in replies.iter().enumerate() {
        let claim = fixture.store.try_claim(&tenant, &key_of(index), &request).expect("an answer").claimed();
        let completed = claim.complete(reply.clone()).expect("a completion");
        assert_same(fixture, &completed.reply, reply);
    }
    for restarted in [false, true] {
        if restarted {
            fixture.reopen();
        }
        for (index, reply) in replies.iter().enumerate() {
            let replayed = fixture.store.try_claim(&tenant, &key_of(index), &request).expect("an answer");
            let status = reply.response().map(StoredResponse::status);
            assert_eq!(replayed.suggested_status(), status, "{}", fixture.name);
            assert_same(fixture, &replayed.completed().reply, reply);
            let record = fixture.store.lookup(&tenant, &key_of(index)).expect("an answer").expect("a record");
            assert_same(fixture, &record.reply.expect("a reply"), reply);
        }
    }
}

/// Compares what a client would see, and does not lean on the library's own `==`.
#[track_caller]
fn assert_same(fixture: &Fixture, got: &Reply, wanted: &Reply) {
    type Seen<'a> = (Option<(u16, Vec<(&'a str, &'a [u8])>, &'a [u8])>, Option<&'a str>);
    fn seen(reply: &Reply) -> Seen<'_> {
        let response = reply.response().map(|r| (r.status(), r.headers().collect(), r.body().as_ref()));
        (response, reply.reference())
    }
    assert!(seen(got) == seen(wanted), "{}: {got:?} instead of {wanted:?}", fixture.name);
    assert_eq!(matches!(got, Reply::Marker), matches!(wanted, Reply::Marker), "{}", fixture.name);
}

/// Case 28.
#[test]
fn every_status_comes_back() {
    let outside_http = [0, 99, 600, 999, u16::MAX];
    let replies: Vec<_> =
        (100..=599).chain(outside_http).map(|status| StoredResponse::new(status).into()).collect();
    on_every_backend(|fixture| come_back_as_they_went_in(fixture, &replies));
}

/// Case 28.
#[test]
fn bodies_that_look_like_nothing_come_back_as_themselves() {
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    let bodies: [&[u8]; 10] = [
        b"",
        b"null",
        b"\0",
        &[0; 4096],
        b"\0text",
        b"text\0",
        b"''",
        b"\xff\xfe\xf0\x9f",
        &every_byte,
        b"\r\n\r\n",
    ];
    let replies: Vec<Reply> = [200, 204, 304]
        .into_iter()
        .flat_map(|status| bodies.map(|body| StoredResponse::new(status).with_body(body.to_vec()).into()))
        .collect();
    on_every_backend(|fixture| come_back_as_they_went_in(fixture, &replies));
}

/// Case 28, for the replies that are no responses.
#[test]
fn references_and_markers_come_back_and_stay_apart() {
    let references = ["", "pay_1", "null", "\0", "a\0b", "'; --", "ünïcode \u{1F600}"];
    let mut replies: Vec<_> = references.map(|text| Reply::Reference(text.to_owned())).to_vec();
    replies.push(Reply::Marker);
    replies.push(StoredResponse::new(0).into());
    on_every_backend(|fixture| come_back_as_they_went_in(fixture, &replies));
}

/// Case 29.
#[test]
fn headers_keep_order_repeats_case_and_bytes() {
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    let response = StoredResponse::new(200)
        .with_header("Set-Cookie", "a=1")
        .with_header("X-Mixed-CASE", "first")
        .with_header("set-cookie", "b=2")
        .with_header("Set-Cookie", "a=1")
        .with_header("x-bytes", every_byte)
        .with_header("x-mixed-case", "second")
        .with_header("x-empty", "")
        .with_header("", "no name")
        .with_header("a: b\r\nc", "d: e\r\nf")
        .with_header("ünï", "ö")
        .with_header("x-nul\0", "\0");
    let named_alike = [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc")]
        .map(|(name, value)| StoredResponse::new(200).with_header(name, value).into());
    let split = StoredResponse::new(200).with_header("a", "b").with_header("c", "d").into();
    let replies = [vec![response.into(), split], named_alike.to_vec()].concat();
    on_every_backend(|fixture| come_back_as_they_went_in(fixture, &replies));
}

/// Replays share the body: a hot key with a large reply must not cost a copy for each client.
#[test]
fn replays_from_memory_share_the_body() {
    let fixture = Fixture::in_memory();
    let (tenant, name, request) = (scope("acct_1"), key("k"), asks_for("pay"));
    let body = Bytes::from(vec![7; 100_000]);
    let claim = fixture.store.try_claim(&tenant, &name, &request).expect("an answer").claimed();
    claim.complete(StoredResponse::new(200).with_body(body.clone())).expect("a completion");
    for _ in 0..3 {
        let replayed = fixture.store.try_claim(&tenant, &name, &request).expect("an answer").completed();
        let response = replayed.reply.response().expect("a response");
        assert_eq!(response.body().as_ptr(), body.as_ptr());
    }
}

/// What a client depends on is replayed; what belongs to one exchange, or is dangerous to send twice, is not.
#[test]
fn replayable_headers_keep_what_a_client_depends_on_and_drop_the_rest() {
    let kept = ["content-type", "Content-Type", "LOCATION", "ETag", "content-encoding", "content-language"];
    // RFC 9110, sections 7.6.1 and 11.7; RFC 6265; W3C Trace Context; what gateways add to each exchange.
    let dropped = [
        "set-cookie",
        "Set-Cookie",
        "SET-COOKIE",
        "set-cookie2",
        "date",
        "Date",
        "connection",
        "Keep-Alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-authentication-info",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "traceparent",
        "tracestate",
        "baggage",
        "b3",
        "x-b3-traceid",
        "x-request-id",
        "x-correlation-id",
        "x-amzn-trace-id",
        "cf-ray",
        "server-timing",
        "age",
        "via",
        "authorization",
        "www-authenticate",
        "retry-after",
        "idempotent-replayed",
        "x-of-nobody",
        "",
    ];
    for name in kept {
        let response = StoredResponse::new(200).with_header(name, "v");
        assert!(response.replayable_headers().eq([(name, b"v".as_slice())]), "{name} was dropped");
    }
    for name in dropped {
        let response = StoredResponse::new(200).with_header(name, "v");
        assert_eq!(response.replayable_headers().count(), 0, "{name} was kept");
    }
}

#[test]
fn replayable_headers_keep_order_repeats_and_bytes() {
    let response = StoredResponse::new(200)
        .with_header("Link", "</b>")
        .with_header("set-cookie", "session=1")
        .with_header("content-type", b"\xff\0".to_vec())
        .with_header("link", "</a>")
        .with_header("Link", "</b>");
    let wanted: [(&str, &[u8]); 4] =
        [("Link", b"</b>"), ("content-type", b"\xff\0"), ("link", b"</a>"), ("Link", b"</b>")];
    assert!(response.replayable_headers().eq(wanted));
    assert_eq!(response.headers().len(), 5, "the record itself keeps all of them");
}

/// Owned or borrowed, bytes or text: what is given is what is replayed.
#[test]
fn bytes_are_taken_in_every_form_that_they_come_in() {
    let text = String::from("body");
    let list = text.clone().into_bytes();
    let bytes = Bytes::from_static(b"body");
    let forms = [
        StoredResponse::new(200).with_body("body"),
        StoredResponse::new(200).with_body(&text),
        StoredResponse::new(200).with_body(text.clone()),
        StoredResponse::new(200).with_body(text.as_bytes()),
        StoredResponse::new(200).with_body(b"body"),
        StoredResponse::new(200).with_body(*b"body"),
        StoredResponse::new(200).with_body(list.clone()),
        StoredResponse::new(200).with_body(&list),
        StoredResponse::new(200).with_body(list.clone().into_boxed_slice()),
        StoredResponse::new(200).with_body(&bytes),
        StoredResponse::new(200).with_body(bytes.clone()),
    ];
    for form in forms {
        assert_eq!(form.body(), "body");
    }
    assert_eq!(StoredResponse::new(200).with_body(bytes.clone()).body().as_ptr(), bytes.as_ptr(), "shared");
}
