//! A store that fails, and operations that outlive their lease.

use crate::common::{Answer, KEY, PAYMENT, Running, until};
use axum::routing::{MethodRouter, post};
use idempotency::testing::Fault;
use idempotency::{IdempotencyKey, Policy, Scope, State};
use payments_http::idempotent::CurrentClaim;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::sync::Semaphore;

#[test]
fn while_the_store_is_down_nothing_is_run_and_clients_are_told_to_come_back() {
    let service = Running::service();
    let client = service.client();
    service.store.backend().fail(Fault::Before, 0, 2);
    for _ in 0..2 {
        let refused = client.post("/payments", KEY, PAYMENT);
        refused.assert_problem(503, "not-now", &[KEY]);
        refused.assert_retry_after();
    }
    assert_eq!((service.ledger.tally(), service.record(KEY)), ((0, 0), None));
    let paid = client.post("/payments", KEY, PAYMENT);
    assert_eq!((paid.status, paid.is_replay()), (201, false));
    assert_eq!(service.record(KEY).map(|record| record.attempt), Some(1));
}

#[test]
fn the_seconds_to_wait_are_whole_and_at_least_one() {
    for (hint_ms, seconds) in [(0, "1"), (1, "1"), (1_000, "1"), (1_001, "2"), (4_999, "5")] {
        let policy = Policy::new().with_retry_after(Duration::from_millis(hint_ms));
        let service = Running::marked(policy, post(async || ()));
        service.store.backend().fail(Fault::Before, 0, 1);
        let refused = service.client().post("/op", KEY, "");
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some(seconds)));
    }
}

#[test]
fn a_claim_whose_answer_was_lost_is_not_run_by_whoever_asks_next() {
    let service = Running::service();
    service.store.backend().fail(Fault::After, 0, 1);
    service.client().post("/payments", KEY, PAYMENT).assert_problem(503, "not-now", &[KEY]);
    // It was granted, as far as anybody knows: its lease stands.
    service.client().post("/payments", KEY, PAYMENT).assert_problem(409, "operation-in-progress", &[KEY]);
    assert_eq!(service.ledger.tally(), (0, 0));
}

#[test]
fn who_was_charged_is_told_so_although_it_could_not_be_recorded() {
    let service = Running::service();
    service.store.backend().fail(Fault::Before, 1, 1);
    let paid = service.client().post("/payments", KEY, PAYMENT);
    assert_eq!((paid.status, paid.is_replay()), (201, false));
    assert_eq!(service.record(KEY).map(|record| record.state), Some(State::InProgress));
    let retry = service.client().post("/payments", KEY, PAYMENT);
    retry.assert_problem(409, "operation-in-progress", &[KEY]);
    assert_eq!(service.ledger.tally(), (1, 1));
}

#[test]
fn who_was_charged_is_told_so_although_nobody_knows_whether_it_was_recorded() {
    let service = Running::service();
    service.store.backend().fail(Fault::After, 1, 1);
    let paid = service.client().post("/payments", KEY, PAYMENT);
    assert_eq!((paid.status, paid.is_replay()), (201, false));
    service.client().post("/payments", KEY, PAYMENT).assert_replays(&paid);
}

#[test]
fn who_was_charged_is_told_so_although_an_operator_has_deleted_the_record() {
    let service = Running::service();
    service.ledger.hold();
    let paid = thread::scope(|threads| {
        let paying = threads.spawn(|| service.client().post("/payments", KEY, PAYMENT));
        until("it is charged", || (service.ledger.tally() == (1, 1)).then_some(()));
        let scope = Scope::new("acct_a/payments").expect("a scope");
        let key = IdempotencyKey::new(KEY).expect("a key");
        assert!(service.store.forget(&scope, &key).expect("a store"));
        service.ledger.let_go();
        paying.join().expect("an answer")
    });
    assert_eq!((paid.status, paid.is_replay()), (201, false));
    assert_eq!(service.record(KEY), None);
}

/// Handlers that answer when they are let go, each attempt for itself.
#[derive(Clone, Default)]
struct Gates(Arc<[Gate; 2]>);

#[derive(Default)]
struct Gate {
    reached: Semaphore0,
    opened: Semaphore0,
}

/// A semaphore that starts with nothing.
struct Semaphore0(Semaphore);

impl Default for Semaphore0 {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

impl Gates {
    fn handlers(&self) -> MethodRouter {
        let gates = Arc::clone(&self.0);
        post(async move |claim: CurrentClaim| {
            let attempt = claim.attempt();
            if let Some(gate) = gates.get(usize::try_from(attempt).unwrap_or(0) - 1) {
                gate.reached.0.add_permits(1);
                gate.opened.0.acquire().await.expect("an open semaphore").forget();
            }
            format!("attempt {attempt}")
        })
    }

    fn open(&self, attempt: usize) {
        self.0[attempt - 1].opened.0.add_permits(1);
    }

    fn wait_for(&self, attempt: usize) {
        let reached = &self.0[attempt - 1].reached.0;
        until("the handler is at work", || (reached.available_permits() == 1).then_some(()));
    }
}

#[track_caller]
fn assert_told_to_come_back(answer: &Answer) {
    answer.assert_problem(409, "operation-in-progress", &[KEY]);
    answer.assert_retry_after();
}

fn assert_ran_as_attempt_2(answer: &Answer) {
    assert_eq!(
        (answer.status, answer.body.as_slice(), answer.is_replay()),
        (200, b"attempt 2".as_slice(), false)
    );
}

/// Sends a request until it is its turn, which it is when the lease of the one before has ended.
fn post_until_its_turn(service: &Running) -> Answer {
    until("the lease ends", || {
        let answer = service.client().post("/op", KEY, "");
        (answer.status != 409).then_some(answer)
    })
}

#[test]
fn who_outlived_the_lease_gets_the_answer_of_whoever_took_over_and_has_completed() {
    let gates = Gates::default();
    let service = Running::marked(Policy::new().with_lease(Duration::from_millis(20)), gates.handlers());
    thread::scope(|threads| {
        let slow = threads.spawn(|| service.client().post("/op", KEY, ""));
        gates.wait_for(1);
        gates.open(2);
        let newer = post_until_its_turn(&service);
        assert_ran_as_attempt_2(&newer);
        gates.open(1);
        assert_told_to_come_back(&slow.join().expect("an answer"));
        service.client().post("/op", KEY, "").assert_replays(&newer);
    });
}

#[test]
fn who_outlived_the_lease_is_told_to_come_back_while_whoever_took_over_is_at_work() {
    let gates = Gates::default();
    let service = Running::marked(Policy::new().with_lease(Duration::from_millis(20)), gates.handlers());
    thread::scope(|threads| {
        let slow = threads.spawn(|| service.client().post("/op", KEY, ""));
        gates.wait_for(1);
        let newer = threads.spawn(|| post_until_its_turn(&service));
        gates.wait_for(2);
        gates.open(1);
        assert_told_to_come_back(&slow.join().expect("an answer"));
        gates.open(2);
        let newer = newer.join().expect("an answer");
        assert_ran_as_attempt_2(&newer);
        service.client().post("/op", KEY, "").assert_replays(&newer);
    });
}
