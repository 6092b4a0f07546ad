//! The arguments of `scripts/kill-loop`; `just kill-loop` runs it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Status, stdout, stderr. Cargo is one that fails with 99, so that a script that has come as far shows it.
fn run(arguments: &[&str], seed: &str) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cargo = folder.path().join("cargo");
    std::fs::write(&cargo, "#!/bin/sh\nexit 99\n").expect("a writable file");
    std::fs::set_permissions(&cargo, Permissions::from_mode(0o755)).expect("a file of ours");
    let path = std::env::var("PATH").expect("a path");
    let output = Command::new("bash")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/kill-loop"))
        .args(arguments)
        .env("PATH", format!("{}:{path}", folder.path().display()))
        .env("IDEMPOTENCY_TEST_SEED", seed)
        .output()
        .expect("bash");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn bad_arguments_and_a_bad_seed_are_refused_with_the_usage_before_anything_is_built() {
    let arguments: [&[&str]; 9] = [
        &["abc"],
        &["0"],
        &["-3"],
        &[""],
        &["5x"],
        &["1000000"],
        &["--helpful"],
        &["5", "5"],
        &["--help", "5"],
    ];
    let bad_seeds = ["abc", "-1", "0x1", "1 2", "123456789012345678901"];
    let bad = arguments.map(|it| (it, "7")).into_iter().chain(bad_seeds.map(|it| (["5"].as_slice(), it)));
    for (arguments, seed) in bad {
        let (status, stdout, stderr) = run(arguments, seed);
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{arguments:?}, {seed}: {stderr}");
        assert!(stderr.starts_with("kill-loop: "), "{stderr}");
        assert!(stderr.contains("\nUsage: scripts/kill-loop [KILLS]\n"), "{stderr}");
    }
}

#[test]
fn good_arguments_and_seeds_come_as_far_as_the_build() {
    let arguments: [&[&str]; 4] = [&[], &["1"], &["50"], &["999999"]];
    let seeds = ["0", "08", "2887947999", "18446744073709551615"];
    for (arguments, seed) in arguments.into_iter().zip(seeds) {
        let (status, stdout, stderr) = run(arguments, seed);
        assert_eq!((status, stderr.as_str()), (Some(99), ""), "{arguments:?}");
        assert_eq!(stdout, format!("replay with IDEMPOTENCY_TEST_SEED={seed}\n"));
    }
}

#[test]
fn help_is_the_usage_and_no_error() {
    for flag in ["--help", "-h"] {
        let (status, stdout, stderr) = run(&[flag], "7");
        assert_eq!((status, stderr.as_str()), (Some(0), ""), "{flag}");
        assert!(stdout.starts_with("Usage: scripts/kill-loop [KILLS]\n"), "{stdout}");
    }
}
