//! The examples that newcomers run first: what they print, how they end, and that they leave nothing behind.
//!
//! `cargo test` builds them; `cargo test --test examples` alone does not, so run `cargo build --examples`
//! before.

#![cfg(feature = "sqlite")]

mod checkpoints;
mod inspect;
#[cfg(unix)]
mod kill_loop;
mod orders;
mod payments;
mod reference;
mod webhooks;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An example beside this test: `target/<profile>/deps/<test>`, `target/<profile>/examples/<name>`.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let profile = test.ancestors().nth(2).expect("the profile's folder");
    let example = profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(example.exists(), "{} is not there: cargo build --example {name}", example.display());
    example
}

/// A file among the examples' data.
fn sample(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data").join(file)
}

struct Run {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs an example with a temporary folder of its own, which must be empty afterwards.
fn run<A: AsRef<OsStr>>(name: &str, arguments: &[A]) -> Run {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Output { status, stdout, stderr } = Command::new(example(name))
        .args(arguments)
        .env("TMPDIR", folder.path())
        .output()
        .expect("the example to start");
    let left: Vec<_> = folder.path().read_dir().expect("a readable folder").collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let run = Run { status: status.code(), stdout: text(stdout), stderr: text(stderr) };
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

impl Run {
    /// What stands on the output's line about line `number` of the input.
    #[track_caller]
    fn about(&self, number: usize) -> &str {
        let start = format!("line {number:>4}  ");
        let about: Vec<_> = self.stdout.lines().filter_map(|line| line.strip_prefix(&start)).collect();
        assert_eq!(about.len(), 1, "one decision about line {number} in\n{}", self.stdout);
        about[0]
    }
}

/// Checks that `run` is a story that came out well: a table of these scenarios, in this order, with what
/// happened in each.
#[track_caller]
fn assert_story(run: &Run, scenarios: &[(&str, &str)]) {
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""), "{}", run.stdout);
    let widths: BTreeSet<_> = run
        .stdout
        .lines()
        .skip(3)
        .take_while(|line| !line.is_empty())
        .map(|line| line.chars().count())
        .collect();
    assert_eq!(widths.len(), 1, "a row is wider than its columns:\n{}", run.stdout);
    let rows: Vec<Vec<&str>> = run
        .stdout
        .lines()
        .skip(4)
        .take_while(|line| !line.is_empty())
        .map(|row| row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    let expected: Vec<_> =
        scenarios.iter().map(|(scenario, happened)| vec![*scenario, *happened, *happened, "yes"]).collect();
    assert_eq!(rows, expected);
    let all = scenarios.len();
    assert!(run.stdout.ends_with(&format!("\n{all} of {all} as expected\n")), "{}", run.stdout);
}

/// Checks that the example gives help that has `mention`, and refuses each of `wrong` with a reason and
/// nothing else.
#[track_caller]
fn assert_arguments(name: &str, mention: &str, wrong: &[&[&str]]) {
    for flag in ["--help", "-h"] {
        let help = run(name, &[flag]);
        assert_eq!((help.status, help.stderr.as_str()), (Some(0), ""), "{name} {flag}");
        assert!(help.stdout.contains(mention), "{}", help.stdout);
    }
    for arguments in wrong {
        let run = run(name, arguments);
        assert_eq!((run.status, run.stdout.as_str()), (Some(2), ""), "{name} {arguments:?}");
        assert!(run.stderr.starts_with(&format!("{name}: ")), "{arguments:?}: {}", run.stderr);
    }
}
