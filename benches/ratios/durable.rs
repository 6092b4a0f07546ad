//! Durable claims, against upserts of the program's own.

use crate::common::measured::{Bound, Results, Row};
use crate::common::plan::Plan;
use crate::common::raw::{LIVING, Raw};
use crate::common::request::Request;
use crate::common::sides::{Sides, compare};
use crate::common::subjects::{Folder, Subject, durable};
use crate::common::threads::{per_second, rate, timed_each};
use idempotency::{Durability, IdempotencyKey, SystemClock};
use std::path::Path;
use std::sync::Mutex;

/// Requests that come in at the same time.
const CALLERS: usize = 64;
/// With a connection for each caller, one would starve the rest.
const CONNECTIONS: usize = 16;
const UNIT: &str = "claims/s";

pub fn against_a_connection_each(plan: Plan, results: &mut Results) {
    let sides = fresh_stores_against(plan, |request, keys| on_a_connection_each(CONNECTIONS, request, keys));
    let what = "durable claims, 64 threads, against 16 threads with a connection each";
    let bound = Bound::AtLeast { must: 10.0, goal: Some(15.0) };
    results.add(Row::of_sides("P1", what, &sides, UNIT, Some(bound)));
}

pub fn against_a_shared_connection(plan: Plan, results: &mut Results) {
    let sides = fresh_stores_against(plan, |request, keys| on_a_shared_connection(CALLERS, request, keys));
    let what = "durable claims, 64 threads, against a connection behind a mutex, 0 to 10 thousand records";
    let bound = Bound::AtLeast { must: 6.0, goal: Some(9.0) };
    results.add(Row::of_sides("P2", what, &sides, UNIT, Some(bound)));
}

/// Claims of 64 threads in stores without records, against `other` on the same keys.
fn fresh_stores_against(plan: Plan, other: impl Fn(&Request, &[IdempotencyKey]) -> f64) -> Sides {
    let (request, keys) = (Request::new(), plan.keys().take(plan.size(10_000, 100)));
    compare(plan.repeats, || in_a_fresh_store(CALLERS, &request, &keys), || other(&request, &keys))
}

/// Both on the same file, in turns, which is as it was again after each.
pub fn against_a_shared_connection_at_a_million(plan: Plan, results: &mut Results) {
    let (request, keys) = (Request::new(), plan.keys().take(plan.size(10_000, 100)));
    let folder = Folder::new();
    let path = &folder.database();
    drop(durable(path));
    Raw::fill(path, &request, plan.size(1_000_000, 1_000), &LIVING);
    let undone = |rate: f64| {
        Raw::open(path).remove(&request, &keys);
        rate
    };
    let sides = compare(
        plan.repeats,
        || undone(claims(CALLERS, path, &request, &keys)),
        || undone(upserts_in_turns(CALLERS, path, &request, &keys)),
    );
    let what = "the same at 1 million records";
    results.add(Row::of_sides("P2-million", what, &sides, UNIT, None));
}

pub fn from_one_thread(plan: Plan, results: &mut Results) {
    let (request, keys) = (Request::new(), plan.keys().take(plan.size(5_000, 40)));
    let sides = compare(
        plan.repeats,
        || in_a_fresh_store(1, &request, &keys),
        || on_a_connection_each(1, &request, &keys),
    );
    let what = "durable claims, 1 thread, against the raw prepared upsert on the same schema";
    let bound = Bound::AtLeast { must: 0.8, goal: Some(0.95) };
    results.add(Row::of_sides("P3", what, &sides, UNIT, Some(bound)));
}

pub fn in_a_fresh_store(threads: usize, request: &Request, keys: &[IdempotencyKey]) -> f64 {
    let opened = Durability::Full.open(SystemClock);
    rate(threads, keys.len(), |n| drop(request.claim(&opened.store, &keys[n])))
}

pub fn on_a_connection_each(threads: usize, request: &Request, keys: &[IdempotencyKey]) -> f64 {
    let folder = fresh_file();
    let mut connections: Vec<Raw> = (0..threads).map(|_| Raw::open(&folder.database())).collect();
    let took = timed_each(&mut connections, keys.len(), |raw, n| raw.claim(request, &keys[n]));
    per_second(keys.len(), took)
}

pub fn on_a_shared_connection(threads: usize, request: &Request, keys: &[IdempotencyKey]) -> f64 {
    upserts_in_turns(threads, &fresh_file().database(), request, keys)
}

/// Claims a second in the store at `path`.
fn claims(threads: usize, path: &Path, request: &Request, keys: &[IdempotencyKey]) -> f64 {
    let store = durable(path);
    rate(threads, keys.len(), |n| drop(request.claim(&store, &keys[n])))
}

/// Upserts a second in the file at `path`, on one connection for all.
fn upserts_in_turns(threads: usize, path: &Path, request: &Request, keys: &[IdempotencyKey]) -> f64 {
    let shared = Mutex::new(Raw::open(path));
    rate(threads, keys.len(), |n| shared.lock().expect("a connection").claim(request, &keys[n]))
}

/// The file of a store that is not open and has no records.
fn fresh_file() -> Folder {
    let folder = Folder::new();
    drop(durable(&folder.database()));
    folder
}
