//! Child processes: this very program, told by its environment that it is one. It runs the test that started
//! it, which asks [`Parent::of_this_process`] first.
//!
//! A parent tells a child lines on its standard input; a child says marked lines on its standard output, among
//! those of the test harness. A child whose parent is gone reads the end of its input.

use crate::dice::Dice;
use crate::seed::seed;
use std::any::type_name;
use std::env;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Write, stdin};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const NUMBER: &str = "IDEMPOTENCY_TEST_CHILD";
const FILE: &str = "IDEMPOTENCY_TEST_CHILD_FILE";
const SEED: &str = "IDEMPOTENCY_TEST_SEED";

/// What a child's lines begin with.
const MARK: &str = "child: ";
const READY: &str = "ready";
const GO: &str = "go";

/// After so long a silence a child hangs. Nothing is measured by it.
const PATIENCE: Duration = Duration::from_secs(120);

static ALONE: Mutex<()> = Mutex::new(());

/// Keeps the other tests of this target waiting: what processes do side by side depends on who else wants the
/// processor.
pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child process. Killed, if it has not ended before, when this goes away.
pub struct Child {
    pub number: usize,
    process: process::Child,
    said: Receiver<String>,
    reader: Option<JoinHandle<()>>,
}

impl Child {
    /// Starts child `number` of `test`, which must be the function that calls this, to work on `file`.
    pub fn start<T: Fn()>(test: &T, number: usize, file: &Path, seed: u64) -> Self {
        Self::try_start(test, number, file, seed, |_| ()).expect("a child that starts")
    }

    /// The same with a process that is prepared in a way which a system may refuse.
    pub fn try_start<T: Fn()>(
        _test: &T,
        number: usize,
        file: &Path,
        seed: u64,
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<Self> {
        let (_, name) = type_name::<T>().split_once("::").expect("a test within this program");
        let mut command = Command::new(env::current_exe().expect("this program"));
        command
            .args(["--exact", name, "--nocapture", "--test-threads=1"])
            .env(NUMBER, number.to_string())
            .env(FILE, file)
            .env(SEED, seed.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        prepare(&mut command);
        let mut process = command.spawn()?;
        let output = BufReader::new(process.stdout.take().expect("a piped output"));
        let (hears, said) = channel();
        let reader = thread::spawn(move || {
            // A line that a kill has cut off is no line.
            for line in output.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                if let Some(line) = line.strip_prefix(MARK).and_then(|line| line.strip_suffix('.')) {
                    let _ = hears.send(line.to_owned());
                }
            }
        });
        Ok(Self { number, process, said, reader: Some(reader) })
    }

    pub fn start_many<T: Fn()>(test: &T, count: usize, file: &Path, seed: u64) -> Vec<Self> {
        (0..count).map(|number| Self::start(test, number, file, seed)).collect()
    }

    pub fn tell(&mut self, line: impl Display) {
        let orders = self.process.stdin.as_mut().expect("a child that has not been dismissed");
        writeln!(orders, "{line}").unwrap_or_else(|error| panic!("child {}: {error}", self.number));
    }

    /// The next line that the child says.
    #[track_caller]
    pub fn hear(&self) -> String {
        let number = self.number;
        self.said
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|error| panic!("child {number} said no more: {error}"))
    }

    /// What the child says until it waits to be let go; leaves it waiting.
    #[track_caller]
    pub fn hear_until_ready(&self) -> Vec<String> {
        let mut said = Vec::new();
        loop {
            match self.hear() {
                line if line == READY => return said,
                line => said.push(line),
            }
        }
    }

    pub fn let_go(&mut self) {
        self.tell(GO);
    }

    /// What the child says until it ends by itself, as it must.
    #[track_caller]
    pub fn hear_out(mut self) -> Vec<String> {
        drop(self.process.stdin.take());
        let mut said = Vec::new();
        loop {
            match self.said.recv_timeout(PATIENCE) {
                Ok(line) => said.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("child {} hangs", self.number),
            }
        }
        let end = self.process.wait().expect("a child that ends");
        assert!(end.success(), "child {}: {end}", self.number);
        said
    }

    #[cfg(target_os = "linux")]
    pub fn id(&self) -> i32 {
        self.process.id().try_into().expect("a process's number")
    }

    /// What it has said and was not heard yet.
    pub fn heard_already(&self) -> Vec<String> {
        self.said.try_iter().collect()
    }

    /// Sends it `SIGKILL` (on Unix), and does not wait for its end.
    pub fn strike(&mut self) {
        self.process.kill().expect("a child that is not waited for yet");
    }

    /// Kills the child (SIGKILL on Unix), and gives what it had said and was not heard yet.
    pub fn kill(mut self) -> Vec<String> {
        self.end();
        self.said.try_iter().collect()
    }

    /// By its own handle, and waited for, so that none is left and no other process is hit.
    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until all of `children` are ready, then lets them go at once; gives what each said before.
#[track_caller]
pub fn release(children: &mut [Child]) -> Vec<Vec<String>> {
    let said = children.iter().map(Child::hear_until_ready).collect();
    children.iter_mut().for_each(Child::let_go);
    said
}

/// What this process is the child of, if it is one.
pub struct Parent {
    pub number: usize,
    pub file: PathBuf,
}

impl Parent {
    pub fn of_this_process() -> Option<Self> {
        let number = env::var(NUMBER).ok()?.parse().expect("a child's number");
        let file = env::var_os(FILE).expect("a child's file").into();
        // The harness has begun a line.
        println!();
        Some(Self { number, file })
    }

    /// Dice of this child's own, from the seed of the test.
    pub fn dice(&self) -> Dice {
        let mut dice = Dice::new(seed());
        let mut own = dice.deal();
        for _ in 0..self.number {
            own = dice.deal();
        }
        own
    }

    /// The end of a line is marked, too: it may be cut off.
    pub fn hears(&self, line: impl Display) {
        println!("{MARK}{line}.");
    }

    /// The next line from the parent; none if there will be no more.
    pub fn order(&self) -> Option<String> {
        stdin().lock().lines().next().map(|line| line.expect("text"))
    }

    /// Waits for the parent, and so for the other children.
    pub fn wait(&self) {
        self.hears(READY);
        assert_eq!(self.order().as_deref(), Some(GO), "the parent is gone");
    }
}
