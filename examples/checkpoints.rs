//! A job of three steps whose workers die: each step has its effect elsewhere, and the next worker resumes
//! after the last step that is known to be done.
//!
//! ```text
//! cargo run --release --example checkpoints      plays the story, and prints a table of what happened
//! ```
//!
//! Read `Worker` first: it is what a program has to do. Two things together make each effect happen once. The
//! checkpoint says which steps are done, so they are not repeated. And for the one step of which nobody knows,
//! since its worker died before the checkpoint, the downstream key is the same in every attempt, so whoever does
//! the step does nothing twice.
//!
//! The workers of the story are processes of their own, killed with SIGKILL at a point that they have reached.

use idempotency::{
    Claim, ClaimOutcome, Error as StoreError, Fingerprint, IdempotencyKey, IdempotencyStore, LostReason,
    Policy, Reply, Scope, SqliteStore,
};
use std::cell::Cell;
use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;
use story::{Table, count};

#[path = "shared/story.rs"]
mod story;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const HELP: &str = "\
A job of three steps, killed between each, that resumes from its last checkpoint.

Usage:
  checkpoints           play the story and print what was expected and what happened
  checkpoints --help    print this
Every run starts without jobs, in a temporary folder that is removed at the end.

Exit status: 0 if everything was as expected, 1 if not, 2 for wrong arguments or a database that failed
";

// ---- the worker

/// The job's steps, in order. Each is done by somebody else, under a key of its own.
const STEPS: [&str; 3] = ["reserve", "charge", "mail"];

/// A lease to watch the end of. A real one is longer than the slowest step: each checkpoint renews it.
const LEASE: Duration = Duration::from_millis(500);

struct Worker {
    store: SqliteStore,
    services: Services,
    /// Where this one waits, to be killed or to be sent on; nowhere, if empty.
    stop_at: String,
}

impl Worker {
    fn new(folder: &Path, stop_at: &str) -> Result<Self> {
        let store = IdempotencyStore::open(folder.join("jobs.db"))?;
        Ok(Self {
            store: store.with_policy(Policy::new().with_lease(LEASE))?,
            services: Services { ledger: folder.join("services.ledger"), down: Cell::new("") },
            stop_at: stop_at.to_owned(),
        })
    }

    /// Does the job of `account`, or what an earlier attempt has left of it.
    fn handle(&self, account: &str) -> Result<Answer> {
        let (scope, key) = (Scope::new(account)?, IdempotencyKey::new("order-7")?);
        let job = Fingerprint::builder().field("job", "fulfil an order").field("order", "7").finish();
        // A worker that died has its claim until the lease is over. Who waits longer than that takes over.
        match self.store.claim_or_wait(&scope, &key, &job, 100 * LEASE)? {
            ClaimOutcome::Claimed(claim) => self.work(claim),
            ClaimOutcome::Completed(done) => Ok(Answer::Replayed(done.reply)),
            ClaimOutcome::InProgress(_) => Ok(Answer::InProgress),
            ClaimOutcome::FingerprintMismatch(_) => Err("the key was used for another job".into()),
        }
    }

    /// Works under the claim, and ends it.
    fn work(&self, mut claim: Claim) -> Result<Answer> {
        let (attempt, mut steps) = (claim.attempt(), Vec::new());
        let ended = match self.resume(&mut claim, &mut steps) {
            Ok(reply) => claim.complete(reply).map_err(|failed| StoreError::from(failed).into()),
            Err(error) => {
                // The next attempt need not wait, and has the checkpoint. Should this fail, it waits for the end of
                // the lease; and of a claim that was lost it changes nothing.
                let _ = claim.abandon();
                Err(error)
            }
        };
        match ended {
            Ok(done) => Ok(Answer::Done { attempt, steps, reply: done.reply }),
            Err(error) => match error.downcast_ref() {
                // Somebody has taken over: what is left to do is theirs.
                Some(StoreError::ClaimLost(reason)) => Ok(Answer::Lost(*reason)),
                // A program would log why.
                _ => Ok(Answer::Failed { attempt, steps }),
            },
        }
    }

    /// Does the steps that are not done yet, in turn. `steps` gets those that this attempt has tried.
    fn resume(&self, claim: &mut Claim, steps: &mut Vec<&'static str>) -> Result<Reply> {
        let mut receipts = receipts(claim)?;
        self.reached("claimed")?;
        for step in STEPS.into_iter().skip(receipts.len()) {
            steps.push(step);
            // The same key in every attempt: if an earlier one died after this call, it is not done again.
            let receipt = self.services.call(step, &claim.downstream_key(step), claim.scope().as_str())?;
            self.reached(&format!("{step} called"))?;
            receipts.push(receipt);
            // Also proves that the job is still this worker's: if it is not, the next step is not begun.
            claim.save_checkpoint(receipts.join("\n"))?;
            self.reached(&format!("{step} saved"))?;
        }
        Ok(Reply::Reference(receipts.join(", ")))
    }

