//! What happens before the power goes: a store from its first opening on, its changes on tape.

use crate::bench::Setting;
use crate::bench::{FAR_AHEAD, open, options};
use crate::caller::Caller;
use crate::common::{START, key, scope};
use crate::judge::restore;
use crate::lane::Lane;
use crate::tape::{Change, Folder, Tape, folder_at};
use crate::vfs::{Disk, Syncs};
use idempotency::{Durability, ManualClock, SqliteStore};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::sync::Barrier;
use std::thread;

/// What was done, by whom, and what the disk was asked to change meanwhile.
pub struct Story {
    pub lanes: Vec<Lane>,
    pub tape: Tape,
    /// What the folder had in the end, as the system has it.
    pub end: Folder,
    /// While the last handle was still open, so with the log.
    pub before_the_end: Folder,
}

impl Story {
    /// How many operations of the callers but the first had no sync of their own.
    pub fn shared(&self) -> usize {
        let steps: Vec<_> = self.lanes.iter().skip(1).flat_map(|lane| &lane.steps[1..]).collect();
        let from = steps.iter().map(|step| step.began).min().unwrap_or(0);
        let to = steps.iter().map(|step| step.acknowledged).max().unwrap_or(0);
        let syncs = self.tape.changes[from..to].iter().filter(|change| matches!(change, Change::Sync { .. }));
        steps.len().saturating_sub(syncs.count())
    }
}

/// A connection of the application's, as durable as the store.
fn application(path: &Path, disk: &Disk, setting: Setting) -> Connection {
    let shell = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), disk.vfs()).expect("a file");
    let synchronous = if setting.durability == Durability::Full { "FULL" } else { "NORMAL" };
    shell.pragma_update(None, "synchronous", synchronous).expect("a pragma");
    shell.pragma_update(None, "wal_autocheckpoint", setting.checkpoint_after).expect("a pragma");
    shell
}

/// A store is made, and beside it the application's table.
fn opening(
    caller: &mut Caller<'_>,
    path: &Path,
    disk: &Disk,
    clock: &ManualClock,
    setting: Setting,
) -> (SqliteStore, Connection) {
    let store = caller.step("open", |_, _| open(path, options(disk, clock, setting)).expect("a fresh store"));
    let shell = application(path, disk, setting);
    caller.step("create a table", |_, _| {
        shell.execute_batch("CREATE TABLE orders (scope TEXT, id TEXT UNIQUE) STRICT").expect("a table");
        if setting.counter_is_ahead {
            shell.execute("UPDATE idempotency_meta SET last_token = ?1", [FAR_AHEAD]).expect("a counter");
        }
    });
    (store, shell)
}

/// One caller that does everything, twice, and opens the store again between.
pub fn of_one_caller(setting: Setting, syncs: Syncs) -> Story {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("store.db");
    let (disk, clock) = (Disk::new(), ManualClock::new(START));
    disk.record(Folder::new(), syncs);
    let mut caller = Caller::new("s", &disk, &clock);
    let (store, mut shell) = opening(&mut caller, &path, &disk, &clock, setting);
    caller.work(&store, &mut shell, "1");
    if !setting.in_company {
        drop(shell);
        let close = |_: &mut Caller<'_>, _: &mut _| drop(store);
        caller.step("close", close);
    }
    let store =
        caller.step("open again", |_, _| open(&path, options(&disk, &clock, setting)).expect("a store"));
    let mut shell = application(&path, &disk, setting);
    caller.work(&store, &mut shell, "2");
    let before_the_end = folder_at(folder.path());
    drop((store, shell));
    let end = folder_at(folder.path());
    Story { lanes: vec![caller.into_lane()], tape: disk.take_tape(), end, before_the_end }
}

/// Callers that come together, each with work of its own.
pub fn of_threads(threads: usize, rounds: usize, setting: Setting) -> Story {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("store.db");
    let (disk, clock) = (Disk::new(), ManualClock::new(START));
    disk.record(Folder::new(), Syncs::Kept);
    let mut first = Caller::new("first", &disk, &clock);
    let (store, shell) = opening(&mut first, &path, &disk, &clock, setting);
    drop(shell);
    let start = Barrier::new(threads);
    let mut lanes = vec![first.into_lane()];
    let work = |thread: usize| {
        let mut caller = Caller::new(&format!("thread {thread}"), &disk, &clock);
        start.wait();
        for round in 0..rounds {
            let [a, b] = ["a", "b"].map(|name| format!("{thread} {round}{name}"));
            caller.claim(&store, "claim", &a, 1);
            caller.complete(&a);
            caller.atomically(&store, &b);
        }
        caller.into_lane()
    };
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        lanes.extend(threads.into_iter().map(|thread| thread.join().expect("no panic")));
    });
    let before_the_end = folder_at(folder.path());
    drop(store);
    let end = folder_at(folder.path());
    Story { lanes, tape: disk.take_tape(), end, before_the_end }
}

/// What the disk is asked to change when the store is opened on these files, looked at and closed.
pub fn recovery(files: &Folder, setting: Setting) -> Tape {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("store.db");
    restore(files, folder.path());
    let (disk, clock) = (Disk::new(), ManualClock::new(START));
    disk.record(files.clone(), Syncs::Kept);
    let store = open(&path, options(&disk, &clock, setting)).expect("a store");
    assert_eq!(store.lookup(&scope("s"), &key("none")).expect("a sound file"), None);
    drop(store);
    disk.take_tape()
}
