//! What counts of operations that share a transaction with the application's own.

use crate::common::{Answer, START, asks_for};
use crate::stage::{moved, once, operation};
use idempotency::rusqlite::{self, Connection, Transaction, TransactionBehavior};
use idempotency::{
    ClaimOutcome, Error, Failures, IdempotencyStore, ManualClock, Metrics, Policy, Ran, Reply, RunError,
    SqliteBackend, SqliteOptions, SqliteStore, StoredResponse, TxClaim,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

/// A store beside a table of the application's own. Nobody waits for locks.
struct Shop {
    store: SqliteStore,
    clock: ManualClock,
    folder: tempfile::TempDir,
}

impl Shop {
    fn new() -> Self {
        let clock = ManualClock::new(START);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("shop.db");
        let tables = "CREATE TABLE orders (id INTEGER PRIMARY KEY,
            parent INTEGER REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)";
        Connection::open(&path).and_then(|shell| shell.execute_batch(tables)).expect("the shop's own tables");
        let options = SqliteOptions::new().with_clock(clock.clone()).with_busy_timeout(Duration::ZERO);
        let store = IdempotencyStore::new(SqliteBackend::open(path, options).expect("a fresh store"));
        Self { store, clock, folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    fn connection(&self) -> Connection {
        let connection = Connection::open(self.path()).expect("the shop's file");
        connection.busy_timeout(Duration::ZERO).expect("a setting");
        connection
    }

    fn lapse(&self) {
        self.clock.advance(Duration::from_secs(90));
    }

    fn ask(&self) -> Result<ClaimOutcome, Error> {
        let (scope, key, fingerprint) = operation();
        self.store.try_claim(&scope, &key, &fingerprint)
    }

    fn ask_in<'t>(&self, transaction: &'t Transaction<'_>) -> Result<ClaimOutcome<TxClaim<'t>>, Error> {
        let (scope, key, fingerprint) = operation();
        self.store.try_claim_in(transaction, &scope, &key, &fingerprint)
    }

    fn run<E>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<Reply, E>) -> Result<Ran, RunError<E>> {
        let (scope, key, fingerprint) = operation();
        self.store.atomically(&scope, &key, &fingerprint, work)
    }

    #[track_caller]
    fn assert_moved(&self, before: &Metrics, counters: &[&str], about: &str) {
        assert_eq!(moved(before, &self.store.metrics()), once(counters), "{about}");
    }
}

fn immediate(connection: &mut Connection) -> Transaction<'_> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate).expect("the write lock")
}

