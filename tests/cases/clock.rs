//! Case 5: when a command reads the clock. Once, and only when it has exclusive access: a caller that was
//! paused in a queue would otherwise be granted a lease that is over before it hears of it.

use crate::common::{Answer, START, asks_for, key, on, scope, secs};
use crate::support::{ENDINGS_WITHOUT_REPLY, EXTENSIONS, Random, owner_calls, race, reply};
use idempotency::{
    ClaimOutcome, Clock, DynStore, ManualClock, MemoryBackend, MemoryOptions, Policy, Timestamp,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A store that reads `clock`.
struct Clocked<C> {
    name: &'static str,
    store: DynStore,
    /// Another handle on the same store: for a file one with a connection of its own, as another process has.
    beside: DynStore,
    clock: C,
}

/// Runs `test` on a store of each backend that reads a new `clock`. In memory there is one shard, so that
/// every command needs the same exclusive access, as in a file.
fn on_every_backend_with<C: Clock + Clone + 'static>(clock: impl Fn() -> C, test: impl Fn(&Clocked<C>)) {
    let own = clock();
    let store = on(MemoryBackend::new(MemoryOptions::new().with_clock(own.clone()).with_shards(1)));
    test(&Clocked { name: "memory", beside: store.clone(), store, clock: own });
    #[cfg(feature = "sqlite")]
    {
        use idempotency::{Durability, SqliteBackend, SqliteOptions};
        let own = clock();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let handle = || {
            let options = SqliteOptions::new().with_clock(own.clone()).with_durability(Durability::Normal);
            on(SqliteBackend::open(folder.path().join("store.db"), options).expect("a store in that folder"))
        };
        test(&Clocked { name: "sqlite", store: handle(), beside: handle(), clock: own.clone() });
    }
}

/// A clock that counts its readings and moves on by `step` with each.
#[derive(Clone)]
struct TickingClock {
    step: Duration,
    readings: Arc<AtomicUsize>,
}

impl TickingClock {
    fn new(step: Duration) -> Self {
        Self { step, readings: Arc::default() }
    }

    fn readings(&self) -> usize {
        self.readings.load(Ordering::SeqCst)
    }

    /// What the reading with this number shows, from 1 on.
    fn shown(&self, reading: usize) -> Timestamp {
        START.saturating_add(self.step * u32::try_from(reading).expect("few readings"))
    }
}

impl Clock for TickingClock {
    fn now(&self) -> Timestamp {
        let reading = self.readings.fetch_add(1, Ordering::SeqCst) + 1;
        // Lets others pass between the reading and its use, if they can.
        thread::yield_now();
        self.shown(reading)
    }
}

/// Makes `call`, which must read `clock` once.
fn in_one_reading<T>(clock: &TickingClock, what: &str, call: impl FnOnce() -> T) -> T {
    in_readings(1, clock, what, call)
}

fn in_readings<T>(expected: usize, clock: &TickingClock, what: &str, call: impl FnOnce() -> T) -> T {
    let before = clock.readings();
    let answer = call();
    assert_eq!(clock.readings() - before, expected, "{what}");
    answer
}

/// How often a claim reads the clock that takes over: a file's snapshot is looked at first, and what it shows
/// may be granted by then is decided anew, by the time at which it can be written.
fn readings_of_a_takeover(name: &str) -> usize {
    if name == "sqlite" { 2 } else { 1 }
}

