//! Answers that are read from a snapshot: they wait for no writer, and no reader is left behind.

use crate::common::{Answer, START, asks_for, key, scope, secs};
use crate::{folder, open, shell};
use idempotency::{
    Claim, ClaimOutcome, Clock, Error, ManualClock, Reply, SqliteOptions, SqliteStore, Ticket, Timestamp,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// After this a test gives up on what it waits for, and fails.
const PATIENCE: Duration = Duration::from_secs(60);

type Interruption = Box<dyn FnOnce() + Send>;

/// A clock that a test moves, that counts its readings, and that does something at one of them.
#[derive(Clone)]
struct Interrupted {
    time: ManualClock,
    readings: Arc<AtomicUsize>,
    at_the_next: Arc<Mutex<Option<Interruption>>>,
}

impl Interrupted {
    fn new() -> Self {
        Self { time: ManualClock::new(START), readings: Arc::default(), at_the_next: Arc::default() }
    }

    fn readings(&self) -> usize {
        self.readings.load(Ordering::SeqCst)
    }

    fn at_the_next(&self, interruption: impl FnOnce() + Send + 'static) {
        *self.at_the_next.lock().expect("no panic before") = Some(Box::new(interruption));
    }
}

impl Clock for Interrupted {
    /// What it shows is what it was before the interruption.
    fn now(&self) -> Timestamp {
        let now = self.time.now();
        self.readings.fetch_add(1, Ordering::SeqCst);
        let interruption = self.at_the_next.lock().expect("no panic before").take();
        if let Some(interruption) = interruption {
            interruption();
        }
        now
    }
}

/// A store on a file that has an operation in every state: "done" is completed, "running" is claimed for 90
/// seconds, and "lapsed" may be taken over.
struct Bench {
    store: SqliteStore,
    clock: Interrupted,
    connections: Arc<AtomicUsize>,
    running: Ticket,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = folder();
        let path = folder.path().join("store.db");
        let (clock, connections) = (Interrupted::new(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&connections);
        let options = SqliteOptions::new()
            .with_clock(clock.clone())
            .with_busy_timeout(PATIENCE)
            .with_connection_setup(move |_| {
                counted.fetch_add(1, Ordering::SeqCst);
                Ok(())
            });
        let store = open(&path, options).expect("a fresh store");
        claim(&store, "done").complete(Reply::Marker).expect("held");
        claim(&store, "lapsed").abandon().expect("held");
        let running = claim(&store, "running").into_ticket();
        Self { store, clock, connections, running, path, _folder: folder }
    }

    /// Another handle on the file, as another process has one. It has no time to wait for anything.
    fn beside(&self) -> SqliteStore {
        let options = SqliteOptions::new().with_clock(self.clock.time.clone());
        open(&self.path, options.with_busy_timeout(Duration::ZERO)).expect("the store")
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Asks for everything that a snapshot can answer.
    fn ask(&self) {
        let (s, print) = (scope("a"), asks_for("x"));
        let wait = |name: &str| self.store.claim_or_wait(&s, &key(name), &print, Duration::ZERO);
        let answers = [
            ("completed", try_claim(&self.store, "done")),
            ("in progress", try_claim(&self.store, "running")),
            ("mismatch", self.store.try_claim(&s, &key("done"), &asks_for("y"))),
            ("mismatch", self.store.try_claim(&s, &key("running"), &asks_for("y"))),
            ("mismatch", self.store.try_claim(&s, &key("lapsed"), &asks_for("y"))),
            ("completed", wait("done")),
            ("in progress", wait("running")),
        ];
        for (name, print, expected) in [
            ("done", &print, "Replayed"),
            ("running", &print, "InProgress"),
            ("done", &asks_for("y"), "FingerprintMismatch"),
        ] {
            let ran = self.store.atomically(&s, &key(name), print, |_| -> Result<Reply, ()> {
                panic!("{name} is not to be run")
            });
            assert!(format!("{ran:?}").starts_with(&format!("Ok({expected}(")), "{name}: {ran:?}");
        }
        for (expected, answer) in answers {
            assert_eq!(answer.expect(expected).name(), expected);
        }
        for (name, found) in [("done", true), ("running", true), ("lapsed", true), ("absent", false)] {
            let record = self.store.lookup(&s, &key(name)).expect(name);
            assert_eq!(record.is_some(), found, "{name}");
        }
        let resumed = self.store.resume(self.running.clone()).expect("a claim that stands");
        assert_eq!(resumed.attempt(), 1);
    }
}

fn try_claim(store: &SqliteStore, name: &str) -> Result<ClaimOutcome, Error> {
    store.try_claim(&scope("a"), &key(name), &asks_for("x"))
}

fn claim(store: &SqliteStore, name: &str) -> Claim {
    try_claim(store, name).expect("an answer").claimed()
}

fn attempt(store: &SqliteStore, name: &str) -> Option<u32> {
    store.lookup(&scope("a"), &key(name)).expect("an answer").map(|record| record.attempt)
}

/// The two kinds of a look at one record.
const LOOKS: [fn(&SqliteStore); 2] = [
    |store| assert_eq!(attempt(store, "done"), Some(1)),
    |store| assert_eq!(try_claim(store, "done").expect("an answer").name(), "completed"),
];

fn hear<T>(from: &Receiver<T>) -> T {
    from.recv_timeout(PATIENCE).expect("something to be heard in time")
}

/// Writes the whole log back and empties it, which nobody can who has a reader in it.
#[track_caller]
fn no_reader_is_left(path: &Path, what: &str) {
    let shell = shell(path);
    // So that there is something to be read in it.
    shell.execute_batch("UPDATE idempotency_meta SET last_token = last_token + 1").expect("a commit");
    shell.busy_timeout(Duration::ZERO).expect("a setting");
    let is_busy: bool =
        shell.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).expect("an answer");
    assert!(!is_busy, "{what}");
}

/// The lock is given back after the answers only: whoever waited for it would be told that the file is busy.
#[test]
fn what_a_snapshot_can_answer_is_answered_while_somebody_else_holds_the_write_lock() {
    let bench = Bench::new();
    let other = shell(&bench.path);
    other.execute_batch("BEGIN IMMEDIATE; DELETE FROM idempotency_record").expect("the write lock");
    bench.ask();
    other.execute_batch("ROLLBACK").expect("a lock that was held until now");
}

#[test]
fn what_a_snapshot_can_answer_is_answered_while_another_thread_is_inside_a_transaction_of_the_store() {
    let bench = Bench::new();
    let ((tell_in, in_there), (tell_asked, asked)) = (channel(), channel());
    let store = bench.store.clone();
    let work = thread::spawn(move || {
        store.atomically(&scope("a"), &key("work"), &asks_for("x"), |transaction| {
            transaction.execute("DELETE FROM idempotency_record WHERE key <> 'work'", [])?;
            tell_in.send(()).expect("a test that waits");
            hear(&asked);
            Ok::<_, rusqlite::Error>(Reply::Marker)
        })
    });
    hear(&in_there);
    bench.ask();
    tell_asked.send(()).expect("work that waits");
    drop(work.join().expect("no panic").expect("its commit"));
    assert_eq!(attempt(&bench.store, "done"), None, "what it did is seen once it is committed");
}

/// The claim has looked, and found that it may be granted, when its clock is read for the first time. It is
/// answered by what the one in front of it commits.
#[test]
fn a_claim_that_may_be_granted_waits_for_the_writer_in_front_of_it() {
    let bench = Bench::new();
    let other = shell(&bench.path);
    other
        .execute_batch(
            "BEGIN IMMEDIATE;
             UPDATE idempotency_record SET lease_until_ms = lease_until_ms + 50000, expires_at_ms = expires_at_ms + 50000
             WHERE key = 'lapsed'",
        )
        .expect("the write lock");
    let (tell_looked, looked) = channel();
    bench.clock.at_the_next(move || tell_looked.send(()).expect("a test that waits"));
    let store = bench.store.clone();
    let waiting = thread::spawn(move || try_claim(&store, "lapsed").map(|answer| answer.name()));
    hear(&looked);
    assert!(!waiting.is_finished());
    other.execute_batch("COMMIT").expect("a commit");
    assert_eq!(waiting.join().expect("no panic").expect("an answer"), "in progress");
}

/// Else a record that is newer than the time would be taken for one whose lease began later.
#[test]
fn the_time_is_read_after_the_row() {
    let bench = Bench::new();
    let beside = bench.beside();
    bench.clock.time.advance(secs(89));
    type Ask = fn(&SqliteStore) -> u32;
    let asks: [(&str, Ask); 2] = [
        ("running", |store| match try_claim(store, "running").expect("an answer") {
            ClaimOutcome::InProgress(running) => running.attempt,
            other => panic!("wanted InProgress, got {other:?}"),
        }),
        ("looked up", |store| attempt(store, "looked up").expect("a record")),
    ];
    drop(claim(&beside, "looked up"));
    for (name, ask) in asks {
        let (beside, time) = (beside.clone(), bench.clock.time.clone());
        bench.clock.at_the_next(move || {
            time.advance(secs(91));
            assert_eq!(claim(&beside, name).attempt(), 2);
        });
        assert_eq!(ask(&bench.store), 1, "{name}: the row is older than the time");
        assert_eq!(attempt(&bench.store, name), Some(2), "{name}");
    }
}

#[test]
fn after_an_answer_no_reader_is_left_whatever_it_was() {
    let bench = Bench::new();
    bench.ask();
    no_reader_is_left(&bench.path, "after answers");

    shell(&bench.path)
        .execute_batch(
            "PRAGMA ignore_check_constraints = ON;
             UPDATE idempotency_record SET attempt = 0 WHERE key = 'running'",
        )
        .expect("damage");
    let damaged = bench.store.lookup(&scope("a"), &key("running"));
    assert!(matches!(damaged, Err(Error::Corrupt { .. })), "{damaged:?}");
    no_reader_is_left(&bench.path, "after damage");

    bench.clock.time.set(Timestamp::from_millis(-1));
    for answer in
        [bench.store.lookup(&scope("a"), &key("done")).map(drop), try_claim(&bench.store, "done").map(drop)]
    {
        assert!(matches!(answer, Err(Error::Clock(_))), "{answer:?}");
    }
    no_reader_is_left(&bench.path, "after errors of the clock");
    bench.clock.time.set(START);

    bench.clock.at_the_next(|| std::panic::panic_any("the clock stands still"));
    assert!(catch_unwind(AssertUnwindSafe(|| bench.ask())).is_err());
    no_reader_is_left(&bench.path, "after a panic");

    let path = bench.path.clone();
    drop(bench.store);
    assert!(!path.with_extension("db-wal").exists(), "the last one to close the file takes its log away");
}

/// More panics than there are connections.
#[test]
fn a_clock_that_panics_in_a_look_costs_no_connection() {
    let bench = Bench::new();
    bench.ask();
    let before = bench.connections();
    for _ in 0..40 {
        for look in LOOKS {
            bench.clock.at_the_next(|| std::panic::panic_any("the clock stands still"));
            assert!(catch_unwind(AssertUnwindSafe(|| look(&bench.store))).is_err());
        }
    }
    bench.ask();
    assert_eq!((before, bench.connections()), (2, 2), "one that writes, one that reads");
}

/// It would wait for the connection that is held by the look which reads it.
#[test]
fn a_clock_that_uses_its_own_store_is_refused() {
    let bench = Bench::new();
    for look in LOOKS {
        let (tell, told) = channel();
        let (store, running) = (bench.store.clone(), bench.running.clone());
        bench.clock.at_the_next(move || {
            let answers = [
                store.lookup(&scope("a"), &key("done")).map(drop),
                try_claim(&store, "done").map(drop),
                try_claim(&store, "new").map(drop),
                store.complete(&running, Reply::Marker).map(drop),
                store.forget(&scope("a"), &key("done")).map(drop),
                store.sweep(1).map(drop),
            ];
            tell.send(answers).expect("a test that waits");
        });
        look(&bench.store);
        for answer in hear(&told) {
            assert!(matches!(answer, Err(Error::Reentrant)), "{answer:?}");
        }
        bench.ask();
    }
}

/// By the same handle and by another one, which has connections of its own.
#[test]
fn what_was_acknowledged_before_a_look_began_is_in_it() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 25;
    let bench = Bench::new();
    let other =
        open(&bench.path, SqliteOptions::new().with_clock(bench.clock.time.clone())).expect("the store");
    thread::scope(|threads| {
        for thread in 0..THREADS {
            let (store, other) =
                if thread % 2 == 0 { (&bench.store, &other) } else { (&other, &bench.store) };
            threads.spawn(move || {
                for round in 0..ROUNDS {
                    let name = format!("{thread}, {round}");
                    let held = claim(store, &name);
                    for reader in [store, other] {
                        let record = reader.lookup(held.scope(), held.key()).expect("an answer");
                        assert_eq!(record.map(|record| record.token), Some(held.token()), "{name}");
                        assert_eq!(
                            try_claim(reader, &name).expect("an answer").name(),
                            "in progress",
                            "{name}"
                        );
                    }
                    let done = held.complete(Reply::Reference(name.clone())).expect("held");
                    for reader in [store, other] {
                        assert_eq!(try_claim(reader, &name).expect("an answer").completed(), done, "{name}");
                    }
                    assert!(store.forget(&scope("a"), &key(&name)).expect("an answer"), "{name}");
                    for reader in [other, store] {
                        assert_eq!(attempt(reader, &name), None, "{name}");
                    }
                }
            });
        }
    });
    assert!(bench.clock.readings() >= THREADS * ROUNDS);
}

#[test]
fn a_store_for_reading_only_reads_and_refuses_all_else_at_once() {
    let bench = Bench::new();
    let options = SqliteOptions::new().with_clock(bench.clock.clone()).read_only();
    let reader = open(&bench.path, options).expect("the store");
    let other = shell(&bench.path);
    other.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
    assert_eq!(attempt(&reader, "running"), Some(1));
    for name in ["done", "running", "lapsed", "absent"] {
        let answer = try_claim(&reader, name);
        assert!(matches!(answer, Err(Error::ReadOnly(_))), "{name}: {answer:?}");
    }
}
