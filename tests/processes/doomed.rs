//! A child that is killed: it works on a few keys until then, and says each call before it makes it and what it
//! was answered.

use crate::common::{START, asks_for, key, scope, secs};
use crate::crew::Parent;
use crate::dice::Dice;
use crate::report::reply_of;
use idempotency::rusqlite::{self, Connection, Transaction, TransactionBehavior};
use idempotency::{
    Claim, ClaimOutcome, Durability, Error, FencingToken, IdempotencyKey, IdempotencyStore, ManualClock,
    Policy, Ran, Reply, SqliteBackend, SqliteOptions, SqliteStore, Timestamp,
};
use std::path::Path;
use std::time::Duration;

/// So few that processes get into each other's way.
pub const KEYS: usize = 60;
/// One round of kills lasts one lease: what was held in one can be taken over in the next.
const LEASE: u64 = 90;
/// How many rounds a reply is kept, and a lapsed claim.
pub const ROUNDS_KEPT: usize = 3;
pub const TABLE: &str = "CREATE TABLE orders (key INTEGER, name TEXT)";

/// The store as everybody sees it in round `round`: time stands still in it.
pub fn open(file: &Path, round: usize) -> SqliteStore {
    let rounds = |count: usize| secs(LEASE * u64::try_from(count).expect("a small number"));
    let now: Timestamp = START.saturating_add(rounds(round));
    // Nobody is to give up on a machine that is busy with other things.
    let options = SqliteOptions::new().with_busy_timeout(secs(60));
    let options = options.with_clock(ManualClock::new(now)).with_durability(durability(round));
    let backend = SqliteBackend::open(file, options).expect("a store that opens");
    let policy = Policy::new().with_lease(secs(LEASE)).with_retention(rounds(ROUNDS_KEPT));
    IdempotencyStore::new(backend).with_policy(policy).expect("a usable policy")
}

/// No process that dies takes a commit with it, at either.
fn durability(round: usize) -> Durability {
    if round.is_multiple_of(2) { Durability::Full } else { Durability::Normal }
}

/// The keys of claims, and of work in one transaction with its completion.
pub fn key_of_claim(number: usize) -> IdempotencyKey {
    key(&format!("claimed {number}"))
}

pub fn key_of_work(number: usize) -> IdempotencyKey {
    key(&format!("atomic {number}"))
}

/// What is saved as the checkpoint of a claim.
pub fn checkpoint_of(token: FencingToken) -> Vec<u8> {
    token.get().to_le_bytes().to_vec()
}

/// Works until it is killed, in the round that it is told.
pub fn work_until_killed(parent: &Parent) -> ! {
    let round = parent.order().expect("an order").parse().expect("a number");
    let (store, mut dice) = (open(&parent.file, round), parent.dice());
    let connection = Connection::open(&parent.file).expect("the file");
    connection.busy_timeout(Duration::from_secs(60)).expect("a timeout");
    let synchronous = if durability(round) == Durability::Full { "FULL" } else { "NORMAL" };
    connection.pragma_update(None, "synchronous", synchronous).expect("a durability");
    let mut doomed = Doomed { parent, store, connection, name: 0 };
    loop {
        let key = dice.between(0, KEYS - 1);
        let worked = match dice.between(0, 9) {
            0 => doomed.sweep(),
            1 | 2 => doomed.work_atomically(key),
            _ => doomed.claim(key, &mut dice),
        };
        if let Err(error) = worked {
            parent.hears(format!("error {error:?}"));
        }
    }
}

struct Doomed<'a> {
    parent: &'a Parent,
    store: SqliteStore,
    /// The application's own.
    connection: Connection,
    /// The next piece of work in one transaction.
    name: usize,
}

