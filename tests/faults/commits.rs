//! Commits that fail: nothing is acknowledged that is not there, and nothing refused comes back (cases 47 and
//! 48).

use crate::bench::{Bench, SCOPE, Setting, Stored};
use crate::common::{asks_for, key, scope};
use crate::scenarios::{ALL, try_claim};
use crate::truth::check;
use crate::vfs::{Fault, File, Operation};
use idempotency::Error;
use rusqlite::ffi;
use std::sync::{Arc, Mutex};

/// What a commit does to the disk; where the log begins anew, it is synced before its header counts, too.
pub const WAYS: [Fault; 3] = [
    Fault::of(&[Operation::Write], File::Wal),
    Fault::of(&[Operation::Sync], File::Wal),
    Fault::of(&[Operation::Write], File::Wal).with_code(ffi::SQLITE_FULL),
];

#[test]
fn a_commit_whose_write_or_sync_fails_once_has_a_definite_answer() {
    for setting in Setting::ALL {
        for scenario in ALL.iter().filter(|scenario| scenario.is_settled) {
            for fault in WAYS {
                let run = check(scenario, fault, setting);
                assert_eq!(run.log.failed(), 1, "{}, {setting:?}, {fault:?}", scenario.name);
                assert!(!run.is_indefinite(), "{}, {setting:?}, {fault:?}: {:?}", scenario.name, run.answer);
                assert_eq!(run.log.count(Operation::Open, File::Main), 1, "it was settled");
            }
        }
    }
}

#[test]
fn a_commit_whose_writes_or_syncs_fail_for_long_is_indefinite_and_its_handle_works_again_afterwards() {
    for setting in Setting::ALL {
        for scenario in &ALL {
            for fault in WAYS {
                let run = check(scenario, fault.lasting(), setting);
                assert!(run.is_indefinite(), "{}, {setting:?}, {fault:?}: {:?}", scenario.name, run.answer);
                assert_eq!(run.log.count(Operation::Open, File::Main), 1, "it was tried once");
            }
        }
    }
}

/// SQLite takes back a commit whose sync failed, and leaves its pages in the log: a crash brings them to life.
#[test]
fn a_claim_that_was_refused_after_its_sync_failed_does_not_come_back_with_a_crash() {
    // Alone, the connection takes the log with it when it is closed.
    for setting in Setting::ALL.into_iter().filter(|setting| setting.in_company) {
        let bench = Bench::new(setting);
        let unsettled = Arc::new(Mutex::new(None));
        bench.disk.before_the_next_open({
            let (unsettled, path) = (Arc::clone(&unsettled), bench.path.clone());
            move || *unsettled.lock().expect("no panic") = Some(Stored::if_killed(&path))
        });
        // A log that begins anew is synced before anything is written behind its header.
        let commit = if setting.checkpoint_after == 1 { 2 } else { 1 };
        bench.disk.fail(Fault::of(&[Operation::Sync], File::Wal).from(commit));
        let refused = try_claim(&bench, "a").expect_err("its commit has failed");
        assert!(refused.is_transient() && !refused.is_indefinite(), "{setting:?}: {refused:?}");
        let unsettled = unsettled.lock().expect("no panic").take().expect("it was opened again");
        assert!(unsettled.record("a").is_some(), "{setting:?}: a crash before the settlement keeps it");
        assert_eq!(bench.stored_if_killed().record("a"), None, "{setting:?}");
        assert_eq!(bench.stored().record("a"), None, "{setting:?}");
        bench.disk.heal();
        try_claim(&bench, "a").expect("it can be claimed");
    }
}

/// Whoever only looks asks for nothing that could have been done.
#[test]
fn a_handle_that_can_not_settle_a_commit_yet_answers_as_one_that_has_done_nothing() {
    for setting in Setting::ALL {
        for fault in WAYS {
            let bench = Bench::new(setting);
            bench.disk.fail(fault.lasting());
            let doubtful = try_claim(&bench, "a").expect_err("its commit has failed");
            assert!(doubtful.is_indefinite(), "{setting:?}, {fault:?}: {doubtful:?}");
            let (s, k) = (scope(SCOPE), key("c"));
            let answers: [(&str, Result<(), Error>); 3] = [
                ("lookup", bench.store.lookup(&s, &k).map(drop)),
                ("claim", bench.store.try_claim(&s, &k, &asks_for("x")).map(drop)),
                ("forget", bench.store.forget(&s, &k).map(drop)),
            ];
            for (call, answer) in answers {
                let error = answer.expect_err("the store can't be opened again");
                assert!(!error.is_indefinite(), "{setting:?}, {fault:?}, {call}: {error:?}");
            }
            bench.disk.heal();
            assert_eq!(bench.seen().record("c"), None, "{setting:?}, {fault:?}");
        }
    }
}

/// No file system of SQLite's own says so of a sync; a VFS of the application's may.
#[test]
fn a_commit_whose_sync_is_called_busy_is_settled_like_any_other() {
    for setting in Setting::ALL {
        for nth in [1, 2] {
            let fault = Fault::of(&[Operation::Sync], File::Wal).from(nth).with_code(ffi::SQLITE_BUSY);
            check(&ALL[0], fault, setting);
        }
    }
}
