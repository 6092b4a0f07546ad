//! The example of `docs/backends.md`, which people copy.

#[path = "../../examples/file_per_key/backend/mod.rs"]
mod backend;

use backend::FilePerKey;
use idempotency::testing::conformance::{Subject, Verdict, check};
use idempotency::time::ManualClock;
use idempotency::{
    Backend, Command, Error, FencingToken, Fingerprint, IdempotencyKey, Outcome, Period, RecordId, Scope,
    Timestamp,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// In memory where the system has `/dev/shm`: each claim syncs four times, and what a sync promises is not shown here.
/// Elsewhere where all temporary files are, which is slower.
fn a_folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder")
}

fn file_per_key() -> Subject {
    let folder = a_folder();
    // Called again when a check closes the store and opens it once more.
    Subject::durable(move |clock| FilePerKey::open(folder.path(), clock))
}

idempotency::conformance!(file_per_key);

#[test]
fn the_page_shows_what_is_tested_here() {
    let page = include_str!("../../docs/backends.md");
    let (_, shown) = page.split_once("```rust\n").expect("a block of code");
    let (shown, _) = shown.split_once("```").expect("its end");
    assert!(shown.contains("conformance!") && include_str!("file_per_key.rs").contains(shown), "{shown}");
}

#[test]
fn what_it_says_it_can_not_do_is_skipped() {
    for name in [
        "each_record_is_counted_once_as_it_stands",
        "what_records_hold_is_counted",
        "lapsed_claims_are_listed_by_the_end_of_their_leases",
        "a_lease_that_a_step_of_the_clock_made_too_long_is_listed",
    ] {
        let verdict = check(name).expect("a check").run(file_per_key);
        assert!(matches!(verdict, Ok(Verdict::Skipped { .. })), "{name}: {verdict:?}");
    }
}

fn id(key: &str) -> RecordId {
    RecordId::new(Scope::new("tenant").expect("a scope"), IdempotencyKey::new(key).expect("a key"))
}

/// The claim of all of these tests: its lease and its retention are an hour.
fn claim() -> Command {
    let hour = Period::new(Duration::from_secs(3_600)).expect("a period");
    Command::Claim { fingerprint: Fingerprint::builder().finish(), lease: hour, retention: hour }
}

fn open(folder: &Path, clock: &ManualClock) -> Result<FilePerKey, Error> {
    FilePerKey::open(folder, clock.clone()).map_err(Error::from)
}

fn token_of_a_claim(store: &FilePerKey, key: &str) -> FencingToken {
    store.execute(&id(key), &claim()).expect("an answer");
    store.read(&id(key)).expect("an answer").expect("a record").0.token
}

/// The files of records, in no order.
fn records(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let records = files.filter(|file| file.file_name().to_string_lossy().starts_with("r-"));
    records.map(|file| file.path()).collect()
}

/// Makes a claim and gives the file that it made.
fn file_of_a_claim(folder: &Path, store: &FilePerKey, key: &str) -> PathBuf {
    let before = records(folder);
    store.execute(&id(key), &claim()).expect("an answer");
    records(folder).into_iter().find(|file| !before.contains(file)).expect("a new file")
}

/// A store in a folder, with one claim, made in 1970.
fn with_one_claim() -> (TempDir, FilePerKey, ManualClock, PathBuf) {
    let (folder, clock) = (a_folder(), ManualClock::new(Timestamp::from_millis(0)));
    let store = open(folder.path(), &clock).expect("a fresh store");
    let file = file_of_a_claim(folder.path(), &store, "../../etc/passwd");
    (folder, store, clock, file)
}

#[test]
fn a_byte_that_changes_anywhere_in_a_record_is_found_and_nothing_is_granted() {
    let (_folder, store, _, path) = with_one_claim();
    let id = id("../../etc/passwd");
    let whole = fs::read(&path).expect("a file");
    let mut damages: Vec<_> = (0..whole.len()).map(|len| whole[..len].to_vec()).collect();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        damages.push(flipped);
    }
    println!("{} damaged files", damages.len());
    for damaged in damages {
        fs::write(&path, &damaged).expect("a file");
        let answers = [store.execute(&id, &claim()).map(drop), store.read(&id).map(drop)];
        for answer in answers {
            let error = answer.map_err(Error::from).expect_err("the damage is found");
            assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
        }
        assert_eq!(fs::read(&path).expect("a file"), damaged, "nothing was written");
    }
    fs::write(&path, &whole).expect("a file");
    assert!(store.read(&id).expect("a record").is_some());
}

#[test]
fn a_folder_that_is_open_is_busy_and_can_be_opened_once_it_is_closed() {
    let (folder, store, clock, _) = with_one_claim();
    let error = open(folder.path(), &clock).expect_err("it is in use");
    assert!(matches!(error, Error::Busy(_)), "{error:?}");
    drop(store);
    let again = open(folder.path(), &clock).expect("a free folder");
    assert!(again.read(&id("../../etc/passwd")).expect("an answer").is_some());
}

