//! How long a durable claim takes when many come at the same time.

use crate::common::measured::{Results, Row, Series};
use crate::common::plan::Plan;
use crate::common::raw::Raw;
use crate::common::request::Request;
use crate::common::sides::Sides;
use crate::common::subjects::{Folder, Subject, durable};
use crate::common::threads::timed_each;
use crate::common::waits::Waits;
use idempotency::{Durability, IdempotencyKey, SystemClock};
use std::sync::Mutex;

const CALLERS: [usize; 2] = [8, 64];
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

pub fn by_callers(plan: Plan, results: &mut Results) {
    let (request, keys) = (Request::new(), plan.keys().take(plan.size(10_000, 64)));
    let mut lines = Vec::new();
    for callers in CALLERS {
        let mut repeats = QUANTILES.map(|_| Sides::default());
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for repeat in 0..plan.repeats {
            if repeat.is_multiple_of(2) {
                ours.push(in_a_store(callers, &request, &keys));
                theirs.push(on_a_shared_connection(callers, &request, &keys));
            } else {
                theirs.push(on_a_shared_connection(callers, &request, &keys));
                ours.push(in_a_store(callers, &request, &keys));
            }
            for ((_, share), sides) in QUANTILES.iter().zip(&mut repeats) {
                sides.push(ours[repeat].quantile(*share), theirs[repeat].quantile(*share));
            }
        }
        for ((name, _), sides) in QUANTILES.iter().zip(&repeats) {
            let what = format!(
                "{name} of a durable claim's time, {callers} threads, against a connection behind a mutex"
            );
            results.add(Row::of_sides(format!("waits-{callers}-{name}"), what, sides, "µs", None));
        }
        for (side, waits) in [("idempotency", &ours), ("a connection behind a mutex", &theirs)] {
            let all = Waits::together(waits);
            let points = QUANTILES.iter().map(|(_, share)| (share * 100.0, all.quantile(*share))).collect();
            lines.push((format!("{side}, {callers} threads"), points));
        }
    }
    let id = "waits-by-share".into();
    results.chart(Series {
        id,
        title: "Time of a durable claim",
        x: "% of the claims",
        y: "µs at most",
        lines,
    });
}

fn in_a_store(callers: usize, request: &Request, keys: &[IdempotencyKey]) -> Waits {
    let opened = Durability::Full.open(SystemClock);
    waits(callers, keys.len(), |n| drop(request.claim(&opened.store, &keys[n])))
}

fn on_a_shared_connection(callers: usize, request: &Request, keys: &[IdempotencyKey]) -> Waits {
    let folder = Folder::new();
    drop(durable(&folder.database()));
    let shared = Mutex::new(Raw::open(&folder.database()));
    waits(callers, keys.len(), |n| shared.lock().expect("a connection").claim(request, &keys[n]))
}

/// How long each of the operations 0 to `count` takes, from so many threads.
fn waits(threads: usize, count: usize, operation: impl Fn(usize) + Sync) -> Waits {
    let mut workers = vec![Waits::new(); threads];
    timed_each(&mut workers, count, |waits, n| waits.of(|| operation(n)));
    Waits::together(&workers)
}
