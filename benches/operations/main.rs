//! What the operations cost, on each backend, from 1, 2, 8 and 64 threads, and beside them what a program would
//! do without this crate: `just bench`, or `cargo bench --bench operations -- FILTER`.
//!
//! Each sample runs on a fresh store, and only the operations are timed, not what prepares them. SQLite's files
//! lie in the target folder: on a disk, not in a temporary folder that may be memory. Elements a second are
//! operations of all threads together. What is compared with what must have run side by side: for ratios see
//! the bench `ratios`.

mod baselines;
#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "shared by benches that use different parts of it")]
mod common;
mod store;

use common::keys;
use criterion::{BenchmarkId, Criterion, Throughput};
use std::time::Duration;

const THREADS: [usize; 4] = [1, 2, 8, 64];

/// A benchmark: how long it takes `threads` threads to do `count` operations.
type Run<'a> = Box<dyn Fn(usize, usize) -> Duration + 'a>;

/// Measures `runs`, each with its name and the numbers of threads that it makes sense for.
fn measure(criterion: &mut Criterion, group: &str, runs: &[(&str, &[usize], Run<'_>)]) {
    let mut group = criterion.benchmark_group(group);
    group.throughput(Throughput::Elements(1));
    for (operation, all_threads, run) in runs {
        for threads in *all_threads {
            group.bench_function(BenchmarkId::new(*operation, threads), |bencher| {
                bencher
                    .iter_custom(|count| run(*threads, usize::try_from(count).expect("a count of 64 bits")));
            });
        }
    }
    group.finish();
}

fn main() {
    // Short, so that all of it takes a few minutes; `--measurement-time` and `--sample-size` ask for more.
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500))
        .without_plots()
        .configure_from_args();
    let seed = keys::seed();
    store::measure_all(&mut criterion, seed);
    baselines::measure_all(&mut criterion, seed);
    criterion.final_summary();
}
