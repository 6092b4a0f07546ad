//! Errors that are not of a commit, and that nothing which can't get better is tried again.

use crate::bench::{Bench, SCOPE, Setting};
use crate::common::{asks_for, key, scope};
use crate::scenarios::ALL;
use crate::truth::check_at_every_operation;
use crate::vfs::{Fault, File, Operation};
use idempotency::{Error, Reply};
use rusqlite::ffi;
use std::ffi::c_int;

/// What SQLite fails with, and what the store calls it.
type Kind = (c_int, fn(&Error) -> bool);

const KINDS: [Kind; 8] = [
    (ffi::SQLITE_IOERR_READ, |error| matches!(error, Error::Unavailable(_))),
    (ffi::SQLITE_IOERR_NOMEM, |error| matches!(error, Error::Unavailable(_))),
    (ffi::SQLITE_NOMEM, |error| matches!(error, Error::Unavailable(_))),
    (ffi::SQLITE_FULL, |error| matches!(error, Error::Full(_))),
    (ffi::SQLITE_CORRUPT, |error| matches!(error, Error::Corrupt { .. })),
    (ffi::SQLITE_READONLY, |error| matches!(error, Error::ReadOnly(_))),
    (ffi::SQLITE_CANTOPEN, |error| matches!(error, Error::CannotOpen(_))),
    (ffi::SQLITE_NOTADB, |error| matches!(error, Error::Foreign { .. })),
];

/// A call on the store, and its name.
type Call<'b> = (&'static str, &'b dyn Fn() -> Result<(), Error>);

#[test]
fn a_read_that_fails_is_an_error_of_its_kind_and_nothing_is_done() {
    for (code, is_its_kind) in KINDS {
        let bench = Bench::new(Setting::PLAIN);
        let (s, k, print) = (scope(SCOPE), key("a"), asks_for("x"));
        let ticket = bench.store.try_claim(&s, &key("b"), &print).map(|answer| match answer {
            idempotency::ClaimOutcome::Claimed(claim) => claim.into_ticket(),
            other => panic!("wanted Claimed, got {other:?}"),
        });
        let ticket = ticket.expect("a sound disk");
        let before = bench.stored();
        let calls: [Call<'_>; 5] = [
            ("lookup", &|| bench.store.lookup(&s, &key("b")).map(drop)),
            ("claim", &|| bench.store.try_claim(&s, &k, &print).map(drop)),
            ("claim of many", &|| {
                let many = [(s.clone(), k.clone(), print), (s.clone(), key("c"), print)];
                bench.store.try_claim_many(&many).into_iter().try_for_each(|answer| answer.map(drop))
            }),
            ("complete", &|| bench.store.complete(&ticket, Reply::Marker).map(drop)),
            ("sweep", &|| bench.store.sweep(10).map(drop)),
        ];
        for (name, call) in calls {
            bench.forget_pages();
            bench.disk.fail(Fault::of(&[Operation::Read], File::Main).with_code(code).lasting());
            let error = call().expect_err("no page can be read");
            let log = bench.disk.heal();
            assert!(is_its_kind(&error), "{name}, {code}: {error:?}");
            assert!(!error.is_indefinite(), "{name}, {code}: {error:?}");
            assert_eq!(error.is_transient(), matches!(error, Error::Unavailable(_)), "{name}, {code}");
            assert_eq!(log.failed(), 1, "{name}, {code}: it was not tried again, {log:?}");
            assert_eq!(log.count(Operation::Write, File::Wal), 0, "{name}, {code}: {log:?}");
            assert_eq!(bench.stored_if_killed(), before, "{name}, {code}");
        }
        bench.store.complete(&ticket, Reply::Marker).expect("the disk works again");
    }
}

/// The first failure of the operation, what SQLite meets when it gives the connection up, and the first
/// failure of the one settlement.
pub const MOST_FAILURES: usize = 8;

#[test]
fn what_can_not_get_better_is_not_tried_again_inside() {
    for (code, _) in KINDS {
        for setting in [Setting::PLAIN, Setting::IN_COMPANY] {
            for scenario in ALL.iter().filter(|scenario| ["claim", "complete"].contains(&scenario.name)) {
                let fault = Fault::of_any().with_code(code).lasting();
                let hit = check_at_every_operation(scenario, fault, setting, |run, context| {
                    assert!(run.log.count(Operation::Open, File::Main) <= 1, "{context}: {:?}", run.log);
                    assert!(run.log.failed() <= MOST_FAILURES, "{context}: {:?}", run.log);
                });
                assert!(hit > 0, "{}", scenario.name);
            }
        }
    }
}
