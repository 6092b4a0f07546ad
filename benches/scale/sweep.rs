//! How long a claim waits while a sweep removes many records.

use crate::common::keys::Keys;
use crate::common::measured::{Bound, Results, Row};
use crate::common::plan::Plan;
use crate::common::raw::{EXPIRED, Raw};
use crate::common::request::Request;
use crate::common::sides::Sides;
use crate::common::subjects::{Folder, durable};
use crate::common::threads::{time, timed};
use crate::common::waits::Waits;
use idempotency::SqliteStore;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const CLAIMANTS: usize = 8;

/// Any error, a busy file included, ends the run.
pub fn beside_claims(plan: Plan, results: &mut Results) {
    let (request, records) = (Request::new(), plan.size(300_000, 2_000));
    let mut keys = plan.keys();
    let (mut longest, mut tails) = (Sides::default(), Sides::default());
    // Of the first repeat, which may come before there is a sweep to go by.
    let mut period = Duration::from_millis(u64::try_from(plan.size(2_000, 50)).expect("a time"));
    for repeat in 0..plan.repeats {
        let folder = Folder::new();
        drop(durable(&folder.database()));
        Raw::fill(&folder.database(), &request, records, &EXPIRED);
        let store = durable(&folder.database());
        let sweep = || {
            let swept = store.sweep_all().expect("a working store");
            assert_eq!((swept.removed, swept.more), (records, false));
        };
        let mut claims_beside = |work: &(dyn Fn() + Sync)| claims_during(work, &store, &request, &mut keys);
        let (beside, alone) = if repeat.is_multiple_of(2) {
            let (beside, took) = claims_beside(&sweep);
            period = took;
            (beside, claims_beside(&|| thread::sleep(period)).0)
        } else {
            let (alone, _) = claims_beside(&|| thread::sleep(period));
            let (beside, took) = claims_beside(&sweep);
            period = took;
            (beside, alone)
        };
        longest.push(beside.longest(), alone.longest());
        tails.push(beside.quantile(0.99), alone.quantile(0.99));
    }
    let what =
        format!("longest durable claim of 8 threads beside a sweep of {records}, against as long without");
    let bound = Bound::AtMost { must: 5.0, goal: Some(2.0) };
    results.add(Row::of_sides("P10", what, &longest, "µs", Some(bound)));
    results.add(Row::of_sides("P10-p99", "the 99th percentile of the same", &tails, "µs", None));
}

/// What the claims take that threads make while another one does `work`, and how long that is.
fn claims_during(
    work: &(dyn Fn() + Sync),
    store: &SqliteStore,
    request: &Request,
    keys: &mut Keys,
) -> (Waits, Duration) {
    let is_over = AtomicBool::new(false);
    let mut workers: Vec<_> = (0..=CLAIMANTS)
        .map(|number| (number, Keys::new(keys.number()), Waits::new(), Duration::ZERO))
        .collect();
    timed(&mut workers, |(number, own, waits, took)| {
        if *number == 0 {
            *took = time(work).0;
            is_over.store(true, Ordering::Relaxed);
        } else {
            while !is_over.load(Ordering::Relaxed) {
                let key = own.draw();
                drop(waits.of(|| request.claim(store, &key)));
            }
        }
    });
    (Waits::together(workers.iter().map(|(_, _, waits, _)| waits)), workers[0].3)
}