impl Doomed<'_> {
    fn says(&self, what: &str, key: usize, of: impl std::fmt::Display) {
        self.parent.hears(format!("{what} {key} {of}"));
    }

    fn sweep(&self) -> Result<(), Error> {
        let swept = self.store.sweep(5)?;
        self.says("swept", 0, swept.removed);
        Ok(())
    }

    fn work_atomically(&mut self, key: usize) -> Result<(), Error> {
        self.name += 1;
        let name = format!("{}.{}", self.parent.number, self.name);
        self.says("tries-work", key, &name);
        let ran = self.store.atomically(&scope("tenant"), &key_of_work(key), &asks_for("it"), |inside| {
            write_row(inside, key, &name)?;
            Ok::<_, rusqlite::Error>(Reply::Reference(name.clone()))
        });
        match ran.map_err(|error| error.store_error().cloned().unwrap_or(Error::NoWriteLock))? {
            Ran::Executed(done) => self.says("worked", key, done.reply.reference().expect("a name")),
            Ran::Replayed(done) => self.says("work-replayed", key, done.reply.reference().expect("a name")),
            other => self.parent.hears(format!("error {key}: {other:?}")),
        }
        Ok(())
    }

    fn claim(&mut self, key: usize, dice: &mut Dice) -> Result<(), Error> {
        self.says("tries-claim", key, 0);
        let mut claim = match self.store.try_claim(&scope("tenant"), &key_of_claim(key), &asks_for("it"))? {
            ClaimOutcome::Claimed(claim) => claim,
            ClaimOutcome::Completed(done) => {
                let response = done.reply.response().expect("a response");
                let token = response.headers().next().map(|(_, token)| String::from_utf8_lossy(token));
                let token = token.and_then(|token| token.parse().ok()).and_then(FencingToken::new);
                match token.filter(|token| done.reply == reply_of(*token)) {
                    Some(token) => self.says("replayed", key, token),
                    None => self.parent.hears(format!("error {key}: a damaged reply, {:?}", done.reply)),
                }
                return Ok(());
            }
            ClaimOutcome::InProgress(_) => {
                self.says("running", key, 0);
                return Ok(());
            }
            other => {
                self.parent.hears(format!("error {key}: {other:?}"));
                return Ok(());
            }
        };
        let token = claim.token();
        self.says("granted", key, format_args!("{token} {}", claim.attempt()));
        if dice.between(0, 1) == 0 {
            claim.renew()?;
            claim.save_checkpoint(checkpoint_of(token))?;
            self.says("saved", key, token);
        }
        self.end(claim, key, dice)
    }

    fn end(&mut self, claim: Claim, key: usize, dice: &mut Dice) -> Result<(), Error> {
        let token = claim.token();
        match dice.between(0, 9) {
            // Left as a crash leaves it.
            0 => {}
            1 => {
                self.says("tries-end", key, token);
                claim.abandon()?;
                self.says("ended", key, token);
            }
            2 => {
                self.says("tries-end", key, token);
                claim.release()?;
                self.says("ended", key, token);
            }
            3..=5 => {
                self.says("tries-completion", key, token);
                claim.complete(reply_of(token))?;
                self.says("recorded", key, token);
            }
            way => {
                self.says("tries-completion-and-row", key, token);
                let begun = Transaction::new(&mut self.connection, TransactionBehavior::Immediate);
                let transaction = begun.expect("the write lock");
                let write = || write_row(&transaction, key, &token.to_string()).expect("a row");
                let complete = || self.store.complete_in(&transaction, &claim.ticket(), reply_of(token));
                // Neither may commit the other before its time.
                if way % 2 == 0 {
                    write();
                    complete()?;
                } else {
                    complete()?;
                    write();
                }
                transaction.commit().expect("a commit");
                self.says("recorded", key, token);
            }
        }
        Ok(())
    }
}

fn write_row(transaction: &Transaction<'_>, key: usize, name: &str) -> rusqlite::Result<()> {
    let key = i64::try_from(key).expect("a small number");
    transaction.execute("INSERT INTO orders (key, name) VALUES (?1, ?2)", (key, name)).map(drop)
}
