//! Claims in memory, against an entry of a bare concurrent map.

use crate::common::bare_map::BareMap;
use crate::common::measured::{Bound, Results, Row};
use crate::common::plan::Plan;
use crate::common::request::Request;
use crate::common::sides::compare;
use crate::common::subjects::{Memory, Subject};
use crate::common::threads::rate;
use idempotency::MonotonicClock;

pub fn against_a_bare_map(plan: Plan, results: &mut Results) {
    let (request, keys) = (Request::new(), plan.keys().take(plan.size(400_000, 1_000)));
    for (id, threads) in [("P6-1", 1), ("P6-8", 8)] {
        let sides = compare(
            plan.repeats,
            || {
                let opened = Memory.open(MonotonicClock::new());
                rate(threads, keys.len(), |n| drop(request.claim(&opened.store, &keys[n])))
            },
            || {
                let map = BareMap::new();
                rate(threads, keys.len(), |n| map.claim(&request, &keys[n]))
            },
        );
        let what =
            format!("claims in memory, {threads} threads, against a bare DashMap entry of the same record");
        let bound = Bound::AtLeast { must: 0.6, goal: Some(1.0) };
        results.add(Row::of_sides(id, what, &sides, "claims/s", Some(bound)));
    }
}