#[test]
fn every_command_and_every_look_up_reads_the_clock_once() {
    on_every_backend_with(
        || TickingClock::new(Duration::from_millis(1)),
        |Clocked { name, store, clock, .. }| {
            let scope = scope("tenant");
            let claim_in = |readings, text: &str, request: &str| {
                let what = format!("{name}: a claim of {text} for {request}");
                in_readings(readings, clock, &what, || {
                    store.try_claim(&scope, &key(text), &asks_for(request))
                })
                .expect("an answer")
            };
            let claim = |text: &str, request: &str| claim_in(1, text, request);
            for (what, call) in owner_calls() {
                let held = claim(what, "pay").claimed();
                in_one_reading(clock, &format!("{name}: {what}"), || call(store, held))
                    .expect("a claim that stands");

                let key = key(&format!("lost {what}"));
                let lost = claim(key.as_str(), "pay").claimed();
                let forgotten =
                    in_one_reading(clock, &format!("{name}: forget"), || store.forget(&scope, &key));
                assert!(forgotten.expect("an answer"), "{name}");
                let answer = in_one_reading(clock, &format!("{name}: {what}, lost"), || call(store, lost));
                let nothing_to_do = ENDINGS_WITHOUT_REPLY.iter().any(|(ending, _)| *ending == what);
                assert_eq!(answer.is_ok(), nothing_to_do, "{name}: {what}, lost");
            }
            for (state, request, answer) in [
                ("complete", "pay", "completed"),
                ("complete", "other", "mismatch"),
                ("renew", "pay", "in progress"),
                ("renew", "other", "mismatch"),
                ("abandon", "other", "mismatch"),
                ("abandon", "pay", "claimed"),
                ("release", "other", "claimed"),
            ] {
                let readings =
                    if state == "abandon" && answer == "claimed" { readings_of_a_takeover(name) } else { 1 };
                assert_eq!(claim_in(readings, state, request).name(), answer, "{name}: {state}");
                let found =
                    in_one_reading(clock, &format!("{name}: look-up"), || store.lookup(&scope, &key(state)));
                assert!(found.expect("a readable record").is_some(), "{name}: {state}");
            }
            let absent = key("absent");
            let found = in_one_reading(clock, &format!("{name}: look-up"), || store.lookup(&scope, &absent));
            assert_eq!(found.expect("an answer"), None, "{name}");
            let forgotten =
                in_one_reading(clock, &format!("{name}: forget"), || store.forget(&scope, &absent));
            assert!(!forgotten.expect("an answer"), "{name}");
        },
    );
}

/// Every reading comes after the lease that the one before it gave out, so each claim takes over from the one
/// before. If a reading were taken before exclusive access, two callers could pass each other between reading
/// and writing.
#[test]
fn claims_are_granted_in_the_order_in_which_they_read_the_clock() {
    const THREADS: usize = 8;
    const CLAIMS_EACH: usize = 50;
    on_every_backend_with(
        || TickingClock::new(Duration::from_millis(20)),
        |Clocked { name, store, clock, .. }| {
            let mut random = Random::for_this_run();
            let lease = Duration::from_millis(10);
            let store = store.with_policy(Policy::new().with_lease(lease)).expect("a usable policy");
            let (scope, key, pay) = (scope("tenant"), key("k"), asks_for("pay"));
            let grants: BTreeMap<_, _> = race(&mut random, THREADS, |_| {
                let claims = (0..CLAIMS_EACH)
                    .map(|_| store.try_claim(&scope, &key, &pay).expect("an answer").claimed());
                claims
                    .map(|claim| (claim.token(), (claim.attempt(), claim.lease_until())))
                    .collect::<Vec<_>>()
            })
            .into_iter()
            .flatten()
            .collect();
            assert_eq!(grants.len(), THREADS * CLAIMS_EACH, "{name}: one grant for each claim");
            let mut last = START;
            for (number, (attempt, lease_until)) in (1..).zip(grants.values()) {
                assert_eq!(usize::try_from(*attempt), Ok(number), "{name}");
                let granted_at = lease_until.saturating_sub(lease);
                assert!(last < granted_at, "{name}, attempt {attempt}");
                last = granted_at;
            }
            let (readings, most) = (clock.readings(), THREADS * CLAIMS_EACH * readings_of_a_takeover(name));
            assert!(readings <= most, "{name}: {readings} readings");
        },
    );
}

/// Case 7: a claim that finds the key taken is not executed again.
#[test]
fn a_thousand_claims_of_one_key_at_once_are_executed_once_each() {
    on_every_backend_with(
        || TickingClock::new(Duration::from_millis(1)),
        |Clocked { name, store, clock, .. }| {
            let mut random = Random::for_this_run();
            let (scope, key, pay) = (scope("tenant"), key("hot"), asks_for("pay"));
            let granted = race(&mut random, 1_000, |_| {
                matches!(store.try_claim(&scope, &key, &pay).expect("an answer"), ClaimOutcome::Claimed(_))
            });
            assert_eq!(granted.iter().filter(|granted| **granted).count(), 1, "{name}");
            assert_eq!(clock.readings(), 1_000, "{name}");
        },
    );
}

