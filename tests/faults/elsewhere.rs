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
            // A look that failed has lost its connection, and the next one opens another.
            assert_eq!(bench.store.lookup(&s, &k).expect("the disk works"), None, "{name}, {code}");
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

#[test]
fn a_look_that_failed_has_its_connection_opened_anew_once() {
    let bench = Bench::new(Setting::PLAIN);
    let (s, print) = (scope(SCOPE), asks_for("x"));
    let running = bench.store.try_claim(&s, &key("a"), &print).expect("a sound disk");
    assert!(matches!(running, idempotency::ClaimOutcome::Claimed(_)));
    let looks: [Call<'_>; 2] = [
        ("lookup", &|| bench.store.lookup(&s, &key("a")).map(drop)),
        ("claim", &|| bench.store.try_claim(&s, &key("a"), &print).map(drop)),
    ];
    for (name, look) in looks {
        bench.forget_pages();
        bench.disk.fail(Fault::of(&[Operation::Read], File::Main).lasting());
        let error = look().expect_err("no page can be read");
        assert!(matches!(error, Error::Unavailable(_)), "{name}: {error:?}");
        let failed = bench.disk.heal();
        assert_eq!(failed.count(Operation::Open, File::Main), 0, "{name}: {failed:?}");
        bench.disk.fail(Fault::none());
        for _ in 0..3 {
            look().expect("the disk works again");
        }
        let healed = bench.disk.heal();
        assert_eq!(healed.count(Operation::Open, File::Main), 1, "{name}: {healed:?}");
        assert_eq!(
            healed.count(Operation::Write, File::Wal),
            0,
            "{name}: the writer was not asked, {healed:?}"
        );
    }
}

/// A checkpoint is for whoever takes over.
#[test]
fn a_claim_that_hears_of_one_that_runs_reads_no_page_of_its_checkpoint() {
    const PAGES: usize = 15;
    let bench = Bench::new(Setting::PLAIN);
    let (s, print) = (scope(SCOPE), asks_for("x"));
    let mut owner = bench.store.try_claim(&s, &key("a"), &print).map(|answer| match answer {
        idempotency::ClaimOutcome::Claimed(claim) => claim,
        other => panic!("wanted Claimed, got {other:?}"),
    });
    owner.as_mut().expect("a sound disk").save_checkpoint(vec![1; PAGES * 4_096]).expect("held");
    let reads = |look: &dyn Fn()| {
        bench.forget_pages();
        bench.disk.fail(Fault::none());
        look();
        bench.disk.heal().count(Operation::Read, File::Main)
    };
    let of_a_look_up = reads(&|| drop(bench.store.lookup(&s, &key("a")).expect("a sound disk")));
    let of_a_claim = reads(&|| drop(bench.store.try_claim(&s, &key("a"), &print).expect("a sound disk")));
    assert!(of_a_look_up > PAGES, "{of_a_look_up}: it has the checkpoint");
    assert!(of_a_claim + PAGES <= of_a_look_up, "{of_a_claim} of {of_a_look_up}");
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
