//! What a program would do without this crate: an upsert of its own, with as many connections as it happens to
//! have, or an entry of a concurrent map.

use crate::common::bare_map::BareMap;
use crate::common::keys::Keys;
use crate::common::raw::{self, Raw};
use crate::common::request::Request;
use crate::common::subjects::{Folder, durable};
use crate::common::threads::timed_each;
use crate::{Run, THREADS, measure};
use criterion::Criterion;
use idempotency::IdempotencyKey;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

/// More connections than this starve one another for longer than a bench takes.
const CONNECTIONS: [usize; 4] = [1, 2, 8, 16];

pub fn measure_all(criterion: &mut Criterion, seed: u64) {
    let runs: [(&str, &[usize], Run<'_>); 4] = [
        (
            "one_connection",
            &[1],
            Box::new(|threads, count| Claims::new(seed, count).on_a_connection_each(threads)),
        ),
        (
            "connection_each",
            &CONNECTIONS[1..],
            Box::new(|threads, count| Claims::new(seed, count).on_a_connection_each(threads)),
        ),
        (
            "mutex",
            &THREADS,
            Box::new(|threads, count| Claims::new(seed, count).on_a_shared_connection(threads)),
        ),
        (
            "opened_per_call",
            &[1, 8],
            Box::new(|threads, count| Claims::new(seed, count).on_a_connection_per_call(threads)),
        ),
    ];
    measure(criterion, "raw_upsert", &runs);
    raw::say_how_often_busy();
    let bare: [(&str, &[usize], Run<'_>); 1] =
        [("claim", &THREADS, Box::new(|threads, count| claim_in_a_map(seed, threads, count)))];
    measure(criterion, "dashmap", &bare);
}

/// What is claimed, in the fresh file of a store that is not open.
struct Claims {
    folder: Folder,
    request: Request,
    keys: Vec<IdempotencyKey>,
}

impl Claims {
    fn new(seed: u64, count: usize) -> Self {
        let folder = Folder::new();
        drop(durable(&folder.database()));
        Self { folder, request: Request::new(), keys: Keys::new(seed).take(count) }
    }

    fn on_a_connection_each(&self, threads: usize) -> Duration {
        let mut connections: Vec<Raw> = (0..threads).map(|_| Raw::open(&self.path())).collect();
        timed_each(&mut connections, self.keys.len(), |raw, n| raw.claim(&self.request, &self.keys[n]))
    }

    fn on_a_shared_connection(&self, threads: usize) -> Duration {
        let shared = Mutex::new(Raw::open(&self.path()));
        timed_each(&mut vec![(); threads], self.keys.len(), |(), n| {
            shared.lock().expect("a connection").claim(&self.request, &self.keys[n]);
        })
    }

    /// What a first implementation does.
    fn on_a_connection_per_call(&self, threads: usize) -> Duration {
        timed_each(&mut vec![(); threads], self.keys.len(), |(), n| {
            Raw::open(&self.path()).claim(&self.request, &self.keys[n]);
        })
    }

    fn path(&self) -> PathBuf {
        self.folder.database()
    }
}

fn claim_in_a_map(seed: u64, threads: usize, count: usize) -> Duration {
    let (map, request, keys) = (BareMap::new(), Request::new(), Keys::new(seed).take(count));
    timed_each(&mut vec![(); threads], count, |(), n| map.claim(&request, &keys[n]))
}
