//! The backends of this crate: as they are, in a box, shared, erased, and inside a test double.

use idempotency::testing::FaultyBackend;
use idempotency::testing::conformance::{self, Subject, SuiteClock, Verdict};
use idempotency::{Backend, Command, IdempotencyKey, MemoryBackend, MemoryOptions, RecordId, Scope};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The topics of which something is skipped: a wrapper that forgets to pass a method on would look like a backend that
/// has none.
fn skipped(subject: impl Fn() -> Subject) -> BTreeSet<&'static str> {
    let of_those =
        conformance::checks().iter().filter(|check| ["inspection", "reopening"].contains(&check.topic()));
    of_those
        .filter(|check| !matches!(check.run(&subject), Ok(Verdict::Passed)))
        .map(|check| check.topic())
        .collect()
}

#[test]
fn what_the_memory_backend_can_not_do_is_be_reopened_however_it_is_wrapped() {
    let boxed = |clock| -> Box<dyn Backend> { Box::new(in_memory(clock)) };
    let shared = |clock| -> Arc<dyn Backend> { Arc::new(in_memory(clock)) };
    let wrapped = |clock| FaultyBackend::new(in_memory(clock));
    for skipped in [
        skipped(|| Subject::volatile(in_memory)),
        skipped(|| Subject::volatile(boxed)),
        skipped(|| Subject::volatile(shared)),
        skipped(|| Subject::volatile(wrapped)),
    ] {
        assert_eq!(skipped, BTreeSet::from(["reopening"]));
    }
}

/// The suite can't tell: a batch that is taken apart has the same answers.
#[test]
fn a_batch_reaches_the_backend_as_one_however_it_is_wrapped() {
    let counting = Arc::new(FaultyBackend::new(MemoryBackend::new(MemoryOptions::new())));
    let inside = || Arc::clone(&counting);
    let boxed: Box<dyn Backend> = Box::new(inside());
    let shared: Arc<dyn Backend> = Arc::new(inside());
    let wrappings: [&dyn Backend; 5] =
        [&inside(), &Box::new(inside()), &boxed, &shared, &FaultyBackend::new(inside())];
    let scope = Scope::new("tenant").expect("a scope");
    let batch = ["one", "two", "three"].map(|key| {
        let key = IdempotencyKey::new(key).expect("a key");
        (RecordId::new(scope.clone(), key), Command::Forget)
    });
    for (calls, wrapped) in (1..).zip(wrappings) {
        let answers = wrapped.execute_many(&batch);
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        assert_eq!((answers.len(), counting.calls()), (batch.len(), calls));
    }
}

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

    #[test]
    fn there_is_nothing_that_a_store_on_a_file_can_not_do_however_it_is_wrapped() {
        let boxed = || of_sqlite(|backend| -> Box<dyn Backend> { Box::new(backend) });
        let shared = || of_sqlite(|backend| -> Arc<dyn Backend> { Arc::new(backend) });
        for skipped in [
            skipped(|| of_sqlite(|backend| backend)),
            skipped(boxed),
            skipped(shared),
            skipped(|| of_sqlite(FaultyBackend::new)),
        ] {
            assert_eq!(skipped, BTreeSet::new());
        }
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
