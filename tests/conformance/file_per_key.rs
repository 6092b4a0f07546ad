//! The example of `docs/backends.md`, which people copy.

#[path = "../../examples/file_per_key/backend/mod.rs"]
mod backend;

use backend::FilePerKey;
use idempotency::testing::conformance::{Subject, run_all};
use idempotency::{
    Backend, Command, Error, Fingerprint, IdempotencyKey, Period, RecordId, Scope, SystemClock,
};
use std::fs;
use std::time::Duration;

/// In memory where the system offers that: each claim syncs four times, and what a sync promises is not shown here.
fn file_per_key() -> Subject {
    let folder =
        tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder");
    Subject::durable(move |clock| FilePerKey::open(folder.path(), clock))
}

idempotency::conformance!(file_per_key);

#[test]
fn only_what_it_says_it_can_not_do_is_skipped() {
    let report = run_all(&file_per_key);
    assert!(report.is_conformant(), "{report}");
    let skipped: Vec<_> = report.skipped().map(|(check, _)| check.name()).collect();
    assert_eq!(
        skipped,
        [
            "each_record_is_counted_once_as_it_stands",
            "what_records_hold_is_counted",
            "lapsed_claims_are_listed_by_the_end_of_their_leases",
            "a_lease_that_a_step_of_the_clock_made_too_long_is_listed",
        ],
        "{report}"
    );
}

/// A store in a folder, with one claim.
fn with_one_claim() -> (tempfile::TempDir, FilePerKey, RecordId, Command) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = FilePerKey::open(folder.path(), SystemClock).expect("a fresh store");
    let id = RecordId::new(
        Scope::new("tenant").expect("a scope"),
        IdempotencyKey::new("../../etc/passwd").expect("a key"),
    );
    let hour = Period::new(Duration::from_secs(3_600)).expect("a period");
    let claim = Command::Claim { fingerprint: Fingerprint::builder().finish(), lease: hour, retention: hour };
    store.execute(&id, &claim).expect("an answer");
    (folder, store, id, claim)
}

#[test]
fn a_byte_that_changes_anywhere_in_a_record_is_found_and_nothing_is_granted() {
    let (folder, store, id, claim) = with_one_claim();
    let files = fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("an entry").path());
    let record = files.filter(|path| path.to_string_lossy().contains("/r-")).collect::<Vec<_>>();
    let [path] = record.as_slice() else { panic!("one record, in one file: {record:?}") };
    let whole = fs::read(path).expect("a file");
    let mut damages: Vec<_> = (0..whole.len()).map(|len| whole[..len].to_vec()).collect();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        damages.push(flipped);
    }
    println!("{} damaged files", damages.len());
    for damaged in damages {
        fs::write(path, &damaged).expect("a file");
        let answers = [store.execute(&id, &claim).map(drop), store.read(&id).map(drop)];
        for answer in answers {
            let error = answer.map_err(Error::from).expect_err("the damage is found");
            assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
        }
        assert_eq!(fs::read(path).expect("a file"), damaged, "nothing was written");
    }
    fs::write(path, &whole).expect("a file");
    assert!(store.read(&id).expect("a record").is_some());
}

#[test]
fn a_folder_that_is_open_is_busy_and_can_be_opened_once_it_is_closed() {
    let (folder, store, id, _) = with_one_claim();
    let error = FilePerKey::open(folder.path(), SystemClock).expect_err("it is in use");
    assert!(matches!(Error::from(error), Error::Busy(_)));
    drop(store);
    let again = FilePerKey::open(folder.path(), SystemClock).expect("a free folder");
    assert!(again.read(&id).expect("a record").is_some());
}
