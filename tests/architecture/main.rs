//! The rules of the house (`docs/design.md`), checked by reading the sources. That no crate for networks,
//! HTTP or async gets into the tree is checked by `just deny`.

mod levels;
mod named;
mod source;

use levels::{LEVELS, Unit, unit_of};
use source::{Source, Token};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const MAX_LINES: usize = 400;
/// Files that may be longer than [`MAX_LINES`], with the reason.
const LONG_FILES: &[(&str, &str)] =
    &[("payments", "an example that a newcomer reads from top to bottom, so it is one file")];

fn house() -> Vec<Source> {
    Source::all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

fn display(module: &str) -> &str {
    if module.is_empty() { "lib" } else { module }
}

/// Files without a level, and levels without a file.
fn unknown_files(house: &[Source]) -> Vec<String> {
    let without_level = house
        .iter()
        .filter(|source| unit_of(&source.module).is_none())
        .map(|source| format!("{} has no level", source.module));
    let without_file = LEVELS
        .iter()
        .filter(|(unit, _)| house.iter().all(|source| source.module != *unit))
        .map(|(unit, _)| format!("{} has a level and no file", display(unit)));
    without_level.chain(without_file).collect()
}

/// One unit names something of another.
struct Import {
    place: String,
    by: Unit,
    of: Unit,
}

fn imports(house: &[Source]) -> Vec<Import> {
    let modules: BTreeSet<String> = house.iter().map(|source| source.module.clone()).collect();
    let mut imports = Vec::new();
    for source in house {
        let Some(by) = unit_of(&source.module) else { continue };
        for (line, module) in source.imports(&modules) {
            if let Some(of) = unit_of(&module).filter(|of| *of != by) {
                imports.push(Import { place: format!("{}:{line}", display(&source.module)), by, of });
            }
        }
    }
    imports
}

/// Imports from a higher level, and of one backend by another.
fn upward_imports(house: &[Source]) -> Vec<String> {
    let is_backend = |unit: &str| unit.starts_with("backend/");
    imports(house)
        .into_iter()
        .filter(|import| import.of.1 > import.by.1 || (is_backend(import.of.0) && is_backend(import.by.0)))
        .map(|import| format!("{} imports {}", import.place, display(import.of.0)))
        .collect()
}

/// Units that import each other, directly or around a corner. Those of one level may import one another, but
/// in one direction.
fn circles(house: &[Source]) -> Vec<String> {
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for import in imports(house) {
        uses.entry(import.by.0).or_default().insert(import.of.0);
    }
    // Takes away what uses nothing that is left, until nothing goes any more: what stays is on a circle or
    // above one.
    loop {
        let left: BTreeSet<&str> = uses.keys().copied().collect();
        uses.retain(|_, used| !used.is_disjoint(&left));
        if uses.len() == left.len() {
            return left.into_iter().map(str::to_owned).collect();
        }
    }
}

/// Places outside of the module `home` that name one of `names`.
fn named_outside(house: &[Source], home: &str, names: &[&str]) -> Vec<String> {
    let named = |source: &Source| -> Vec<String> {
        let places = source.tokens.iter().filter(|(_, token)| names.iter().any(|name| token.is_word(name)));
        places.map(|(line, token)| format!("{}:{line} names {token:?}", display(&source.module))).collect()
    };
    house.iter().filter(|source| source.module != home).flat_map(named).collect()
}

/// Places in the SQLite backend that reach for files behind SQLite's back. Closing any handle of a file drops
/// the locks that the process holds on it (SQLite, "How To Corrupt", section 2.2).
fn files_used_by_sqlite(house: &[Source]) -> Vec<String> {
    let is_inside =
        |source: &&Source| unit_of(&source.module).is_some_and(|(unit, _)| unit == "backend/sqlite");
    let is_a_file = |token: &Token| ["fs", "File", "OpenOptions"].iter().any(|name| token.is_word(name));
    let places = house.iter().filter(is_inside).flat_map(|source| {
        let named = source.tokens.iter().filter(|(_, token)| is_a_file(token));
        named.map(|(line, token)| format!("{}:{line} names {token:?}", display(&source.module)))
    });
    places.collect()
}

/// Transactions that don't take the write lock when they begin: in SQL, or by a default of rusqlite's.
fn transactions_not_immediate(house: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in house {
        for (at, (line, token)) in source.tokens.iter().enumerate() {
            let next = |ahead: usize| source.tokens.get(at + ahead).map(|(_, token)| token);
            let is_wrong = match token {
                Token::Text(text) => begins_otherwise(text),
                Token::Word(word) => match word.as_str() {
                    "TransactionBehavior" if next(1) == Some(&Token::PathSeparator) => {
                        !next(2).is_some_and(|behavior| behavior.is_word("Immediate"))
                    }
                    "transaction" => next(1) == Some(&Token::Punctuation('(')),
                    "unchecked_transaction" | "savepoint" | "set_transaction_behavior" => true,
                    _ => false,
                },
                _ => false,
            };
            if is_wrong {
                found.push(format!("{}:{line}", display(&source.module)));
            }
        }
    }
    found
}

/// Whether `text` is or holds a `BEGIN` that does not say `IMMEDIATE`. In small letters it is only taken for
/// SQL at the start.
fn begins_otherwise(text: &str) -> bool {
    let words: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty()).collect();
    words.iter().enumerate().any(|(at, word)| {
        let begins = *word == "BEGIN" || (at == 0 && word.eq_ignore_ascii_case("begin"));
        begins && !words.get(at + 1).is_some_and(|kind| kind.eq_ignore_ascii_case("immediate"))
    })
}

