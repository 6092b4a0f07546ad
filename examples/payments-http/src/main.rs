//! The server. `--help` says what it takes.

use idempotency::{IdempotencyStore, Policy, SqliteStore};
use payments_http::accounts::Accounts;
use payments_http::app::Service;
use payments_http::idempotent::AnyStore;
use payments_http::options::{HELP, Options};
use payments_http::provider::Provider;
use payments_http::rate_limit::RateLimit;
use payments_http::server::serve;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::task::TaskTracker;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

fn run(options: &Options) -> Result<()> {
    let policy = Policy::new().with_lease(options.lease);
    let store = IdempotencyStore::open(&options.db)?.with_policy(policy)?;
    // Nothing is swept unless somebody does; its failures are in the store's metrics.
    let _sweeper = store.spawn_sweeper(Duration::from_secs(300));
    let accounts = read_accounts(&options.accounts)
        .map_err(|error| format!("{}: {error}", options.accounts.display()))?;
    fs::create_dir_all(&options.provider)?;
    Runtime::new()?.block_on(listen(options, &store, accounts))
}

fn read_accounts(path: &Path) -> Result<Accounts> {
    Ok(fs::read_to_string(path)?.parse()?)
}

async fn listen(options: &Options, store: &SqliteStore, accounts: Accounts) -> Result<()> {
    let service = Service {
        store: AnyStore::new(store.erase(), Handle::current()),
        provider: Provider::new(&options.provider, options.delay),
        accounts,
        rate_limit: RateLimit::new(options.rate, Duration::from_secs(60)),
        operations: TaskTracker::new(),
    };
    let listener = TcpListener::bind(options.listen).await?;
    let mut terminated = signal(SignalKind::terminate())?;
    let stop = async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        let _ = writeln!(io::stdout(), "stopping");
    };
    writeln!(io::stdout(), "listening on {}", listener.local_addr()?)?;
    Ok(serve(listener, service.router()?, service.operations, stop).await?)
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        // Where nobody reads it, that is no reason to panic.
        let _ = io::stdout().write_all(HELP.as_bytes());
        return ExitCode::SUCCESS;
    }
    let done = Options::parse(arguments).map_err(|why| format!("{why}; try --help").into());
    match done.and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let causes = std::iter::successors(Some(&*error as &dyn Error), |&error| error.source());
            let causes: Vec<_> = causes.map(ToString::to_string).collect();
            let _ = writeln!(io::stderr(), "payments-http: {}", causes.join(": "));
            ExitCode::from(2)
        }
    }
}
