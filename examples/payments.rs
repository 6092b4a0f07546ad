//! A small payment service in one file, on SQLite and without HTTP: what happens when its clients retry.
//!
//! ```text
//! cargo run --release --example payments                      plays the story, and prints a table of what happened
//! cargo run --release --example payments -- --requests FILE   answers the requests in FILE
//! ```
//!
//! Read `Service` first: it is what a program has to do. What follows is a pretended provider, the story, and
//! the reading of requests.

use idempotency::{
    Claim, ClaimOutcome, Fingerprint, IdempotencyKey, IdempotencyStore, Policy, Reply, Scope, SqliteStore,
    StoredResponse, header,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const HELP: &str = "\
A small payment service on an idempotency store, and what happens when its clients retry.

Usage:
  payments                    play the story and print what was expected and what happened
  payments --requests FILE    answer the requests in FILE, one JSON object a line
  payments --help             print this

A request:
  scope    the account it is for, as the authentication would tell
  key      the idempotency key, as a header has it: bare, or in double quotes; a request without one is refused
  method, path
  body     a string as it is, or any other JSON value as its compact text.
           `amount` is what to charge: a whole number above zero. `card` says how the provider behaves:
           \"tok_slow\" takes 200 ms, \"tok_answer_lost\" charges, but its first answer is lost (502)
  copies   how many identical requests to send at the same moment; 1 if it is left out, at most 64
Other members are ignored, so a line can carry a note. Empty lines are skipped.
Every run starts with an empty store and an empty ledger, in a temporary folder that is removed at the end.

Exit status:
  0  everything was as expected, or every line was answered
  1  the story went wrong somewhere, or a line was bad: it is reported, and the others are answered all the same
  2  wrong arguments, a file that can't be read, or a store that failed
";

// ---- the service

struct Request {
    account: String,
    key: Option<String>,
    method: String,
    path: String,
    body: String,
}

struct Service {
    store: SqliteStore,
    provider: Provider,
    /// Does nothing, but in the process that is to be killed between its charge and its reply.
    after_charge: fn() -> Result<()>,
}

impl Service {
    fn open(folder: &Path, policy: Policy) -> Result<Self> {
        let store = IdempotencyStore::open(folder.join("payments.db"))?.with_policy(policy)?;
        let provider = Provider { ledger: folder.join("provider.ledger") };
        Ok(Self { store, provider, after_charge: || Ok(()) })
    }

    /// Answers one request, whether it is a first one or a retry.
    ///
    /// An `Err` says that the store or the ledger failed; over HTTP it would be a 503. Running the operation
    /// all the same would be paying twice now and then. Where it leaves a claim behind, the lease runs on:
    /// the retry hears 409 until it ends, then takes over.
    fn handle(&self, request: &Request) -> Result<Answer> {
        // What is refused here never reaches the store, so the client can mend it and try again.
        let (scope, key) = match names(request) {
            Ok(names) => names,
            Err(refusal) => return Ok(Answer::problem(Decision::Refused, 400, &refusal.to_string())),
        };
        let fingerprint = Fingerprint::of_request(&request.method, &request.path, None, &request.body);

        match self.store.try_claim(&scope, &key, &fingerprint)? {
            ClaimOutcome::Claimed(claim) => self.execute(claim, request),
            // Over HTTP, `Idempotent-Replayed: true` (`header::IDEMPOTENT_REPLAYED`) would go on top of it.
            ClaimOutcome::Completed(done) => Ok(Answer { decision: Decision::Replayed, reply: done.reply }),
            ClaimOutcome::InProgress(running) => {
                let response = problem(409, "the first request is still running")
                    .with_header(header::RETRY_AFTER, running.retry_after_secs().to_string());
                let decision = Decision::InProgress { retry_after: running.retry_after };
                Ok(Answer { decision, reply: response.into() })
            }
            ClaimOutcome::FingerprintMismatch(_) => {
                Ok(Answer::problem(Decision::KeyReused, 422, "this key was used for another request"))
            }
        }
    }

    /// Runs the operation under its claim, and ends the claim with what came of it.
    fn execute(&self, claim: Claim, request: &Request) -> Result<Answer> {
        let attempt = claim.attempt();
        let reply = Reply::from(self.pay(&claim, request)?);
        if self.store.policy().is_failure(&reply) {
            // `Failures::Abandon`: the effect may have happened. The retry runs at once, and is told that it
            // is not the first attempt. Should this fail, the retry waits for the end of the lease, and the
            // client hears of the failed payment.
            let _ = claim.abandon();
            return Ok(Answer { decision: Decision::Failed { attempt }, reply });
        }
        match claim.complete(reply) {
            // What stands, not what was offered: the two differ where this claim had completed before.
            Ok(done) => Ok(Answer { decision: Decision::Executed { attempt }, reply: done.reply }),
            // Charged, and not recorded: nobody runs it again before the lease ends, and then the provider
            // knows its key. A program that can wait takes the claim and the reply out of the error, and
            // tries again.
            Err(unrecorded) => Err(unrecorded.into()),
        }
    }

    /// The operation itself. All it knows of retries is the key that it hands on to the provider.
    fn pay(&self, claim: &Claim, request: &Request) -> Result<StoredResponse> {
        let order: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let Some(amount) = order["amount"].as_u64().filter(|amount| *amount > 0) else {
            return Ok(problem(400, "`amount` must be a whole number above zero"));
        };
        let card = order["card"].as_str().unwrap_or_default();
        let charge = self.provider.charge(&claim.downstream_key("charge"), &request.account, card)?;
        (self.after_charge)()?;
        let Some(id) = charge else {
            return Ok(problem(502, "the provider did not answer"));
        };
        Ok(StoredResponse::new(201)
            .with_header("content-type", "application/json")
            .with_header("location", format!("/payments/{id}"))
            .with_body(json!({ "id": id, "amount": amount }).to_string()))
    }
}

fn names(request: &Request) -> Result<(Scope, IdempotencyKey)> {
    let key = request.key.as_ref().ok_or("a payment needs an idempotency key")?;
    Ok((Scope::new(&request.account)?, IdempotencyKey::from_header(key)?))
}

fn problem(status: u16, title: &str) -> StoredResponse {
    StoredResponse::new(status)
        .with_header("content-type", "application/problem+json")
        .with_body(json!({ "title": title }).to_string())
}

/// What the client is sent, and how the service came to it.
struct Answer {
    decision: Decision,
    reply: Reply,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Decision {
    Executed { attempt: u32 },
    Failed { attempt: u32 },
    Replayed,
    InProgress { retry_after: Duration },
    KeyReused,
    Refused,
}

impl Answer {
    fn problem(decision: Decision, status: u16, title: &str) -> Self {
        Self { decision, reply: problem(status, title).into() }
    }

    fn status(&self) -> u16 {
        self.reply.response().map_or(0, StoredResponse::status)
    }

    fn body(&self) -> String {
        self.reply.response().map_or_else(String::new, |r| String::from_utf8_lossy(r.body()).into_owned())
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.status())?;
        match self.decision {
            Decision::Executed { attempt: 1 } => write!(f, "executed"),
            Decision::Executed { attempt } => write!(f, "executed, attempt {attempt}"),
            Decision::Failed { attempt: 1 } => write!(f, "failed"),
            Decision::Failed { attempt } => write!(f, "failed, attempt {attempt}"),
            Decision::Replayed => write!(f, "replayed"),
            Decision::InProgress { .. } => write!(f, "in progress"),
            Decision::KeyReused => write!(f, "key reused"),
            Decision::Refused => write!(f, "refused"),
        }
    }
}

// ---- the provider

/// A payment provider that charges once for each key. Its ledger is a file, so that it outlives a killed
/// client of it.
struct Provider {
    ledger: PathBuf,
}

impl Provider {
    /// Charges, unless `key` was charged before; gives the charge's id. None: the answer was lost on its way.
    fn charge(&self, key: &str, account: &str, card: &str) -> Result<Option<String>> {
        if card == "tok_slow" {
            thread::sleep(Duration::from_millis(200));
        }
        let mut ledger = self.open_ledger()?;
        ledger.lock()?;
        let calls = io::read_to_string(&ledger)?;
        let charges: Vec<_> = calls.lines().filter(|call| call.starts_with("charged")).collect();
        let earlier = charges.iter().position(|charge| charge.split('\t').nth(1) == Some(key));
        let what = if earlier.is_some() { "repeated" } else { "charged" };
        ledger.write_all(format!("{what}\t{key}\t{account}\n").as_bytes())?;
        ledger.sync_data()?;
        let id = earlier.unwrap_or(charges.len()) + 1;
        Ok((earlier.is_some() || card != "tok_answer_lost").then(|| format!("pay_{id}")))
    }

    fn open_ledger(&self) -> io::Result<File> {
        OpenOptions::new().read(true).append(true).create(true).open(&self.ledger)
    }

    /// How often it was called for `accounts`, and how often it charged.
    fn tally(&self, accounts: impl Fn(&str) -> bool) -> Result<String> {
        let ledger = io::read_to_string(self.open_ledger()?)?;
        let calls: Vec<_> =
            ledger.lines().filter(|call| call.split('\t').nth(2).is_some_and(&accounts)).collect();
        let charges = calls.iter().filter(|call| call.starts_with("charged")).count();
        Ok(format!("{}, {}", count(calls.len(), "call"), count(charges, "charge")))
    }
}

fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

// ---- the story

/// The service, and the table of what was expected of it and what it did.
struct Story<W> {
    service: Service,
    out: W,
    rows: usize,
    wrong: usize,
}

/// Plays every scenario; says whether all went as expected. Each has an account of its own, so its charges
/// can be told.
fn story(mut out: impl Write) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let service = Service::open(folder.path(), Policy::new())?;
    writeln!(
        out,
        "Each row is a request and its answer. Calls and charges are what the provider has had for that account by then.\n"
    )?;
    writeln!(out, "{:<30}  {:<47}  {:<47}  ok", "scenario", "expected", "got")?;
    writeln!(out, "{:-<30}  {:-<47}  {:-<47}  ---", "", "", "")?;
    let mut story = Story { service, out, rows: 0, wrong: 0 };

    let request = payment("acct_retried", "order-1", &json!({ "amount": 500 }));
    let first = story.send("a first request", &request, "201 executed; 1 call, 1 charge")?;
    story.resend("its retry", &request, &first, "201 replayed, same bytes; 1 call, 1 charge")?;
    let other = payment("acct_retried", "order-1", &json!({ "amount": 900 }));
    story.send("the same key, another amount", &other, "422 key reused; 1 call, 1 charge")?;

    raced(&mut story)?;

    let request = payment("acct_refused", "order-1", &json!({ "amount": 0 }));
    let first = story.send("a 400 of the handler's own", &request, "400 executed; 0 calls, 0 charges")?;
    story.resend("its retry", &request, &first, "400 replayed, same bytes; 0 calls, 0 charges")?;

    for account in ["acct_one", "acct_two"] {
        let request = payment(account, "cart-7", &json!({ "amount": 500 }));
        story.send(&format!("one key, {account}"), &request, "201 executed; 1 call, 1 charge")?;
    }

    let too_long = payment("acct_keyless", &"k".repeat(256), &json!({ "amount": 500 }));
    story.send("a key of 256 bytes", &too_long, "400 refused; 0 calls, 0 charges")?;
    let keyless = Request { key: None, ..too_long };
    story.send("no key", &keyless, "400 refused; 0 calls, 0 charges")?;

    let request = payment("acct_failed", "order-1", &json!({ "amount": 500, "card": "tok_answer_lost" }));
    story.send("charged, but the answer lost", &request, "502 failed; 1 call, 1 charge")?;
    story.send("its retry, at once", &request, "201 executed, attempt 2; 2 calls, 1 charge")?;

    story.service = Service::open(folder.path(), short_lease())?;
    killed(&mut story, folder.path())?;

    writeln!(story.out, "\n{} of {} as expected", story.rows - story.wrong, story.rows)?;
    Ok(story.wrong == 0)
}

