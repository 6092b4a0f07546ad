//! `examples/payments.rs`.

use super::{Run, assert_arguments, run, sample};
use std::ffi::OsStr;

/// Runs the example on a file with `content`.
fn run_on(content: &[u8]) -> Run {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), content).expect("a writable file");
    run("payments", &[OsStr::new("--requests"), file.path().as_os_str()])
}

/// The decision about line `number`, up to the column that follows it.
#[track_caller]
fn decision(run: &Run, number: usize) -> &str {
    run.about(number).split("  ").next().unwrap_or_default()
}

#[test]
fn every_scenario_of_the_story_comes_out_as_expected() {
    let run = run::<&str>("payments", &[]);
    assert_eq!(run.status, Some(0), "{}{}", run.stdout, run.stderr);
    let rows: Vec<_> = run.stdout.lines().skip(4).take_while(|line| !line.is_empty()).collect();
    assert!(rows.iter().all(|row| row.ends_with("  yes")), "{}", run.stdout);
    assert_eq!(rows.len(), 16, "{}", run.stdout);
    // The points of the story, by what the client and the provider saw.
    for (scenario, got) in [
        ("a first request", "201 executed; 1 call, 1 charge"),
        ("its retry", "201 replayed, same bytes; 1 call, 1 charge"),
        ("the same key, another amount", "422 key reused; 1 call, 1 charge"),
        ("ten identical ones at once", "1 executed, 9 replayed or 409; 1 call, 1 charge"),
        ("what their 201s say", "1 id; 1 call, 1 charge"),
        ("its retry", "400 replayed, same bytes; 0 calls, 0 charges"),
        ("one key, acct_one", "201 executed; 1 call, 1 charge"),
        ("one key, acct_two", "201 executed; 1 call, 1 charge"),
        ("a key of 256 bytes", "400 refused; 0 calls, 0 charges"),
        ("no key", "400 refused; 0 calls, 0 charges"),
        ("its retry, at once", "201 executed, attempt 2; 2 calls, 1 charge"),
        ("killed after its charge: retry", "409 in progress; 1 call, 1 charge"),
        ("a retry after the lease", "201 executed, attempt 2; 2 calls, 1 charge"),
    ] {
        let found = rows.iter().any(|row| {
            let cells: Vec<_> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
            cells == [scenario, got, got, "yes"]
        });
        assert!(found, "no row `{scenario}` with `{got}` in\n{}", run.stdout);
    }
}

#[test]
fn the_sample_file_is_answered_line_by_line_and_its_bad_lines_are_named() {
    let run = run("payments", &[OsStr::new("--requests"), sample("requests.jsonl").as_os_str()]);
    assert_eq!(run.status, Some(1), "there are bad lines: {}", run.stderr);
    for (number, expected) in [
        (1, "201 executed"),
        (2, "201 replayed"),
        (3, "422 key reused"),
        (4, "422 key reused"),
        (5, "201 executed"),
        (6, "201 executed"),
        (9, "201 replayed"),
        (10, "201 executed"),
        (11, "422 key reused"),
        (13, "400 executed"),
        (14, "400 replayed"),
        (15, "502 failed"),
        (16, "201 executed, attempt 2"),
        (18, "400 refused"),
        (19, "400 refused"),
        (20, "201 executed"),
        (27, "201 executed"),
    ] {
        assert_eq!(decision(&run, number), expected, "line {number}");
    }
    assert!(decision(&run, 8).starts_with("201 executed, "), "one of the ten: {}", run.about(8));
    for (number, why) in [
        (22, "BAD LINE: not JSON: EOF while parsing a string"),
        (23, "BAD LINE: not a JSON object"),
        (24, "BAD LINE: `scope` is missing"),
        (25, "BAD LINE: `key` is not a string"),
        (26, "BAD LINE: `copies` is not a whole number from 1 to 64"),
    ] {
        assert!(run.about(number).starts_with(why), "line {number}: {}", run.about(number));
    }
    assert!(run.stdout.contains(" 5 × bad line\n"), "{}", run.stdout);
    assert!(run.stdout.ends_with("the provider had 9 calls, 8 charges\n"), "{}", run.stdout);
}

#[test]
fn whatever_stands_on_a_line_the_next_one_is_answered() {
    let good = br#"{"scope": "a", "key": "k", "method": "POST", "path": "/payments", "body": {"amount": 1}}"#;
    let nested = b"[".repeat(100_000);
    let control = br#"{"scope": "a\u001b[31m", "key": "k", "method": "POST", "path": "/", "body": ""}"#;
    let bad: [&[u8]; 4] = [b"\xff\xfe", &nested, b"\0", b"null"];
    let lines: Vec<&[u8]> = bad.into_iter().chain([b"\r".as_slice(), control, good]).collect();
    let run = run_on(&lines.join(b"\n".as_slice()));
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    for number in 1..=4 {
        assert!(run.about(number).starts_with("BAD LINE: not "), "{}", run.about(number));
    }
    assert_eq!(decision(&run, 6), "400 refused");
    assert!(!run.stdout.contains('\u{1b}'), "a file must not steer the terminal");
    assert_eq!(decision(&run, 7), "201 executed", "the last line needs no end");
}

#[test]
fn a_file_without_bad_lines_exits_zero() {
    let run =
        run_on(br#"{"scope": "a", "key": "k", "method": "POST", "path": "/p", "body": "{\"amount\": 1}"}"#);
    assert_eq!((run.status, decision(&run, 1)), (Some(0), "201 executed"));
    assert_eq!(run_on(b"").status, Some(0), "an empty file has none either");
}

#[test]
fn help_is_given_and_bad_arguments_are_refused_without_a_panic() {
    let wrong: [&[&str]; 5] = [
        &["--requests"],
        &["--requests", "a", "b"],
        &["--request=x"],
        &["x"],
        &["--requests", "/nowhere/at/all"],
    ];
    assert_arguments("payments", "--requests FILE", &wrong);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = run("payments", &[OsStr::new("--requests"), folder.path().as_os_str()]);
    assert_eq!((run.status, run.stdout.as_str()), (Some(2), ""), "a folder is no file");
}
