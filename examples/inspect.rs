//! A look into a store's file, for whoever is called at night: how many records there are, which claims
//! nobody seems to work on, and the two things that an operator may do about it.
//!
//! ```text
//! cargo run --release --example inspect -- payments.db
//! ```
//!
//! The service goes on meanwhile: without `--forget` and `--sweep` nothing is written, and with them the file
//! is locked for moments only.

use idempotency::{
    Clock, Error as StoreError, IdempotencyKey, IdempotencyStore, Scope, SqliteBackend, SqliteOptions,
    SqliteStore, Stats, Stuck, StuckReason, SystemClock, Timestamp,
};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::error::Error;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

#[path = "shared/exit.rs"]
mod exit;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const HELP: &str = "\
Shows what a store on a SQLite file holds, and which of its claims look stuck.

Usage:
  inspect FILE [--prefix P] [--limit N] [--show-keys] [--json] [--forget SCOPE KEY] [--sweep]
  inspect --help

  --prefix P          the store's tables are called P..., not idempotency_...
  --limit N           show at most N stuck claims; 20 without it
  --show-keys         show scopes and keys, not only their digests: they may be sensitive
  --json              print one JSON document; times in milliseconds since 1970
  --forget SCOPE KEY  first delete this record, whoever owns it, and say whether there was one
  --sweep             first delete all expired records, 1000 at a time

A claim is stuck if its lease is over and nobody has taken over, or if its lease is longer than it may be, because
the clock has stepped back. --forget takes the scope and the key themselves, as --json --show-keys gives them.

FILE is opened for reading only, and with --forget or --sweep for writing; it is never made. SQLite itself makes
FILE-wal and FILE-shm where they are not there, and leaves them after reading; the next program that writes to the
store takes them away. So run this as the user of the service, who must be able to write to them. For a copy that
nobody has open, in a folder that can't be written to, give FILE as file:/the/path?immutable=1.

Exit status:
  0  done
  1  the store failed: it is not there, say, or busy, or no store
  2  these arguments make no sense
";

/// How many stuck claims are shown if nothing else is said.
const LIMIT: usize = 20;
/// How many records are removed between two looks at the progress.
const SWEEP_STEP: usize = 1_000;

// ---- what an operator asks and does

/// What was found, after what was to be done was done.
struct Report {
    now: Timestamp,
    /// Whether there was a record to forget, if one was to be.
    forgotten: Option<bool>,
    /// How many records were swept, if they were to be.
    swept: Option<usize>,
    stats: Stats,
    stuck: Vec<Stuck>,
    /// Whether there are more stuck claims than were to be shown.
    more_stuck: bool,
}

fn open(arguments: &Arguments) -> Result<SqliteStore> {
    let mut options = SqliteOptions::new().must_exist();
    if let Some(prefix) = &arguments.prefix {
        options = options.with_prefix(prefix);
    }
    if arguments.forget.is_none() && !arguments.sweep {
        options = options.read_only();
    }
    Ok(IdempotencyStore::new(SqliteBackend::open(&arguments.file, options)?))
}

fn look_and_act(arguments: &Arguments) -> Result<Report> {
    let store = open(arguments)?;
    let forgotten = arguments.forget.as_ref().map(|(scope, key)| store.forget(scope, key)).transpose()?;
    let swept = arguments.sweep.then(|| sweep(&store)).transpose()?;
    let looked = look(&store, arguments.limit);
    if looked.is_err() {
        // What was done is done, and the operator must hear of it.
        eprint!("{}", acted(forgotten, swept));
    }
    let (stats, stuck, more_stuck) = looked?;
    Ok(Report { now: SystemClock.now(), forgotten, swept, stats, stuck, more_stuck })
}

fn look(store: &SqliteStore, limit: usize) -> Result<(Stats, Vec<Stuck>, bool)> {
    let stats = store.stats()?;
    let mut stuck = store.stuck(limit.saturating_add(1))?;
    let more_stuck = stuck.len() > limit;
    stuck.truncate(limit);
    Ok((stats, stuck, more_stuck))
}