/// A clock that can hold its next reader, and with it whatever that reader has exclusive access to.
#[derive(Clone)]
struct HoldingClock {
    time: ManualClock,
    gate: Arc<(Mutex<Gate>, Condvar)>,
}

#[derive(Default)]
struct Gate {
    hold_next: bool,
    holds: bool,
    readings: usize,
}

impl HoldingClock {
    fn new() -> Self {
        Self { time: ManualClock::new(START), gate: Arc::default() }
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Gate)) {
        change(&mut self.gate());
        self.gate.1.notify_all();
    }

    fn wait_while(&self, condition: impl Fn(&Gate) -> bool) {
        drop(
            self.gate
                .1
                .wait_while(self.gate(), |gate| condition(gate))
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}

impl Clock for HoldingClock {
    fn now(&self) -> Timestamp {
        let mut held = false;
        self.change(|gate| {
            gate.readings += 1;
            held = std::mem::take(&mut gate.hold_next);
            gate.holds |= held;
        });
        if held {
            self.wait_while(|gate| gate.holds);
        }
        self.time.now()
    }
}

/// Makes `call` while another caller has exclusive access, and lets the clock move on by `by` before that one
/// is done.
fn behind_another_caller<T: Send>(
    other: &DynStore,
    clock: &HoldingClock,
    by: Duration,
    call: impl FnOnce() -> T + Send,
) -> T {
    /// Right code passes however small this is: it is how long wrong code gets to read the clock too early.
    const PATIENCE: usize = 5_000;
    let asked = AtomicBool::new(false);
    clock.change(|gate| gate.hold_next = true);
    thread::scope(|threads| {
        let holder = threads.spawn(|| other.forget(&scope("tenant"), &key("nothing")));
        clock.wait_while(|gate| !gate.holds);
        let readings = clock.gate().readings;
        let waiting = threads.spawn(|| {
            asked.store(true, Ordering::SeqCst);
            call()
        });
        while !asked.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        (0..PATIENCE).take_while(|_| clock.gate().readings == readings).for_each(|_| thread::yield_now());
        clock.time.advance(by);
        clock.change(|gate| gate.holds = false);
        assert!(holder.join().expect("a thread that ends").is_ok_and(|existed| !existed));
        waiting.join().expect("a thread that ends")
    })
}

/// Whoever is in front: a thread with the same handle, or another handle that has the file.
#[test]
fn what_waited_for_access_longer_than_its_lease_counts_from_the_moment_it_is_done() {
    on_every_backend_with(HoldingClock::new, |Clocked { name, store, beside, clock }| {
        let (lease, retention) = (secs(30), secs(3_600));
        let policy = Policy::new().with_lease(lease).with_retention(retention);
        let store = store.with_policy(policy).expect("a usable policy");
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        let wait = secs(100);
        for (in_front, other) in [("one handle", &store), ("two handles", beside)] {
            let told = format!("{name}, {in_front}");
            let claim = |text: &str| {
                let key = key(&format!("{text}, {in_front}"));
                store.try_claim(&scope, &key, &pay).expect("an answer").claimed()
            };
            let from_now = |period| clock.now().saturating_add(period);

            let fresh = behind_another_caller(other, clock, wait, || claim("fresh"));
            assert_eq!((fresh.attempt(), fresh.lease_until()), (1, from_now(lease)), "{told}");

            claim("lapsed").abandon().expect("a claim that stands");
            let takeover = behind_another_caller(other, clock, wait, || claim("lapsed"));
            assert_eq!((takeover.attempt(), takeover.lease_until()), (2, from_now(lease)), "{told}");

            for (what, extend) in EXTENSIONS {
                let mut held = claim(what);
                behind_another_caller(other, clock, wait, || extend(&mut held)).expect("a claim that stands");
                assert_eq!(held.lease_until(), from_now(lease), "{told}: {what}");
            }

            let held = claim("completed");
            let done = behind_another_caller(other, clock, wait, || held.complete(reply("done")));
            let done = done.expect("a claim that nobody took over");
            assert_eq!((done.completed_at, done.expires_at), (clock.now(), from_now(retention)), "{told}");
        }
    });
}
