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
use common::spread::Spread;
use common::subjects::{Memory, Subject};
use idempotency::{IdempotencyKey, MonotonicClock};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The numbers of records at which it is looked.
const SIZES: [usize; 7] = [10_000, 100_000, 600_000, 800_000, 1_000_000, 1_200_000, 5_000_000];
/// Those of which the mean is taken: a table is fuller at one than at another.
const AVERAGED: std::ops::Range<usize> = 2..6;
/// A tiny run has so many times fewer records.
const QUICK: usize = 1_000;

fn main() {
    plan::run("footprint", "cargo bench --bench footprint", &[("P9", bytes_by_records)]);
}

fn bytes_by_records(plan: Plan, results: &mut Results) {
    let request = Request::new();
    let sizes = SIZES.map(|size| size / plan.size(1, QUICK));
    let mut by_size = sizes.map(|_| Sides::default());
    let mut means = Sides::default();
    for _ in 0..plan.repeats {
        let ours = {
            let region = Region::new(ALLOCATOR);
            let opened = Memory.open(MonotonicClock::new());
            bytes_at(&sizes, &region, plan.keys(), |key| drop(request.claim(&opened.store, key)))
        };
        let theirs = {
            let region = Region::new(ALLOCATOR);
            let map = BareMap::new();
            bytes_at(&sizes, &region, plan.keys(), |key| map.claim(&request, key))
        };
        by_size
            .iter_mut()
            .zip(&ours)
            .zip(&theirs)
            .for_each(|((sides, ours), theirs)| sides.push(*ours, *theirs));
        means.push(mean(&ours[AVERAGED]), mean(&theirs[AVERAGED]));
    }
    results.add(Row {
        id: "P9".into(),
        what: "memory of a record in progress: a key of 36 bytes, a scope of 8, all indexes; beside a bare DashMap".into(),
        value: means.subject(),
        unit: "bytes",
        bound: Some(Bound::AtMost { must: 320.0, goal: Some(220.0) }),
        sides: Some((means.subject().median, means.baseline().median, "bytes")),
    });
    let points = |of: fn(&Sides) -> Spread| {
        sizes.iter().zip(&by_size).map(|(size, sides)| (float(*size), of(sides).median)).collect()
    };
    results.chart(Series {
        id: "bytes-by-records".into(),
        title: "Memory of a record",
        x: "records",
        y: "bytes",
        lines: vec![
            ("idempotency".into(), points(Sides::subject)),
            ("bare DashMap".into(), points(Sides::baseline)),
        ],
    });
}

/// Bytes for each record, at each of `sizes`, that were not there when `region` began. The keys are the caller's,
/// who drops them: what a record keeps of one is counted.
fn bytes_at(
    sizes: &[usize],
    region: &Region<'_, System>,
    mut keys: Keys,
    claim: impl Fn(&IdempotencyKey),
) -> Vec<f64> {
    let (mut records, mut bytes) = (0, Vec::with_capacity(sizes.len()));
    for size in sizes {
        (records..*size).for_each(|_| claim(&keys.draw()));
        records = *size;
        let change = region.change();
        bytes.push(float(change.bytes_allocated - change.bytes_deallocated) / float(records));
    }
    bytes
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / float(values.len())
}

#[expect(clippy::cast_precision_loss, reason = "a count far below 2^52")]
fn float(count: usize) -> f64 {
    count as f64
}
