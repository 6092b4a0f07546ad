//! More callers than there are connections that read.

use crate::common::{Answer, START, asks_for, key, scope};
use crate::{folder, open};
use idempotency::{Clock, ManualClock, Reply, SqliteOptions, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// After this a test gives up on what it waits for, and fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many connections read at once at the most.
fn seats() -> usize {
    thread::available_parallelism().map_or(4, usize::from).clamp(4, 16)
}

/// A clock in which its readers wait until so many are in there, and which tells how many there were.
#[derive(Clone)]
struct Crowded {
    wanted: usize,
    inside: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Clock for Crowded {
    fn now(&self) -> Timestamp {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        while self.most.load(Ordering::SeqCst) < self.wanted {
            thread::yield_now();
        }
        // Right code passes however small this is: it is how long one more has to come.
        (0..1_000).for_each(|_| thread::yield_now());
        self.inside.fetch_sub(1, Ordering::SeqCst);
        START
    }
}

#[test]
fn more_callers_than_connections_are_all_answered_and_no_more_connections_are_opened() {
    const CALLERS: usize = 40;
    let folder = folder();
    let path = folder.path().join("store.db");
    let (s, k, print) = (scope("a"), key("done"), asks_for("x"));
    let before =
        open(&path, SqliteOptions::new().with_clock(ManualClock::new(START))).expect("a fresh store");
    before.try_claim(&s, &k, &print).expect("a store").claimed().complete(Reply::Marker).expect("held");
    let (clock, connections) = (
        Crowded { wanted: seats(), inside: Arc::default(), most: Arc::default() },
        Arc::new(AtomicUsize::new(0)),
    );
    let counted = Arc::clone(&connections);
    let options = SqliteOptions::new().with_clock(clock.clone()).with_connection_setup(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    let store = open(&path, options).expect("the store");
    let (tell, told) = channel();
    for _ in 0..CALLERS {
        let (store, tell, s, k) = (store.clone(), tell.clone(), s.clone(), k.clone());
        thread::spawn(move || tell.send(store.try_claim(&s, &k, &print)).expect("a test that waits"));
    }
    for _ in 0..CALLERS {
        let answer = told.recv_timeout(PATIENCE).expect("an answer in time");
        assert_eq!(answer.expect("an answer").name(), "completed");
    }
    assert_eq!(clock.most.load(Ordering::SeqCst), seats());
    assert_eq!(connections.load(Ordering::SeqCst), 1 + seats(), "one that writes, and those that read");
}
