//! The store in a transaction of the application's: [`atomically`](IdempotencyStore::atomically),
//! [`complete_in`](IdempotencyStore::complete_in), [`try_claim_in`](IdempotencyStore::try_claim_in).
//!
//! Business rows and reply commit together, so that of a crash at any point there come both or neither.
//!
//! | | claim, work and completion | while the work runs, others on the file | a second caller meanwhile |
//! | --- | --- | --- | --- |
//! | [`atomically`](IdempotencyStore::atomically) | one transaction, on the store's connection | wait, if they write or use this very store | waits, then gets the reply |
//! | [`complete_in`](IdempotencyStore::complete_in) | the claim by itself; business rows and completion in one, on yours | go on, until that one begins | hears "in progress" |
//! | [`try_claim_in`](IdempotencyStore::try_claim_in) | one transaction, on yours | wait, if they write | waits, then gets the reply |
//!
//! Who waits for another connection's transaction waits for the busy timeout at the most, 5 seconds by default,
//! and then fails as [`Error::Busy`]. Threads that use one store wait in line, however long it takes.
//!
//! So: `atomically` for work that is nothing but SQL; `try_claim_in` for the same where a connection of your
//! own has the transaction already; `complete_in` for everything slow, or that calls others.

mod tx_claim;

pub use self::tx_claim::TxClaim;

use crate::answer::ClaimOutcome;
use crate::backend::sqlite::{Atomic, SqliteBackend};
use crate::claim::{Ticket, check_reply, unexpected};
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::key::{IdempotencyKey, RecordId, Scope};
use crate::metrics::Event;
use crate::observed::{Operation, Span, timed};
use crate::outcome::{Completed, Grant, Outcome};
use crate::policy::Judged;
use crate::ran::{Ran, RunError};
use crate::reply::Reply;
use crate::store::IdempotencyStore;
use crate::transition::Command;
use rusqlite::{Connection, Transaction};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Why work ended without a reply to record.
enum Stop<E> {
    Work(E),
    Failed(Reply),
    NotRecorded(Reply, Error),
}

