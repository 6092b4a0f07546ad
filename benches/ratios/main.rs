//! Ratios.
#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "shared by benches that use different parts of it")]
mod common;

use common::measured::{Bound, Results, Row};
use common::plan::Plan;
use common::raw::Raw;
use common::request::Request;
use common::sides::compare;
use common::subjects::{Folder, Subject, durable};
use common::threads::rate;
use idempotency::{Durability, SystemClock};

fn one(plan: Plan, results: &mut Results) {
    let (request, keys) = (Request::new(), plan.keys().take(plan.size(3_000, 50)));
    let sides = compare(
        plan.repeats,
        || {
            let opened = Durability::Full.open(SystemClock);
            rate(1, keys.len(), |n| drop(request.claim(&opened.store, &keys[n])))
        },
        || {
            let folder = Folder::new();
            drop(durable(&folder.database()));
            let raw = std::sync::Mutex::new(Raw::open(&folder.database()));
            rate(1, keys.len(), |n| raw.lock().unwrap().claim(&request, &keys[n]))
        },
    );
    let bound = Bound::AtLeast { must: 0.8, goal: Some(0.95) };
    results.add(Row::of_sides(
        "P3",
        "durable claim, 1 thread, against the raw prepared upsert",
        &sides,
        "claims/s",
        Some(bound),
    ));
}

fn main() {
    common::plan::run("ratios", "cargo bench --bench ratios", &[("P3", one)]);
}
