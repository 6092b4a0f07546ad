//! How the store behaves when there is much of something: records, callers, sweeping, processes. `just measure`,
//! or `cargo bench --bench scale`, with the names of measurements, `--repeats N`, or `--quick`.
//!
//! All of it takes up to 3 GB of the target folder's disk and 4 GB of memory for a while.

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "shared by benches that use different parts of it")]
mod common;
mod fairness;
mod growth;
mod growth_of_a_file;
mod sweep;
mod waits;

fn main() {
    if fairness::is_a_claimant() {
        return fairness::claim_as_told();
    }
    common::plan::run(
        "scale",
        "cargo bench --bench scale",
        &[
            ("P8-memory", growth::in_memory),
            ("P8-sqlite", growth_of_a_file::on_sqlite),
            ("waits", waits::by_callers),
            ("P10", sweep::beside_claims),
            ("P12-threads", fairness::of_threads),
            ("P12-processes", fairness::of_processes),
        ],
    );
    common::raw::say_how_often_busy();
}
