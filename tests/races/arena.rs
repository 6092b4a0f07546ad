//! Where threads race.

use crate::terms::{clock, handle};
use idempotency::{DynStore, ManualClock, MemoryBackend, MemoryOptions};
use std::sync::Barrier;
use std::thread;

/// A store, through one handle or more.
pub struct Arena {
    pub name: &'static str,
    handles: Vec<DynStore>,
    pub clock: ManualClock,
    #[cfg(feature = "sqlite")]
    _file: Option<tempfile::TempDir>,
}

pub fn arenas() -> Vec<Arena> {
    vec![
        Arena::in_memory(),
        #[cfg(feature = "sqlite")]
        Arena::on_sqlite("sqlite", 1),
        #[cfg(feature = "sqlite")]
        Arena::on_sqlite("sqlite through two handles", 2),
    ]
}

impl Arena {
    fn in_memory() -> Self {
        let clock = clock();
        Self {
            name: "memory",
            handles: vec![handle(MemoryBackend::new(MemoryOptions::new().with_clock(clock.clone())))],
            clock,
            #[cfg(feature = "sqlite")]
            _file: None,
        }
    }

    #[cfg(feature = "sqlite")]
    fn on_sqlite(name: &'static str, handles: usize) -> Self {
        use idempotency::{Durability, SqliteBackend, SqliteOptions};
        use std::time::Duration;
        let clock = clock();
        let file = tempfile::tempdir().expect("a temporary folder");
        let open = |_| {
            // Durability plays no part here. The busy timeout is for a slow machine: two connections wait for
            // each other.
            let options = SqliteOptions::new()
                .with_clock(clock.clone())
                .with_durability(Durability::Normal)
                .with_busy_timeout(Duration::from_secs(60));
            handle(SqliteBackend::open(file.path().join("store.db"), options).expect("a store that opens"))
        };
        let handles = (0..handles).map(open).collect();
        Self { name, handles, clock, _file: Some(file) }
    }

    pub fn store(&self) -> &DynStore {
        &self.handles[0]
    }

    /// Lets `threads` threads go at once, the handles dealt out among them; gives what each came to, in
    /// order.
    pub fn at_once<T: Send>(&self, threads: usize, act: impl Fn(usize, &DynStore) -> T + Sync) -> Vec<T> {
        let barrier = Barrier::new(threads);
        thread::scope(|scope| {
            let (barrier, act) = (&barrier, &act);
            let started: Vec<_> = (0..threads)
                .map(|number| {
                    let store = &self.handles[number % self.handles.len()];
                    scope.spawn(move || {
                        barrier.wait();
                        act(number, store)
                    })
                })
                .collect();
            started.into_iter().map(|thread| thread.join().expect("a thread that ends well")).collect()
        })
    }
}