#[test]
fn a_folder_that_is_not_there_or_of_an_unknown_layout_is_not_opened() {
    let (folder, store, clock, _) = with_one_claim();
    let error = open(&folder.path().join("missing"), &clock).expect_err("there is none");
    assert!(matches!(error, Error::CannotOpen(_)), "{error:?}");
    drop(store);
    fs::write(folder.path().join("store"), "file-per-key 2 0123456789abcdef").expect("a file");
    let error = open(folder.path(), &clock).expect_err("it is unknown");
    assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
}

#[test]
fn a_record_that_was_copied_over_anothers_is_damage_and_no_sweep_removes_it() {
    let (folder, store, clock, expired) = with_one_claim();
    clock.advance(Duration::from_secs(7_201));
    let living = file_of_a_claim(folder.path(), &store, "living");
    fs::copy(&expired, &living).expect("a copy");
    let is_kept = |store: &FilePerKey, swept| {
        // When the entry of the one copied over comes to be due.
        clock.advance(Duration::from_secs(7_201));
        assert_eq!(store.sweep(10).expect("a sweep").removed, swept);
        let error = store.execute(&id("living"), &claim()).map_err(Error::from).expect_err("damage");
        assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
        assert!(living.exists());
    };
    is_kept(&store, 1);
    drop(store);
    is_kept(&open(folder.path(), &clock).expect("a free folder"), 0);
}

#[test]
fn a_damaged_file_does_not_keep_the_sweep_from_the_others() {
    let (folder, store, clock, damaged) = with_one_claim();
    for n in 1..=3 {
        clock.advance(Duration::from_millis(n));
        store.execute(&id(&format!("later {n}")), &claim()).expect("an answer");
    }
    fs::write(&damaged, "damaged").expect("a file");
    clock.advance(Duration::from_secs(7_201));
    let swept = store.sweep(10).expect("a sweep");
    assert_eq!((swept.removed, swept.more), (3, false));
    assert_eq!(records(folder.path()), [damaged]);
}

#[test]
fn no_token_is_below_the_wall_clock() {
    let (_folder, store, ..) = with_one_claim();
    for key in ["a", "b"] {
        let before = FencingToken::at_wall_clock();
        assert!(token_of_a_claim(&store, key) >= before);
    }
}

#[test]
fn the_tokens_rise_on_if_the_file_with_the_highest_is_lost() {
    let (folder, store, clock, _) = with_one_claim();
    drop(store);
    let counter = folder.path().join("token");
    let far = FencingToken::new(i64::MAX / 2).expect("a token");
    fs::write(&counter, far.to_string()).expect("a file");
    let granted = token_of_a_claim(&open(folder.path(), &clock).expect("a store"), "first");
    assert!(granted > far);
    fs::remove_file(&counter).expect("a file");
    assert!(token_of_a_claim(&open(folder.path(), &clock).expect("a store"), "second") > granted);
}

/// Whether the number lasts is unknown then; that nothing was claimed is not.
#[test]
fn a_claim_whose_token_can_not_be_kept_is_not_made_and_says_so() {
    let (folder, store, ..) = with_one_claim();
    let counter = folder.path().join("token");
    fs::remove_file(&counter).expect("a file");
    // No file takes the place of a folder.
    fs::create_dir(&counter).expect("a folder");
    let error = store.execute(&id("other"), &claim()).map_err(Error::from).expect_err("no token");
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
    assert!(store.read(&id("other")).expect("an answer").is_none());
    fs::remove_dir(&counter).expect("a folder");
    assert!(matches!(store.execute(&id("other"), &claim()), Ok(Outcome::Claimed(_))));
}

#[cfg(unix)]
#[test]
fn a_forked_child_is_refused_and_has_no_store_of_its_own_there() {
    use crate::alone::alone;
    use crate::fork::{AS_IT_SHOULD_BE, in_a_fork};
    alone("file_per_key::a_forked_child_is_refused_and_has_no_store_of_its_own_there", || {
        let (folder, store, clock, file) = with_one_claim();
        let number = in_a_fork(|| {
            let forked = |answer: Result<(), _>| matches!(answer.map_err(Error::from), Err(Error::Forked));
            assert!(forked(store.execute(&id("child"), &claim()).map(drop)));
            assert!(forked(store.read(&id("child")).map(drop)));
            assert!(forked(store.sweep(1).map(drop)));
            assert!(matches!(open(folder.path(), &clock), Err(Error::Busy(_))));
            AS_IT_SHOULD_BE
        });
        assert_eq!(number, AS_IT_SHOULD_BE);
        assert_eq!(records(folder.path()), [file]);
        store.execute(&id("parent"), &claim()).expect("the parent's store works on");
    });
}