/// Removes all that has expired, a bounded number at a time, so that the service goes on in between. The bar
/// is on stderr, and only if that is a terminal.
fn sweep(store: &SqliteStore) -> Result<usize> {
    let bar = ProgressBar::new(store.stats()?.expired);
    let mut removed = 0;
    loop {
        let swept = store.sweep(SWEEP_STEP)?;
        removed += swept.removed;
        bar.set_position(u64::try_from(removed)?);
        if !swept.more || swept.removed == 0 {
            bar.finish_and_clear();
            return Ok(removed);
        }
    }
}

// ---- what is printed

fn acted(forgotten: Option<bool>, swept: Option<usize>) -> String {
    let forgotten = match forgotten {
        Some(true) => "forgotten\n\n",
        Some(false) => "there was no such record to forget\n\n",
        None => "",
    };
    let swept = swept.map(|swept| format!("{swept} expired records swept\n\n"));
    format!("{forgotten}{}", swept.unwrap_or_default())
}

fn print_text(report: &Report, arguments: &Arguments, mut out: impl Write) -> io::Result<()> {
    write!(out, "{}", acted(report.forgotten, report.swept))?;
    let Stats { in_progress, lapsed, completed, expired, damaged, bytes, .. } = report.stats;
    writeln!(out, "{in_progress:>12} in progress\n{lapsed:>12} lapsed\n{completed:>12} completed")?;
    writeln!(
        out,
        "{expired:>12} expired, to be swept\n{damaged:>12} damaged\n{bytes:>12} bytes of keys, replies and checkpoints\n"
    )?;
    if report.stuck.is_empty() {
        return writeln!(out, "no stuck claims{}", if report.more_stuck { " shown" } else { "" });
    }
    let line = |cells: [&str; 8]| {
        let [reason, attempt, claimed, lease, until, expires, scope, key] = cells;
        format!(
            "{reason:<14}  {attempt:>7}  {claimed:>12}  {lease:>8}  {until:>12}  {expires:>12}  {scope}  {key}"
        )
    };
    let header = ["stuck", "attempt", "claimed", "lease", "lease ends", "expires", "scope", "key"];
    writeln!(out, "{}", line(header))?;
    for stuck in &report.stuck {
        let [claimed, until, expires] =
            [stuck.created_at, stuck.lease_until, stuck.expires_at].map(|at| relative(at, report.now));
        let (scope, key) = if arguments.show_keys {
            // In quotes and escaped: a name must not steer the terminal.
            (format!("{:?}", stuck.id.scope.as_str()), format!("{:?}", stuck.id.key.as_str()))
        } else {
            (digest(&stuck.id.scope), digest(&stuck.id.key))
        };
        let (attempt, lease) = (stuck.attempt.to_string(), length(stuck.lease.as_duration().as_secs()));
        writeln!(
            out,
            "{}",
            line([reason(stuck), &attempt, &claimed, &lease, &until, &expires, &scope, &key])
        )?;
    }
    if report.more_stuck {
        writeln!(out, "and more; --limit shows them")?;
    }
    Ok(())
}

fn reason(stuck: &Stuck) -> &'static str {
    match stuck.reason {
        StuckReason::Lapsed => "lapsed",
        StuckReason::LeaseTooLong => "lease too long",
        _ => "other",
    }
}

/// The digest that a scope or a key shows itself as, without its type: what it has in a log, too.
fn digest(name: &impl Display) -> String {
    let name = name.to_string();
    name.split(['(', ')']).nth(1).unwrap_or(&name).to_owned()
}

fn relative(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        format!("in {}", length(at.saturating_since(now).as_secs()))
    } else {
        format!("{} ago", length(now.saturating_since(at).as_secs()))
    }
}

/// In the largest unit that there are at least two of.
fn length(seconds: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(24 * 60 * 60, "d"), (60 * 60, "h"), (60, "min")];
    let unit = UNITS.into_iter().find(|(unit, _)| seconds / unit >= 2);
    let (unit, name) = unit.unwrap_or((1, "s"));
    format!("{} {name}", seconds / unit)
}

