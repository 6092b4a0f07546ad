//! What the server is started with.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What the server says that is started like this. None of these get as far as to listen.
fn run(arguments: &[&str]) -> Output {
    let mut server = Command::new(env!("CARGO_BIN_EXE_payments-http"));
    server.args(arguments).stdin(Stdio::null()).output().expect("a server")
}

#[test]
fn help_says_every_option() {
    let help = run(&["--help"]);
    assert!(help.status.success());
    let text = String::from_utf8(help.stdout).expect("text");
    for option in ["--db", "--accounts", "--provider", "--listen", "--lease", "--delay", "--rate"] {
        assert!(text.contains(option), "{option}");
    }
}

#[test]
fn arguments_files_and_leases_that_can_not_be_used_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let [db, provider, text, missing] = ["db", "provider", "text", "missing"].map(path);
    std::fs::write(&text, "acct_a no-digest").expect("a file");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("accounts.example");
    let example = example.to_str().expect("a path of text");
    let whole = ["--db", &db, "--accounts", example, "--provider", &provider];
    let and = |more: &[&'static str]| [whole.as_slice(), more].concat();
    for (arguments, said) in [
        (Vec::new(), "--db is missing"),
        (vec!["--db"], "--db needs a value"),
        (vec!["--db", &db], "--accounts is missing"),
        (and(&["--speed", "9"]), "no option --speed"),
        (and(&["--lease", "soon"]), "--lease can't be \"soon\""),
        (and(&["--listen", "here"]), "--listen can't be \"here\""),
        (and(&["--lease", "0"]), "unusable policy: unusable lease"),
        (vec!["--db", &db, "--accounts", &missing, "--provider", &provider], "missing: "),
        (vec!["--db", &db, "--accounts", &text, "--provider", &provider], "line 1 is no account"),
        (vec!["--db", &text, "--accounts", example, "--provider", &provider], "not a store"),
    ] {
        let refused = run(&arguments);
        let error = String::from_utf8(refused.stderr).expect("text");
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(said), "{arguments:?}: {error}");
        assert!(refused.stdout.is_empty());
    }
}
