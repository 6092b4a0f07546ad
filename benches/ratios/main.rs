//! How the store compares with what a program would do without it, both measured side by side in one run:
//! `just measure`, or `cargo bench --bench ratios`, with the names of measurements, `--repeats N`, or `--quick`.

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "shared by benches that use different parts of it")]
mod common;
mod durable;
mod in_memory;
mod replays;
mod threads;

fn main() {
    common::plan::run(
        "ratios",
        "cargo bench --bench ratios",
        &[
            ("P1", durable::against_a_connection_each),
            ("P2", durable::against_a_shared_connection),
            ("P2-million", durable::against_a_shared_connection_at_a_million),
            ("P3", durable::from_one_thread),
            ("P4", replays::against_a_select),
            ("P5", replays::beside_writers),
            ("P6", in_memory::against_a_bare_map),
            ("threads", threads::claims_by_threads),
        ],
    );
    common::raw::say_how_often_busy();
}
