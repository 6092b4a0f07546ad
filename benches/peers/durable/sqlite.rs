//! Files of SQLite's: the store, and what a program would do without it.

use crate::claimant::{Claimant, by_threads};
use crate::common::raw::Raw;
use crate::common::request::Request;
use crate::common::subjects::{Folder, Opened, Subject, durable};
use idempotency::{Durability, IdempotencyKey, SystemClock};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// With more, one of them starves the rest.
const MAX_CONNECTIONS: usize = 16;

/// The store.
pub struct Own;

impl Claimant for Own {
    fn way(&self) -> String {
        "blocking calls, one store for all".into()
    }

    fn claim_all(&mut self, callers: usize, keys: &Arc<[IdempotencyKey]>) -> Duration {
        let (Opened { store, folder: _folder }, request) =
            (Durability::Full.open(SystemClock), Request::new());
        by_threads(callers, keys, |_, key| drop(request.claim(&store, key)))
    }
}

/// A raw upsert on a connection for each caller, or 16 at most, which then are as many callers.
pub struct Connections;

impl Claimant for Connections {
    fn way(&self) -> String {
        format!("blocking calls, a connection for each of at most {MAX_CONNECTIONS} callers")
    }

    fn claim_all(&mut self, callers: usize, keys: &Arc<[IdempotencyKey]>) -> Duration {
        let (folder, request) = (fresh_file(), Request::new());
        let callers = callers.min(MAX_CONNECTIONS);
        let open = |_| Mutex::new(Raw::open(&folder.database()));
        let connections: Vec<Mutex<Raw>> = (0..callers).map(open).collect();
        by_threads(callers, keys, |caller, key| {
            // Nobody else's; the lock costs next to nothing.
            connections[caller].lock().expect("no panic").claim(&request, key);
        })
    }
}

/// A raw upsert on one connection that all callers share.
pub struct Shared;

impl Claimant for Shared {
    fn way(&self) -> String {
        "blocking calls, one connection behind a lock".into()
    }

    fn claim_all(&mut self, callers: usize, keys: &Arc<[IdempotencyKey]>) -> Duration {
        let (folder, request) = (fresh_file(), Request::new());
        let connection = Mutex::new(Raw::open(&folder.database()));
        by_threads(callers, keys, |_, key| connection.lock().expect("no panic").claim(&request, key))
    }
}

/// A file with the store's tables, empty.
fn fresh_file() -> Folder {
    let folder = Folder::new();
    drop(durable(&folder.database()));
    folder
}
