//! Case 54: which SQLite is linked. By default the one that rusqlite ships; `just system-sqlite` builds these
//! tests with the system's, which on many systems is too old.

use crate::{folder, open};
use idempotency::{Error, SqliteOptions};
use std::path::Path;

/// Whether the linked library has the mend for commits that a checkpoint could lose while the log was reset:
/// 3.51.3 and later, and the two older lines that it was brought back to.
fn is_mended() -> bool {
    let number = rusqlite::version_number();
    let (line, patch) = (number / 1_000, number % 1_000);
    match line {
        3_044 => patch >= 6,
        3_050 => patch >= 7,
        3_051 => patch >= 3,
        _ => line > 3_051,
    }
}

/// Guards the next change of rusqlite's version.
#[cfg(feature = "bundled")]
#[test]
fn the_bundled_library_loses_no_commits() {
    assert!(is_mended(), "SQLite {}", rusqlite::version());
}

#[test]
fn a_library_that_loses_commits_is_refused_before_anything_is_touched_and_another_is_not() {
    let folder = folder();
    let fresh = folder.path().join("fresh.db");
    let existing = folder.path().join("existing.db");
    let before = include_bytes!("../data/version-1.db");
    std::fs::write(&existing, before).expect("a store");
    println!("SQLite {}", rusqlite::version());
    if is_mended() {
        for path in [&fresh, &existing] {
            open(path, SqliteOptions::new()).expect("a sound library");
        }
        assert!(fresh.exists());
        return;
    }
    let set_up = || SqliteOptions::new().with_connection_setup(|_| panic!("a connection was opened"));
    let refused = |path: &Path, options: SqliteOptions| {
        let error = open(path, options).expect_err("an old library");
        assert!(!error.is_transient() && !error.is_indefinite(), "{error:?}");
        let Error::OldLibrary { found } = error else { panic!("{error:?}") };
        assert_eq!(found, rusqlite::version());
        assert!(error.to_string().contains(found), "{error}");
    };
    for path in [&fresh, &existing] {
        refused(path, set_up());
        refused(path, set_up().read_only());
    }
    assert!(std::fs::read(&existing).expect("the file") == before, "it was changed");
    let entries = std::fs::read_dir(folder.path()).expect("a readable folder").count();
    assert_eq!(entries, 1, "a file was made");
}
