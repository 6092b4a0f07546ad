//! What a claim costs by the number of records: in memory, beside a bare map.

use crate::common::bare_map::BareMap;
use crate::common::measured::{Bound, Results, Row, Series};
use crate::common::plan::Plan;
use crate::common::request::Request;
use crate::common::sides::Sides;
use crate::common::spread::Spread;
use crate::common::subjects::{Memory, Subject};
use crate::common::threads::time;
use idempotency::{IdempotencyKey, MonotonicClock};

/// At least so many claims are timed for each size, in as many stores as that takes.
const TIMED: usize = 200_000;

/// The numbers of records, each with what it is in a tiny run.
pub const SIZES: [(usize, usize); 4] = [(10_000, 100), (100_000, 200), (1_000_000, 400), (5_000_000, 1_000)];

pub fn in_memory(plan: Plan, results: &mut Results) {
    let request = Request::new();
    let sizes = SIZES.map(|(full, quick)| plan.size(full, quick));
    let keys = plan.keys().take(sizes[SIZES.len() - 1]);
    let mut costs = sizes.map(|_| Sides::default());
    for _ in 0..plan.repeats {
        for (size, costs) in sizes.iter().zip(&mut costs) {
            costs.measure(
                || {
                    let open = || Memory.open(MonotonicClock::new());
                    cost(*size, &keys, open, |opened, key| drop(request.claim(&opened.store, key)))
                },
                || cost(*size, &keys, BareMap::new, |map, key| map.claim(&request, key)),
            );
        }
    }
    let (title, what) =
        ("Cost of a claim in memory", "a claim in memory, against an entry of a bare DashMap");
    report(results, "P8-memory", title, what, &sizes, &costs);
}

/// Nanoseconds for one claim while the records double up to `size`: so that each size has its share of the
/// growing of tables, which is done at a doubling.
fn cost<T>(
    size: usize,
    keys: &[IdempotencyKey],
    open: impl Fn() -> T,
    claim: impl Fn(&T, &IdempotencyKey),
) -> f64 {
    // Other keys for each store: those of the one before are warm.
    let stores = TIMED.div_ceil(size / 2).min(keys.len() / size);
    let mut nanos = 0.0;
    for own in keys.chunks_exact(size).take(stores) {
        let (store, (before, timed)) = (open(), own.split_at(size / 2));
        before.iter().for_each(|key| claim(&store, key));
        let (took, ()) = time(|| timed.iter().for_each(|key| claim(&store, key)));
        nanos += took.as_secs_f64() * 1e9;
    }
    nanos / count(stores * (size - size / 2))
}

/// The growth of the cost from the first to the last of `sizes`, and a chart of both sides' `costs`.
pub fn report(
    results: &mut Results,
    id: &'static str,
    title: &'static str,
    what: &str,
    sizes: &[usize],
    costs: &[Sides],
) {
    let (first, last) = (&costs[0], &costs[costs.len() - 1]);
    let bound = Bound::AtMost { must: 1.3, goal: Some(1.0) };
    let what =
        format!("growth of the cost of {what}, from {} to {} records", sizes[0], sizes[sizes.len() - 1]);
    results.add(Row::of_sides(id, what, &last.growth_since(first), "times", Some(bound)));
    let points = |of: fn(&Sides) -> Spread| {
        sizes.iter().zip(costs).map(|(size, sides)| (count(*size), of(sides).median)).collect()
    };
    results.chart(Series {
        id: format!("{id}-cost-by-records"),
        title,
        x: "records",
        y: "ns",
        lines: vec![
            ("idempotency".into(), points(Sides::subject)),
            ("without it".into(), points(Sides::baseline)),
        ],
    });
}

#[expect(clippy::cast_precision_loss, reason = "a count far below 2^52")]
pub fn count(count: usize) -> f64 {
    count as f64
}