/// Files over the limit without a reason, and reasons without such a file.
fn lengths(house: &[Source], reasons: &[(&str, &str)]) -> Vec<String> {
    let is_long = |source: &&Source| source.lines > MAX_LINES;
    let has_reason =
        |module: &str| reasons.iter().any(|(file, reason)| *file == module && !reason.is_empty());
    let too_long = house
        .iter()
        .filter(is_long)
        .filter(|source| !has_reason(&source.module))
        .map(|source| format!("{} has {} lines", display(&source.module), source.lines));
    let idle = reasons
        .iter()
        .filter(|(file, _)| !house.iter().filter(is_long).any(|source| source.module == *file))
        .map(|(file, _)| format!("{file} has a reason and is not too long"));
    too_long.chain(idle).collect()
}

const NONE: [String; 0] = [];

#[test]
fn every_file_has_a_level() {
    assert_eq!(unknown_files(&house()), NONE);
}

#[test]
fn imports_go_down_only_and_backends_do_not_import_each_other() {
    let house = house();
    assert!(imports(&house).len() > LEVELS.len(), "the imports were not found");
    assert_eq!(upward_imports(&house), NONE);
    assert_eq!(circles(&house), NONE);
}

#[test]
fn only_sync_names_the_libraries_for_locks() {
    let house = house();
    let libraries = ["parking_lot", "loom", "shuttle"];
    assert_ne!(named_outside(&house, "", &libraries), NONE, "not even sync names them");
    assert_eq!(named_outside(&house, "sync", &libraries), NONE);
}

#[test]
fn only_time_reads_a_clock_of_the_machine() {
    let house = house();
    assert_ne!(named_outside(&house, "", &["SystemTime", "Instant"]), NONE, "not even time names them");
    assert_eq!(named_outside(&house, "time", &["SystemTime", "Instant"]), NONE);
}

#[test]
fn only_what_publishes_names_the_crates_for_that() {
    for (home, names) in
        [("observed/trace", ["tracing", "EnteredSpan"]), ("observed/publish", ["with_recorder", "Histogram"])]
    {
        let house = house();
        assert_ne!(named_outside(&house, "", &names), NONE, "not even {home} names them");
        assert_eq!(named_outside(&house, home, &names), NONE);
    }
}

#[test]
fn every_transaction_begins_as_immediate() {
    assert_eq!(transactions_not_immediate(&house()), NONE);
}

/// Case 56.
#[test]
fn the_files_of_a_database_are_sqlites_alone() {
    assert_eq!(files_used_by_sqlite(&house()), NONE);
}

#[test]
fn no_file_is_over_the_limit_without_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["src", "tests", "examples", "benches", "fuzz/src", "fuzz/fuzz_targets"];
    let all: Vec<Source> = folders.iter().flat_map(|folder| Source::all(&root.join(folder))).collect();
    assert_eq!(lengths(&all, LONG_FILES), NONE);
}

#[test]
fn the_oldest_rust_version_is_the_same_wherever_it_is_stated() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let expected = env!("CARGO_PKG_RUST_VERSION");
    let statements = [
        ("README.md", format!("Minimum Rust version: {expected}")),
        ("CHANGELOG.md", format!("Rust {expected}")),
        ("fuzz/Cargo.toml", format!("rust-version = \"{expected}\"")),
        ("examples/payments-http/Cargo.toml", format!("rust-version = \"{expected}\"")),
    ];
    for (file, statement) in statements {
        let text = std::fs::read_to_string(root.join(file)).expect("a text file");
        assert!(text.contains(&statement), "{file} does not say: {statement}");
    }
}

/// What the rules find in a house that has, besides its own files, `text` in place of the file of `module`.
fn found_with(module: &str, text: &str, rule: impl Fn(&[Source]) -> Vec<String>) -> Vec<String> {
    let mut house = house();
    house.retain(|source| source.module != module);
    house.push(Source::new(module, text));
    rule(&house)
}

