//! A payment whose reply is kept as a reference to its row, on SQLite and without HTTP: for an API with rules
//! of its own about what makes two requests the same, how long a key may be, and which status a reused one
//! gets.
//!
//! ```text
//! cargo run --release --example reference      plays the story, and prints a table of what happened
//! ```
//!
//! Read `Service` first: it is what a program has to do. A reference is small, and costs a look-up for every
//! replay. Since the response is built from the row anew, a replay says how the payment stands *now*, and the
//! row may be gone. Where every retry must get the very same bytes, keep the response, as `payments` does.

use idempotency::rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use idempotency::{
    Claim, ClaimOutcome, Fingerprint, IdempotencyKey, IdempotencyStore, Reply, Scope, SqliteStore,
    StoredResponse, header,
};
use serde_json::{Value, json};
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use story::{Table, count};

#[path = "shared/story.rs"]
mod story;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const HELP: &str = "\
Payments whose replies are kept as references to their rows.

Usage:
  reference           play the story and print what was expected and what happened
  reference --help    print this
Every run starts without payments, in a temporary folder that is removed at the end.

Exit status: 0 if everything was as expected, 1 if not, 2 for wrong arguments or a database that failed
";

/// What this API publishes about its keys. A key in a header is ASCII: as many bytes as characters.
const MAX_KEY_LEN: usize = 100;

// ---- the service

struct Request<'a> {
    account: &'a str,
    /// The value of the `Idempotency-Key` header.
    key: &'a str,
    body: &'a str,
}

struct Payment {
    cents: i64,
    currency: String,
    recipient: String,
}

struct Service {
    store: SqliteStore,
    /// The file that the store and the payments are in.
    database: PathBuf,
}

impl Service {
    fn open(database: PathBuf) -> Result<Self> {
        let store = IdempotencyStore::open(&database)?;
        let service = Self { store, database };
        // AUTOINCREMENT: the number of a payment that was removed never names another one.
        service.connect()?.execute_batch(
            "CREATE TABLE payments (id INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT NOT NULL,
                                    cents INTEGER NOT NULL, currency TEXT NOT NULL, recipient TEXT NOT NULL,
                                    state TEXT NOT NULL) STRICT",
        )?;
        Ok(service)
    }

    fn connect(&self) -> Result<Connection> {
        Ok(Connection::open(&self.database)?)
    }

    /// Answers one request; `meanwhile` happens while the payment runs.
    fn handle_while(
        &self,
        request: &Request<'_>,
        meanwhile: impl FnOnce() -> Result<()>,
    ) -> Result<StoredResponse> {
        // What is refused here never reaches the store, so the client can mend it and try again.
        let key = match IdempotencyKey::from_header_with_max_len(request.key, MAX_KEY_LEN) {
            Ok(key) => key,
            Err(error) => return Ok(problem(400, "key-refused", &error.to_string())),
        };
        let payment = match Payment::parse(request.body) {
            Ok(payment) => payment,
            Err(why) => return Ok(problem(400, "payment-refused", why)),
        };
        let account = Scope::new(request.account)?;

        match self.store.try_claim(&account, &key, &payment.fingerprint())? {
            ClaimOutcome::Claimed(claim) => {
                meanwhile()?;
                self.pay(&claim, &payment)
            }
            ClaimOutcome::Completed(done) => {
                Ok(self.replay(&done.reply)?.with_header(header::IDEMPOTENT_REPLAYED, "true"))
            }
            // Two answers with one status: the type of the problem tells a client whether to come again, and
            // only where that helps there is a `Retry-After`.
            ClaimOutcome::InProgress(running) => {
                Ok(problem(409, "in-progress", "the first request is still running")
                    .with_header(header::RETRY_AFTER, running.retry_after_secs().to_string()))
            }
            // The variant is matched, not `suggested_status()`, which is 422 here.
            ClaimOutcome::FingerprintMismatch(_) => {
                Ok(problem(409, "key-reused", "this key was used for another payment"))
            }
        }
    }

    fn handle(&self, request: &Request<'_>) -> Result<StoredResponse> {
        self.handle_while(request, || Ok(()))
    }

    /// Makes the payment's row, and keeps its number as the reply, in one transaction.
    fn pay(&self, claim: &Claim, payment: &Payment) -> Result<StoredResponse> {
        let mut connection = self.connect()?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute(
            "INSERT INTO payments (account, cents, currency, recipient, state)
             VALUES (?1, ?2, ?3, ?4, 'pending')",
            (claim.scope().as_str(), payment.cents, &payment.currency, &payment.recipient),
        )?;
        let id = transaction.last_insert_rowid();
        let done = self.store.complete_in(&transaction, &claim.ticket(), Reply::Reference(id.to_string()))?;
        transaction.commit()?;
        self.replay(&done.reply)
    }

    /// The response that `reply` refers to, for the first answer and for every replay.
    fn replay(&self, reply: &Reply) -> Result<StoredResponse> {
        let id: i64 = reply.reference().ok_or("a reply that is no reference")?.parse()?;
        let select = "SELECT cents, currency, recipient, state FROM payments WHERE id = ?1";
        let row = self.connect()?.query_row(select, [id], |row| {
            let (cents, currency): (i64, String) = (row.get(0)?, row.get(1)?);
            let (recipient, state): (String, String) = (row.get(2)?, row.get(3)?);
            let id = format!("pay_{id}");
            Ok(json!({ "id": id, "amount": cents, "currency": currency, "to": recipient, "state": state }))
        });
        Ok(match row.optional()? {
            Some(payment) => StoredResponse::new(201)
                .with_header("content-type", "application/json")
                .with_header("location", format!("/payments/pay_{id}"))
                .with_body(payment.to_string()),
            // It was made, so it is not made again. The record outlived the row; keep rows longer than that.
            None => problem(410, "payment-removed", "this payment was made, and has been removed since"),
        })
    }
}