impl IdempotencyStore<SqliteBackend> {
    /// Runs `work` once, with the claim before it and the completion after it in the very same transaction,
    /// on the store's own connection: what it writes to the database and its reply are committed together, or
    /// not at all.
    ///
    /// For work that is nothing but SQL: everybody who writes to the file waits until it ends. An effect
    /// elsewhere (a call, a mail) is not undone by a rollback; claim first and use
    /// [`complete_in`](Self::complete_in) for that. Nor may the work wait for others that use this store,
    /// another thread or another store's work: they wait for it. Nobody takes over meanwhile, so the lease plays
    /// no part, unless the work outlasts lease and retention together ([`Error::ClaimLost`]).
    ///
    /// The connection is the store's own, with what
    /// [`with_connection_setup`](crate::SqliteOptions::with_connection_setup) has set on it: functions,
    /// collations, `foreign_keys` (on by default in the SQLite of the feature `bundled`). What the work attaches
    /// or creates as temporary does not stay, and has the file opened again; other settings may stay.
    ///
    /// If the work does not notice that SQLite has rolled its transaction back, as on a full disk, and goes on,
    /// each further commit is denied. What it writes to an attached file is committed with the rest only as long
    /// as nothing fails: in write-ahead logging each file has a commit of its own (SQLite, "ATTACH DATABASE").
    ///
    /// If `work` gives an `Err`, or a reply that is a failure by the [`Policy`](crate::Policy) (under
    /// [`Failures::Record`](crate::Failures::Record) none is), all is rolled back, whatever else the policy says
    /// of failures: the record is as it was before, absent, or lapsed with its attempt and its checkpoint. If it
    /// panics, too, and the panic goes on.
    ///
    /// ```
    /// use idempotency::{IdempotencyStore, Ran, StoredResponse};
    /// # use idempotency::*;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("shop.db");
    /// # rusqlite::Connection::open(&path)?.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INTEGER)")?;
    /// # let (scope, key) = (Scope::new("acct_1")?, IdempotencyKey::new("8e03978e")?);
    /// # let fingerprint = Fingerprint::builder().field("amount", "500").finish();
    /// let store = IdempotencyStore::open(path)?; // the file that has the orders, too
    /// let ran = store.atomically(&scope, &key, &fingerprint, |transaction| {
    ///     transaction.execute("INSERT INTO orders (amount) VALUES (?1)", [500])?;
    ///     let id = transaction.last_insert_rowid();
    ///     Ok::<_, rusqlite::Error>(StoredResponse::new(201).with_body(format!(r#"{{"order": {id}}}"#)).into())
    /// })?;
    /// assert!(matches!(ran, Ran::Executed(_)));
    /// # let again = store.atomically(&scope, &key, &fingerprint, |_| Err::<Reply, _>(rusqlite::Error::InvalidQuery))?;
    /// # assert!(matches!(again, Ran::Replayed(_)));
    /// # assert_eq!(ran.reply(), again.reply());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Nothing was kept of it, unless [`RunError::is_indefinite`]:
    /// - [`RunError::Work`]: the work's own error, unchanged.
    /// - [`RunError::Store`]: the work was not run, as in [`try_claim`](Self::try_claim).
    ///   [`Error::Reentrant`] if this is called from inside such work; any use of the store is, there, but for
    ///   the methods that take a transaction.
    /// - [`RunError::NotRecorded`]: the work gave this reply, and it could not be recorded, or not be committed:
    ///   [`Error::ReplyTooLarge`], a deferred constraint of the application's own as [`Error::Other`], or any
    ///   other of [`Claim::complete`](crate::Claim::complete).
    /// - With [`Error::TransactionEnded`]: the work has ended the transaction by itself. No reply was recorded.
    ///   If it has committed, what it wrote until then is kept, and the claim stands until its lease ends; an
    ///   error of the work's own is not given then. An `Err` after a rollback is [`RunError::Work`] as always.
    pub fn atomically<E>(
        &self,
        scope: &Scope,
        key: &IdempotencyKey,
        fingerprint: &Fingerprint,
        work: impl FnOnce(&Transaction<'_>) -> Result<Reply, E>,
    ) -> Result<Ran, RunError<E>> {
        let span = Span::enter(Operation::Atomically, scope, key);
        let (id, claim) = self.claim_command(scope, key, fingerprint);
        let atomic = timed(Operation::Atomically, || {
            self.backend().atomically(&id, &claim, self.terms().retention, |transaction| {
                let worked = catch_unwind(AssertUnwindSafe(|| work(transaction)));
                let worked = worked.unwrap_or_else(|panic| {
                    self.shared().count(&id, Event::WorkFailed);
                    resume_unwind(panic)
                });
                self.to_record(worked.map_err(Stop::Work)?)
            })
        });
        let ran = self.ran(&id, &claim, atomic.map_err(Error::from));
        match &ran {
            Ok(Ran::Failed(_)) | Err(RunError::Work(_)) => self.shared().count(&id, Event::WorkFailed),
            Err(RunError::Store(error) | RunError::NotRecorded { error, .. }) => {
                self.shared().note_error(Operation::Atomically, &id, error);
            }
            Ok(_) => {}
        }
        span.ended(Ran::name_of(&ran));
        ran
    }

    /// What is to be recorded of a reply that work has given, if it is.
    fn to_record<E>(&self, reply: Reply) -> Result<Reply, Stop<E>> {
        let reply = match self.policy().judge(reply) {
            Judged::ToRecord(reply) => reply,
            Judged::Failure(reply) => return Err(Stop::Failed(reply)),
        };
        match check_reply(&reply, self.policy().max_reply_len()) {
            Ok(()) => Ok(reply),
            Err(error) => Err(Stop::NotRecorded(reply, error)),
        }
    }

    /// What the caller is told. Counts what was answered and what was committed, but no failures.
    fn ran<E>(
        &self,
        id: &RecordId,
        claim: &Command,
        atomic: Result<Atomic<Stop<E>>, Error>,
    ) -> Result<Ran, RunError<E>> {
        match atomic? {
            Atomic::Completed { grant, completed } => {
                self.shared().note(id, claim, &Ok(Outcome::Claimed(grant)));
                self.shared().count(id, Event::Completed);
                Ok(Ran::Executed(completed))
            }
            Atomic::Stopped(Stop::Failed(reply)) => Ok(Ran::Failed(reply)),
            Atomic::Stopped(Stop::Work(error)) => Err(RunError::Work(error)),
            Atomic::Stopped(Stop::NotRecorded(reply, error)) | Atomic::NotRecorded(reply, error) => {
                Err(RunError::NotRecorded { reply, error })
            }
            Atomic::Ended { stop, committed } => {
                let ended = Error::TransactionEnded { committed };
                Err(match stop {
                    // Nothing was kept, and it says why: SQLite has rolled back for a full disk, say.
                    Stop::Work(error) if !committed => RunError::Work(error),
                    Stop::Work(_) => RunError::Store(ended),
                    Stop::Failed(reply) | Stop::NotRecorded(reply, _) => {
                        RunError::NotRecorded { reply, error: ended }
                    }
                })
            }
            Atomic::Answered(outcome) => {
                let answer = Ok(outcome);
                self.shared().note(id, claim, &answer);
                Ran::instead(self.claim_outcome(answer?, |grant| grant)?)
                    .map_err(|_grant| Error::wrong_answer().into())
            }
        }
    }

    /// Completes the claim of `ticket` in a transaction of yours, so that the reply is committed together with
    /// what else you write there. `transaction` is a `&Transaction` (or `&Savepoint`) on the database that this
    /// store is in, and began as `IMMEDIATE`.
    ///
    /// The claim was made before, by [`try_claim`](Self::try_claim), and has a commit of its own: others hear
    /// "in progress", and slow work holds no lock. Keep the claim until you know that your commit succeeded;
    /// if you roll back, or die, the record stands in progress under its lease. It is as durable as your
    /// connection's `synchronous`.
    ///
    /// While your transaction is open, use the store only by the methods that take it. Any other that writes
    /// waits for its end, and fails as [`Error::Busy`]: roll back first, then abandon the claim, say.
    ///
    /// If your commit fails, it may stand all the same. Call this again in a new transaction:
    /// [`Error::AlreadyRecorded`] says that it does.
    ///
    /// Whatever `reply` says is recorded, a failure too; ask [`Policy::is_failure`](crate::Policy::is_failure)
    /// before.
    ///
    /// ```
    /// # use idempotency::*;
    /// use idempotency::rusqlite::{Connection, TransactionBehavior};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("shop.db");
    /// # let (scope, key) = (Scope::new("acct_1")?, IdempotencyKey::new("8e03978e")?);
    /// # let fingerprint = Fingerprint::builder().field("amount", "500").finish();
    ///
    /// let store = IdempotencyStore::open(&path)?;
    /// let mut connection = Connection::open(&path)?;
    /// # connection.execute_batch("CREATE TABLE orders (charge TEXT)")?;
    /// # fn charge(key: &str) -> String { format!("charge of {key}") }
    /// let ClaimOutcome::Claimed(claim) = store.try_claim(&scope, &key, &fingerprint)? else { return Ok(()) };
    /// let charge = charge(&claim.downstream_key("charge")); // slow, and without a lock
    ///
    /// let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    /// transaction.execute("INSERT INTO orders (charge) VALUES (?1)", [&charge])?;
    /// let done = store.complete_in(&transaction, &claim.ticket(), StoredResponse::new(201))?; // or roll back
    /// transaction.commit()?;
    /// // now send `done.reply`
    /// # assert!(matches!(store.try_claim(&scope, &key, &fingerprint)?, ClaimOutcome::Completed(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// This method has written nothing; only where [`Error::is_indefinite`] it could not be undone. Each means:
    /// roll back, but for a reply that is too large. SQLite may have rolled back already; then the transaction is
    /// over (`is_autocommit`).
    /// - [`Error::ReplyTooLarge`], [`Error::HeadersTooLarge`]: call it again with less, in the same transaction.
    /// - [`Error::ClaimLost`]: the claim is not its owner's any more; neither are its rows. Ask
    ///   [`try_claim`](Self::try_claim) again: it has the reply of whoever took over, or will have. If the
    ///   record is gone, the effect of slow work is on record nowhere.
    /// - [`Error::AlreadyRecorded`]: this claim has completed before, in a transaction that was committed, or
    ///   earlier in this very one. The error carries the reply.
    /// - [`Error::NoWriteLock`], [`Error::OtherDatabase`]: not a transaction that this can be done in.
    /// - Any other: it was not recorded.
    pub fn complete_in(
        &self,
        transaction: &Connection,
        ticket: &Ticket,
        reply: impl Into<Reply>,
    ) -> Result<Completed, Error> {
        let (reply, retention) = (reply.into(), ticket.retention_period());
        let store = self.shared();
        let checked =
            check_reply(&reply, self.policy().max_reply_len()).and_then(|()| ticket.check_store(store));
        store.failed(Operation::Complete, ticket.id(), checked)?;
        let command = Command::Complete { token: ticket.token(), reply, retention };
        match self.execute_in(transaction, ticket.id(), &command)? {
            Outcome::Recorded(completed) => Ok(completed),
            Outcome::AlreadyRecorded(completed) => Err(Error::AlreadyRecorded(completed)),
            other => Err(unexpected(&other)),
        }
    }

    /// Claims in a transaction of yours, as [`try_claim`](Self::try_claim) does in one of the store's. If it is
    /// rolled back, there never was a claim. `transaction` is a `&Transaction` or `&Savepoint` on the database
    /// that this store is in, and began as `IMMEDIATE`.
    ///
    /// **Complete the claim in the same transaction, and roll back if that fails.** A commit without it keeps
    /// your rows and leaves the record in progress: once its lease is over, a takeover writes them again. What
    /// you are answered holds once the transaction is committed, so acknowledge nothing before.
    ///
    /// While the transaction is open, use the store only by the methods that take it: any other that writes
    /// waits for the transaction to end, and fails as [`Error::Busy`]. It is as durable as your connection's
    /// `synchronous`. A claim that is granted changes `last_insert_rowid`.
    ///
    /// ```
    /// # use idempotency::*;
    /// use idempotency::rusqlite::{Connection, TransactionBehavior};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("shop.db");
    /// # let (scope, key) = (Scope::new("acct_1")?, IdempotencyKey::new("8e03978e")?);
    /// # let fingerprint = Fingerprint::builder().field("amount", "500").finish();
    ///
    /// let store = IdempotencyStore::open(&path)?;
    /// let mut connection = Connection::open(&path)?;
    /// # connection.execute_batch("CREATE TABLE orders (amount INTEGER)")?;
    /// let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    /// match store.try_claim_in(&transaction, &scope, &key, &fingerprint)? {
    ///     ClaimOutcome::Claimed(claim) => {
    ///         transaction.execute("INSERT INTO orders (amount) VALUES (?1)", [500])?;
    ///         let done = claim.complete(StoredResponse::new(201))?;
    ///         transaction.commit()?;
    ///         // now send `done.reply`
    ///     }
    ///     _ => {} // as with `try_claim`
    /// }
    /// # assert!(matches!(store.try_claim(&scope, &key, &fingerprint)?, ClaimOutcome::Completed(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Many in one transaction, each with a savepoint, so that one that fails takes none along:
    /// ```
    /// # use idempotency::*;
    /// # use idempotency::rusqlite::{Connection, TransactionBehavior};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("shop.db");
    /// # let (store, scope) = (IdempotencyStore::open(&path)?, Scope::new("queue")?);
    /// # let mut connection = Connection::open(&path)?;
    /// # connection.execute_batch("CREATE TABLE orders (amount INTEGER CHECK (amount > 0))")?;
    /// # let events = [("event 1", 5), ("event 2", -1), ("event 1", 5)];
    /// let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    /// let mut to_acknowledge = Vec::new();
    /// for (id, amount) in events {
    ///     let savepoint = transaction.savepoint()?; // rolled back where it is dropped without a commit
    ///     let (key, fingerprint) = (IdempotencyKey::new(id)?, Fingerprint::builder().finish());
    ///     if let ClaimOutcome::Claimed(claim) = store.try_claim_in(&savepoint, &scope, &key, &fingerprint)? {
    ///         if savepoint.execute("INSERT INTO orders VALUES (?1)", [amount]).is_err() {
    ///             continue;
    ///         }
    ///         if claim.complete(Reply::Marker).is_err() {
    ///             continue;
    ///         }
    ///     }
    ///     savepoint.commit()?;
    ///     to_acknowledge.push(id);
    /// }
    /// transaction.commit()?; // and now acknowledge them
    /// assert_eq!(to_acknowledge, ["event 1", "event 1"]);
    /// # let orders: i64 = connection.query_row("SELECT count(*) FROM orders", [], |row| row.get(0))?;
    /// # assert_eq!(orders, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Roll back. Nothing was granted, and nothing was written; only where [`Error::is_indefinite`] it could not
    /// be undone. [`Error::NoWriteLock`], [`Error::OtherDatabase`]: not a transaction that this can be done in.
    /// Any other as [`try_claim`](Self::try_claim).
    pub fn try_claim_in<'t>(
        &self,
        transaction: &'t Connection,
        scope: &Scope,
        key: &IdempotencyKey,
        fingerprint: &Fingerprint,
    ) -> Result<ClaimOutcome<TxClaim<'t>>, Error> {
        let (id, claim) = self.claim_command(scope, key, fingerprint);
        let outcome = self.execute_in(transaction, &id, &claim)?;
        self.claim_outcome(outcome, |grant| {
            let ticket = Ticket::new(self.store_id(), id, *fingerprint, self.terms(), &grant);
            let Grant { checkpoint, .. } = grant;
            TxClaim { store: self.clone(), transaction, ticket, checkpoint }
        })
    }

    /// Counted as it is answered: a rollback is not seen.
    fn execute_in(
        &self,
        transaction: &Connection,
        id: &RecordId,
        command: &Command,
    ) -> Result<Outcome, Error> {
        self.shared().observe(id, command, || self.backend().execute_in(transaction, id, command))
    }
}
