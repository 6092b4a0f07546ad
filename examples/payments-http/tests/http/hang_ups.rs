//! Case 23: clients that are gone before they are answered.

use crate::common::{Ends, KEY, PAYMENT, Place, Running, hang_up, until};
use axum::Router;
use idempotency::{Policy, State};
use payments_http::server::serve;
use std::future::ready;
use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio_util::task::TaskTracker;

#[test]
fn a_client_that_hangs_up_in_the_middle_is_charged_once_and_its_retry_is_answered() {
    let ends = Ends::new();
    let mut service = Running::with(Policy::new(), |service| ends.watch(service.router().expect("a router")));
    service.ledger.hold();
    let stream = service.client().send_payment(KEY, PAYMENT);
    until("it is charged", || (service.ledger.tally() == (1, 1)).then_some(()));
    hang_up(&stream);
    ends.wait();
    // Nobody serves the request any more, the provider has not answered yet, and a server that were to stop
    // would wait.
    assert_eq!(service.operations.len(), 1);
    assert_eq!(service.record(KEY).map(|record| record.state), Some(State::InProgress));
    service.ledger.let_go();
    let is_recorded = || service.record(KEY).filter(|record| record.state == State::Completed);
    let record = until("it is recorded", is_recorded);
    assert_eq!(record.attempt, 1);
    until("it is done", || service.operations.is_empty().then_some(()));

    let retry = service.client().post("/payments", KEY, PAYMENT);
    assert_eq!((retry.status, retry.is_replay()), (201, true));
    assert_eq!(service.ledger.tally(), (1, 1));
    service.stop();
}

#[test]
fn a_server_has_not_stopped_while_an_operation_is_at_work_that_nobody_waits_for() {
    // On one thread, so that a turn of everybody else passes with each `yield_now`.
    let runtime = Builder::new_current_thread().enable_io().build().expect("a runtime");
    runtime.block_on(async {
        let (finish, finished) = oneshot::channel::<()>();
        let operations = TaskTracker::new();
        operations.spawn(finished);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a listener");
        let serving = tokio::spawn(serve(listener, Router::new(), operations, ready(())));
        for _ in 0..1_000 {
            yield_now().await;
        }
        assert!(!serving.is_finished());
        drop(finish);
        serving.await.expect("no panic").expect("a server that ends well");
    });
}

#[test]
fn a_server_that_is_told_to_stop_answers_who_waits_and_records_also_for_those_who_have_gone() {
    let place = Place::new();
    let lease = Duration::from_secs(60);
    let mut server = place.start(lease);
    let client = server.client();
    place.ledger.hold();
    let gone = client.send_payment("gone", PAYMENT);
    until("it is charged", || (place.ledger.tally() == (1, 1)).then_some(()));
    hang_up(&gone);
    let answer = thread::scope(|threads| {
        let waiting = threads.spawn(|| client.post("/payments", "waiting", PAYMENT));
        until("it is charged", || (place.ledger.tally() == (2, 2)).then_some(()));
        server.terminate();
        place.ledger.let_go();
        waiting.join().expect("an answer")
    });
    assert_eq!((answer.status, answer.is_replay()), (201, false));
    assert!(server.wait().success());

    let server = place.start(lease);
    let client = server.client();
    client.post("/payments", "waiting", PAYMENT).assert_replays(&answer);
    let retry = client.post("/payments", "gone", PAYMENT);
    assert_eq!((retry.status, retry.is_replay()), (201, true));
    assert_eq!(place.ledger.tally(), (2, 2));
}
