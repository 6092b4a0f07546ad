//! The files: those that are no store's, those that others have open, those that can't be written.

use super::{Run, Scene, files, fine, inspect, numbers, tenant};
use idempotency::{ClaimOutcome, Fingerprint, IdempotencyKey, Reply};
use rusqlite::{Connection, TransactionBehavior};
use std::ffi::OsStr;
use std::path::Path;

#[test]
fn a_path_that_leads_to_no_store_is_an_error_and_nothing_is_made_or_changed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("text"), "a text of more than a hundred bytes, which is no database ".repeat(4))
        .expect("a file");
    std::fs::write(path("empty"), "").expect("a file");
    Connection::open(path("app"))
        .and_then(|shell| shell.execute_batch("CREATE TABLE orders (id TEXT)"))
        .expect("a database");
    let newer = Scene::empty();
    Connection::open(newer.path())
        .and_then(|shell| shell.execute_batch("UPDATE idempotency_meta SET schema_version = 2"))
        .expect("a newer store");
    let before = (files(folder.path()), newer.files());
    for flags in [&[][..], &["--json"], &["--sweep"], &["--forget", "a", "k"]] {
        for (path, why) in [
            (path("missing"), "can't be opened"),
            (path("missing/store.db"), "can't be opened"),
            (path("text"), "the file is no SQLite database"),
            (path("empty"), "there is no store in this file"),
            (path("app"), "there is no store in this file"),
            (newer.path(), "schema version 2"),
        ] {
            let run = inspect(&path, flags);
            assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""), "{}: {flags:?}", path.display());
            assert!(run.stderr.starts_with("inspect: ") && run.stderr.contains(why), "{why}: {}", run.stderr);
            assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        }
    }
    let mut after = (files(folder.path()), newer.files());
    // Of the newer store, SQLite has made its empty log, as for any that is read.
    after.1.retain(|name, _| name == "store.db");
    assert_eq!(after, before);
}

/// SQLite makes the files of its log where they are not there, and a reader can't take them away again.
#[test]
fn a_look_changes_no_byte_of_the_file_and_what_sqlite_leaves_the_next_writer_takes_away() {
    let scene = Scene::of_each_kind();
    let before = scene.files();
    assert_eq!(before.len(), 1, "closed, so that there is no log");
    fine(&scene.inspect(&[]));
    let after = scene.files();
    let store = OsStr::new("store.db");
    assert!(after[store] == before[store]);
    for (name, content) in &after {
        let is_known = ["store.db", "store.db-wal", "store.db-shm"].iter().any(|known| name == known);
        assert!(is_known, "{name:?}");
        assert!(name != "store.db-wal" || content.is_empty(), "a log with something in it");
    }
    drop(scene.open());
    assert_eq!(scene.files().len(), 1);
}

#[test]
fn a_file_that_somebody_else_writes_to_is_inspected_and_left_as_it_was() {
    let scene = Scene::of_each_kind();
    scene.clock.set(scene.now);
    let service = scene.open();
    let key = IdempotencyKey::new("new").expect("a key");
    let claimed = service.try_claim(&tenant(), &key, &Fingerprint::builder().finish());
    let Ok(ClaimOutcome::Claimed(claim)) = claimed else { panic!("{claimed:?}") };
    // Another one's number for the file changes with each commit that is not its own.
    let mut other = Connection::open(scene.path()).expect("the file");
    let version = |other: &Connection| -> i64 {
        other.query_row("PRAGMA data_version", [], |row| row.get(0)).expect("a number")
    };
    let before = version(&other);
    assert_eq!(numbers(fine(&scene.inspect(&[])))["in progress"], 3, "what is in the log is seen");
    assert_eq!(version(&other), before, "it has written");
    claim.complete(Reply::Marker).expect("held");

    let transaction =
        other.transaction_with_behavior(TransactionBehavior::Immediate).expect("the write lock");
    transaction.execute("DELETE FROM idempotency_record", []).expect("nothing that stays");
    assert_eq!(numbers(fine(&scene.inspect(&[])))["completed"], 2, "a reader does not wait");
    let run = scene.inspect(&["--sweep"]);
    assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""), "and a writer not for ever");
    assert!(run.stderr.contains("the store is busy"), "{}", run.stderr);
    transaction.rollback().expect("an end");
    assert!(
        fine(&scene.inspect(&["--sweep"])).starts_with("3 expired records swept\n"),
        "beside the service"
    );
    assert_eq!(service.stats().expect("counts").expired, 0);
}

/// As somebody whom the modes of files stop, which are nothing to root.
#[cfg(unix)]
#[test]
fn a_file_or_a_folder_that_can_not_be_written_is_inspected_by_who_may_read_it() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    let scene = Scene::of_each_kind();
    let set_mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    };
    let tools = tempfile::tempdir().expect("a temporary folder");
    let program = tools.path().join("inspect");
    std::fs::copy(crate::example("inspect"), &program).expect("a copy of the example");
    for path in [tools.path(), &program] {
        set_mode(path, 0o755);
    }
    let is_root = tools.path().metadata().expect("its metadata").uid() == 0;
    let inspect = |file: &OsStr, flags: &[&str]| {
        let mut command = std::process::Command::new(&program);
        command.arg(file).args(flags);
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.output().expect("the example to start");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Run { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    };

    set_mode(&scene.path(), 0o444);
    set_mode(scene.folder.path(), 0o777);
    let run = inspect(scene.path().as_os_str(), &[]);
    assert_eq!(numbers(fine(&run))["lapsed"], 2);
    let run = inspect(scene.path().as_os_str(), &["--sweep"]);
    assert_eq!(run.status, Some(1), "{}", run.stdout);
    assert!(run.stderr.contains("the store is read-only"), "{}", run.stderr);

    for name in ["store.db-wal", "store.db-shm"] {
        std::fs::remove_file(scene.folder.path().join(name)).expect("what SQLite has made");
    }
    set_mode(scene.folder.path(), 0o555);
    let run = inspect(scene.path().as_os_str(), &[]);
    assert_eq!(run.status, Some(1), "there is no place for a log: {}", run.stdout);
    let uri = format!("file:{}?immutable=1", scene.path().display());
    let run = inspect(OsStr::new(&uri), &[]);
    assert_eq!(numbers(fine(&run))["lapsed"], 2);
    assert_eq!(scene.files().len(), 1);
    set_mode(scene.folder.path(), 0o755);
}
