//! Replays on SQLite: against a `SELECT` of the program's own, and beside writers.

use crate::common::keys::Keys;
use crate::common::measured::{Bound, Results, Row};
use crate::common::plan::Plan;
use crate::common::raw::Raw;
use crate::common::request::{Request, reply};
use crate::common::sides::{Sides, compare};
use crate::common::subjects::{Folder, durable};
use crate::common::threads::{now, per_second, time, timed};
use crate::common::waits::Waits;
use idempotency::{IdempotencyKey, SqliteStore};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How many completed operations the replays are spread over.
const REPLAYED_KEYS: usize = 500;
const WRITERS: usize = 8;

pub fn against_a_select(plan: Plan, results: &mut Results) {
    let (folder, request, keys) = completed(plan);
    let count = plan.size(30_000, 500);
    let sides = compare(
        plan.repeats,
        || {
            let store = durable(&folder.database());
            drop(request.replay(&store, &keys[0])); // opens what is opened lazily
            let (took, ()) = time(|| {
                in_some_order(&keys, count).for_each(|key| drop(black_box(request.replay(&store, key))));
            });
            per_second(count, took)
        },
        || {
            let raw = Raw::open(&folder.database());
            let mut select = raw.select();
            drop(select.replay(&request, &keys[0]));
            let (took, ()) = time(|| {
                in_some_order(&keys, count).for_each(|key| drop(black_box(select.replay(&request, key))));
            });
            per_second(count, took)
        },
    );
    let what = "replays of a 1 KiB body, 1 thread, against the raw prepared SELECT of the same columns";
    let bound = Bound::AtLeast { must: 0.6, goal: Some(0.9) };
    results.add(Row::of_sides("P4", what, &sides, "replays/s", Some(bound)));
}

pub fn beside_writers(plan: Plan, results: &mut Results) {
    let period = Duration::from_millis(if plan.quick { 50 } else { 2_000 });
    let (mut medians, mut tails) = (Sides::default(), Sides::default());
    for repeat in 0..plan.repeats {
        let (folder, request, keys) = completed(plan);
        let store = durable(&folder.database());
        let measure = |writers| replays_beside(writers, period, &store, &request, &keys, plan.seed);
        let (idle, (loaded, _)) = if repeat.is_multiple_of(2) {
            let (idle, _) = measure(0);
            (idle, measure(WRITERS))
        } else {
            let loaded = measure(WRITERS);
            (measure(0).0, loaded)
        };
        // Who claims alone waits for one commit, and for no other before it.
        let (_, commits) = measure(1);
        medians.push(loaded.quantile(0.5), idle.quantile(0.5));
        tails.push(loaded.quantile(0.99), commits.quantile(0.5));
    }
    let what = "a replay's median time while 8 threads claim durably, against nobody else";
    let bound = Bound::AtMost { must: 1.5, goal: None };
    results.add(Row::of_sides("P5", what, &medians, "µs", Some(bound)));
    let what = "its 99th percentile meanwhile, against the median commit of a thread that claims alone";
    let bound = Bound::AtMost { must: 1.0, goal: None };
    results.add(Row::of_sides("P5-p99", what, &tails, "µs", Some(bound)));
}

/// The times of one thread's replays, for one `period`, and of the claims that `writers` make meanwhile.
fn replays_beside(
    writers: usize,
    period: Duration,
    store: &SqliteStore,
    request: &Request,
    keys: &[IdempotencyKey],
    seed: u64,
) -> (Waits, Waits) {
    drop(request.replay(store, &keys[0])); // opens what is opened lazily
    let is_over = AtomicBool::new(false);
    let mut workers: Vec<(usize, Waits)> = (0..=writers).map(|number| (number, Waits::new())).collect();
    timed(&mut workers, |(number, waits)| {
        if *number == 0 {
            let end = now() + period;
            let mut replayed = in_some_order(keys, usize::MAX);
            while now() < end {
                let key = replayed.next().expect("no end");
                drop(black_box(waits.of(|| request.replay(store, key))));
            }
            is_over.store(true, Ordering::Relaxed);
        } else {
            // No key that the other one replays: those come from the seed itself.
            // Nor one that other writers of this repeat have claimed.
            let who = u64::try_from(writers * 100 + *number).expect("a number");
            let mut own = Keys::new(Keys::new(seed ^ who).number());
            while !is_over.load(Ordering::Relaxed) {
                let key = own.draw();
                drop(waits.of(|| request.claim(store, &key)));
            }
        }
    });
    let (_, replays) = workers.swap_remove(0);
    (replays, Waits::together(workers.iter().map(|(_, waits)| waits)))
}

/// The file of a store with operations that have completed with 1 KiB each.
fn completed(plan: Plan) -> (Folder, Request, Vec<IdempotencyKey>) {
    let (folder, request, keys) =
        (Folder::new(), Request::new(), plan.keys().take(plan.size(REPLAYED_KEYS, 20)));
    let store = durable(&folder.database());
    keys.iter().for_each(|key| drop(request.complete(&store, key, reply())));
    (folder, request, keys)
}

/// `keys` over and over, never one after its neighbour.
fn in_some_order(keys: &[IdempotencyKey], count: usize) -> impl Iterator<Item = &IdempotencyKey> {
    (0..count).map(|n| &keys[n.wrapping_mul(7_919) % keys.len()])
}