impl<W: Write> Story<W> {
    fn send(&mut self, scenario: &str, request: &Request, expected: &str) -> Result<Answer> {
        let answer = self.service.handle(request)?;
        self.row(scenario, &request.account, expected, &answer)?;
        Ok(answer)
    }

    /// As `send`, for a retry that is to get what `first` got: status, headers and body, byte for byte.
    fn resend(&mut self, scenario: &str, request: &Request, first: &Answer, expected: &str) -> Result<()> {
        let again = self.service.handle(request)?;
        let bytes = if again.reply == first.reply { "same" } else { "OTHER" };
        self.row(scenario, &request.account, expected, format_args!("{again}, {bytes} bytes"))
    }

    /// A row: what happened, and what the provider has done for `account` by then.
    fn row(&mut self, scenario: &str, account: &str, expected: &str, got: impl fmt::Display) -> Result<()> {
        let got = format!("{got}; {}", self.service.provider.tally(|by| by == account)?);
        let ok = if got == expected { "yes" } else { "NO" };
        self.rows += 1;
        self.wrong += usize::from(got != expected);
        writeln!(self.out, "{scenario:<30}  {expected:<47}  {got:<47}  {ok}")?;
        Ok(())
    }
}

fn payment(account: &str, key: &str, order: &Value) -> Request {
    let [method, path] = ["POST", "/payments"].map(str::to_owned);
    Request { account: account.to_owned(), key: Some(key.to_owned()), method, path, body: order.to_string() }
}

