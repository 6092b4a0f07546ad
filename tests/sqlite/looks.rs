//! What a look at all records runs in the file, as SQLite's trace tells.

use crate::common::{Answer, asks_for, key, scope};
use crate::trace::Trace;
use crate::{folder, open};
use idempotency::SqliteOptions;

#[test]
fn a_look_opens_one_connection_that_is_barred_from_writing_and_only_reads() {
    let folder = folder();
    let trace = Trace::new();
    let store = open(folder.path().join("store.db"), trace.on(SqliteOptions::new())).expect("a fresh store");
    drop(store.try_claim(&scope("a"), &key("k"), &asks_for("x")).expect("a store").claimed());
    for (look, opened) in [("stats", 3), ("stuck", 4)] {
        trace.take();
        match look {
            "stats" => drop(store.stats().expect("counts")),
            _ => drop(store.stuck(10).expect("a list")),
        }
        assert_eq!(trace.connections(), opened, "{look}");
        let run = trace.take();
        let place = |what: &str| run.iter().position(|statement| statement.contains(what));
        let (bar, records) = (place("query_only = ON"), place("FROM main.idempotency_record"));
        assert!(bar.is_some() && bar < records, "{look}: {run:?}");
        let reads = |statement: &String| {
            ["SELECT ", "PRAGMA "].iter().any(|verb| statement.trim_start().starts_with(verb))
        };
        assert!(run.iter().all(reads), "{look}: {run:?}");
    }
}
