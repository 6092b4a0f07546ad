//! The shop: what a program has to do.

use crate::Result;
use crate::provider::{Charge, Provider};
use idempotency::rusqlite::{Connection, Transaction, TransactionBehavior};
use idempotency::{
    Claim, ClaimOutcome, Error as StoreError, Fingerprint, IdempotencyKey, IdempotencyStore, LostReason,
    ManualClock, Policy, Reply, Scope, SqliteBackend, SqliteOptions, SqliteStore, StoredResponse,
};
use serde_json::json;
use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub struct Order {
    pub account: String,
    pub key: String,
    pub cents: u32,
    /// Whatever the client wrote to it, and finds in the reply again.
    pub note: String,
}

pub struct Shop {
    pub store: SqliteStore,
    /// The file that the store and the orders are in.
    pub database: PathBuf,
    pub provider: Provider,
}

impl Shop {
    pub fn open(database: PathBuf, clock: ManualClock) -> Result<Self> {
        let backend = SqliteBackend::open(&database, SqliteOptions::new().with_clock(clock))?;
        let policy = Policy::new().with_max_reply_len(1024);
        let store = IdempotencyStore::new(backend).with_policy(policy)?;
        connect(&database)?.execute_batch(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, account TEXT NOT NULL, cents INTEGER NOT NULL,
                                  note TEXT NOT NULL, charge TEXT NOT NULL) STRICT",
        )?;
        Ok(Self { store, database, provider: Provider::default() })
    }

    pub fn place(&self, order: &Order) -> Result<Answer> {
        self.place_while(order, || Ok(()))
    }

    /// Answers a request to place `order`; `meanwhile` happens while the provider is at work.
    pub fn place_while(&self, order: &Order, meanwhile: impl FnOnce() -> Result<()>) -> Result<Answer> {
        let claim = match self.claim(order)? {
            ClaimOutcome::Claimed(claim) => claim,
            ClaimOutcome::Completed(done) => return Ok(Answer::Replayed(done.reply)),
            ClaimOutcome::InProgress(_) => return Ok(Answer::InProgress),
            ClaimOutcome::FingerprintMismatch(_) => return Ok(Answer::KeyReused),
        };
        // Here the claim is committed, and everybody hears of it. Nothing is locked while this takes time. If
        // the program dies before the end, the lease runs on, and after it a retry takes over.
        let charge = match self.provider.charge(&claim.downstream_key("charge"), order, meanwhile) {
            Ok(charge) => charge,
            // Its answer is 5xx, or lost on the way: nobody knows whether it has charged.
            Err(failure) => return Ok(give_up(claim, failure)),
        };
        match self.record(&claim, order, &charge) {
            Ok(Answer::Lost(_)) => self.answer_of_the_winner(order),
            Ok(answer) => Ok(answer),
            Err(error) => Ok(give_up(claim, error)),
        }
    }

    pub fn claim(&self, order: &Order) -> Result<ClaimOutcome> {
        let (account, key) = (Scope::new(&order.account)?, IdempotencyKey::new(&order.key)?);
        let fingerprint = Fingerprint::builder()
            .field("cents", order.cents.to_string())
            .field("note", &order.note)
            .finish();
        Ok(self.store.try_claim(&account, &key, &fingerprint)?)
    }

    /// The order's row and the reply, in one transaction: both or neither. However this ends, the transaction
    /// has ended before.
    pub fn record(&self, claim: &Claim, order: &Order, charge: &Charge) -> Result<Answer> {
        let mut connection = connect(&self.database)?;
        // IMMEDIATE: it has the write lock before it reads. The store refuses a deferred one.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let (ticket, reply) = (claim.ticket(), enter(&transaction, order, charge)?);
        let done = match self.store.complete_in(&transaction, &ticket, reply.clone()) {
            // That has written nothing, so the same transaction can go on with less: the header says where the
            // order is to be had.
            Err(StoreError::ReplyTooLarge { .. }) => {
                self.store.complete_in(&transaction, &ticket, reply.with_body(""))
            }
            done => done,
        };
        match done {
            Ok(done) => {
                // If this fails, it is not recorded, or nobody knows: a retry will hear which.
                transaction.commit()?;
                Ok(Answer::Executed(claim.attempt(), done.reply))
            }
            Err(error) => {
                transaction.rollback()?;
                Answer::of(error)
            }
        }
    }

    /// What to answer if somebody else has taken over: the reply is theirs, and the store has it, or will.
    fn answer_of_the_winner(&self, order: &Order) -> Result<Answer> {
        Ok(match self.claim(order)? {
            ClaimOutcome::Completed(done) => Answer::Replayed(done.reply),
            ClaimOutcome::InProgress(_) => Answer::InProgress,
            ClaimOutcome::FingerprintMismatch(_) => Answer::KeyReused,
            // They gave up, or the record is gone. The client's next attempt runs, and asks the provider again.
            ClaimOutcome::Claimed(claim) => give_up(claim, "nobody has a reply"),
        })
    }
}

