//! Durable claims against PostgreSQL and Redis, each started for this run on the disk that our file is on, and
//! beside what a program would do with SQLite itself: `just peers-durable`.
//!
//! Each is driven in the way that is the best for it, which is found out first; `README.md` says what is
//! tried. A server that is not installed is named, and not measured.

mod claimant;
#[path = "../../common/mod.rs"]
#[expect(dead_code, reason = "shared by benches that use different parts of it")]
mod common;
#[path = "../shared/contest.rs"]
mod contest;
mod postgres;
mod redis;
mod server;
mod sqlite;

use claimant::Tasks;
use common::measured::{Bound, Results, Row, Series};
use common::plan::Plan;
use common::spread::Spread;
use common::threads::time;
use contest::{Contender, Extent, measure};
use idempotency::rusqlite;
use std::fs::File;
use std::io::Write;

const MOST_CALLERS: usize = 64;
const EXTENT: Extent =
    Extent { callers: &[1, 8, MOST_CALLERS], tried_each: 100, seconds: 0.8, most: 200_000 };

/// A server, if it could be had, and the row of what it is compared by.
type Peer = (&'static str, &'static str, Bound, Result<Contender, server::Missing>);

fn peers() -> Vec<Peer> {
    let tasks = Tasks::all();
    let postgres =
        postgres::Postgres::start().map(|server| Contender::new(server.version.clone(), server.ways(&tasks)));
    let redis = redis::Redis::start()
        .map(|server| Contender::new(server.version.clone(), server.ways(&tasks, MOST_CALLERS)));
    let at_least = |must, goal| Bound::AtLeast { must, goal: Some(goal) };
    vec![
        ("P11-postgres", "PostgreSQL", at_least(1.5, 3.0), postgres),
        ("P11-redis", "Redis", at_least(0.6, 1.0), redis),
    ]
}

fn claims(plan: Plan, results: &mut Results) {
    disk(plan, results);
    let mut peers = peers();
    let mut ours = [
        Contender::new("this crate", vec![Box::new(sqlite::Own)]),
        Contender::new("SQLite, connections", vec![Box::new(sqlite::Connections)]),
        Contender::new("SQLite, Mutex<Connection>", vec![Box::new(sqlite::Shared)]),
    ];
    let running = peers.iter_mut().filter_map(|(.., peer)| peer.as_mut().ok());
    measure(plan, EXTENT, &mut ours.iter_mut().chain(running).collect::<Vec<_>>());
    for (id, name, bound, peer) in &peers {
        let what = format!("durable claims, {MOST_CALLERS} callers, against {name}");
        match peer {
            Ok(peer) => results.add(ours[0].against(peer, MOST_CALLERS, id, &what, *bound)),
            Err(why) => results.not_measured(id, &what, *bound, why),
        }
    }
    let peers = peers.iter().filter_map(|(.., peer)| peer.as_ref().ok());
    results.chart(Series {
        id: "durable-claims-by-callers".into(),
        title: "Durable claims, and those of servers",
        x: "callers at once",
        y: "claims/s",
        lines: ours.iter().chain(peers).map(Contender::line).collect(),
    });
}

/// What the machine's disk takes for what all of them wait for.
fn disk(plan: Plan, results: &mut Results) {
    let mut file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    let append = |file: &mut File| {
        file.write_all(&[1; 4096]).expect("room on the disk");
        file.sync_data().expect("a sync");
    };
    let syncs = plan.size(200, 5);
    let mut repeat = || {
        let times = (0..syncs).map(|_| time(|| append(&mut file)).0.as_secs_f64() * 1e6);
        Spread::of(times).median
    };
    let value = Spread::of((0..plan.repeats).map(|_| repeat()));
    let what = format!("4 KiB appended and synced (SQLite is {})", rusqlite::version());
    results.add(Row { id: "disk".into(), what, value, unit: "µs", bound: None, sides: None });
}

fn main() {
    common::plan::run("durable-peers", "just peers-durable", &[("claims", claims)]);
}
