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
//! Each event is a commit of its own, and so a sync of the disk. A consumer that needs more a second puts
//! several into one transaction, each with a claim by `try_claim_in`.
//!
//! That the order of events changes nothing is up to their effects: here they are additions, which commute. A
//! status would not; it would have to carry a version, and the older one would have to be ignored. (Where two
//! events have one id, the one that comes first stands, so their order does count.)

use idempotency::rusqlite::{Connection, Transaction};
use idempotency::{
    Fingerprint, IdempotencyKey, IdempotencyStore, Policy, Ran, Reply, Scope, SqliteStore, rusqlite,
};
use serde_json::Value;
use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

#[path = "shared/exit.rs"]
mod exit;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const HELP: &str = "\
Applies events that are delivered at least once to a table of orders, each of them once.

Usage:
  webhooks DATABASE [EVENTS]        apply the events in the file EVENTS, or from stdin, one JSON object a
                                    line, and print what became of them, and the orders
  webhooks --generate N --seed S    print N events, repeated and reordered; the same for the same N and S
  webhooks --help                   print this

An event:
  source   who sends it; `id` is unique there
  id       the event's name, the same in every delivery
  type     \"created\", \"paid\" or \"refunded\"
  order    the order it is about
  amount   cents: a whole number from 1 to 1000000000
Other members may differ between deliveries and are ignored. Empty lines are skipped.
DATABASE is made if it is not there. Kill the program, and start it again on the same two files.

Exit status:
  0  every line was an event
  1  a line was bad: it is reported, and the others are applied all the same
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
}

/// What became of a delivery.
enum Delivery {
    Executed,
    Replayed,
    /// The id came before, with other content. Nobody but the sender can say which of the two is meant.
    Mismatched,
}

impl Consumer {
    fn open(database: &Path) -> Result<Self> {
        // Longer than any sender goes on delivering: an event that comes again after its record has expired
        // is a new one.
        let policy = Policy::new().with_retention(Duration::from_secs(30 * 24 * 60 * 60));
        let store = IdempotencyStore::open(database)?.with_policy(policy)?;
        create_orders(&Connection::open(database)?)?;
        Ok(Self { store })
    }

    fn receive(&self, event: &Event) -> Result<Delivery> {
        let ran = self.store.atomically(&event.source, &event.id, &event.fingerprint(), |transaction| {
            event.apply(transaction)?;
            // A sender of events wants to hear "ok" and nothing else, so that it ran is all there is to keep.
            Ok::<_, rusqlite::Error>(Reply::Marker)
        })?;
        match ran {
            Ran::Executed(_) => Ok(Delivery::Executed),
            Ran::Replayed(_) => Ok(Delivery::Replayed),
            Ran::FingerprintMismatch(_) => Ok(Delivery::Mismatched),
            // A marker is no failure, and nobody claims these events but by `atomically`, whose claims are
            // seen by nobody else: another consumer on this file waits, and then hears "replayed".
            Ran::Failed(_) | Ran::InProgress(_) => Err("the database is used by another program".into()),
        }
    }
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
    fn apply(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
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

/// Applies what `events` has, then prints the orders; says whether every line was good.
fn consume(database: &Path, events: impl BufRead, mut out: impl Write) -> Result<bool> {
    let consumer = Consumer::open(database)?;
    let [mut executed, mut replayed, mut mismatched, mut bad] = [0_u64; 4];
    for (number, line) in (1..).zip(events.split(b'\n')) {
        let line = line.map_err(|error| format!("the events can't be read: {error}"))?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let event = match Event::parse(&line) {
            Ok(event) => event,
            Err(why) => {
                bad += 1;
                writeln!(out, "line {number:>4}  BAD LINE: {why}")?;
                continue;
            }
        };
        match consumer.receive(&event)? {
            Delivery::Executed => executed += 1,
            Delivery::Replayed => replayed += 1,
            Delivery::Mismatched => {
                mismatched += 1;
                let (source, id) = (event.source.as_str().escape_debug(), event.id.as_str().escape_debug());
                writeln!(out, "line {number:>4}  MISMATCH: {source} sent {id} before, with other content")?;
            }
        }
    }
    writeln!(out, "\n{:>9} lines seen", executed + replayed + mismatched + bad)?;
    writeln!(out, "{executed:>9} × executed\n{replayed:>9} × replayed")?;
    writeln!(out, "{mismatched:>9} × mismatched\n{bad:>9} × bad line\n")?;
    print_orders(&Connection::open(database)?, out)?;
    Ok(bad == 0)
}

fn create_orders(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS orders (
           source TEXT NOT NULL,
           id TEXT NOT NULL,
           events INTEGER NOT NULL,   -- how many were applied
           created INTEGER NOT NULL,  -- cents, as are those below
           paid INTEGER NOT NULL,
           refunded INTEGER NOT NULL,
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

// ---- events out of nothing

/// Prints `count` events of two sources, each up to three times, now and then with one that has another's id.
fn generate(count: u64, seed: u64, out: impl Write) -> Result<bool> {
    let mut random = Random(seed);
    let mut deliveries = Vec::new();
    for n in 0..count {
        let source = if n % 2 == 0 { "shop" } else { "market" };
        let (id, order) = (n / 2, n / 8);
        let change = ["created", "paid", "paid", "refunded"][usize::try_from(id % 4)?];
        let amount = 1 + random.below(10_000);
        let line = |amount: u64, delivery: u64| {
            let event =
                format!(r#""source":"{source}","id":"evt_{id}","type":"{change}","order":"order_{order}""#);
            format!(r#"{{{event},"amount":{amount},"delivery":{delivery}}}"#)
        };
        for delivery in 1..=1 + random.below(3) {
            // The first comes a little out of order, a repetition perhaps much later.
            let late = random.below(if delivery == 1 { 20 } else { 1_000 });
            deliveries.push((n + late, line(amount, delivery)));
        }
        if random.below(100) == 0 {
            deliveries.push((n + random.below(1_000), line(amount + 1, 1)));
        }
    }
    deliveries.sort_by_key(|(at, _)| *at);
    let mut out = BufWriter::new(out);
    for (_, line) in deliveries {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(true)
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    /// A number below `limit`; that low ones come a little more often does not matter here.
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

fn run(arguments: &[OsString], mut out: impl Write) -> Result<bool> {
    let number = |text: &OsString| -> Result<u64> {
        text.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| "N and S are whole numbers".into())
    };
    let is_flag = |argument: &OsString| argument.as_encoded_bytes().starts_with(b"-");
    match arguments {
        [flag] if flag == "--help" || flag == "-h" => {
            out.write_all(HELP.as_bytes())?;
            Ok(true)
        }
        [generated, n, seeded, seed] if generated == "--generate" && seeded == "--seed" => {
            generate(number(n)?, number(seed)?, out)
        }
        [database] if !is_flag(database) => consume(Path::new(database), io::stdin().lock(), out),
        [database, events] if ![database, events].into_iter().any(is_flag) => {
            let path = Path::new(events);
            let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
            consume(Path::new(database), BufReader::new(file), out)
        }
        _ => Err("these arguments make no sense; try --help".into()),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    exit::code("webhooks", run(&arguments, io::stdout()))
}
