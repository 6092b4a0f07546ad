//! Cases 9, 16 and 67 with a real zombie: an owner whose process is stopped (`SIGSTOP`) past its lease, and goes
//! on when another process has taken over. By the clock of the machine.

use crate::common::{Answer, asks_for, key, scope, secs};
use crate::crew::{Child, Parent, alone};
use idempotency::rusqlite::{self, Connection, Transaction, TransactionBehavior};
use idempotency::{
    Claim, Error, IdempotencyStore, LostReason, Policy, Ran, Record, Reply, RunError, SqliteBackend,
    SqliteOptions, SqliteStore, StoredResponse,
};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Nothing is drawn here.
const NO_SEED: u64 = 0;
const LEASE: Duration = Duration::from_millis(300);
/// Long enough to be no part of what is tested.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one who must not wait for a stopped process waits all the same.
const BUSY: Duration = Duration::from_millis(50);

fn open(file: &Path) -> SqliteStore {
    let options = SqliteOptions::new().with_busy_timeout(BUSY);
    let backend = SqliteBackend::open(file, options).expect("a store that opens");
    IdempotencyStore::new(backend).with_policy(Policy::new().with_lease(LEASE)).expect("a usable policy")
}

/// A folder with the application's table in the file of the store.
fn folder_with_orders() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = Connection::open(folder.path().join("store.db")).expect("a file");
    file.execute_batch("CREATE TABLE orders (who TEXT)").expect("a table");
    folder
}

fn orders(file: &Path) -> Vec<String> {
    let connection = Connection::open(file).expect("the file");
    let mut rows = connection.prepare("SELECT who FROM orders").expect("a table");
    let who = rows.query_map([], |row| row.get(0)).expect("rows");
    who.collect::<Result<_, _>>().expect("rows")
}

fn write_order(transaction: &Transaction<'_>, who: &str) -> rusqlite::Result<()> {
    transaction.execute("INSERT INTO orders VALUES (?1)", [who]).map(drop)
}

fn claim_new(store: &SqliteStore, name: &str) -> Claim {
    store.try_claim(&scope("tenant"), &key(name), &asks_for("it")).expect("an answer").claimed()
}

fn look(store: &SqliteStore, name: &str) -> Option<Record> {
    store.lookup(&scope("tenant"), &key(name)).expect("a look-up")
}

/// What the process that took over replies: bytes that are no text.
fn reply_to(name: &str) -> Reply {
    StoredResponse::new(201).with_header("x-for", name).with_body([0, 0xff, b'\n']).into()
}

/// What becomes of the key while its owner is stopped, and what the owner is told then.
const MEANWHILE: [(&str, LostReason); 3] = [
    ("runs", LostReason::Running),
    ("has completed", LostReason::Completed),
    ("was forgotten", LostReason::Gone),
];

