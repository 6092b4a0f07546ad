//! Opening on a disk that fails: an error of its kind, and nothing that was there is lost.

use crate::bench::{self, KEYS, SCOPE, Setting, Stored, open, shell};
use crate::common::{Answer as _, START, asks_for, key, scope};
use crate::elsewhere::MOST_FAILURES;
use crate::vfs::{Disk, Fault, File, Operation};
use idempotency::{Error, ManualClock, Reply, SqliteOptions};
use rusqlite::ffi;
use std::ffi::c_int;
use std::path::Path;

/// What is in the file before it is opened, and how it comes there.
type Contents = (&'static str, fn(&Path));

const FILES: [Contents; 3] = [
    ("no file", |_| {}),
    ("the application's own", |path| orders(path)),
    ("a store", |path| {
        orders(path);
        let options = SqliteOptions::new().with_clock(ManualClock::new(START)).with_vfs(bench::sound_disk());
        let store = open(path, options).expect("a sound disk");
        let claim = store.try_claim(&scope(SCOPE), &key(KEYS[0]), &asks_for("x")).expect("a store").claimed();
        claim.complete(Reply::Reference("7".repeat(6_000))).expect("held");
    }),
];

fn orders(path: &Path) {
    shell(path).execute_batch("CREATE TABLE IF NOT EXISTS orders (id TEXT UNIQUE) STRICT").expect("a table");
}

/// Opens the file with `fault`, and again on a sound disk: all is there, and can be worked with. Says whether
/// the fault was met, and what came of it.
fn check(contents: &Contents, fault: Fault, setting: Setting) -> Option<Result<(), Error>> {
    let (name, make) = contents;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("store.db");
    make(&path);
    let before = path.exists().then(|| Stored::if_killed(&path));
    let (disk, clock) = (Disk::new(), ManualClock::new(START));
    let options = bench::options(&disk, &clock, setting);
    disk.fail(fault);
    let opened = open(&path, options.clone());
    let log = disk.heal();
    let context = format!("{name}, {setting:?}, {fault:?}: {opened:?}");
    assert!(log.failed() <= MOST_FAILURES, "{context}: it was tried again, {log:?}");
    if let Some(before) = &before {
        assert_eq!(Stored::if_killed(&path), *before, "{context}, if killed");
    }
    let store = open(&path, options).expect(&context);
    let claim = store.try_claim(&scope(SCOPE), &key("e"), &asks_for("x")).expect(&context).claimed();
    if let Some(before) = &before {
        orders(&path);
        let after = Stored::if_killed(&path);
        assert_eq!(after.without(&["e"]), before.records, "{context}, opened again");
        assert!(claim.token().get() > before.highest_token(), "{context}");
    }
    (log.failed() > 0).then(|| opened.map(drop))
}

fn meets_faults_anywhere(setting: Setting) {
    for contents in &FILES {
        for fault in [Fault::of_any(), Fault::of_any().times(2), Fault::of_any().lasting()] {
            let mut refused = 0;
            for nth in 1.. {
                let Some(opened) = check(contents, fault.from(nth), setting) else { break };
                if let Err(error) = opened {
                    let is_of_the_disk = match error {
                        Error::Unavailable(_) | Error::CannotOpen(_) => true,
                        // A store that is being made may be there, or not.
                        Error::Indefinite(_) => contents.0 != "a store",
                        _ => false,
                    };
                    assert!(is_of_the_disk, "{}, from operation {nth}: {error:?}", contents.0);
                    refused += 1;
                }
            }
            assert!(refused > 10, "{}, {fault:?}: refused {refused} times", contents.0);
            println!("{}, {setting:?}, {fault:?}: refused {refused} times", contents.0);
        }
    }
}

#[test]
fn an_opening_that_meets_faults_anywhere_loses_nothing_and_can_be_tried_again() {
    meets_faults_anywhere(Setting::PLAIN);
}

#[test]
fn at_normal_durability_an_opening_that_meets_faults_anywhere_loses_nothing_either() {
    meets_faults_anywhere(Setting::NORMAL[0]);
}

#[test]
fn an_opening_that_fails_says_what_of() {
    type Kind = (Operation, c_int, fn(&Error) -> bool);
    let kinds: [Kind; 8] = [
        (Operation::Open, ffi::SQLITE_CANTOPEN, |error| matches!(error, Error::CannotOpen(_))),
        (Operation::Read, ffi::SQLITE_IOERR_READ, |error| matches!(error, Error::Unavailable(_))),
        (Operation::Read, ffi::SQLITE_NOTADB, |error| matches!(error, Error::Foreign { .. })),
        (Operation::Read, ffi::SQLITE_CORRUPT, |error| matches!(error, Error::Corrupt { .. })),
        (Operation::Lock, ffi::SQLITE_IOERR_LOCK, |error| matches!(error, Error::Unavailable(_))),
        (Operation::ShmMap, ffi::SQLITE_IOERR_SHMMAP, |error| matches!(error, Error::Unavailable(_))),
        (Operation::ShmMap, ffi::SQLITE_IOERR_NOMEM, |error| matches!(error, Error::Unavailable(_))),
        (Operation::ShmLock, ffi::SQLITE_IOERR_SHMLOCK, |error| matches!(error, Error::Unavailable(_))),
    ];
    for (operation, code, is_its_kind) in kinds {
        let operations: &'static [Operation] = match operation {
            Operation::Open => &[Operation::Open],
            Operation::Read => &[Operation::Read],
            Operation::Lock => &[Operation::Lock],
            Operation::ShmMap => &[Operation::ShmMap],
            _ => &[Operation::ShmLock],
        };
        let fault = Fault::of(operations, File::Main).with_code(code).lasting();
        let opened = check(&FILES[2], fault, Setting::PLAIN).expect("the fault was met");
        let error = opened.expect_err("it can't be opened");
        assert!(is_its_kind(&error), "{operation:?}, {code}: {error:?}");
    }
}
