//! Orders that are paid through somebody else, on SQLite: the claim has a commit of its own, the slow call to
//! the provider holds no lock, and then the order's row and the reply are committed together.
//!
//! ```text
//! cargo run --release --example orders      plays the story, and prints a table of what happened
//! ```
//!
//! Read `Shop` first: it is what a program has to do. What follows is a pretended provider and the story:
//! what becomes of an order if its owner dies, is taken over, or comes twice.

use idempotency::rusqlite::{Connection, Transaction, TransactionBehavior};
use idempotency::{
    Claim, ClaimOutcome, Clock, Error as StoreError, Fingerprint, IdempotencyKey, IdempotencyStore,
    LostReason, ManualClock, Reply, Scope, SqliteBackend, SqliteOptions, SqliteStore, StoredResponse,
    SystemClock,
};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use story::{Table, count};

#[path = "shared/story.rs"]
mod story;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const HELP: &str = "\
Orders whose claim is committed by itself, and whose row and reply are committed together.

Usage:
  orders           play the story and print what was expected and what happened
  orders --help    print this
Every run starts with an empty shop, in a temporary folder that is removed at the end.

Exit status: 0 if everything was as expected, 1 if not, 2 for wrong arguments or a database that failed
";

// ---- the shop

struct Order {
    account: String,
    key: String,
    cents: u32,
}

struct Shop {
    store: SqliteStore,
    /// The file that the store and the orders are in.
    database: PathBuf,
    provider: Provider,
}

impl Shop {
    fn open(database: PathBuf, clock: ManualClock) -> Result<Self> {
        let store = SqliteBackend::open(&database, SqliteOptions::new().with_clock(clock))?;
        connect(&database)?.execute_batch(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, account TEXT NOT NULL, cents INTEGER NOT NULL,
                                  charge TEXT NOT NULL) STRICT",
        )?;
        Ok(Self { store: IdempotencyStore::new(store), database, provider: Provider::default() })
    }

    fn place(&self, order: &Order) -> Result<Answer> {
        self.place_while(order, || Ok(()))
    }

    /// Answers a request to place `order`; `meanwhile` happens while the provider is at work.
    fn place_while(&self, order: &Order, meanwhile: impl FnOnce() -> Result<()>) -> Result<Answer> {
        let claim = match self.claim(order)? {
            ClaimOutcome::Claimed(claim) => claim,
            ClaimOutcome::Completed(done) => return Ok(Answer::Replayed(done.reply)),
            ClaimOutcome::InProgress(_) => return Ok(Answer::InProgress),
            ClaimOutcome::FingerprintMismatch(_) => return Ok(Answer::KeyReused),
        };
        // Here the claim is committed, and everybody hears of it. Nothing is locked while this takes time.
        let charge = self.provider.charge(&claim.downstream_key("charge"), order, meanwhile)?;
        // If an error ends it before this, or a crash, the lease runs on; then a retry takes over.
        self.record(&claim, order, &charge)
    }

    fn claim(&self, order: &Order) -> Result<ClaimOutcome> {
        let (account, key) = (Scope::new(&order.account)?, IdempotencyKey::new(&order.key)?);
        let fingerprint = Fingerprint::builder().field("cents", order.cents.to_string()).finish();
        Ok(self.store.try_claim(&account, &key, &fingerprint)?)
    }

    /// The order's row and the reply, in one transaction: both or neither.
    fn record(&self, claim: &Claim, order: &Order, charge: &str) -> Result<Answer> {
        let mut connection = connect(&self.database)?;
        // IMMEDIATE: it has the write lock before it reads. The store refuses a deferred one.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let reply = insert(&transaction, order, charge)?;
        match self.store.complete_in(&transaction, &claim.ticket(), reply) {
            Ok(done) => {
                // Should this fail, the claim still stands: `record` can be called again, and the order is
                // recorded then, or was before.
                transaction.commit()?;
                Ok(Answer::Executed(claim.attempt(), done.reply))
            }
            Err(error) => {
                transaction.rollback()?;
                Answer::of(error)
            }
        }
    }
}