fn good(_: &Transaction<'_>) -> Result<Reply, &'static str> {
    Ok(StoredResponse::new(201).into())
}

fn no_work(_: &Transaction<'_>) -> Result<Reply, &'static str> {
    panic!("the work was run")
}

#[test]
fn atomic_work_counts_by_the_answer_to_its_claim_and_its_completion_if_it_was_committed() {
    type Case = (
        &'static str,
        fn(&Shop),
        fn(&Transaction<'_>) -> Result<Reply, &'static str>,
        &'static [&'static str],
    );
    let cases: [Case; 5] = [
        ("executed", |_| {}, good, &["claims", "completions"]),
        (
            "executed by a takeover",
            |shop| {
                let _dead = shop.ask().expect("an answer").claimed().into_ticket();
                shop.lapse();
            },
            good,
            &["takeovers", "completions"],
        ),
        ("replayed", |shop| drop(shop.run(good).expect("a run")), no_work, &["replays"]),
        (
            "in progress",
            |shop| drop(shop.ask().expect("an answer").claimed().into_ticket()),
            no_work,
            &["in_progress"],
        ),
        (
            "another request's",
            |shop| {
                let (scope, key, _) = operation();
                let other = shop.store.try_claim(&scope, &key, &asks_for("another order"));
                drop(other.expect("an answer").claimed().into_ticket());
            },
            no_work,
            &["mismatches"],
        ),
    ];
    for (what, prepare, work, counters) in cases {
        let shop = Shop::new();
        prepare(&shop);
        let before = shop.store.metrics();
        drop(shop.run(work).expect(what));
        shop.assert_moved(&before, counters, what);
    }
}

#[test]
fn atomic_work_that_fails_counts_as_a_failed_run_and_nothing_else_since_nothing_was_kept() {
    let bad = |_: &Transaction<'_>| Ok(StoredResponse::new(500).into());
    let ends = |tx: &Transaction<'_>| {
        tx.execute_batch("ROLLBACK").expect("a rollback");
        Err("no money")
    };
    for policy in [Failures::Abandon, Failures::Release] {
        let shop = Shop::new();
        let store = shop.store.with_policy(Policy::new().with_failures(policy)).expect("a policy");
        let shop = Shop { store, ..shop };
        for (what, ran) in [
            ("a failing reply", shop.run(bad)),
            ("an error", shop.run(|_| Err("no money"))),
            ("a rollback and an error", shop.run(ends)),
        ] {
            assert!(matches!(ran, Ok(Ran::Failed(_)) | Err(RunError::Work("no money"))), "{what}: {ran:?}");
        }
        let run = || shop.run(|_| -> Result<Reply, &'static str> { panic!("a bug") });
        catch_unwind(AssertUnwindSafe(run)).expect_err("the panic goes on");
        let all = moved(&Metrics::default(), &shop.store.metrics());
        assert_eq!(all, [("failed_runs".to_owned(), 4)].into(), "{policy:?}");
    }
}

#[test]
fn atomic_work_whose_reply_could_not_be_recorded_counts_why() {
    type Case = (&'static str, fn(&Transaction<'_>) -> Result<Reply, &'static str>, &'static str);
    let cases: [Case; 5] = [
        ("a reply that is too large", |_| Ok(Reply::Reference("x".repeat(2_000_000))), "errors.refused"),
        (
            "a constraint at the commit",
            |tx| {
                tx.execute_batch("INSERT INTO orders (parent) VALUES (7)").expect("an order");
                Ok(Reply::Marker)
            },
            "errors.other",
        ),
        (
            "a rollback by the work",
            |tx| {
                tx.execute_batch("ROLLBACK").expect("a rollback");
                Ok(Reply::Marker)
            },
            "errors.refused",
        ),
        (
            "a commit by the work",
            |tx| {
                tx.execute_batch("COMMIT").expect("a commit");
                Ok(Reply::Marker)
            },
            "errors.indefinite",
        ),
        (
            "a commit by work that fails",
            |tx| {
                tx.execute_batch("COMMIT").expect("a commit");
                Err("no money")
            },
            "errors.indefinite",
        ),
    ];
    for (what, work, error) in cases {
        let shop = Shop::new();
        let ran = shop.run(work);
        assert!(matches!(ran, Err(RunError::NotRecorded { .. } | RunError::Store(_))), "{what}: {ran:?}");
        shop.assert_moved(&Metrics::default(), &[error], what);
    }
}

#[test]
fn a_file_that_is_locked_counts_as_busy_for_whoever_wants_to_write() {
    let shop = Shop::new();
    let ticket = shop.ask().expect("an answer").claimed().into_ticket();
    let mut connection = shop.connection();
    let _lock = immediate(&mut connection);
    let before = shop.store.metrics();
    shop.store.release(&ticket).expect_err("a lock");
    shop.assert_moved(&before, &["errors.busy"], "release");
    let before = shop.store.metrics();
    let (_, key, fingerprint) = operation();
    let ran = shop.store.atomically(&crate::common::scope("b"), &key, &fingerprint, no_work);
    ran.expect_err("a lock");
    shop.assert_moved(&before, &["errors.busy"], "atomically");
}

#[test]
fn the_store_inside_its_own_transaction_counts_as_refused() {
    let shop = Shop::new();
    let ran = shop.run(|_| {
        let before = shop.store.metrics();
        assert!(matches!(shop.ask(), Err(Error::Reentrant)));
        shop.assert_moved(&before, &["errors.refused"], "inside");
        Ok::<_, &str>(Reply::Marker)
    });
    assert!(matches!(ran, Ok(Ran::Executed(_))), "{ran:?}");
    shop.assert_moved(&Metrics::default(), &["claims", "completions", "errors.refused"], "all");
}

#[test]
fn a_store_that_is_opened_for_reading_counts_what_it_can_not_write() {
    let shop = Shop::new();
    let options = SqliteOptions::new().with_clock(shop.clock.clone()).read_only();
    let reader = IdempotencyStore::new(SqliteBackend::open(shop.path(), options).expect("the shop's store"));
    let (scope, key, fingerprint) = operation();
    reader.try_claim(&scope, &key, &fingerprint).expect_err("read-only");
    assert!(reader.lookup(&scope, &key).expect("an answer").is_none());
    assert_eq!(moved(&Metrics::default(), &reader.metrics()), once(&["errors.read_only"]));
}

#[test]
fn a_reply_that_is_damaged_counts_as_corrupt_and_not_as_replayed() {
    let shop = Shop::new();
    drop(shop.run(good).expect("a run"));
    shop.connection().execute_batch("UPDATE idempotency_record SET reply_status = 500").expect("damage");
    let before = shop.store.metrics();
    shop.ask().expect_err("damage");
    shop.assert_moved(&before, &["errors.corrupt"], "a claim");
}

#[test]
fn a_completion_in_a_transaction_counts_when_it_is_answered_and_a_refusal_by_what_it_is() {
    let shop = Shop::new();
    let ticket = shop.ask().expect("an answer").claimed().into_ticket();
    let mut connection = shop.connection();

    let before = shop.store.metrics();
    let tx = connection.transaction().expect("a transaction");
    shop.store.complete_in(&tx, &ticket, Reply::Marker).expect_err("no write lock");
    drop(tx);
    shop.assert_moved(&before, &["errors.refused"], "without the lock");

    let before = shop.store.metrics();
    let tx = immediate(&mut connection);
    shop.store.complete_in(&tx, &ticket, Reply::Reference("x".repeat(2_000_000))).expect_err("too large");
    shop.assert_moved(&before, &["errors.refused"], "too large");

    let before = shop.store.metrics();
    shop.store.complete_in(&tx, &ticket, Reply::Marker).expect("a completion");
    tx.commit().expect("a commit");
    shop.assert_moved(&before, &["completions"], "in time");

    let before = shop.store.metrics();
    let tx = immediate(&mut connection);
    let again = shop.store.complete_in(&tx, &ticket, Reply::Marker);
    assert!(matches!(again, Err(Error::AlreadyRecorded(_))), "{again:?}");
    drop(tx);
    shop.assert_moved(&before, &[], "again");
}

#[test]
fn an_owner_that_completes_in_a_transaction_after_a_takeover_counts_as_a_lost_claim() {
    let shop = Shop::new();
    let late = shop.ask().expect("an answer").claimed().into_ticket();
    shop.lapse();
    let _owner = shop.ask().expect("an answer").claimed().into_ticket();
    let before = shop.store.metrics();
    let mut connection = shop.connection();
    let tx = immediate(&mut connection);
    let lost = shop.store.complete_in(&tx, &late, Reply::Marker);
    assert!(matches!(lost, Err(Error::ClaimLost(_))), "{lost:?}");
    shop.assert_moved(&before, &["lost_claims"], "late");
}

/// A rollback is not seen: the store has answered.
#[test]
fn a_claim_in_a_transaction_counts_when_it_is_answered_whatever_becomes_of_the_transaction() {
    type End = (&'static str, fn(TxClaim<'_>) -> Result<(), Error>, &'static [&'static str]);
    let ends: [End; 3] = [
        ("completed", |claim| claim.complete(Reply::Marker).map(drop), &["claims", "completions"]),
        ("released", |claim| claim.release(), &["claims", "releases"]),
        ("left", |_| Ok(()), &["claims"]),
    ];
    for (what, end, counters) in ends {
        for commits in [true, false] {
            let shop = Shop::new();
            let mut connection = shop.connection();
            let tx = immediate(&mut connection);
            match shop.ask_in(&tx).expect("an answer") {
                ClaimOutcome::Claimed(claim) => end(claim).expect(what),
                other => panic!("wanted Claimed, got {other:?}"),
            }
            let ended: rusqlite::Result<()> = if commits { tx.commit() } else { tx.rollback() };
            ended.expect("an end");
            shop.assert_moved(&Metrics::default(), counters, what);
        }
    }
}
