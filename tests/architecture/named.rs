//! The tests that the documents name: a promise is only as good as the test that stands behind it, so each has
//! to be where it is said to be.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A test that a document names: its file, and its name if it is not all of them.
type Named = (String, Option<String>);

/// What stands between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// `file.rs::name` anywhere in `text`.
fn with_paths(text: &str) -> Vec<Named> {
    let pairs = text.lines().flat_map(code).filter_map(|code| code.split_once(".rs::"));
    pairs.map(|(file, name)| (format!("{file}.rs"), Some(name.to_owned()))).collect()
}

/// The rows of `tests/README.md`: a case, one or more files, and names; a row without a file goes on with those above.
fn in_rows(text: &str) -> Vec<Named> {
    let mut files: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let [_, place, tests, ..] = cells[..] else { continue };
        if !place.trim().is_empty() {
            files = code(place).collect();
        }
        let names: Vec<&str> = code(tests).filter(|code| code.contains('_') && !code.contains(' ')).collect();
        for file in &files {
            found.extend(names.iter().map(|name| ((*file).to_owned(), Some((*name).to_owned()))));
            if names.is_empty() {
                found.push(((*file).to_owned(), None));
            }
        }
    }
    found
}

/// A file as a document names it: from the root of the package, or from one of the folders of its tests.
fn find(file: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["", "tests", "examples/payments-http/tests/http"];
    let places = folders.into_iter().flat_map(|folder| {
        let place = root.join(folder).join(file);
        [place.with_extension("rs"), place.join("main.rs"), place]
    });
    places.into_iter().find(|place| place.is_file())
}

/// Whether a function of that name is there, as a test: `#[test]` stands among its attributes. In the suite for backends
/// it is the macro that makes tests, of functions that take a stage.
fn has_test(text: &str, name: &str) -> bool {
    let Some((before, after)) = text.split_once(&format!("fn {name}(")) else { return false };
    let attributes = before.rsplit("\n\n").next().unwrap_or_default();
    attributes.contains("#[test]") || after.starts_with("stage: ") || attributes.contains("#[tokio::test")
}

fn missing(named: &BTreeSet<Named>) -> Vec<String> {
    let is_missing = |(file, name): &&Named| {
        let text = find(file).map(|place| fs::read_to_string(place).expect("a text file"));
        match (text, name) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(text), Some(name)) => !has_test(&text, name),
        }
    };
    named
        .iter()
        .filter(is_missing)
        .map(|(file, name)| format!("{file}: {}", name.as_deref().unwrap_or("no such file")))
        .collect()
}

fn read(document: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(document)).expect("a document")
}

#[test]
fn every_test_that_a_document_names_is_there() {
    for (document, at_least) in [("SECURITY.md", 15), ("docs/guarantees.md", 40)] {
        let named: BTreeSet<Named> = with_paths(&read(document)).into_iter().collect();
        assert!(named.len() >= at_least, "{document} names {} tests only", named.len());
        assert_eq!(missing(&named), Vec::<String>::new(), "{document}");
    }
    let rows: BTreeSet<Named> = in_rows(&read("tests/README.md")).into_iter().collect();
    assert!(rows.len() >= 200, "{} rows only", rows.len());
    assert_eq!(missing(&rows), Vec::<String>::new(), "tests/README.md");
}

#[test]
fn tests_that_are_not_there_are_found() {
    let text = "| 1 | `races.rs` | `of_nobody` and `claim_what_is_swept`, which is no test |\n| 2 | | all of them |\n| 3 | `nowhere.rs` | all of them |";
    let rows: BTreeSet<Named> = in_rows(text).into_iter().collect();
    assert_eq!(
        missing(&rows),
        ["nowhere.rs: no such file", "races.rs: claim_what_is_swept", "races.rs: of_nobody"]
    );
    let paths = with_paths("so (`races.rs::of_nobody`), and `races.rs` by itself is none");
    assert_eq!(paths, [("races.rs".to_owned(), Some("of_nobody".to_owned()))]);
}
