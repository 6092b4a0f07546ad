//! The story of the crate's `examples/payments.rs`, over HTTP. That of the killed server is in `processes`.

use crate::common::{PAYMENT, Running};

#[test]
fn a_retry_gets_what_the_first_request_got_and_another_amount_is_refused() {
    let service = Running::service();
    let client = service.client();
    let first = client.post("/payments", "order-1", PAYMENT);
    assert_eq!((first.status, first.is_replay()), (201, false));
    let id = first.id();
    assert_eq!(first.header("location"), Some(format!("/payments/{id}").as_str()));

    let retry = client.post("/payments", "order-1", PAYMENT);
    retry.assert_replays(&first);
    for header in ["content-type", "location", "content-length"] {
        assert_eq!(retry.all(header), first.all(header));
    }

    let other = client.post("/payments", "order-1", r#"{"amount": 900}"#);
    other.assert_problem(422, "idempotency-key-reused", &["order-1", "900"]);
    assert_eq!(service.ledger.tally(), (1, 1));
    assert_eq!(service.record("order-1").map(|record| record.attempt), Some(1));

    let shown = client.get(&format!("/payments/{id}"));
    assert_eq!((shown.status, shown.json()), (200, first.json()));
}

#[test]
fn a_400_of_the_handlers_own_is_replayed_and_nobody_is_charged() {
    let service = Running::service();
    let client = service.client();
    let first = client.post("/payments", "order-1", r#"{"amount": 0}"#);
    first.assert_problem(400, "payment-invalid", &["order-1"]);
    let retry = client.post("/payments", "order-1", r#"{"amount": 0}"#);
    retry.assert_replays(&first);
    assert_eq!(retry.header("content-type"), Some("application/problem+json"));
    assert_eq!(service.ledger.tally(), (0, 0));
}

#[test]
fn after_a_charge_whose_answer_was_lost_the_retry_runs_at_once_and_charges_nothing_more() {
    let service = Running::service();
    let client = service.client();
    let payment = r#"{"amount": 500, "card": "tok_answer_lost"}"#;
    let lost = client.post("/payments", "order-1", payment);
    lost.assert_problem(502, "provider-silent", &["order-1"]);
    assert_eq!(service.ledger.tally(), (1, 1));

    let second = client.post("/payments", "order-1", payment);
    assert_eq!((second.status, second.is_replay()), (201, false));
    assert_eq!(service.ledger.tally(), (2, 1));
    assert_eq!(service.record("order-1").map(|record| record.attempt), Some(2));
    client.post("/payments", "order-1", payment).assert_replays(&second);
    assert_eq!(service.ledger.tally(), (2, 1));
}

#[test]
fn a_refund_is_given_once() {
    let service = Running::service();
    let client = service.client();
    let payment = client.post("/payments", "order-1", PAYMENT).id();
    let refunds = format!("/payments/{payment}/refunds");
    let first = client.post(&refunds, "return-1", "");
    assert_eq!((first.status, first.is_replay()), (201, false));
    client.post(&refunds, "return-1", "").assert_replays(&first);
    let refunds = service.ledger.calls().into_iter().filter(|call| call.what == "refund");
    assert_eq!(refunds.map(|call| (call.is_new, call.detail)).collect::<Vec<_>>(), [(true, payment)]);
}