/// Ends an attempt of which nobody knows what it came to. The client's next one takes over at once, instead of
/// hearing "in progress" until the lease ends, and asks the provider under the same key.
///
/// Not before a transaction of one's own has ended: to abandon is to write, and would wait for it until the
/// busy timeout, and fail.
fn give_up(claim: Claim, why: impl Into<Box<dyn Error + Send + Sync>>) -> Answer {
    if let Err(error) = claim.abandon() {
        // Then the lease runs on, which costs no more than time; or the order was recorded after all.
        let _ = writeln!(io::stderr(), "orders: a claim was not abandoned: {error}");
    }
    Answer::Failed(why.into())
}

/// A connection of the application's own; a program would keep some of them open. What its commits survive is
/// up to its `synchronous`, for the replies in them too; SQLite's default, FULL, survives a loss of power.
pub fn connect(database: &Path) -> Result<Connection> {
    Ok(Connection::open(database)?)
}

/// Writes down what the provider answered, and says what the client is to hear of it. A decline is an answer
/// like any other: it is definite, and a retry gets the same.
pub fn enter(transaction: &Transaction<'_>, order: &Order, charge: &Charge) -> Result<StoredResponse> {
    let Charge::Made(charge) = charge else {
        return Ok(StoredResponse::new(402).with_body(json!({ "error": "declined" }).to_string()));
    };
    transaction.execute(
        "INSERT INTO orders (account, cents, note, charge) VALUES (?1, ?2, ?3, ?4)",
        (&order.account, order.cents, &order.note, charge),
    )?;
    let id = transaction.last_insert_rowid();
    Ok(StoredResponse::new(201)
        .with_header("location", format!("/orders/{id}"))
        .with_body(json!({ "order": id, "charge": charge, "note": order.note }).to_string()))
}

/// How the shop answers.
pub enum Answer {
    Executed(u32, Reply),
    Replayed(Reply),
    /// This very claim was recorded before; what was sent then is sent again.
    AlreadyRecorded(Reply),
    InProgress,
    KeyReused,
    /// It may have happened, or not; the client is to come again.
    Failed(Box<dyn Error + Send + Sync>),
    /// Somebody else took over. No client hears this: it gets the answer of the winner.
    Lost(LostReason),
}

impl Answer {
    /// What an error of `complete_in` means to the owner. All that come here mean that its row is rolled back.
    fn of(error: StoreError) -> Result<Self> {
        match error {
            StoreError::AlreadyRecorded(done) => Ok(Self::AlreadyRecorded(done.reply)),
            StoreError::ClaimLost(reason) => Ok(Self::Lost(reason)),
            error => Err(error.into()),
        }
    }

    pub fn reply(&self) -> Option<&Reply> {
        match self {
            Self::Executed(_, reply) | Self::Replayed(reply) | Self::AlreadyRecorded(reply) => Some(reply),
            Self::InProgress | Self::KeyReused | Self::Failed(_) | Self::Lost(_) => None,
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
            Self::Failed(why) => write!(f, "503 {why}"),
            Self::Lost(LostReason::Running) => write!(f, "lost: another runs"),
            Self::Lost(LostReason::Completed) => write!(f, "lost: another completed"),
            Self::Lost(_) => write!(f, "lost"),
        }
    }
}
