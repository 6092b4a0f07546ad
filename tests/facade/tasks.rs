//! What is done for a task is in the task's span, whichever thread does it.

use crate::common::Fixture;
use crate::log::Log;
use crate::stage::operation;
use idempotency::{AsyncClaim, AsyncStore, Reply};
use std::sync::{Arc, Mutex};
use std::thread;
use tokio::runtime::{Builder, Handle};
use tracing::{Instrument, Level, info_span};

/// Runs `task` on a runtime all of whose threads are logged, and gives the name of each span with that of the
/// one that it is in, and its outcome.
fn spans_of(task: impl AsyncFnOnce(AsyncStore<Arc<dyn idempotency::Backend>>) + Send) -> Vec<Nested> {
    let log = Arc::<Mutex<Log>>::default();
    let threads_log = Arc::clone(&log);
    let runtime = Builder::new_current_thread()
        .on_thread_start(move || Log::keep_for_this_thread(Level::DEBUG, &threads_log))
        .build()
        .expect("a runtime");
    thread::scope(|threads| {
        threads.spawn(|| {
            Log::keep_for_this_thread(Level::DEBUG, &log);
            let store = Fixture::in_memory().store;
            runtime.block_on(async { task(AsyncStore::new(store, Handle::current())).await });
        });
    });
    let log = log.lock().expect("no panic");
    let nested = |span: &crate::log::Line| (span.name, span.inside, span.field("outcome").map(str::to_owned));
    log.spans.iter().map(nested).collect()
}

type Nested = (&'static str, Option<&'static str>, Option<String>);

fn nested(name: &'static str, inside: Option<&'static str>, outcome: Option<&str>) -> Nested {
    (name, inside, outcome.map(str::to_owned))
}

#[test]
fn a_call_of_a_task_is_in_the_span_of_the_task() {
    let spans = spans_of(async |store| {
        let (scope, key, fingerprint) = operation();
        let ask = store.try_claim(&scope, &key, &fingerprint).instrument(info_span!("request"));
        drop(ask.await.expect("an answer"));
    });
    assert_eq!(spans, [nested("request", None, None), nested("claim", Some("request"), Some("claimed"))]);
}

#[test]
fn work_that_a_task_runs_is_in_the_span_of_its_run_and_so_are_its_commands() {
    let spans = spans_of(async |store| {
        let (scope, key, fingerprint) = operation();
        let work = async |claim: &mut AsyncClaim| {
            let charging = info_span!("charging");
            claim.renew().instrument(charging).await.expect("a renewal");
            Ok::<_, ()>(Reply::Marker)
        };
        drop(store.run(&scope, &key, &fingerprint, work).await.expect("a run"));
    });
    assert_eq!(
        spans,
        [
            nested("run", None, Some("executed")),
            nested("claim", Some("run"), Some("claimed")),
            nested("charging", Some("run"), None),
            nested("renew", Some("charging"), Some("renewed")),
            nested("complete", Some("run"), Some("recorded")),
        ]
    );
}
