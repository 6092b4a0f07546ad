//! The backends of this crate: as they are, in a box, shared, erased, and inside a test double.

use idempotency::testing::FaultyBackend;
use idempotency::testing::conformance::{Subject, SuiteClock};
use idempotency::{Backend, MemoryBackend, MemoryOptions};
use std::sync::Arc;

fn in_memory(clock: SuiteClock) -> MemoryBackend {
    MemoryBackend::new(MemoryOptions::new().with_clock(clock))
}

mod memory {
    use super::*;

    idempotency::conformance!(|| Subject::volatile(in_memory));
}

/// One shard, so that all records share one lock and one list of expiries.
mod memory_in_one_shard {
    use super::*;

    idempotency::conformance!(|| Subject::volatile(|clock| {
        MemoryBackend::new(MemoryOptions::new().with_clock(clock).with_shards(1))
    }));
}

mod boxed_memory {
    use super::*;

    idempotency::conformance!(|| Subject::volatile(|clock| -> Box<dyn Backend> {
        Box::new(in_memory(clock))
    }));
}

mod shared_memory {
    use super::*;

    idempotency::conformance!(|| Subject::volatile(|clock| -> Arc<dyn Backend> {
        Arc::new(in_memory(clock))
    }));
}

mod memory_without_faults {
    use super::*;

    idempotency::conformance!(|| Subject::volatile(|clock| FaultyBackend::new(in_memory(clock))));
}

#[cfg(feature = "sqlite")]
mod on_a_file {
    use super::*;
    use idempotency::{Durability, Error, SqliteBackend, SqliteOptions};

    /// A store in a folder of its own. What an fsync promises is shown elsewhere; here it would only be slow.
    fn of_sqlite<B: Backend>(wrap: fn(SqliteBackend) -> B) -> Subject {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Subject::durable(move |clock| -> Result<B, Error> {
            let options = SqliteOptions::new().with_durability(Durability::Normal).with_clock(clock);
            SqliteBackend::open(folder.path().join("store.db"), options).map(wrap)
        })
    }

    mod sqlite {
        use super::*;

        idempotency::conformance!(|| of_sqlite(|backend| backend));
    }

    mod boxed_sqlite {
        use super::*;

        idempotency::conformance!(|| of_sqlite(|backend| -> Box<dyn Backend> { Box::new(backend) }));
    }

    mod shared_sqlite {
        use super::*;

        idempotency::conformance!(|| of_sqlite(|backend| -> Arc<dyn Backend> { Arc::new(backend) }));
    }

    mod sqlite_without_faults {
        use super::*;

        idempotency::conformance!(|| of_sqlite(FaultyBackend::new));
    }
}
