//! Identical requests at the same moment.

use crate::common::{Answer, KEY, PAYMENT, Place, Running, until};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// That these are the answers to identical requests: one that ran, and others that are replays of it, or were
/// told to come back. Gives the id.
#[track_caller]
fn assert_one_ran(answers: &[Answer]) -> String {
    let (told, paid): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 409);
    for answer in told {
        answer.assert_problem(409, "operation-in-progress", &[KEY]);
        answer.assert_retry_after();
    }
    assert!(paid.iter().all(|answer| answer.status == 201), "{paid:?}");
    assert_eq!(paid.iter().filter(|answer| !answer.is_replay()).count(), 1);
    let bodies: BTreeSet<_> = paid.iter().map(|answer| &answer.body).collect();
    assert_eq!(bodies.len(), 1);
    paid[0].id()
}

#[test]
fn of_fifty_identical_requests_at_once_one_charges_and_all_hear_of_it_or_come_back() {
    let service = Running::service();
    let client = service.client();
    let answers = client.post_at_once(50, "/payments", KEY, PAYMENT);
    let id = assert_one_ran(&answers);
    assert_eq!(service.ledger.tally(), (1, 1));
    let retry = client.post("/payments", KEY, PAYMENT);
    assert_eq!((retry.is_replay(), retry.id()), (true, id));
}

#[test]
fn while_the_first_of_fifty_is_at_work_the_others_are_told_to_come_back_in_a_second() {
    let service = Running::service();
    let client = service.client();
    service.ledger.hold();
    let told = AtomicUsize::new(0);
    let answers: Vec<_> = thread::scope(|threads| {
        let send = || {
            let answer = client.post("/payments", KEY, PAYMENT);
            told.fetch_add(usize::from(answer.status == 409), Ordering::SeqCst);
            answer
        };
        let senders: Vec<_> = (0..50).map(|_| threads.spawn(send)).collect();
        until("all but one are told", || (told.load(Ordering::SeqCst) == 49).then_some(()));
        service.ledger.let_go();
        senders.into_iter().map(|sender| sender.join().expect("an answer")).collect()
    });
    assert_one_ran(&answers);
    let waits: BTreeSet<_> = answers.iter().filter_map(|answer| answer.header("retry-after")).collect();
    assert_eq!(waits, BTreeSet::from(["1"]), "the lease is 90 seconds");
    assert_eq!(service.ledger.tally(), (1, 1));
}

#[test]
fn of_identical_requests_at_two_servers_on_one_file_one_charges() {
    let place = Place::new();
    let lease = Duration::from_secs(60);
    let servers = [place.start(lease), place.start(lease)];
    let clients = servers.each_ref().map(|server| server.client());
    for round in 0..10 {
        let key = format!("{KEY}-{round}");
        let answers: Vec<_> = thread::scope(|threads| {
            let senders = clients.each_ref().map(|client| {
                let key = &key;
                threads.spawn(move || client.post_at_once(10, "/payments", key, PAYMENT))
            });
            senders.into_iter().flat_map(|sender| sender.join().expect("answers")).collect()
        });
        let id = assert_one_ran(&answers);
        assert_eq!(place.ledger.tally(), (round + 1, round + 1));
        for client in &clients {
            let retry = client.post("/payments", &key, PAYMENT);
            assert_eq!((retry.is_replay(), retry.id()), (true, id.clone()));
        }
    }
}
