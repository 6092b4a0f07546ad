//! Case 11, and the loss that a backup means: a file that is put back as it was at an earlier moment, which was copied
//! while others wrote.

use crate::common::{Answer, Fixture, asks_for, key, scope};
use crate::snapshot::snapshot;
use crate::support::{handle_on_file, reply};
use idempotency::{
    Claim, DynStore, Error, IdempotencyStore, LostReason, Record, SqliteBackend, SqliteOptions, SqliteStore,
    Ticket,
};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

const COPIES: usize = 8;

fn claim(store: &DynStore, name: &str) -> Claim {
    store.try_claim(&scope("tenant"), &key(name), &asks_for("pay")).expect("an answer").claimed()
}

fn look(store: &DynStore, name: &str) -> Option<Record> {
    store.lookup(&scope("tenant"), &key(name)).expect("a look-up")
}

fn connect(fixture: &Fixture) -> Connection {
    Connection::open(fixture.path().expect("a file")).expect("the file")
}

/// A consistent copy of the open file, beside it.
fn back_up(fixture: &Fixture) {
    let copy = fixture.path().expect("a file").with_extension("copy");
    connect(fixture).execute_batch(&format!("VACUUM INTO '{}'", copy.display())).expect("a copy");
}

/// Puts the copy in the file's place, while nobody has it open, and opens it.
fn restore(fixture: &mut Fixture) {
    fixture.store = IdempotencyStore::in_memory().erase();
    let path = fixture.path().expect("a file");
    assert!(!path.with_extension("db-wal").exists(), "the last handle that closes leaves no log behind");
    std::fs::rename(path.with_extension("copy"), path).expect("the copy in place of the file");
    fixture.store = handle_on_file(fixture, |options| options);
}

#[test]
fn what_was_acknowledged_after_a_backup_is_gone_with_it_and_what_was_before_is_replayed() {
    let mut fixture = Fixture::on_sqlite();
    claim(&fixture.store, "before").complete(reply("before")).expect("a claim that stands");
    let open = claim(&fixture.store, "in progress").into_ticket();
    back_up(&fixture);
    claim(&fixture.store, "after").complete(reply("after")).expect("a claim that stands");
    fixture.store.complete(&open, reply("after")).expect("a claim that stands");
    let held = claim(&fixture.store, "held").into_ticket();
    restore(&mut fixture);

    let answer = |name: &str| {
        fixture.store.try_claim(&scope("tenant"), &key(name), &asks_for("pay")).expect("an answer")
    };
    assert_eq!(answer("before").completed().reply, reply("before"));
    // It runs again: the copy knows of its claim and not of its completion, and whoever held it may complete it.
    assert_eq!(answer("in progress").name(), "in progress");
    let done = fixture.store.complete(&open, reply("once more")).expect("the claim that the copy has");
    assert_eq!(done.reply, reply("once more"));
    for lost in ["after", "held"] {
        assert_eq!(look(&fixture.store, lost), None, "{lost}");
    }
    let anew = answer("after").claimed();
    assert!(anew.attempt() == 1 && anew.token() > held.token());
}

