//! A consumer of webhooks, or of any queue that delivers **at least once**: events come more than once, in
//! any order, and this program may be killed between any two instructions. Each event changes the orders
//! once.
//!
//! ```text
//! cargo run --release --example webhooks -- orders.db examples/data/events.jsonl
//! ```
//!
//! Read `Consumer` first: it is what a program has to do. An event's effect and the record that it happened
//! are committed in one transaction, so of a crash at any point there come both or neither, and the next
//! delivery is replayed or executed accordingly. `scripts/kill-loop` kills it 50 times and compares the
//! totals with the events'.
//!
//! By `receive`, each event is a commit of its own, and so a sync of the disk. With `--batch N` it is
//! `receive_together`, for those who need more a second: N events in one transaction.
//!
//! That the order of events changes nothing is up to their effects: here they are additions, which commute. A
//! status would not; it would have to carry a version, and the older one would have to be ignored. (Order does
//! count where two events have one id: the one that comes first stands; and where an order is full: the one
//! that comes last is refused.)

use idempotency::rusqlite::{Connection, ErrorCode, Savepoint, TransactionBehavior};
use idempotency::{
    ClaimOutcome, Fingerprint, IdempotencyKey, IdempotencyStore, Policy, Ran, Reply, RunError, Scope,
    SqliteStore, rusqlite,
};
use serde_json::Value;
use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

#[path = "shared/exit.rs"]
mod exit;
#[path = "shared/generator.rs"]
mod generator;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const HELP: &str = "\
Applies events that are delivered at least once to a table of orders, each of them once.

Usage:
  webhooks [--batch N] DATABASE [EVENTS]    apply the events in the file EVENTS, or from stdin, one JSON
                                            object a line, and print what became of them, and the orders
  webhooks --generate N --seed S            print N events, repeated and reordered; the same for the same
                                            N and S
  webhooks --help                           print this

With --batch, N events are committed together; without it, each by itself.

An event:
  source   who sends it; `id` is unique there
  id       the event's name, the same in every delivery
  type     \"created\", \"paid\" or \"refunded\"
  order    the order it is about
  amount   cents: a whole number from 1 to 1000000000
Other members may differ between deliveries and are ignored. Empty lines are skipped. An event that takes
what is created, paid or refunded of an order above 2000000000 is refused: it changes nothing.
DATABASE is made if it is not there. Kill the program, and start it again on the same two files.

Exit status:
  0  every line was an event
  1  a line was bad, or an event refused: it is reported, and the others are applied all the same
  2  wrong arguments, a file that can't be read, or a database that failed; start it again
";

// ---- the consumer

struct Event {
    source: Scope,
    id: IdempotencyKey,
    change: Change,
    order: String,
    cents: i64,
}

#[derive(Clone, Copy)]
enum Change {
    Created,
    Paid,
    Refunded,
}

struct Consumer {
    store: SqliteStore,
    /// The application's own connection, to the same file.
    connection: Connection,
}

/// What became of a delivery.
enum Delivery {
    Executed,
    Replayed,
    /// The id came before, with other content. Nobody but the sender can say which of the two is meant.
    Mismatched,
    /// The table does not take it. Nothing is left of it, its claim neither: if it comes again, it is new.
    Refused(rusqlite::Error),
}

impl Consumer {
    fn open(database: &Path) -> Result<Self> {
        // Longer than any sender goes on delivering: an event that comes again after its record has expired
        // is a new one.
        let policy = Policy::new().with_retention(Duration::from_secs(30 * 24 * 60 * 60));
        let store = IdempotencyStore::open(database)?.with_policy(policy)?;
        let connection = Connection::open(database)?;
        create_orders(&connection)?;
        Ok(Self { store, connection })
    }

