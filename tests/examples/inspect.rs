//! `examples/inspect.rs`.

mod done;
mod files;
mod printed;

use super::{Run, assert_arguments, run};
use idempotency::{
    Claim, ClaimOutcome, Clock, Fingerprint, IdempotencyKey, IdempotencyStore, ManualClock, Policy, Reply,
    Scope, SqliteBackend, SqliteOptions, SqliteStore, SystemClock, Timestamp,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

const HALF_AN_HOUR: u64 = 30 * 60;
const HOUR: u64 = 60 * 60;
const DAY: u64 = 24 * HOUR;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A store's file in a folder of its own, and the clock that its records are made by: the example itself goes
/// by the machine's.
struct Scene {
    folder: tempfile::TempDir,
    clock: ManualClock,
    now: Timestamp,
}

impl Scene {
    /// A file without records.
    fn empty() -> Self {
        let now = SystemClock.now();
        let scene = Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            clock: ManualClock::new(now),
            now,
        };
        drop(scene.open());
        scene
    }

    /// One of each kind: two claims that stand, one of them under a lease of tomorrow's; two that have
    /// lapsed, one of them a takeover; a completion, and three records that have expired.
    fn of_each_kind() -> Self {
        let scene = Self::empty();
        drop(scene.claim(scene.now, (HOUR, DAY), "running"));
        let tomorrow = scene.now.saturating_add(secs(25 * HOUR + HALF_AN_HOUR));
        drop(scene.claim(tomorrow, (2 * HOUR, DAY), "ahead"));
        let this_week = scene.now.saturating_sub(secs(3 * DAY + HOUR));
        drop(scene.claim(this_week, (60, 30 * DAY), "long dead"));
        drop(scene.claim(this_week.saturating_add(secs(DAY)), (90, 30 * DAY), "long dead"));
        let today = scene.now.saturating_sub(secs(5 * HOUR + HALF_AN_HOUR));
        drop(scene.claim(today, (HALF_AN_HOUR, DAY), "just dead"));
        scene.claim(scene.now, (60, DAY), "done").complete(Reply::Marker).expect("held");
        for name in ["old", "older", "oldest"] {
            drop(scene.claim(this_week, (60, DAY), name));
        }
        scene
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store.db")
    }

    fn open(&self) -> SqliteStore {
        let options = SqliteOptions::new().with_clock(self.clock.clone());
        IdempotencyStore::new(SqliteBackend::open(self.path(), options).expect("the store"))
    }

    /// A claim that is made at `at`, with a lease and a retention in seconds.
    fn claim(&self, at: Timestamp, (lease, retention): (u64, u64), name: &str) -> Claim {
        self.clock.set(at);
        let policy = Policy::new().with_lease(secs(lease)).with_retention(secs(retention));
        let store = self.open().with_policy(policy).expect("a usable policy");
        let key = IdempotencyKey::new(name).expect("a key");
        match store.try_claim(&tenant(), &key, &Fingerprint::builder().finish()).expect("a store") {
            ClaimOutcome::Claimed(claim) => claim,
            other => panic!("{name}: {other:?}"),
        }
    }

    fn inspect(&self, flags: &[&str]) -> Run {
        inspect(&self.path(), flags)
    }

    /// As it is now, by the machine's clock.
    fn is_stored(&self, name: &str) -> bool {
        self.clock.set(self.now);
        self.open().lookup(&tenant(), &IdempotencyKey::new(name).expect("a key")).expect("a store").is_some()
    }

    /// The files in the folder, each with what is in it.
    fn files(&self) -> BTreeMap<OsString, Vec<u8>> {
        files(self.folder.path())
    }
}

fn files(folder: &Path) -> BTreeMap<OsString, Vec<u8>> {
    std::fs::read_dir(folder)
        .expect("a readable folder")
        .map(|entry| entry.expect("a readable entry"))
        .map(|entry| (entry.file_name(), std::fs::read(entry.path()).expect("a readable file")))
        .collect()
}

fn tenant() -> Scope {
    Scope::new("tenant 4711").expect("a scope")
}

fn inspect(path: &Path, flags: &[&str]) -> Run {
    let arguments = std::iter::once(path.as_os_str()).chain(flags.iter().map(OsStr::new));
    run("inspect", &arguments.collect::<Vec<_>>())
}

/// What an example printed that had nothing to complain of.
#[track_caller]
fn fine(run: &Run) -> &str {
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""), "{}", run.stdout);
    &run.stdout
}

#[track_caller]
fn document(run: &Run) -> Value {
    serde_json::from_str(fine(run)).expect("one JSON document")
}

/// The numbers above the table, by name.
fn numbers(text: &str) -> BTreeMap<&str, u64> {
    let lines = text.lines().filter_map(|line| line.trim_start().split_once(' '));
    lines.filter_map(|(number, name)| Some((name, number.parse().ok()?))).collect()
}

/// The rows of the table, cell by cell.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .skip_while(|line| !line.starts_with("stuck"))
        .skip(1)
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect()
}

/// The digest of a name, as its `Display` has it between brackets.
fn digest(name: &str) -> String {
    let shown = IdempotencyKey::new(name).expect("a key").to_string();
    shown.trim_start_matches("IdempotencyKey(").trim_end_matches(')').to_owned()
}

#[test]
fn help_is_given_and_bad_arguments_are_refused_without_a_panic() {
    let wrong: [&[&str]; 16] = [
        &[],
        &["--json"],
        &["a.db", "b.db"],
        &["a.db", "--unknown"],
        &["a.db", "-x"],
        &["a.db", "--prefix"],
        &["a.db", "--prefix", "9"],
        &["a.db", "--prefix", "a_", "--prefix", "b_"],
        &["a.db", "--limit"],
        &["a.db", "--limit", "-1"],
        &["a.db", "--limit", "many"],
        &["a.db", "--forget"],
        &["a.db", "--forget", "scope"],
        &["a.db", "--forget", "", "key"],
        &["a.db", "--forget", "scope", "key", "--forget", "scope", "key"],
        &[":memory:"],
    ];
    assert_arguments("inspect", "--forget SCOPE KEY", &wrong);
}