fn raced(story: &mut Story<impl Write>) -> Result<()> {
    // Slow, so that they overlap.
    let request = payment("acct_raced", "order-1", &json!({ "amount": 500, "card": "tok_slow" }));
    let answers = at_once(&story.service, &request, 10)?;
    let given = |kind: &str| answers.iter().filter(|answer| answer.to_string() == kind).count();
    let (executed, others) = (given("201 executed"), given("201 replayed") + given("409 in progress"));
    let got = format!("{executed} executed, {others} replayed or 409");
    story.row(
        "ten identical ones at once",
        "acct_raced",
        "1 executed, 9 replayed or 409; 1 call, 1 charge",
        got,
    )?;
    let replies: BTreeSet<_> = answers.iter().filter(|a| a.status() == 201).map(Answer::body).collect();
    story.row("what their 201s say", "acct_raced", "1 id; 1 call, 1 charge", count(replies.len(), "id"))
}

/// The answers to `copies` of `request`, sent at the same moment.
fn at_once(service: &Service, request: &Request, copies: usize) -> Result<Vec<Answer>> {
    let start = Barrier::new(copies);
    let send = || {
        start.wait();
        service.handle(request)
    };
    thread::scope(|scope| {
        let senders: Vec<_> = (0..copies).map(|_| scope.spawn(send)).collect();
        senders.into_iter().map(|sender| sender.join().map_err(|_| "a sender panicked")?).collect()
    })
}

