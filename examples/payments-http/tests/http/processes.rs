//! Case 21: a server that is killed.

use crate::common::{KEY, PAYMENT, Place, until};
use std::thread;
use std::time::Duration;

#[test]
fn the_charge_of_a_killed_server_is_taken_over_when_its_lease_ends_and_charged_once() {
    let place = Place::new();
    let lease = Duration::from_secs(2);
    let victim = place.start(lease);
    place.ledger.hold();
    let _connection = victim.client().send_payment(KEY, PAYMENT);
    until("it is charged", || (place.ledger.tally() == (1, 1)).then_some(()));
    victim.kill();
    place.ledger.let_go();

    let server = place.start(lease);
    let client = server.client();
    let paid = until("the lease ends", || {
        let answer = client.post("/payments", KEY, PAYMENT);
        if answer.status != 409 {
            return Some(answer);
        }
        answer.assert_problem(409, "operation-in-progress", &[KEY]);
        answer.assert_retry_after();
        thread::sleep(Duration::from_millis(50));
        None
    });
    assert_eq!((paid.status, paid.is_replay()), (201, false));
    assert_eq!(place.ledger.tally(), (2, 1), "the provider knew the key that the victim had sent");
    client.post("/payments", KEY, PAYMENT).assert_replays(&paid);
    assert_eq!(place.ledger.tally(), (2, 1));
}
