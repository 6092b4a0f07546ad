//! The test binaries, and runs of one test in a process of its own.

use crate::table::Row;
use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

/// How long a run may take before it counts as one that hangs: many times what the slowest takes.
const LIMIT: Duration = Duration::from_secs(120);
/// The same where hanging is what must happen: the tests concerned end at once if they end.
const LIMIT_OF_A_HANG: Duration = Duration::from_secs(10);
const NAP: Duration = Duration::from_millis(20);

/// How a run ended.
#[derive(Debug)]
pub enum Ended {
    Passed,
    /// With all that it said.
    Failed(String),
    Hung,
    /// It did not run this one test, and only it.
    Nothing(String),
}

/// Where cargo has put each test target; the library's own tests are `lib`.
pub struct Binaries(HashMap<String, PathBuf>);

impl Binaries {
    /// Has cargo build them as it has built this test: the flags and the folder are those of its environment.
    pub fn of(targets: BTreeSet<&str>) -> Self {
        let mut command = Command::new(env!("CARGO"));
        command.args(["test", "--locked", "--no-run", "--lib"]);
        for target in targets.iter().filter(|target| **target != "lib") {
            command.args(["--test", target]);
        }
        let output = command.output().expect("cargo runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let found = said.lines().filter_map(|line| {
            let (target, path) = line.trim().strip_prefix("Executable ")?.split_once(" (")?;
            let name = match target.strip_prefix("tests/") {
                Some(file) => file.trim_end_matches(".rs").trim_end_matches("/main"),
                None => "lib",
            };
            Some((name.to_owned(), path.trim_end_matches(')').into()))
        });
        Self(found.collect())
    }

    /// Runs the test of `row`, with its fault or without any.
    pub fn run(&self, row: &Row, is_planted: bool) -> Ended {
        let binary =
            self.0.get(row.target).unwrap_or_else(|| panic!("no test target is called {}", row.target));
        let mut command = Command::new(binary);
        command.args([row.test, "--exact", "--nocapture"]).env("RUST_BACKTRACE", "0");
        match is_planted {
            true => command.env("IDEMPOTENCY_PLANTED", row.fault),
            false => command.env_remove("IDEMPOTENCY_PLANTED"),
        };
        let limit = if row.must.hang() { LIMIT_OF_A_HANG } else { LIMIT };
        let (status, said) = within(limit, command);
        match status {
            _ if !said.contains("running 1 test\n") => Ended::Nothing(format!("{status:?}:\n{said}")),
            None => Ended::Hung,
            Some(status) if status.success() && said.contains("1 passed; 0 failed; 0 ignored") => {
                Ended::Passed
            }
            Some(status) if !status.success() => Ended::Failed(said),
            Some(status) => Ended::Nothing(format!("{status}:\n{said}")),
        }
    }
}

/// What `command` said, and how it ended; it is killed if it takes longer than `limit`.
fn within(limit: Duration, mut command: Command) -> (Option<ExitStatus>, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a process");
    let listen = |from: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || {
            let mut said = Vec::new();
            // A child that is killed has said what it has said.
            let _is_whole = from.map(|mut from| from.read_to_end(&mut said));
            String::from_utf8_lossy(&said).into_owned()
        })
    };
    let output = listen(child.stdout.take().map(|from| Box::new(from) as _));
    let errors = listen(child.stderr.take().map(|from| Box::new(from) as _));
    let naps = limit.as_millis() / NAP.as_millis();
    let status = (0..naps).find_map(|_| {
        thread::sleep(NAP);
        child.try_wait().expect("a child of this process")
    });
    if status.is_none() {
        child.kill().expect("a child of this process");
        child.wait().expect("a child of this process");
    }
    let said = [output, errors].map(|said| said.join().expect("a thread that ends"));
    (status, said.concat())
}