/// The hidden argument that makes this program the one that is killed, and what that one says once it has
/// charged.
const AS_VICTIM: &str = "--charge-and-wait-to-be-killed";
const CHARGED: &str = "charged\n";

/// A lease to watch the end of. A real one is much longer: see "Choosing lease and retention" in the README.
fn short_lease() -> Policy {
    Policy::new().with_lease(Duration::from_secs(5))
}

fn fatal_payment() -> Request {
    payment("acct_killed", "order-1", &json!({ "amount": 500 }))
}

fn killed(story: &mut Story<impl Write>, folder: &Path) -> Result<()> {
    // Its stdin stays open for as long as this process lives: should this one end early, the victim ends as
    // well.
    let mut victim = Command::new(std::env::current_exe()?)
        .args([AS_VICTIM.as_ref(), folder.as_os_str()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    BufReader::new(victim.stdout.take().ok_or("the victim has no stdout")?).read_line(&mut said)?;
    victim.kill()?;
    victim.wait()?;
    if said != CHARGED {
        return Err("the victim ended before it had charged".into());
    }

    let request = fatal_payment();
    let mut answer =
        story.send("killed after its charge: retry", &request, "409 in progress; 1 call, 1 charge")?;
    for _ in 0..10 {
        let Decision::InProgress { retry_after } = answer.decision else { break };
        thread::sleep(retry_after);
        answer = story.service.handle(&request)?;
    }
    let expected = "201 executed, attempt 2; 2 calls, 1 charge";
    story.row("a retry after the lease", &request.account, expected, &answer)?;
    story.resend("its retry", &request, &answer, "201 replayed, same bytes; 2 calls, 1 charge")
}

/// The victim: charges, says so, and waits.
fn be_killed(folder: &Path) -> Result<bool> {
    let after_charge = || {
        io::stdout().write_all(CHARGED.as_bytes())?;
        io::stdin().read_to_end(&mut Vec::new())?;
        Err("nobody killed it".into())
    };
    let service = Service { after_charge, ..Service::open(folder, short_lease())? };
    let answer = service.handle(&fatal_payment())?;
    Err(format!("it got {answer} instead of a claim").into())
}

// ---- requests from a file

/// Answers the requests in `path`; says whether every line was good.
fn answer_requests(path: &Path, mut out: impl Write) -> Result<bool> {
    let unreadable = |error: io::Error| format!("{}: {error}", path.display());
    let lines = BufReader::new(File::open(path).map_err(unreadable)?).split(b'\n');
    let folder = tempfile::tempdir()?;
    let service = Service::open(folder.path(), Policy::new())?;
    let (mut totals, mut bad) = (BTreeMap::new(), 0);

    for (number, line) in (1..).zip(lines) {
        let line = line.map_err(unreadable)?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        match parse(&line) {
            Ok((request, copies)) => {
                let answers = at_once(&service, &request, copies)?;
                let mut decisions = BTreeMap::new();
                for decision in answers.iter().map(Answer::to_string) {
                    *totals.entry(decision.clone()).or_insert(0) += 1;
                    *decisions.entry(decision).or_insert(0) += 1;
                }
                let [account, key] = [Some(&request.account), request.key.as_ref()].map(printable);
                // Of several answers, the body of the one that came furthest.
                let body = answers.iter().min_by_key(|a| a.status()).map_or_else(String::new, Answer::body);
                writeln!(out, "line {number:>4}  {:<33}  {account}  {key}  {body}", listed(&decisions))?;
            }
            Err(why) => {
                bad += 1;
                writeln!(out, "line {number:>4}  BAD LINE: {why}")?;
            }
        }
    }
    writeln!(out)?;
    for (decision, n) in totals {
        writeln!(out, "{n:>9} × {decision}")?;
    }
    writeln!(out, "{bad:>9} × bad line")?;
    writeln!(out, "the provider had {}", service.provider.tally(|_| true)?)?;
    Ok(bad == 0)
}

/// The request on a line and how many copies of it to send, or what is wrong with the line.
fn parse(line: &[u8]) -> Result<(Request, usize), String> {
    let line: Value = serde_json::from_slice(line)
        .map_err(|error| format!("not JSON: {error}").replace(" at line 1 column ", " at byte "))?;
    let members = line.as_object().ok_or("not a JSON object")?;
    let text = |name: &str| match members.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("`{name}` is not a string")),
        None => Err(format!("`{name}` is missing")),
    };
    let key = match members.get("key") {
        None | Some(Value::Null) => None,
        Some(_) => Some(text("key")?),
    };
    let body = match members.get("body").ok_or("`body` is missing")? {
        Value::String(body) => body.clone(),
        other => other.to_string(),
    };
    let copies = match members.get("copies").map(Value::as_u64) {
        None => 1,
        Some(Some(copies @ 1..=64)) => usize::try_from(copies).map_err(|error| error.to_string())?,
        Some(_) => return Err("`copies` is not a whole number from 1 to 64".to_owned()),
    };
    Ok((Request { account: text("scope")?, key, method: text("method")?, path: text("path")?, body }, copies))
}

