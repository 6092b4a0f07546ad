//! Durable claims a second by the number of threads: a chart.

use crate::common::measured::{Results, Series};
use crate::common::plan::Plan;
use crate::common::request::Request;
use crate::common::spread::Spread;
use crate::common::subjects::Subject;
use crate::common::threads::rate;
use crate::durable;
use idempotency::{Durability, IdempotencyKey, SystemClock};

const THREADS: [u32; 5] = [1, 2, 8, 16, 64];

type Side = fn(usize, &Request, &[IdempotencyKey]) -> f64;

/// Each with the most threads that it stands.
const SIDES: [(&str, u32, Side); 4] = [
    ("idempotency", 64, durable::in_a_fresh_store),
    ("idempotency, synchronous=NORMAL", 64, less_durable),
    ("raw upsert, a connection each", 16, durable::on_a_connection_each),
    ("raw upsert, one connection behind a mutex", 64, durable::on_a_shared_connection),
];

/// Each point is a median of repeats; all sides take turns, at each number of threads.
pub fn claims_by_threads(plan: Plan, results: &mut Results) {
    let (request, keys) = (Request::new(), plan.keys().take(plan.size(4_000, 32)));
    let mut lines = SIDES.map(|(name, ..)| (name.to_owned(), Vec::new()));
    for threads in THREADS {
        let mut rates = SIDES.map(|_| Vec::new());
        for _ in 0..plan.repeats {
            for ((_, most, side), rates) in SIDES.iter().zip(&mut rates) {
                if threads <= *most {
                    rates.push(side(usize::try_from(threads).expect("a count"), &request, &keys));
                }
            }
        }
        for ((_, points), rates) in lines.iter_mut().zip(rates) {
            if !rates.is_empty() {
                points.push((f64::from(threads), Spread::of(rates).median));
            }
        }
    }
    results.chart(Series {
        id: "claims-by-threads".into(),
        title: "Durable claims",
        x: "threads",
        y: "claims/s",
        lines: lines.into(),
    });
}

fn less_durable(threads: usize, request: &Request, keys: &[IdempotencyKey]) -> f64 {
    let opened = Durability::Normal.open(SystemClock);
    rate(threads, keys.len(), |n| drop(request.claim(&opened.store, &keys[n])))
}