impl Payment {
    fn parse(body: &str) -> Result<Self, &'static str> {
        let body: Value = serde_json::from_str(body).map_err(|_| "the body is not JSON")?;
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        Ok(Self {
            cents: body["amount"]
                .as_i64()
                .filter(|cents| *cents > 0)
                .ok_or("`amount` is no whole number above 0")?,
            currency: text("currency").ok_or("`currency` is missing")?,
            recipient: text("to").ok_or("`to` is missing")?,
        })
    }

    /// What makes two payments the same: read from the body and not of the body, so that neither spacing nor
    /// the order of members counts, nor what a client changes in every attempt. A member that is added to the
    /// payment is to be added here.
    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::builder()
            .field("amount", self.cents.to_string())
            .field("currency", &self.currency)
            .field("to", &self.recipient)
            .finish()
    }
}

/// A problem as RFC 9457 has it.
fn problem(status: u16, name: &str, title: &str) -> StoredResponse {
    let kind = format!("https://api.example/problems/{name}");
    StoredResponse::new(status)
        .with_header("content-type", "application/problem+json")
        .with_body(json!({ "type": kind, "title": title, "status": status }).to_string())
}

// ---- the story

struct Story<W> {
    service: Service,
    table: Table<W>,
}

/// Plays every scenario, each with an account of its own; says whether all went as expected.
fn play(out: impl Write) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let service = Service::open(folder.path().join("payments.db"))?;
    let table = Table::new(
        out,
        "What happened is what a client sees of the response, and how many payments its account has by then.",
    )?;
    let mut story = Story { service, table };
    retried(&mut story)?;
    reused(&mut story)?;
    running(&mut story)?;
    changed(&mut story)?;
    long_keys(&mut story)?;
    refused(&mut story)?;
    story.table.end()
}

impl<W: Write> Story<W> {
    fn send(&mut self, scenario: &str, request: &Request<'_>, expected: &str) -> Result<()> {
        let response = self.service.handle(request)?;
        self.row(scenario, request.account, expected, &seen(&response)?)
    }

    fn row(&mut self, scenario: &str, account: &str, expected: &str, happened: &str) -> Result<()> {
        let happened = format!("{happened}; {}", self.service.by_then(account)?);
        self.table.row(scenario, expected, happened)
    }
}

impl Service {
    fn by_then(&self, account: &str) -> Result<String> {
        let select = "SELECT count(*) FROM payments WHERE account = ?1";
        let payments: u32 = self.connect()?.query_row(select, [account], |row| row.get(0))?;
        Ok(count(usize::try_from(payments)?, "payment"))
    }
}

/// What a client sees of a response: a problem's type, or the payment, and the headers about retries.
fn seen(response: &StoredResponse) -> Result<String> {
    let body: Value = serde_json::from_slice(response.body())?;
    let what = match body["type"].as_str() {
        Some(problem) => problem.rsplit('/').next().unwrap_or_default().to_owned(),
        None => format!("{} {}", body["amount"], body["state"].as_str().unwrap_or_default()),
    };
    let mut seen = format!("{} {what}", response.status());
    for (name, value) in response.headers() {
        match name {
            header::RETRY_AFTER => seen += &format!(", again in {} s", String::from_utf8_lossy(value)),
            header::IDEMPOTENT_REPLAYED => seen += ", replayed",
            _ => {}
        }
    }
    Ok(seen)
}

const BODY: &str = r#"{"amount": 500, "currency": "EUR", "to": "acct_9", "client_time": "10:00:00"}"#;