type Call = (&'static str, fn(&SqliteStore, &Path, Claim) -> Result<(), Error>);

/// Every call that an owner can make.
const CALLS: [Call; 8] = [
    ("complete", |_, _, claim| Ok(claim.complete(Reply::Marker).map(drop)?)),
    ("complete by ticket", |store, _, claim| store.complete(&claim.into_ticket(), Reply::Marker).map(drop)),
    ("complete in a transaction", |store, file, claim| {
        let mut connection = Connection::open(file).expect("the file");
        let begun = Transaction::new(&mut connection, TransactionBehavior::Immediate);
        let transaction = begun.expect("the write lock");
        write_order(&transaction, "the zombie").expect("a row");
        store.complete_in(&transaction, &claim.ticket(), Reply::Marker)?;
        transaction.commit().expect("a commit");
        Ok(())
    }),
    ("resume", |store, _, claim| store.resume(claim.into_ticket()).map(drop)),
    ("renew", |_, _, mut claim| claim.renew()),
    ("save a checkpoint", |_, _, mut claim| claim.save_checkpoint("late")),
    ("release", |_, _, claim| claim.release()),
    ("abandon", |_, _, claim| claim.abandon()),
];

fn name_of(call: &str, meanwhile: &str) -> String {
    format!("{call}, {meanwhile}")
}

#[test]
fn an_owner_that_was_stopped_past_its_lease_is_refused_by_every_call_and_commits_no_row() {
    let names = || {
        MEANWHILE.into_iter().flat_map(|(meanwhile, reason)| {
            CALLS.into_iter().map(move |call| (name_of(call.0, meanwhile), call, reason))
        })
    };
    if let Some(parent) = Parent::of_this_process() {
        let store = open(&parent.file);
        let claims: Vec<_> = names().map(|(name, call, _)| (call.1, claim_new(&store, &name))).collect();
        parent.wait();
        for (call, claim) in claims {
            parent.hears(match call(&store, &parent.file, claim) {
                Ok(()) => "done".to_owned(),
                Err(Error::ClaimLost(reason)) => format!("{reason:?}"),
                Err(other) => format!("{other:?}"),
            });
        }
        return;
    }
    let _alone = alone();
    let folder = folder_with_orders();
    let file = folder.path().join("store.db");
    let this = an_owner_that_was_stopped_past_its_lease_is_refused_by_every_call_and_commits_no_row;
    let mut child = Child::start(&this, 0, &file, NO_SEED);
    child.hear_until_ready();
    child.stop();

    let store = open(&file).with_policy(Policy::new()).expect("a usable policy");
    let mut held = Vec::new();
    for (name, _, reason) in names() {
        let waited = store.claim_or_wait(&scope("tenant"), &key(&name), &asks_for("it"), PATIENCE);
        let claim = waited.expect("an answer").claimed();
        assert_eq!(claim.attempt(), 2, "{name}");
        match reason {
            LostReason::Running => held.push(claim),
            LostReason::Completed => drop(claim.complete(reply_to(&name)).expect("a claim that stands")),
            _ => assert!(store.forget(&scope("tenant"), &key(&name)).expect("an answer"), "{name}"),
        }
    }
    let before: Vec<_> = names().map(|(name, ..)| look(&store, &name)).collect();
    child.let_go();
    child.go_on();
    let told = child.hear_out();

    let wanted: Vec<_> = names()
        .map(|(_, (call, _), reason)| match (call, reason) {
            // There is nothing to give up.
            ("release" | "abandon", LostReason::Gone) => "done".to_owned(),
            _ => format!("{reason:?}"),
        })
        .collect();
    assert_eq!(told, wanted);
    assert_eq!(names().map(|(name, ..)| look(&store, &name)).collect::<Vec<_>>(), before);
    assert_eq!(orders(&file), [""; 0]);
    for claim in held {
        let name = claim.key().as_str().to_owned();
        claim.complete(reply_to(&name)).expect("the new owner's claim");
    }
    for (name, _, reason) in names().filter(|(.., reason)| *reason != LostReason::Gone) {
        let replayed = store.try_claim(&scope("tenant"), &key(&name), &asks_for("it")).expect("an answer");
        assert_eq!(replayed.completed().reply, reply_to(&name), "{name}: {reason:?}");
    }
    println!("{} calls of an owner that was stopped past its lease", told.len());
}

#[test]
fn a_kept_claim_whose_process_was_stopped_past_its_lease_hears_of_its_loss_and_completes_nothing() {
    if let Some(parent) = Parent::of_this_process() {
        let store = open(&parent.file);
        let claim = claim_new(&store, "kept");
        claim.keep_alive(PATIENCE).expect("a renewer");
        let first = claim.lease_until();
        while claim.lease_until() == first {
            thread::sleep(Duration::from_millis(1));
        }
        parent.wait();
        // The renewer asks by itself.
        while !claim.is_lost() {
            thread::sleep(Duration::from_millis(1));
        }
        let refused = claim.complete(Reply::Marker).expect_err("a claim that is lost").into_parts().0;
        return parent.hears(format!("{refused:?}"));
    }
    let _alone = alone();
    let folder = folder_with_orders();
    let file = folder.path().join("store.db");
    let this = a_kept_claim_whose_process_was_stopped_past_its_lease_hears_of_its_loss_and_completes_nothing;
    let mut child = Child::start(&this, 0, &file, NO_SEED);
    child.hear_until_ready();
    child.stop();
    let store = open(&file).with_policy(Policy::new()).expect("a usable policy");
    let claim = loop {
        match store.claim_or_wait(&scope("tenant"), &key("kept"), &asks_for("it"), PATIENCE) {
            // It was stopped in the middle of a renewal, so that nobody can write.
            Err(Error::Busy(_)) => {
                child.go_on();
                child.stop();
            }
            answer => break answer.expect("an answer").claimed(),
        }
    };
    assert_eq!(claim.attempt(), 2);
    child.let_go();
    child.go_on();
    assert_eq!(child.hear_out(), [format!("{:?}", Error::ClaimLost(LostReason::Running))]);
    claim.complete(reply_to("kept")).expect("the new owner's claim");
    let replayed = store.try_claim(&scope("tenant"), &key("kept"), &asks_for("it")).expect("an answer");
    assert_eq!(replayed.completed().reply, reply_to("kept"));
}

/// Work that waits for its parent while it holds the file.
fn work_and_wait(parent: &Parent) {
    let store = open(&parent.file);
    let ran = store.atomically(&scope("tenant"), &key("shared"), &asks_for("it"), |inside| {
        write_order(inside, "the stopped one")?;
        parent.wait();
        Ok::<_, rusqlite::Error>(reply_to("shared"))
    });
    assert!(matches!(ran, Ok(Ran::Executed(_))), "{ran:?}");
    parent.hears("executed");
}

/// Stopped in the middle of its transaction: others are told to come back, nothing is granted, and what needs no
/// lock is answered.
#[track_caller]
fn others_are_busy(store: &SqliteStore, replayable: &str) {
    let is_busy = |error: &Error| {
        assert!(matches!(error, Error::Busy(_)), "{error:?}");
        assert!(error.is_transient() && !error.is_indefinite(), "{error:?}");
    };
    for name in ["new", "shared"] {
        let claimed = store.try_claim(&scope("tenant"), &key(name), &asks_for("it"));
        is_busy(&claimed.expect_err("somebody holds the file"));
        let ran = store.atomically(&scope("tenant"), &key(name), &asks_for("it"), |_| {
            panic!("{name} is run while somebody holds the file") as Result<Reply, ()>
        });
        let Err(RunError::Store(error)) = ran else { panic!("{name}: {ran:?}") };
        is_busy(&error);
        assert_eq!(look(store, name), None);
    }
    let replayed = store.try_claim(&scope("tenant"), &key(replayable), &asks_for("it")).expect("a replay");
    assert_eq!(replayed.completed().reply, reply_to(replayable));
}

#[test]
fn while_a_process_is_stopped_inside_a_transaction_others_are_busy_and_they_go_on_when_it_does_or_is_killed()
{
    if let Some(parent) = Parent::of_this_process() {
        return work_and_wait(&parent);
    }
    let _alone = alone();
    let folder = folder_with_orders();
    let file = folder.path().join("store.db");
    let store = open(&file).with_policy(Policy::new().with_lease(secs(90))).expect("a usable policy");
    claim_new(&store, "done").complete(reply_to("done")).expect("a claim that stands");
    let this =
        while_a_process_is_stopped_inside_a_transaction_others_are_busy_and_they_go_on_when_it_does_or_is_killed;
    let inside = |number| {
        let child = Child::start(&this, number, &file, NO_SEED);
        child.hear_until_ready();
        child.stop();
        others_are_busy(&store, "done");
        child
    };

    assert_eq!(inside(0).kill(), [""; 0]);
    let next = claim_new(&store, "new");
    assert_eq!(orders(&file), [""; 0]);
    assert_eq!((next.attempt(), look(&store, "shared")), (1, None));
    next.release().expect("a claim that stands");

    let mut child = inside(1);
    child.let_go();
    child.go_on();
    assert_eq!(child.hear_out(), ["executed"]);
    assert_eq!(orders(&file), ["the stopped one"]);
    assert_eq!(claim_new(&store, "new").attempt(), 1);
    let replayed = store.try_claim(&scope("tenant"), &key("shared"), &asks_for("it")).expect("a replay");
    assert_eq!(replayed.completed().reply, reply_to("shared"));
}