    /// Says that this point is reached, and waits, if this is the one that is to be killed there.
    fn reached(&self, point: &str) -> Result<()> {
        if self.stop_at != point {
            return Ok(());
        }
        writeln!(io::stdout(), "{point}")?;
        match io::stdin().read_line(&mut String::new())? {
            0 => Err("nobody killed it, and nobody sent it on".into()),
            _ => Ok(()),
        }
    }
}

/// What the steps that are done have given: one line each in the checkpoint, which is what its owner makes of
/// it. A program that changes from version to version writes the version down, too.
fn receipts(claim: &Claim) -> Result<Vec<String>> {
    let saved = claim.checkpoint().map_or(b"".as_slice(), |saved| saved);
    Ok(std::str::from_utf8(saved)?.lines().map(str::to_owned).collect())
}

enum Answer {
    Done { attempt: u32, steps: Vec<&'static str>, reply: Reply },
    Failed { attempt: u32, steps: Vec<&'static str> },
    Lost(LostReason),
    Replayed(Reply),
    InProgress,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tried = |steps: &[&str]| match steps {
            [] => "no step".to_owned(),
            steps => steps.join(", "),
        };
        match self {
            Self::Done { attempt, steps, .. } => write!(f, "attempt {attempt}: {}", tried(steps)),
            Self::Failed { attempt, steps } => write!(f, "attempt {attempt} failed: {}", tried(steps)),
            Self::Lost(LostReason::Completed) => write!(f, "lost: another completed"),
            Self::Lost(reason) => write!(f, "lost: {reason}"),
            Self::Replayed(_) => write!(f, "replayed"),
            Self::InProgress => write!(f, "in progress"),
        }
    }
}

// ---- those who do the steps

/// A warehouse, a payment provider and a mail service: each does something once for each key. Their ledger is a
/// file, so that it outlives their callers.
struct Services {
    ledger: PathBuf,
    /// The step that fails, if there is one.
    down: Cell<&'static str>,
}

impl Services {
    /// Does `step`, unless it was done under `key` before; gives the receipt.
    fn call(&self, step: &str, key: &str, account: &str) -> Result<String> {
        let mut ledger = self.open_ledger()?;
        ledger.lock()?;
        let calls = io::read_to_string(&ledger)?;
        let done: Vec<_> = calls.lines().filter(|call| call.starts_with("done")).collect();
        let earlier = done.iter().position(|call| call.split('\t').nth(1) == Some(key));
        let what = match earlier {
            _ if self.down.get() == step => "failed",
            Some(_) => "repeated",
            None => "done",
        };
        ledger.write_all(format!("{what}\t{key}\t{account}\t{step}\n").as_bytes())?;
        ledger.sync_data()?;
        if what == "failed" {
            return Err("out of order".into());
        }
        Ok(format!("{step} {}", earlier.unwrap_or(done.len()) + 1))
    }

    fn open_ledger(&self) -> io::Result<File> {
        OpenOptions::new().read(true).append(true).create(true).open(&self.ledger)
    }

    /// How often they were called for `account`, and how often each step had its effect.
    fn tally(&self, account: &str) -> Result<String> {
        let ledger = io::read_to_string(self.open_ledger()?)?;
        let calls: Vec<Vec<&str>> = ledger.lines().map(|call| call.split('\t').collect()).collect();
        let calls: Vec<_> = calls.iter().filter(|call| call[2] == account).collect();
        let times = |step| calls.iter().filter(|call| (call[0], call[3]) == ("done", step)).count();
        let effects = STEPS.map(times);
        let once = effects == [1; STEPS.len()];
        let done =
            if once { "each once".to_owned() } else { format!("{} done", effects.iter().sum::<usize>()) };
        Ok(format!("{}, {done}", count(calls.len(), "call")))
    }
}

// ---- the story

/// The hidden argument that makes this program a worker of the story.
const AS_WORKER: &str = "--work";

/// Every point at which a worker may die, and what the next one has to do then.
const POINTS: [(&str, &str, &str); 7] = [
    ("claimed", "killed before the first step", "attempt 2: reserve, charge, mail; 3 calls, each once"),
    ("reserve called", "killed after reserving", "attempt 2: reserve, charge, mail; 4 calls, each once"),
    ("reserve saved", "killed after the checkpoint of it", "attempt 2: charge, mail; 3 calls, each once"),
    ("charge called", "killed after charging", "attempt 2: charge, mail; 4 calls, each once"),
    ("charge saved", "killed after the checkpoint of it", "attempt 2: mail; 3 calls, each once"),
    ("mail called", "killed after mailing", "attempt 2: mail; 4 calls, each once"),
    ("mail saved", "killed after the checkpoint of it", "attempt 2: no step; 3 calls, each once"),
];

struct Story<W> {
    worker: Worker,
    folder: PathBuf,
    table: Table<W>,
}

/// Plays every scenario, each with an account of its own; says whether all went as expected.
fn play(out: impl Write) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let what =
        "The steps that an attempt has tried; what those who do them have had for that account by then.";
    let mut story = Story {
        worker: Worker::new(folder.path(), "")?,
        folder: folder.path().to_owned(),
        table: Table::new(out, what)?,
    };
    undisturbed(&mut story)?;
    killed_once(&mut story)?;
    killed_everywhere(&mut story)?;
    failed(&mut story)?;
    slow(&mut story)?;
    story.table.end()
}

