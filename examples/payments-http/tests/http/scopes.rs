//! Whose a key is.

use crate::common::{KEY, PAYMENT, Running};

#[test]
fn one_key_of_two_accounts_is_two_operations() {
    let service = Running::service();
    let [a, b] = [service.client(), service.other_client()];
    let of_a = a.post("/payments", KEY, PAYMENT);
    let of_b = b.post("/payments", KEY, PAYMENT);
    assert_eq!((of_b.status, of_b.is_replay()), (201, false));
    assert_ne!(of_a.id(), of_b.id());
    let accounts: Vec<_> = service.ledger.calls().into_iter().map(|call| call.account).collect();
    assert_eq!(accounts, ["acct_a", "acct_b"]);
    a.post("/payments", KEY, PAYMENT).assert_replays(&of_a);
    b.post("/payments", KEY, PAYMENT).assert_replays(&of_b);

    // Not even that it is in use is told: another request of B's under A's key is B's own.
    let free = b.post("/payments", "key-of-a", r#"{"amount": 1}"#);
    assert_eq!(free.status, 201);
    let payment = format!("/payments/{}", of_a.id());
    b.get(&payment).assert_problem(404, "payment-unknown", &[]);
    b.post(&format!("{payment}/refunds"), KEY, "").assert_problem(404, "payment-unknown", &[KEY]);
}

#[test]
fn no_header_makes_a_request_another_accounts() {
    let service = Running::service();
    let of_a = service.client().post("/payments", KEY, PAYMENT);
    let length = format!("content-length: {}", PAYMENT.len());
    let key = format!("idempotency-key: {KEY}");
    let names =
        ["account", "x-account", "x-account-id", "x-tenant-id", "x-user-id", "x-forwarded-user", "from"];
    for name in names {
        let header = format!("{name}: acct_a");
        let headers = [key.as_bytes(), length.as_bytes(), header.as_bytes()];
        let answer = service.other_client().raw("POST /payments HTTP/1.1", &headers, PAYMENT.as_bytes());
        assert_eq!(answer.status, 201);
        assert_ne!(answer.id(), of_a.id(), "by {name}");
    }
    assert_eq!(service.ledger.tally(), (2, 2));
}

#[test]
fn one_key_at_two_endpoints_is_two_operations() {
    let service = Running::service();
    let client = service.client();
    let payment = client.post("/payments", KEY, PAYMENT);
    let refund = client.post(&format!("/payments/{}/refunds", payment.id()), KEY, "");
    assert_eq!((refund.status, refund.is_replay()), (201, false));
    for scope in ["acct_a/payments", "acct_a/refunds"] {
        assert!(service.record_of(scope, KEY).is_some(), "{scope}");
    }
}

#[test]
fn one_key_for_another_path_or_query_of_one_endpoint_is_a_reused_key() {
    let service = Running::service();
    let client = service.client();
    let payments = ["order-1", "order-2"].map(|key| client.post("/payments", key, PAYMENT).id());
    let [one, other] = payments.map(|id| format!("/payments/{id}/refunds"));
    let refund = client.post(&one, KEY, "");
    assert_eq!(refund.status, 201);
    client.post(&other, KEY, "").assert_problem(422, "idempotency-key-reused", &[KEY]);
    client.post(&format!("{one}?all=no"), KEY, "").assert_problem(422, "idempotency-key-reused", &[KEY]);
    client.post(&one, KEY, "").assert_replays(&refund);
    assert_eq!(service.ledger.calls().iter().filter(|call| call.what == "refund").count(), 1);
}
