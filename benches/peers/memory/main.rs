//! Claim, completion and replay in memory, against the crates that do the same: `just peers-memory`.
//!
//! `README.md` says how each is driven, and why.

#[path = "../../common/mod.rs"]
#[expect(dead_code, reason = "shared by benches that use different parts of it")]
mod common;
#[path = "../shared/contest.rs"]
mod contest;
mod idempotent;
mod kit;
mod map;
mod own;

use common::measured::{Bound, Results, Series};
use common::plan::Plan;
use common::threads::per_second;
use contest::{Contender, Extent, Way, measure};
use idempotency::IdempotencyKey;
use std::time::Duration;

/// Far below the 65,536 that `idempotency-kit` holds by default: its claims cost the more the more it holds.
const OPERATIONS: usize = 20_000;
/// How many fresh stores a measurement goes through, since one is done with so few in no time.
const STORES: usize = 5;
/// Of a reply: small, since one of the peers copies it.
const BODY_LEN: usize = 200;
const STATUS: u16 = 201;
const EXTENT: Extent = Extent { callers: &[1, 8], tried_each: OPERATIONS, seconds: 1.0, most: OPERATIONS };

/// What one caller does: its keys, each with the body of the reply to it, made before the time is taken.
pub struct Part {
    pub keys: Vec<IdempotencyKey>,
    pub bodies: Vec<Vec<u8>>,
}

/// A way to drive a store, in words, and how long it takes until all parts are done on a fresh store, each by a
/// caller of its own.
type Driven = (&'static str, fn(Vec<Part>) -> Duration);

impl Way for Driven {
    fn name(&self) -> String {
        self.0.into()
    }

    fn rate(&mut self, plan: Plan, callers: usize, operations: usize) -> f64 {
        let each = operations / callers;
        let mut keys = plan.keys();
        let mut part = || Part { keys: keys.take(each), bodies: vec![vec![b'x'; BODY_LEN]; each] };
        let stores = plan.size(STORES, 1);
        let took = (0..stores).map(|_| self.1((0..callers).map(|_| part()).collect())).sum();
        per_second(stores * callers * each, took)
    }
}

fn contender(name: &str, ways: &[Driven]) -> Contender {
    Contender::new(name, ways.iter().map(|way| -> Box<dyn Way> { Box::new(*way) }).collect())
}

fn operations(plan: Plan, results: &mut Results) {
    let mut own = contender("this crate", own::WAYS);
    let mut map = contender("a bare DashMap", map::WAYS);
    let mut kit = contender("idempotency-kit 1.0.1", kit::WAYS);
    let mut idempotent = contender("idempotent 2.0.0", idempotent::WAYS);
    measure(plan, EXTENT, &mut [&mut own, &mut map, &mut kit, &mut idempotent]);
    let bound = Bound::AtLeast { must: 2.0, goal: Some(4.0) };
    for (peer, callers, id, name) in [
        (&kit, 1, "P7-kit-1", "idempotency-kit"),
        (&kit, 8, "P7-kit-8", "idempotency-kit"),
        (&idempotent, 1, "P7-idempotent-1", "idempotent"),
        (&idempotent, 8, "P7-idempotent-8", "idempotent"),
    ] {
        let s = if callers == 1 { "" } else { "s" };
        let what = format!("claim, completion and replay in memory, {callers} caller{s}, against {name}");
        results.add(own.against(peer, callers, id, &what, bound));
    }
    results.chart(Series {
        id: "memory-operations-by-callers".into(),
        title: "Claim, completion and replay in memory",
        x: "callers at once",
        y: "operations/s",
        lines: [own, map, kit, idempotent].iter().map(Contender::line).collect(),
    });
}

fn main() {
    common::plan::run("memory-peers", "just peers-memory", &[("operations", operations)]);
}