    /// One event, in a transaction of the store's.
    fn receive(&self, event: &Event) -> Result<Delivery> {
        let ran = self.store.atomically(&event.source, &event.id, &event.fingerprint(), |transaction| {
            event.apply(transaction)?;
            // A sender of events wants to hear "ok" and nothing else, so that it ran is all there is to keep.
            Ok(Reply::Marker)
        });
        match ran {
            Ok(Ran::Executed(_)) => Ok(Delivery::Executed),
            Ok(Ran::Replayed(_)) => Ok(Delivery::Replayed),
            Ok(Ran::FingerprintMismatch(_)) => Ok(Delivery::Mismatched),
            // A marker is no failure, and nobody claims these events but here, where a claim is seen by nobody
            // before it has completed: another consumer on this file waits, and then hears "replayed".
            Ok(Ran::Failed(_) | Ran::InProgress(_)) => Err(OTHER_PROGRAM.into()),
            Err(RunError::Work(error)) if is_refusal(&error) => Ok(Delivery::Refused(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Some events in one transaction of ours: all that is executed among them is committed at once.
    fn receive_together(&mut self, events: &[&Event]) -> Result<Vec<Delivery>> {
        let mut transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut deliveries = Vec::new();
        for event in events {
            deliveries.push(receive_in(transaction.savepoint()?, &self.store, event)?);
        }
        transaction.commit()?;
        // Only now may the sender hear of any of them: what is "replayed", too, may be from this transaction.
        Ok(deliveries)
    }
}

/// One of several events. If `savepoint` is dropped without a commit, it is rolled back, and takes none of the
/// others along; an error ends them all.
fn receive_in(savepoint: Savepoint<'_>, store: &SqliteStore, event: &Event) -> Result<Delivery> {
    let claim = match store.try_claim_in(&savepoint, &event.source, &event.id, &event.fingerprint())? {
        ClaimOutcome::Claimed(claim) => claim,
        ClaimOutcome::Completed(_) => return Ok(Delivery::Replayed),
        ClaimOutcome::FingerprintMismatch(_) => return Ok(Delivery::Mismatched),
        ClaimOutcome::InProgress(_) => return Err(OTHER_PROGRAM.into()),
    };
    match event.apply(&savepoint) {
        Ok(()) => {}
        Err(error) if is_refusal(&error) => return Ok(Delivery::Refused(error)),
        Err(error) => return Err(error.into()),
    }
    // If this fails, nothing may be committed: the effect would be there, and come once more.
    claim.complete(Reply::Marker)?;
    savepoint.commit()?;
    Ok(Delivery::Executed)
}

const OTHER_PROGRAM: &str = "the database is used by another program";

/// Whether it is the event that is at fault, and not the database, which would fail the next one as well.
fn is_refusal(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

impl Event {
    /// Of all that matters and is not in the record's name, and of nothing that differs between deliveries.
    fn fingerprint(&self) -> Fingerprint {
        let change = match self.change {
            Change::Created => "created",
            Change::Paid => "paid",
            Change::Refunded => "refunded",
        };
        Fingerprint::builder()
            .field("type", change)
            .field("order", &self.order)
            .field("amount", self.cents.to_string())
            .finish()
    }

    /// Adds to the order's totals. The order need not be there yet: its payment may come before it.
    fn apply(&self, transaction: &Connection) -> rusqlite::Result<()> {
        let [created, paid, refunded] = match self.change {
            Change::Created => [self.cents, 0, 0],
            Change::Paid => [0, self.cents, 0],
            Change::Refunded => [0, 0, self.cents],
        };
        let mut add = transaction.prepare_cached(
            "INSERT INTO orders (source, id, events, created, paid, refunded) VALUES (?1, ?2, 1, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET events = events + 1, created = created + excluded.created,
                                       paid = paid + excluded.paid, refunded = refunded + excluded.refunded",
        )?;
        add.execute((self.source.as_str(), &self.order, created, paid, refunded))?;
        Ok(())
    }

    /// The event on a line, or what is wrong with the line.
    fn parse(line: &[u8]) -> Result<Self, String> {
        let line: Value = serde_json::from_slice(line)
            .map_err(|error| format!("not JSON: {error}").replace(" at line 1 column ", " at byte "))?;
        let members = line.as_object().ok_or("not a JSON object")?;
        let text = |name: &str| match members.get(name) {
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(_) => Err(format!("`{name}` is not a string")),
            None => Err(format!("`{name}` is missing")),
        };
        let change = match text("type")? {
            "created" => Change::Created,
            "paid" => Change::Paid,
            "refunded" => Change::Refunded,
            _ => return Err("`type` is none of created, paid, refunded".to_owned()),
        };
        let cents =
            members.get("amount").and_then(Value::as_i64).filter(|it| (1..=1_000_000_000).contains(it));
        Ok(Self {
            source: Scope::new(text("source")?).map_err(|error| format!("`source`: {error}"))?,
            id: IdempotencyKey::new(text("id")?).map_err(|error| format!("`id`: {error}"))?,
            change,
            order: text("order")?.to_owned(),
            cents: cents.ok_or("`amount` is not a whole number from 1 to 1000000000")?,
        })
    }
}

// ---- a run

/// What became of the lines so far.
#[derive(Default)]
struct Tally {
    executed: u64,
    replayed: u64,
    mismatched: u64,
    refused: u64,
    bad: u64,
}

/// Applies what `events` has, so many at a time, then prints the orders; says whether every line was good.
fn consume(database: &Path, batch: usize, events: impl BufRead, mut out: impl Write) -> Result<bool> {
    let mut consumer = Consumer::open(database)?;
    let mut tally = Tally::default();
    let mut waiting = Vec::new();
    for (number, line) in (1_u64..).zip(events.split(b'\n')) {
        let line = line.map_err(|error| format!("the events can't be read: {error}"))?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        match Event::parse(&line) {
            Ok(event) => waiting.push((number, event)),
            Err(why) => {
                tally.bad += 1;
                writeln!(out, "line {number:>4}  BAD LINE: {why}")?;
            }
        }
        if waiting.len() == batch {
            deliver(&mut consumer, &waiting, &mut tally, &mut out)?;
            waiting.clear();
        }
    }
    deliver(&mut consumer, &waiting, &mut tally, &mut out)?;
    let Tally { executed, replayed, mismatched, refused, bad } = tally;
    writeln!(out, "\n{:>9} lines seen", executed + replayed + mismatched + refused + bad)?;
    writeln!(out, "{executed:>9} × executed\n{replayed:>9} × replayed")?;
    writeln!(out, "{mismatched:>9} × mismatched\n{refused:>9} × refused\n{bad:>9} × bad line\n")?;
    print_orders(&consumer.connection, out)?;
    Ok(refused + bad == 0)
}

/// Hands the events of these lines to the consumer, and counts them once they are committed.
fn deliver(
    consumer: &mut Consumer,
    lines: &[(u64, Event)],
    tally: &mut Tally,
    mut out: impl Write,
) -> Result<()> {
    let deliveries = match lines {
        [] => return Ok(()),
        [(_, event)] => vec![consumer.receive(event)?],
        several => consumer.receive_together(&several.iter().map(|(_, event)| event).collect::<Vec<_>>())?,
    };
    for ((number, event), delivery) in lines.iter().zip(deliveries) {
        let (source, id) = (event.source.as_str().escape_debug(), event.id.as_str().escape_debug());
        match delivery {
            Delivery::Executed => tally.executed += 1,
            Delivery::Replayed => tally.replayed += 1,
            Delivery::Mismatched => {
                tally.mismatched += 1;
                writeln!(out, "line {number:>4}  MISMATCH: {source} sent {id} before, with other content")?;
            }
            Delivery::Refused(why) => {
                tally.refused += 1;
                writeln!(out, "line {number:>4}  REFUSED: {id} of {source}: {why}")?;
            }
        }
    }
    Ok(())
}

fn create_orders(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS orders (
           source TEXT NOT NULL,
           id TEXT NOT NULL,
           events INTEGER NOT NULL,   -- how many were applied
           -- cents, as are those below
           created INTEGER NOT NULL CHECK (created <= 2000000000),
           paid INTEGER NOT NULL CHECK (paid <= 2000000000),
           refunded INTEGER NOT NULL CHECK (refunded <= 2000000000),
           PRIMARY KEY (source, id)
         ) STRICT",
    )
}

/// Every order, and the totals, in cents.
fn print_orders(connection: &Connection, mut out: impl Write) -> Result<()> {
    writeln!(out, "{:<30} {:>8} {:>14} {:>14} {:>14}", "order", "events", "created", "paid", "refunded")?;
    let mut select = connection
        .prepare("SELECT source, id, events, created, paid, refunded FROM orders ORDER BY source, id")?;
    let mut rows = select.query([])?;
    let (mut orders, mut totals) = (0, [0_i64; 4]);
    while let Some(row) = rows.next()? {
        let (source, id): (String, String) = (row.get(0)?, row.get(1)?);
        let sums = [row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?];
        // A name from a file must not steer the terminal.
        print_sums(&format!("{}/{}", source.escape_debug(), id.escape_debug()), sums, &mut out)?;
        orders += 1;
        for (total, sum) in totals.iter_mut().zip(sums) {
            *total += sum;
        }
    }
    print_sums(&format!("all {orders}"), totals, out)
}

fn print_sums(name: &str, [events, created, paid, refunded]: [i64; 4], mut out: impl Write) -> Result<()> {
    Ok(writeln!(out, "{name:<30} {events:>8} {created:>14} {paid:>14} {refunded:>14}")?)
}

// ---- the arguments

fn run(arguments: &[OsString], mut out: impl Write) -> Result<bool> {
    let number = |text: &OsString| -> Result<u64> {
        text.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| "N and S are whole numbers".into())
    };
    match arguments {
        [flag] if flag == "--help" || flag == "-h" => {
            out.write_all(HELP.as_bytes())?;
            Ok(true)
        }
        [generated, n, seeded, seed] if generated == "--generate" && seeded == "--seed" => {
            generator::generate(number(n)?, number(seed)?, out)
        }
        [flag, n, files @ ..] if flag == "--batch" => {
            let batch: Option<NonZeroUsize> = n.to_str().and_then(|n| n.parse().ok());
            consume_files(files, batch.ok_or("N is a whole number above 0")?.get(), out)
        }
        files => consume_files(files, 1, out),
    }
}

fn consume_files(files: &[OsString], batch: usize, out: impl Write) -> Result<bool> {
    let is_flag = |argument: &OsString| argument.as_encoded_bytes().starts_with(b"-");
    match files {
        [database] if !is_flag(database) => consume(Path::new(database), batch, io::stdin().lock(), out),
        [database, events] if !files.iter().any(is_flag) => {
            let path = Path::new(events);
            let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
            consume(Path::new(database), batch, BufReader::new(file), out)
        }
        _ => Err("these arguments make no sense; try --help".into()),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    exit::code("webhooks", run(&arguments, io::stdout()))
}