type Call = (&'static str, fn(&SqliteStore, &Path, &Ticket) -> Result<(), Error>);

/// What an owner can still do whose process has outlived the file: its claim as a ticket.
const CALLS: [Call; 5] = [
    ("complete", |store, _, ticket| store.complete(ticket, reply("late")).map(drop)),
    ("complete in a transaction", |store, path, ticket| {
        let mut connection = Connection::open(path).expect("the file");
        let begun = Transaction::new(&mut connection, TransactionBehavior::Immediate);
        let transaction = begun.expect("the write lock");
        transaction.execute("INSERT INTO orders VALUES ('late')", []).expect("a row");
        store.complete_in(&transaction, ticket, reply("late"))?;
        transaction.commit().expect("a commit");
        Ok(())
    }),
    ("resume", |store, _, ticket| store.resume(ticket.clone()).map(drop)),
    ("release", |store, _, ticket| store.release(ticket)),
    ("abandon", |store, _, ticket| store.abandon(ticket)),
];

/// Whether the key is free in the copy, claimed anew before the owner from after the backup comes back, or completed.
#[test]
fn an_owner_from_after_a_backup_has_lost_its_claim_by_every_call_and_writes_nothing() {
    for reason in [LostReason::Gone, LostReason::Running, LostReason::Completed] {
        let mut fixture = Fixture::on_sqlite();
        connect(&fixture).execute_batch("CREATE TABLE orders (id TEXT)").expect("a table");
        back_up(&fixture);
        let ticket = claim(&fixture.store, "k").into_ticket();
        restore(&mut fixture);
        match reason {
            LostReason::Running => drop(claim(&fixture.store, "k")),
            LostReason::Completed => {
                claim(&fixture.store, "k").complete(reply("new")).expect("a claim that stands");
            }
            _ => {}
        }
        let path = fixture.path().expect("a file");
        let options = SqliteOptions::new().with_clock(fixture.clock.clone());
        let store = IdempotencyStore::new(SqliteBackend::open(&path, options).expect("the file"));
        let before = snapshot(&fixture, ticket.scope(), ticket.key());
        for (name, call) in CALLS {
            match (name, reason, call(&store, &path, &ticket)) {
                // There is nothing to give up.
                ("release" | "abandon", LostReason::Gone, Ok(())) => {}
                (_, _, Err(Error::ClaimLost(told))) => assert_eq!(told, reason, "{name}"),
                (_, _, other) => panic!("{name}, {reason:?}: {other:?}"),
            }
            assert_eq!(snapshot(&fixture, ticket.scope(), ticket.key()), before, "{name}, {reason:?}");
            let orders: i64 = connect(&fixture)
                .query_row("SELECT count(*) FROM orders", [], |row| row.get(0))
                .expect("a count");
            assert_eq!(orders, 0, "{name}, {reason:?}");
        }
    }
}

/// One thread completes one operation after the other; what a copy has is the first so many of them, whole.
#[test]
fn a_copy_made_while_others_write_has_all_that_was_acknowledged_before_it_and_is_one_moment() {
    let fixture = Fixture::on_sqlite();
    let (acknowledged, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let name = |number: usize| format!("operation {number}");
    let copies = thread::scope(|threads| {
        let writer = threads.spawn(|| {
            let mut highest = None;
            while !is_over.load(Ordering::SeqCst) {
                let claim = claim(&fixture.store, &name(acknowledged.load(Ordering::SeqCst)));
                highest = highest.max(Some(claim.token()));
                claim.complete(reply("done")).expect("a claim that stands");
                acknowledged.fetch_add(1, Ordering::SeqCst);
            }
            highest
        });
        let copies: Vec<_> = (0..COPIES)
            .map(|copy| {
                while acknowledged.load(Ordering::SeqCst) < copy * 5 {
                    thread::yield_now();
                }
                let least = acknowledged.load(Ordering::SeqCst);
                back_up(&fixture);
                // One more may have been committed and not counted yet.
                let most = acknowledged.load(Ordering::SeqCst) + 1;
                let path = fixture.path().expect("a file");
                let kept = path.with_file_name(format!("copy {copy}.db"));
                std::fs::rename(path.with_extension("copy"), &kept).expect("a copy");
                (kept, least, most)
            })
            .collect();
        is_over.store(true, Ordering::SeqCst);
        let highest = writer.join().expect("a writer that ends well");
        copies.into_iter().map(|copy| (copy, highest)).collect::<Vec<_>>()
    });
    let mut in_all = 0;
    for ((path, least, most), highest) in copies {
        let options = SqliteOptions::new().with_clock(fixture.clock.clone());
        let store = IdempotencyStore::new(SqliteBackend::open(&path, options).expect("a copy")).erase();
        let completed = |number: &usize| {
            let record = look(&store, &name(*number));
            record.is_some_and(|record| record.reply == Some(reply("done")))
        };
        let there = (0..most).take_while(completed).count();
        assert!(least <= there, "{there} of {least} that were acknowledged before the copy");
        // One may have been claimed by then, and no more.
        assert!((there + 1..most).all(|number| look(&store, &name(number)).is_none()), "{there} of {most}");
        assert!(Some(claim(&store, "next").token()) > highest);
        in_all += there;
    }
    println!("{COPIES} copies with {in_all} operations");
    assert!(in_all >= COPIES * (COPIES - 1) * 5 / 2, "{in_all}");
}
