//! Cases 8 and 21: what one process does, another one sees; and a process that is killed leaves its claim.

use crate::common::{Answer, START, asks_for, key, scope};
use crate::crew::{Child, Parent, alone};
use idempotency::{
    Claim, ClaimOutcome, DynStore, Error, IdempotencyStore, LostReason, ManualClock, Reply, SqliteBackend,
    SqliteOptions, StoredResponse, Ticket, Timestamp,
};
use std::path::Path;
use std::time::Duration;

/// Nothing is drawn here.
const NO_SEED: u64 = 0;

/// A store with the default policy, and a clock of this process.
fn open(file: &Path) -> (DynStore, ManualClock) {
    let clock = ManualClock::new(START);
    let options = SqliteOptions::new().with_clock(clock.clone());
    let backend = SqliteBackend::open(file, options).expect("a store that opens");
    (IdempotencyStore::new(backend).erase(), clock)
}

#[track_caller]
fn claim(store: &DynStore, name: &str) -> ClaimOutcome {
    store.try_claim(&scope("tenant"), &key(name), &asks_for("it")).expect("an answer")
}

/// What whoever claimed operation `name` replies.
fn reply(name: &str) -> Reply {
    StoredResponse::new(201).with_body(format!("\0reply to {name}\n")).into()
}

#[track_caller]
fn complete(claim: Claim, name: &str) {
    claim.complete(reply(name)).expect("a claim that stands");
}

/// Case 8, in both directions, and both processes have the file open all the while.
#[test]
fn what_one_process_completes_another_one_that_is_open_already_replays_at_once() {
    const OPERATIONS: usize = 10;
    let names =
        (0..OPERATIONS).map(|number| (format!("the parent's {number}"), format!("the child's {number}")));
    if let Some(parent) = Parent::of_this_process() {
        let (store, _) = open(&parent.file);
        for (parents, childs) in names {
            let own = claim(&store, &childs).claimed();
            parent.wait();
            assert_eq!(claim(&store, &parents).name(), "in progress");
            complete(own, &childs);
            parent.wait();
            assert_eq!(claim(&store, &parents).completed().reply, reply(&parents));
        }
        return parent.hears("all seen");
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("store.db");
    let (store, _) = open(&file);
    let this = what_one_process_completes_another_one_that_is_open_already_replays_at_once;
    let mut child = Child::start(&this, 0, &file, NO_SEED);
    for (parents, childs) in names {
        let own = claim(&store, &parents).claimed();
        child.hear_until_ready();
        assert_eq!(claim(&store, &childs).name(), "in progress");
        child.let_go();
        child.hear_until_ready();
        assert_eq!(claim(&store, &childs).completed().reply, reply(&childs));
        complete(own, &parents);
        child.let_go();
    }
    assert_eq!(child.hear_out(), ["all seen"]);
}

/// Case 21.
#[test]
fn a_process_that_is_killed_holds_its_claim_until_the_lease_ends_and_is_then_taken_over() {
    if let Some(parent) = Parent::of_this_process() {
        let (store, _) = open(&parent.file);
        let mut own = claim(&store, "k").claimed();
        own.save_checkpoint("half way").expect("a claim that stands");
        parent.hears(own.lease_until().as_millis());
        parent.hears(serde_json::to_string(&own.ticket()).expect("a ticket as text"));
        return parent.wait();
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("store.db");
    // Also one that was open when the owner died: nothing of its own may tell it more than the file does.
    let (beside, clock_beside) = open(&file);
    let this = a_process_that_is_killed_holds_its_claim_until_the_lease_ends_and_is_then_taken_over;
    let child = Child::start(&this, 0, &file, NO_SEED);
    let said = child.hear_until_ready();
    let [lease_until, ticket] = said.as_slice() else { panic!("{said:?}") };
    let lease_until = Timestamp::from_millis(lease_until.parse().expect("a time"));
    let ticket: Ticket = serde_json::from_str(ticket).expect("a ticket");
    assert_eq!(lease_until, START.saturating_add(Duration::from_secs(90)));
    child.kill();

    let (store, clock) = open(&file);
    for (store, clock) in [(&beside, &clock_beside), (&store, &clock)] {
        clock.set(lease_until.saturating_sub(Duration::from_millis(1)));
        let ClaimOutcome::InProgress(running) = claim(store, "k") else { panic!("the lease is not over") };
        assert_eq!((running.attempt, running.lease_until), (1, lease_until));
        clock.set(lease_until);
    }
    let next = claim(&store, "k").claimed();
    assert_eq!((next.attempt(), next.is_takeover()), (2, true));
    assert!(next.token() > ticket.token());
    assert_eq!(next.checkpoint().map(|saved| &saved[..]), Some(b"half way".as_slice()));
    assert_eq!(claim(&beside, "k").name(), "in progress");

    let late = store.complete(&ticket, reply("late"));
    assert!(matches!(late, Err(Error::ClaimLost(LostReason::Running))), "{late:?}");
    complete(next, "k");
    assert_eq!(claim(&beside, "k").completed().reply, reply("k"));
}