impl<W: Write> Story<W> {
    fn row(&mut self, what: &str, account: &str, expected: &str, happened: impl fmt::Display) -> Result<()> {
        let happened = format!("{happened}; {}", self.worker.services.tally(account)?);
        self.table.row(what, expected, happened)
    }

    /// A worker of the job of `account` that has reached `point`, and waits there.
    fn worker_at(&self, point: &str, account: &str) -> Result<OtherWorker> {
        let mut process = Command::new(std::env::current_exe()?)
            .args([OsStr::new(AS_WORKER), self.folder.as_os_str(), account.as_ref(), point.as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let says = BufReader::new(process.stdout.take().ok_or("a worker without stdout")?);
        let mut worker = OtherWorker { process, says };
        match worker.line()? {
            said if said == point => Ok(worker),
            said => Err(format!("a worker did not come to `{point}`, but says `{said}`").into()),
        }
    }
}

/// A worker in another process.
struct OtherWorker {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl OtherWorker {
    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.says.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// SIGKILL: it can't do anything about it.
    fn kill(mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// Sends it on from where it waits; gives what it says at its end.
    fn send_on(mut self) -> Result<String> {
        writeln!(self.process.stdin.take().ok_or("a worker without stdin")?, "on")?;
        let last = self.line()?;
        self.process.wait()?;
        Ok(last)
    }
}

/// A worker of the story, in its own process.
fn as_worker(folder: &Path, account: &OsStr, stop_at: &OsStr) -> Result<bool> {
    let answer = Worker::new(folder, &stop_at.to_string_lossy())?.handle(&account.to_string_lossy())?;
    writeln!(io::stdout(), "{answer}")?;
    Ok(true)
}

fn undisturbed(story: &mut Story<impl Write>) -> Result<()> {
    let first = story.worker.handle("acct_fine")?;
    story.row("a job", "acct_fine", "attempt 1: reserve, charge, mail; 3 calls, each once", &first)?;
    let again = story.worker.handle("acct_fine")?;
    let same =
        matches!((&first, &again), (Answer::Done { reply, .. }, Answer::Replayed(again)) if reply == again);
    let happened = format!("{again}, {} reply", if same { "same" } else { "OTHER" });
    story.row("the same job again", "acct_fine", "replayed, same reply; 3 calls, each once", happened)
}

/// A job for each point, killed there and then taken over.
fn killed_once(story: &mut Story<impl Write>) -> Result<()> {
    let account = |point: &str| format!("acct {point}");
    for (point, ..) in POINTS {
        story.worker_at(point, &account(point))?.kill()?;
    }
    for (point, what, expected) in POINTS {
        let account = account(point);
        let answer = story.worker.handle(&account)?;
        story.row(what, &account, expected, answer)?;
    }
    Ok(())
}

/// One job whose workers die at one point after the other.
fn killed_everywhere(story: &mut Story<impl Write>) -> Result<()> {
    for (point, ..) in POINTS {
        story.worker_at(point, "acct_unlucky")?.kill()?;
    }
    let answer = story.worker.handle("acct_unlucky")?;
    story.row(
        "killed at each of these, one by one",
        "acct_unlucky",
        "attempt 8: no step; 6 calls, each once",
        answer,
    )
}

fn failed(story: &mut Story<impl Write>) -> Result<()> {
    story.worker.services.down.set("charge");
    let answer = story.worker.handle("acct_failed")?;
    story.worker.services.down.set("");
    let expected = "attempt 1 failed: reserve, charge; 2 calls, 1 done";
    story.row("a step that fails", "acct_failed", expected, answer)?;
    let answer = story.worker.handle("acct_failed")?;
    story.row("its retry", "acct_failed", "attempt 2: charge, mail; 4 calls, each once", answer)
}

fn slow(story: &mut Story<impl Write>) -> Result<()> {
    let slow = story.worker_at("reserve called", "acct_slow")?;
    let answer = story.worker.handle("acct_slow")?;
    let expected = "attempt 2: reserve, charge, mail; 4 calls, each once";
    story.row("taken over from one that is only slow", "acct_slow", expected, answer)?;
    let last = slow.send_on()?;
    story.row("the slow one goes on", "acct_slow", "lost: another completed; 4 calls, each once", last)
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [flag, folder, account, stop_at] if flag == AS_WORKER => {
            story::exit::code("checkpoints", as_worker(Path::new(folder), account, stop_at))
        }
        _ => story::main("checkpoints", HELP, play),
    }
}