fn print_json(report: &Report, arguments: &Arguments, mut out: impl Write) -> Result<()> {
    let stuck: Vec<Value> = report
        .stuck
        .iter()
        .map(|stuck| {
            let shown = |name: &str| if arguments.show_keys { json!(name) } else { Value::Null };
            json!({
                "reason": reason(stuck).replace(' ', "_"),
                "attempt": stuck.attempt,
                // As text: many readers of JSON would round it.
                "token": stuck.token.to_string(),
                "created_at_ms": stuck.created_at.as_millis(),
                "lease_ms": stuck.lease.as_millis(),
                "lease_until_ms": stuck.lease_until.as_millis(),
                "expires_at_ms": stuck.expires_at.as_millis(),
                "scope_digest": digest(&stuck.id.scope),
                "key_digest": digest(&stuck.id.key),
                "scope": shown(stuck.id.scope.as_str()),
                "key": shown(stuck.id.key.as_str()),
            })
        })
        .collect();
    let Stats { in_progress, lapsed, completed, expired, damaged, bytes, .. } = report.stats;
    let document = json!({
        "now_ms": report.now.as_millis(),
        "forgotten": report.forgotten,
        "swept": report.swept,
        "in_progress": in_progress,
        "lapsed": lapsed,
        "completed": completed,
        "expired": expired,
        "damaged": damaged,
        "bytes": bytes,
        "stuck": stuck,
        "more_stuck": report.more_stuck,
    });
    Ok(writeln!(out, "{document}")?)
}

// ---- the arguments

struct Arguments {
    file: PathBuf,
    prefix: Option<String>,
    limit: usize,
    show_keys: bool,
    json: bool,
    forget: Option<(Scope, IdempotencyKey)>,
    sweep: bool,
}

impl Arguments {
    fn parse(arguments: Vec<OsString>) -> Result<Self> {
        let mut arguments = arguments.into_iter();
        let (mut file, mut prefix, mut limit, mut forget) = (None, None, None, None);
        let [mut show_keys, mut json, mut sweep] = [false; 3];
        while let Some(argument) = arguments.next() {
            let mut value = |what: &str| -> Result<String> {
                let value = arguments.next().ok_or_else(|| format!("{what} is missing; try --help"))?;
                value.into_string().map_err(|_| format!("{what} is no UTF-8").into())
            };
            match argument.to_str() {
                Some("--show-keys") => show_keys = true,
                Some("--json") => json = true,
                Some("--sweep") => sweep = true,
                Some("--prefix") => once(&mut prefix, value("the prefix")?, "--prefix")?,
                Some("--limit") => {
                    let number = value("the limit")?.parse().map_err(|_| "the limit is no whole number")?;
                    once(&mut limit, number, "--limit")?;
                }
                Some("--forget") => {
                    let scope = Scope::new(value("the scope to forget")?)?;
                    once(
                        &mut forget,
                        (scope, IdempotencyKey::new(value("the key to forget")?)?),
                        "--forget",
                    )?;
                }
                Some(flag) if flag.starts_with('-') => {
                    return Err(format!("{flag:?} makes no sense; try --help").into());
                }
                _ => once(&mut file, PathBuf::from(argument), "FILE")?,
            }
        }
        let file = file.ok_or("FILE is missing; try --help")?;
        Ok(Self { file, prefix, limit: limit.unwrap_or(LIMIT), show_keys, json, forget, sweep })
    }
}

fn once<T>(place: &mut Option<T>, value: T, what: &str) -> Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("{what} is there twice; try --help").into()),
    }
}

fn run(arguments: Vec<OsString>) -> Result<bool> {
    let mut out = BufWriter::new(io::stdout());
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        out.write_all(HELP.as_bytes())?;
        out.flush()?;
        return Ok(true);
    }
    let arguments = Arguments::parse(arguments)?;
    let done = look_and_act(&arguments).and_then(|report| {
        if arguments.json {
            print_json(&report, &arguments, &mut out)?;
        } else {
            print_text(&report, &arguments, &mut out)?;
        }
        Ok(out.flush()?)
    });
    match done {
        Ok(()) => Ok(true),
        Err(error) if exit::is_closed_pipe(&*error) || is_of_an_argument(&*error) => Err(error),
        Err(error) => {
            exit::complain("inspect", &*error);
            Ok(false)
        }
    }
}

/// Whether the store was not even looked for: the prefix is none, say.
fn is_of_an_argument(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::InvalidOption { .. }))
}

fn main() -> ExitCode {
    exit::code("inspect", run(std::env::args_os().skip(1).collect()))
}