/// Each kind of answer, and how often it was given where that is more than once.
fn listed(answers: &BTreeMap<String, usize>) -> String {
    let each = answers.iter().map(|(answer, n)| match n {
        1 => answer.clone(),
        n => format!("{n} × {answer}"),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// A name from a file: in one column, and without what a terminal would act on.
fn printable(name: Option<&String>) -> String {
    format!("{:<12}", name.map_or("-", String::as_str).escape_debug().take(20).collect::<String>())
}

fn help(mut out: impl Write) -> Result<bool> {
    out.write_all(HELP.as_bytes())?;
    Ok(true)
}

/// Whether whoever was reading has read enough (`payments | head`).
fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let out = io::stdout();
    let done = match arguments.as_slice() {
        [] => story(out),
        [flag] if flag == "--help" || flag == "-h" => help(out),
        [flag, file] if flag == "--requests" => answer_requests(Path::new(file), out),
        [flag, folder] if flag == AS_VICTIM => be_killed(Path::new(folder)),
        [flag] if flag == "--requests" => Err("--requests needs a FILE; try --help".into()),
        _ => Err("these arguments make no sense; try --help".into()),
    };
    match done {
        Ok(all_well) => ExitCode::from(u8::from(!all_well)),
        Err(error) if is_closed_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            let causes = std::iter::successors(Some(&*error as &dyn Error), |&error| error.source());
            let causes: Vec<_> = causes.map(ToString::to_string).collect();
            // Written, not printed: where nobody reads it, that is no reason to panic.
            let _ = writeln!(io::stderr(), "payments: {}", causes.join(": "));
            ExitCode::from(2)
        }
    }
}
