//! What a claim costs by the number of records, on SQLite: beside the raw upsert, on the same files.

use crate::common::measured::{Results, Series};
use crate::common::plan::Plan;
use crate::common::raw::{LIVING, Raw};
use crate::common::request::Request;
use crate::common::sides::Sides;
use crate::common::subjects::{Folder, durable};
use crate::common::threads::time;
use crate::growth::{SIZES, count, report};
use std::fs;

/// Each file is as it was again after each side of each repeat.
pub fn on_sqlite(plan: Plan, results: &mut Results) {
    let (request, keys) = (Request::new(), plan.keys().take(plan.size(2_000, 20)));
    let sizes = SIZES.map(|(full, quick)| plan.size(full, quick));
    let files = sizes.map(|size| {
        let folder = Folder::new();
        drop(durable(&folder.database()));
        Raw::fill(&folder.database(), &request, size, &LIVING);
        folder
    });
    let bytes = files.each_ref().map(|file| fs::metadata(file.database()).expect("a file").len());
    let mut costs = sizes.map(|_| Sides::default());
    for _ in 0..plan.repeats {
        for (file, costs) in files.iter().zip(&mut costs) {
            let path = &file.database();
            let undo = || Raw::open(path).remove(&request, &keys);
            let nanos = |took: std::time::Duration| took.as_secs_f64() * 1e9 / count(keys.len());
            costs.measure(
                || {
                    let store = durable(path);
                    let (took, ()) = time(|| keys.iter().for_each(|key| drop(request.claim(&store, key))));
                    drop(store);
                    undo();
                    nanos(took)
                },
                || {
                    let raw = Raw::open(path);
                    let (took, ()) = time(|| keys.iter().for_each(|key| raw.claim(&request, key)));
                    drop(raw);
                    undo();
                    nanos(took)
                },
            );
        }
    }
    let what = "a durable claim, against the raw upsert";
    report(results, "P8-sqlite", "Cost of a durable claim", what, &sizes, &costs);
    let points = sizes.iter().zip(bytes).map(|(size, bytes)| {
        let (size, bytes) = (count(*size), count(usize::try_from(bytes).expect("a size")));
        (size, bytes / size)
    });
    results.chart(Series {
        id: "file-bytes-by-records".into(),
        title: "Size of the file",
        x: "records in progress",
        y: "bytes a record",
        lines: vec![("idempotency".into(), points.collect())],
    });
}