fn retried(story: &mut Story<impl Write>) -> Result<()> {
    let request = Request { account: "acct_retried", key: "order-1", body: BODY };
    story.send("a payment", &request, "201 500 pending; 1 payment")?;
    story.send("its retry", &request, "201 500 pending, replayed; 1 payment")?;
    for (scenario, body) in [
        (
            "another client time",
            r#"{"amount": 500, "currency": "EUR", "to": "acct_9", "client_time": "10:00:07"}"#,
        ),
        ("no client time, other spacing", r#"{"amount":500,"currency":"EUR","to":"acct_9"}"#),
        ("another order of members", r#"{"to": "acct_9", "currency": "EUR", "amount": 500}"#),
    ] {
        story.send(scenario, &Request { body, ..request }, "201 500 pending, replayed; 1 payment")?;
    }
    let (account, key) = (Scope::new(request.account)?, IdempotencyKey::new(request.key)?);
    let record = story.service.store.lookup(&account, &key)?.ok_or("there is no record")?;
    let kept = record.reply.as_ref().and_then(Reply::reference).unwrap_or("something else");
    story.row("what the store keeps: a reference to", request.account, "1; 1 payment", kept)
}

fn reused(story: &mut Story<impl Write>) -> Result<()> {
    let request = Request { account: "acct_reused", key: "order-1", body: BODY };
    story.send("a payment", &request, "201 500 pending; 1 payment")?;
    for (scenario, body) in [
        ("its key, another amount", r#"{"amount": 900, "currency": "EUR", "to": "acct_9"}"#),
        ("its key, another currency", r#"{"amount": 500, "currency": "USD", "to": "acct_9"}"#),
        ("its key, another recipient", r#"{"amount": 500, "currency": "EUR", "to": "acct_8"}"#),
    ] {
        story.send(scenario, &Request { body, ..request }, "409 key-reused; 1 payment")?;
    }
    let new = Request { key: "order-2", ..request };
    story.send("the same payment under a new key", &new, "201 500 pending; 2 payments")
}

fn running(story: &mut Story<impl Write>) -> Result<()> {
    let request = Request { account: "acct_running", key: "order-1", body: BODY };
    let other = Request { body: r#"{"amount": 900, "currency": "EUR", "to": "acct_9"}"#, ..request };
    let Story { service, table } = story;
    let response = service.handle_while(&request, || {
        for (scenario, request, expected) in [
            ("a retry while the payment runs", &request, "409 in-progress, again in 1 s; 0 payments"),
            ("its key reused, while it runs", &other, "409 key-reused; 0 payments"),
        ] {
            let heard = seen(&service.handle(request)?)?;
            table.row(scenario, expected, format_args!("{heard}; {}", service.by_then(request.account)?))?;
        }
        Ok(())
    })?;
    story.row("the payment itself", request.account, "201 500 pending; 1 payment", &seen(&response)?)
}

fn changed(story: &mut Story<impl Write>) -> Result<()> {
    let request = Request { account: "acct_changed", key: "order-1", body: BODY };
    story.send("a payment", &request, "201 500 pending; 1 payment")?;
    let settle = "UPDATE payments SET state = 'settled' WHERE account = ?1";
    story.service.connect()?.execute(settle, [request.account])?;
    story.send("its retry, once it is settled", &request, "201 500 settled, replayed; 1 payment")?;
    let remove = "DELETE FROM payments WHERE account = ?1";
    story.service.connect()?.execute(remove, [request.account])?;
    story.send("its retry, once its row is gone", &request, "410 payment-removed, replayed; 0 payments")
}

fn long_keys(story: &mut Story<impl Write>) -> Result<()> {
    let [longest, too_long] = [100, 101].map(|len| "k".repeat(len));
    let request = Request { account: "acct_long", key: &longest, body: BODY };
    story.send("a key of 100 characters", &request, "201 500 pending; 1 payment")?;
    let quoted = format!("\"{longest}\"");
    let again = Request { key: &quoted, ..request };
    story.send("the same in quotes, which don't count", &again, "201 500 pending, replayed; 1 payment")?;
    let refused = Request { key: &too_long, ..request };
    story.send("a key of 101 characters", &refused, "400 key-refused; 1 payment")
}

fn refused(story: &mut Story<impl Write>) -> Result<()> {
    let body = r#"{"amount": 500, "currency": "EUR"}"#;
    let request = Request { account: "acct_refused", key: "order-1", body };
    story.send("a payment to nobody", &request, "400 payment-refused; 0 payments")?;
    let mended = Request { body: BODY, ..request };
    story.send("its key, once it is mended", &mended, "201 500 pending; 1 payment")
}

fn main() -> ExitCode {
    story::main("reference", HELP, play)
}