#[test]
fn imports_that_go_up_are_found_however_they_are_written() {
    for (module, text, expected) in [
        ("time", "use crate::error::Error;", vec!["time:1 imports error"]),
        ("time", "fn f() {}\nfn g() { crate::store::open() }", vec!["time:2 imports store"]),
        ("time", "use super::store::X;", vec!["time:1 imports store"]),
        ("time", "use crate::Error;", vec!["time:1 imports lib"]),
        ("time", "use crate::*;", vec!["time:1 imports lib"]),
        (
            "key",
            "use crate::{time::{self, Period}, claim::{Claim as C, Ticket}};",
            vec!["key:1 imports claim"; 2],
        ),
        ("key", "mod a { mod b { use super::super::super::store::S; } }", vec!["key:1 imports store"]),
        ("key", "pub(in crate::claim) fn f() {}", vec!["key:1 imports claim"]),
        ("backend", "mod memory; use memory::MemoryBackend;", vec!["backend:1 imports backend/memory"]),
        ("backend", "use self::sqlite::X;", vec!["backend:1 imports backend/sqlite"]),
        (
            "backend/memory/shard",
            "use super::super::sqlite::row;",
            vec!["backend/memory/shard:1 imports backend/sqlite"],
        ),
        ("backend/memory/shard", "use super::tokens::T; use crate::backend::{Backend, Swept};", vec![]),
        ("backend/memory/shard", "mod a { use super::super::tokens::T; } use crate::time as t;", vec![]),
        (
            "key",
            r##"// crate::store::X
            /* crate::store::X /* */ crate::store::X */ const A: &str = "crate::store::X\" crate::store::X";
            const B: &str = r#"" crate::store::X"#; const C: char = '"'; fn f<'a>(x: &'a str) {} const D: char = '\'';"##,
            vec![],
        ),
        ("key", "#[cfg(test)]\nmod tests { mod a {} use crate::store::X; }", vec![]),
    ] {
        assert_eq!(found_with(module, text, upward_imports), expected, "{module}: {text}");
    }
}

#[test]
fn units_of_one_level_that_import_each_other_are_found() {
    let circle = found_with("reply", "use crate::record::Record;", circles);
    assert!(["record", "reply"].iter().all(|unit| circle.iter().any(|found| found == unit)), "{circle:?}");
    assert_eq!(found_with("reply", "use crate::time::Timestamp;", circles), NONE);
}

#[test]
fn files_without_a_level_and_levels_without_a_file_are_found() {
    assert_eq!(found_with("cache", "", unknown_files), ["cache has no level"]);
    let mut house = house();
    house.retain(|source| source.module != "sync");
    assert_eq!(unknown_files(&house), ["sync has a level and no file"]);
}

#[test]
fn names_outside_of_their_home_are_found_in_code_only() {
    let locks = |house: &[Source]| named_outside(house, "sync", &["parking_lot"]);
    assert_eq!(found_with("key", "use parking_lot::Mutex;", locks).len(), 1);
    assert_eq!(found_with("key", "fn f() { ::parking_lot::Mutex::new(()) }", locks).len(), 1);
    assert_eq!(found_with("key", "/// parking_lot\nconst A: &str = \"parking_lot\";", locks), NONE);
}

#[test]
fn transactions_that_begin_otherwise_are_found() {
    for (text, count) in [
        (r#"c.execute("BEGIN")"#, 1),
        (r#"c.execute("begin deferred")"#, 1),
        (r#"c.execute_batch("PRAGMA a; BEGIN EXCLUSIVE; COMMIT")"#, 1),
        (r#"c.execute("BEGIN IMMEDIATE")"#, 0),
        (r#"panic("can't begin")"#, 0),
        ("c.transaction()", 1),
        ("c.unchecked_transaction()", 1),
        ("c.savepoint()", 1),
        ("Transaction::new_unchecked(&c, TransactionBehavior::Deferred)", 1),
        ("Transaction::new_unchecked(&c, TransactionBehavior::Immediate)", 0),
        ("use rusqlite::TransactionBehavior; let transaction = 1;", 0),
    ] {
        let found = found_with("backend/sqlite/writer", text, transactions_not_immediate);
        assert_eq!(found, vec!["backend/sqlite/writer:1"; count], "{text}");
    }
}

#[test]
fn files_used_behind_sqlites_back_are_found() {
    for (module, text, count) in [
        ("backend/sqlite/writer", "std::fs::remove_file(wal)", 1),
        ("backend/sqlite/writer", "use std::{fs::{self, File}, path::Path};", 2),
        ("backend/sqlite", "OpenOptions::new().read(true)", 1),
        ("backend/sqlite/writer", "// std::fs\nuse std::path::Path; const A: &str = \"std::fs::File\";", 0),
        ("backend/sqlite/writer", "#[cfg(test)]\nmod tests { use std::fs; }", 0),
        ("fingerprint", "use std::fs::File;", 0),
    ] {
        assert_eq!(found_with(module, text, files_used_by_sqlite).len(), count, "{module}: {text}");
    }
}

#[test]
fn long_files_are_found_and_unit_tests_do_not_count() {
    let lines = |count: usize| "fn f() {}\n".repeat(count);
    let rule = |house: &[Source]| lengths(house, &[]);
    assert_eq!(found_with("key", &lines(MAX_LINES), rule), NONE);
    assert_eq!(found_with("key", &lines(MAX_LINES + 1), rule), ["key has 401 lines"]);
    let with_tests = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", lines(MAX_LINES), lines(50));
    assert_eq!(found_with("key", &with_tests, rule), NONE);
    assert_eq!(
        found_with("key", &lines(MAX_LINES + 1), |house| lengths(house, &[("key", "one list")])),
        NONE
    );
    assert_eq!(lengths(&house(), &[("key", "one list")]), ["key has a reason and is not too long"]);
}
