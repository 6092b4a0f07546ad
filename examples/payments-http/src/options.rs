//! What the server is started with: [`Options`].

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What `--help` prints.
pub const HELP: &str = "\
A payment service over HTTP, on an idempotency store.

Usage: payments-http --db FILE --accounts FILE --provider FOLDER [OPTION]…

  --db FILE               the store, made if it is not there; several servers may share it
  --accounts FILE         an account and its token's SHA-256 in hexadecimal on each line
  --provider FOLDER       where the pretended provider keeps its ledger
  --listen ADDRESS        127.0.0.1:8080 if it is left out; with port 0 the system chooses one
  --lease MILLISECONDS    how long a charge may take before a retry takes over; 30000 if it is left out
  --delay MILLISECONDS    how long the provider takes to answer; 0 if it is left out
  --rate NUMBER           how many requests an account may send in a minute; 6000 if it is left out
  --help                  print this

Once it listens it prints `listening on ADDRESS`. SIGTERM and Ctrl-C stop it: it prints `stopping`, takes no
more requests, and ends when the operations that have begun are recorded.
";

/// What the server is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The store's file.
    pub db: PathBuf,
    /// The file with the accounts.
    pub accounts: PathBuf,
    /// The provider's folder.
    pub provider: PathBuf,
    /// Where to listen.
    pub listen: SocketAddr,
    /// The lease of a claim.
    pub lease: Duration,
    /// How long the provider takes to answer.
    pub delay: Duration,
    /// How many requests an account may send in a minute.
    pub rate: u32,
}

impl Options {
    /// Reads the arguments, without the program's name.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let (mut db, mut accounts, mut provider) = (None, None, None);
        let mut listen = SocketAddr::from(([127, 0, 0, 1], 8080));
        let (mut lease, mut delay, mut rate) = (Duration::from_secs(30), Duration::ZERO, 6_000);
        let mut arguments = arguments.into_iter();
        while let Some(name) = arguments.next() {
            let name = name.to_str().ok_or("an option is no text")?.to_owned();
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--db" => db = Some(PathBuf::from(value)),
                "--accounts" => accounts = Some(PathBuf::from(value)),
                "--provider" => provider = Some(PathBuf::from(value)),
                "--listen" => listen = parsed(&name, value)?,
                "--lease" => lease = Duration::from_millis(parsed(&name, value)?),
                "--delay" => delay = Duration::from_millis(parsed(&name, value)?),
                "--rate" => rate = parsed(&name, value)?,
                _ => return Err(format!("there is no option {name}")),
            }
        }
        Ok(Self {
            db: db.ok_or("--db is missing")?,
            accounts: accounts.ok_or("--accounts is missing")?,
            provider: provider.ok_or("--provider is missing")?,
            listen,
            lease,
            delay,
            rate,
        })
    }
}

fn parsed<T: std::str::FromStr>(name: &str, value: OsString) -> Result<T, String> {
    let text = value.into_string().map_err(|_| format!("{name}: no text"))?;
    text.parse().map_err(|_| format!("{name} can't be \"{}\"", text.escape_debug()))
}