/// A connection of the application's own; a program would keep some of them open. What its commits survive is
/// up to its `synchronous`, for the replies in them too; SQLite's default, FULL, survives a loss of power.
fn connect(database: &Path) -> Result<Connection> {
    Ok(Connection::open(database)?)
}

fn insert(transaction: &Transaction<'_>, order: &Order, charge: &str) -> Result<StoredResponse> {
    transaction.execute(
        "INSERT INTO orders (account, cents, charge) VALUES (?1, ?2, ?3)",
        (&order.account, order.cents, charge),
    )?;
    let id = transaction.last_insert_rowid();
    Ok(StoredResponse::new(201)
        .with_header("location", format!("/orders/{id}"))
        .with_body(format!(r#"{{"order": {id}, "charge": "{charge}"}}"#)))
}

/// How the shop answers.
enum Answer {
    Executed(u32, Reply),
    Replayed(Reply),
    /// This very claim was recorded before; what was sent then is sent again.
    AlreadyRecorded(Reply),
    InProgress,
    KeyReused,
    /// Somebody else took over: it is theirs to answer, so the client is told to ask again.
    Lost(LostReason),
}

impl Answer {
    /// What an error of `complete_in` means to the owner. All of them mean that its row is rolled back.
    fn of(error: StoreError) -> Result<Self> {
        match error {
            StoreError::AlreadyRecorded(done) => Ok(Self::AlreadyRecorded(done.reply)),
            StoreError::ClaimLost(reason) => Ok(Self::Lost(reason)),
            error => Err(error.into()),
        }
    }

    fn reply(&self) -> Option<&Reply> {
        match self {
            Self::Executed(_, reply) | Self::Replayed(reply) | Self::AlreadyRecorded(reply) => Some(reply),
            Self::InProgress | Self::KeyReused | Self::Lost(_) => None,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.reply().and_then(Reply::response).map_or(0, StoredResponse::status);
        match self {
            Self::Executed(1, _) => write!(f, "{status} executed"),
            Self::Executed(attempt, _) => write!(f, "{status} executed, attempt {attempt}"),
            Self::Replayed(_) => write!(f, "{status} replayed"),
            Self::AlreadyRecorded(_) => write!(f, "{status} from before"),
            Self::InProgress => write!(f, "409 in progress"),
            Self::KeyReused => write!(f, "422 key reused"),
            Self::Lost(LostReason::Running) => write!(f, "lost: another runs"),
            Self::Lost(LostReason::Completed) => write!(f, "lost: another completed"),
            Self::Lost(_) => write!(f, "lost"),
        }
    }
}

// ---- the provider

/// A payment provider that charges once for each key, and remembers for whom.
#[derive(Default)]
struct Provider {
    calls: RefCell<Vec<(String, String)>>,
}

impl Provider {
    /// Charges, unless `key` was charged before; gives the charge's name. It takes as long as `meanwhile`.
    fn charge(&self, key: &str, order: &Order, meanwhile: impl FnOnce() -> Result<()>) -> Result<String> {
        self.calls.borrow_mut().push((order.account.clone(), key.to_owned()));
        meanwhile()?;
        Ok(format!("ch_{}", &key[key.len() - 8..]))
    }

    /// How often it was called for `account`, and how often it charged.
    fn tally(&self, account: &str) -> String {
        let calls = self.calls.borrow();
        let keys: Vec<_> = calls.iter().filter(|(by, _)| by == account).map(|(_, key)| key).collect();
        let charges: BTreeSet<_> = keys.iter().collect();
        format!("{}, {}", count(keys.len(), "call"), count(charges.len(), "charge"))
    }
}

// ---- the story

impl Shop {
    /// What there is for the account of `order`, at the provider and in the table.
    fn by_then(&self, order: &Order) -> Result<String> {
        let select = "SELECT count(*) FROM orders WHERE account = ?1";
        let orders: u32 = connect(&self.database)?.query_row(select, [&order.account], |row| row.get(0))?;
        Ok(format!("{}, {}", self.provider.tally(&order.account), count(usize::try_from(orders)?, "order")))
    }
}

struct Story<W> {
    shop: Shop,
    clock: ManualClock,
    folder: PathBuf,
    table: Table<W>,
}

/// Plays every scenario, each with an account of its own; says whether all went as expected.
fn play(out: impl Write) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    // Stands still but where a scenario moves it, so nobody has to wait for the end of a lease.
    let clock = ManualClock::new(SystemClock.now());
    let shop = Shop::open(folder.path().join("shop.db"), clock.clone())?;
    let table = Table::new(
        out,
        "Calls, charges and orders: what the provider and the table have for that account by then.",
    )?;
    let mut story = Story { shop, clock, folder: folder.path().to_owned(), table };
    retried(&mut story)?;
    slow(&mut story)?;
    dead(&mut story)?;
    overtaken(&mut story)?;
    twice(&mut story)?;
    rolled_back(&mut story)?;
    refused(&mut story)?;
    story.table.end()
}

impl<W: Write> Story<W> {
    fn row(&mut self, what: &str, order: &Order, expected: &str, happened: impl fmt::Display) -> Result<()> {
        let happened = format!("{happened}; {}", self.shop.by_then(order)?);
        self.table.row(what, expected, happened)
    }

    /// A claim of `order` and the charge for it: an owner that has come as far as that.
    fn owner(&self, order: &Order) -> Result<(Claim, String)> {
        let ClaimOutcome::Claimed(claim) = self.shop.claim(order)? else {
            return Err("the claim was not granted".into());
        };
        let charge = self.shop.provider.charge(&claim.downstream_key("charge"), order, || Ok(()))?;
        Ok((claim, charge))
    }

    fn let_the_lease_end(&self) {
        self.clock.advance(self.shop.store.policy().lease());
    }
}

fn order_of(account: &str) -> Order {
    Order { account: account.to_owned(), key: "cart-7".to_owned(), cents: 500 }
}

/// Whether `again` says what `first` said: status, headers and body, byte for byte.
fn compared(again: &Answer, first: &Answer) -> String {
    let same = again.reply().is_some() && again.reply() == first.reply();
    format!("{again}, {} bytes", if same { "same" } else { "OTHER" })
}

fn retried(story: &mut Story<impl Write>) -> Result<()> {
    let order = order_of("acct_retried");
    let first = story.shop.place(&order)?;
    story.row("an order", &order, "201 executed; 1 call, 1 charge, 1 order", &first)?;
    let again = story.shop.place(&order)?;
    let expected = "201 replayed, same bytes; 1 call, 1 charge, 1 order";
    story.row("its retry", &order, expected, compared(&again, &first))?;
    let other = Order { cents: 900, ..order_of("acct_retried") };
    let answer = story.shop.place(&other)?;
    story.row("its key, another amount", &order, "422 key reused; 1 call, 1 charge, 1 order", answer)
}

fn slow(story: &mut Story<impl Write>) -> Result<()> {
    let (order, elsewhere) = (order_of("acct_slow"), order_of("acct_elsewhere"));
    let Story { shop, table, .. } = story;
    let executed = "201 executed; 1 call, 1 charge, 1 order";
    let answer = shop.place_while(&order, || {
        let in_progress = "409 in progress; 1 call, 1 charge, 0 orders";
        for (what, order, expected) in [
            ("another order, during a slow call", &elsewhere, executed),
            ("a second caller, during that call", &order, in_progress),
        ] {
            let heard = shop.place(order).map_or_else(|error| error.to_string(), |it| it.to_string());
            table.row(what, expected, format_args!("{heard}; {}", shop.by_then(order)?))?;
        }
        Ok(())
    })?;
    story.row("the slow one itself", &order, executed, answer)
}

fn dead(story: &mut Story<impl Write>) -> Result<()> {
    let order = order_of("acct_dead");
    // Dropping a claim does nothing, so this owner has died after its charge.
    drop(story.owner(&order)?);
    let answer = story.shop.place(&order)?;
    story.row("its owner died: a retry", &order, "409 in progress; 1 call, 1 charge, 0 orders", answer)?;
    story.let_the_lease_end();
    let answer = story.shop.place(&order)?;
    let expected = "201 executed, attempt 2; 2 calls, 1 charge, 1 order";
    story.row("a retry after the lease", &order, expected, answer)
}

fn overtaken(story: &mut Story<impl Write>) -> Result<()> {
    let order = order_of("acct_overtaken");
    let (slow, slow_charge) = story.owner(&order)?;
    story.let_the_lease_end();
    let (newer, newer_charge) = story.owner(&order)?;
    let answer = story.shop.record(&slow, &order, &slow_charge)?;
    let expected = "lost: another runs; 2 calls, 1 charge, 0 orders";
    story.row("an owner that was taken over commits", &order, expected, answer)?;
    let answer = story.shop.record(&newer, &order, &newer_charge)?;
    let expected = "201 executed, attempt 2; 2 calls, 1 charge, 1 order";
    story.row("the one that took over commits", &order, expected, answer)?;
    let answer = story.shop.record(&slow, &order, &slow_charge)?;
    let expected = "lost: another completed; 2 calls, 1 charge, 1 order";
    story.row("the slow one tries again", &order, expected, answer)
}

fn twice(story: &mut Story<impl Write>) -> Result<()> {
    let order = order_of("acct_twice");
    let (claim, charge) = story.owner(&order)?;
    let first = story.shop.record(&claim, &order, &charge)?;
    story.row("an owner commits", &order, "201 executed; 1 call, 1 charge, 1 order", &first)?;
    let again = story.shop.record(&claim, &order, &charge)?;
    let expected = "201 from before, same bytes; 1 call, 1 charge, 1 order";
    story.row("and once more, with the same ticket", &order, expected, compared(&again, &first))
}

fn rolled_back(story: &mut Story<impl Write>) -> Result<()> {
    let order = order_of("acct_rolled_back");
    let (claim, charge) = story.owner(&order)?;
    let mut connection = connect(&story.shop.database)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let reply = insert(&transaction, &order, &charge)?;
    story.shop.store.complete_in(&transaction, &claim.ticket(), reply)?;
    transaction.rollback()?;
    let answer = story.shop.place(&order)?;
    let expected = "409 in progress; 1 call, 1 charge, 0 orders";
    story.row("completed, then rolled back: a retry", &order, expected, answer)?;
    let answer = story.shop.record(&claim, &order, &charge)?;
    story.row("its owner tries again", &order, "201 executed; 1 call, 1 charge, 1 order", answer)
}

fn refused(story: &mut Story<impl Write>) -> Result<()> {
    let order = order_of("acct_refused");
    let (claim, charge) = story.owner(&order)?;
    let reply = StoredResponse::new(201);

    // rusqlite's default: it takes the write lock at its first write only, and what it read before may be
    // over by then.
    let mut connection = connect(&story.shop.database)?;
    let deferred = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
    let done = story.shop.store.complete_in(&deferred, &claim.ticket(), reply.clone());
    drop(deferred);
    let happened = match done {
        Err(StoreError::NoWriteLock) => "refused: no write lock".to_owned(),
        other => format!("{other:?}"),
    };
    let expected = "refused: no write lock; 1 call, 1 charge, 0 orders";
    story.row("in a deferred transaction", &order, expected, happened)?;

    let other = Shop::open(story.folder.join("other.db"), story.clock.clone())?;
    let mut connection = connect(&other.database)?;
    let elsewhere = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = story.shop.store.complete_in(&elsewhere, &claim.ticket(), reply);
    drop(elsewhere);
    let happened = match done {
        Err(StoreError::OtherDatabase(_)) => "refused: another database".to_owned(),
        other => format!("{other:?}"),
    };
    let expected = "refused: another database; 1 call, 1 charge, 0 orders";
    story.row("in a transaction on another database", &order, expected, happened)?;

    let answer = story.shop.record(&claim, &order, &charge)?;
    story.row("as it should be", &order, "201 executed; 1 call, 1 charge, 1 order", answer)
}

fn main() -> ExitCode {
    story::main("orders", HELP, play)
}
