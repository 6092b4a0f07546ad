//! What a file system is worth whose locks hold nobody off, as those of network file systems may not: the store
//! can't find it out, and breaks its promise. That is why it is not supported, and not a rule that holds.

use crate::bench::{Setting, open, options};
use crate::common::{Answer as _, START, asks_for, key, scope};
use crate::vfs::Disk;
use idempotency::{ClaimOutcome, ManualClock, Ran, Reply};
use std::cell::Cell;

#[test]
fn where_locks_hold_nobody_off_two_callers_run_one_operation_and_one_of_their_commits_is_lost() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("store.db");
    let (disk, clock) = (Disk::new(), ManualClock::new(START));
    let store = || open(&path, options(&disk, &clock, Setting::PLAIN)).expect("a store");
    let (here, there) = (store(), store());
    let (s, k, request) = (scope("s"), key("k"), asks_for("x"));

    // With locks that work, the other is busy meanwhile (`processes/stopped.rs`).
    disk.let_locks_hold_nobody_off();
    let granted_there = Cell::new(None);
    let ran = here.atomically(&s, &k, &request, |_| {
        if let ClaimOutcome::Claimed(claim) = there.try_claim(&s, &k, &request).expect("a file") {
            granted_there.set(Some(claim));
        }
        Ok::<_, idempotency::Error>(Reply::Marker)
    });
    assert!(matches!(ran, Ok(Ran::Executed(_))), "{ran:?}");
    let granted_there = granted_there.take().expect("granted while the other ran it");
    assert_eq!(granted_there.attempt(), 1, "as if nobody had claimed it");
    // Both were acknowledged; one of them is all that is found.
    assert_eq!(there.try_claim(&s, &k, &request).expect("a file").completed().reply, Reply::Marker);
    assert!(granted_there.complete(Reply::Marker).is_err(), "what it was granted is not there");
}
