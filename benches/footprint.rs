//! How many bytes of memory a record takes, counted by the allocator of this whole process: so a bench of its own.
//! `just measure`, or `cargo bench --bench footprint`, with `--repeats N` or `--quick`.

#[expect(dead_code, reason = "shared by benches that use different parts of it")]
mod common;

use common::bare_map::BareMap;
use common::keys::Keys;
use common::measured::{Bound, Results, Row, Series};
use common::plan::{self, Plan};
use common::request::Request;
use common::sides::Sides;
use common::subjects::{Memory, Subject};
use idempotency::{IdempotencyKey, MonotonicClock};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Those of which the mean is taken: a table is fuller at one than at another.
const AVERAGED: [usize; 4] = [600_000, 800_000, 1_000_000, 1_200_000];
const CHARTED: [usize; 4] = [10_000, 100_000, 1_000_000, 5_000_000];
/// A tiny run has so many times fewer records.
const QUICK: usize = 1_000;

fn main() {
    plan::run(
        "footprint",
        "cargo bench --bench footprint",
        &[("P9", mean_bytes), ("bytes", bytes_by_records)],
    );
}

fn mean_bytes(plan: Plan, results: &mut Results) {
    let mut means = Sides::default();
    for _ in 0..plan.repeats {
        let (ours, theirs) = bytes_of_both(AVERAGED, plan);
        let mean = |bytes: [f64; 4]| bytes.iter().sum::<f64>() / float(bytes.len());
        means.push(mean(ours), mean(theirs));
    }
    results.add(Row {
        id: "P9".into(),
        what: "memory of a record in progress: a key of 36 bytes, a scope of 8, all indexes; beside a bare DashMap".into(),
        value: means.subject(),
        unit: "bytes",
        bound: Some(Bound::AtMost { must: 320.0, goal: Some(220.0) }),
        sides: Some((means.subject().median, means.baseline().median, "bytes")),
    });
}

/// Once: it hardly varies.
fn bytes_by_records(plan: Plan, results: &mut Results) {
    let (ours, theirs) = bytes_of_both(CHARTED, plan);
    let points = |bytes: [f64; 4]| CHARTED.map(float).into_iter().zip(bytes).collect();
    results.chart(Series {
        id: "bytes-by-records".into(),
        title: "Memory of a record",
        x: "records",
        y: "bytes",
        lines: vec![("idempotency".into(), points(ours)), ("bare DashMap".into(), points(theirs))],
    });
}

/// What a record takes in a store, and in a bare map, at each of `sizes`.
fn bytes_of_both(sizes: [usize; 4], plan: Plan) -> ([f64; 4], [f64; 4]) {
    let (request, sizes) = (Request::new(), sizes.map(|size| size / plan.size(1, QUICK)));
    let ours = {
        let region = Region::new(ALLOCATOR);
        let opened = Memory.open(MonotonicClock::new());
        bytes_at(sizes, &region, plan.keys(), |key| drop(request.claim(&opened.store, key)))
    };
    let region = Region::new(ALLOCATOR);
    let map = BareMap::new();
    let theirs = bytes_at(sizes, &region, plan.keys(), |key| map.claim(&request, key));
    (ours, theirs)
}

/// Bytes for each record, at each of `sizes`, that were not there when `region` began. The keys are the caller's,
/// who drops them: what a record keeps of one is counted.
fn bytes_at(
    sizes: [usize; 4],
    region: &Region<'_, System>,
    mut keys: Keys,
    claim: impl Fn(&IdempotencyKey),
) -> [f64; 4] {
    let mut records = 0;
    sizes.map(|size| {
        (records..size).for_each(|_| claim(&keys.draw()));
        records = size;
        let change = region.change();
        float(change.bytes_allocated - change.bytes_deallocated) / float(records)
    })
}

#[expect(clippy::cast_precision_loss, reason = "a count far below 2^52")]
fn float(count: usize) -> f64 {
    count as f64
}
