//! Panics, of the work and of what blocks: they go on in the task that waits, as they would in a thread.

use crate::bench::{Bench, reply};
use crate::common::on_every_backend;
use crate::gate::PANIC;
use idempotency::{AsyncClaim, AsyncStore, Error, Reply};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

const WORK: &str = "the work panics";

/// As a panic does, without the message.
fn panic() -> Reply {
    resume_unwind(Box::new(WORK))
}

/// What waiting for `future` panics with.
#[track_caller]
fn panicked<F: Future>(bench: &Bench<'_>, future: F) -> &'static str {
    let caught = catch_unwind(AssertUnwindSafe(|| drop(bench.block_on(future))));
    let panic: Box<dyn Any + Send> = caught.expect_err("a panic");
    panic.downcast_ref::<&str>().expect("a payload of this test's")
}

/// Case 22.
#[test]
fn work_that_panics_abandons_its_claim_and_the_panic_goes_on() {
    on_every_backend(|fixture| {
        for is_late in [false, true] {
            let bench = Bench::on(fixture, &format!("{is_late}"));
            let told = format!("{}: {is_late}", bench.name);
            let work = async |claim: &mut AsyncClaim| -> Result<Reply, Error> {
                if is_late {
                    claim.save_checkpoint("charged").await?;
                }
                Ok(panic())
            };
            let run = bench.store.run(&bench.scope, &bench.key, &bench.request, work);
            assert_eq!(panicked(&bench, run), WORK, "{told}");
            let metrics = bench.metrics();
            assert_eq!((metrics.abandons, metrics.failed_runs), (1, 1), "{told}");
            assert_eq!(metrics.dropped_unfinished, 0, "{told}");
            let next = bench.claim();
            assert_eq!((next.attempt(), next.is_takeover()), (2, true), "{told}");
            assert_eq!(next.checkpoint().is_some(), is_late, "{told}");
        }
    });
}

/// Case 22. A task that panics is no other than one that is dropped.
#[test]
fn a_claim_that_is_dropped_by_a_panic_leaves_the_record_under_its_lease() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let claim = bench.claim();
        let before = bench.record();
        let task = bench.runtime.spawn(async move {
            let _held = claim;
            panic()
        });
        assert!(bench.block_on(task).is_err_and(|error| error.is_panic()), "{}", bench.name);
        assert_eq!(bench.record(), before, "{}", bench.name);
        assert_eq!(bench.gate().calls(), ["claim"], "{}", bench.name);
        assert_eq!(bench.metrics().dropped_unfinished, 1, "{}", bench.name);
    });
}

#[test]
fn a_panic_of_what_blocks_goes_on_where_it_is_waited_for_and_the_pool_works_on() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let (scope, key, request) = (&bench.scope, &bench.key, &bench.request);
        let call = bench.store.call(|_| drop(panic()));
        assert_eq!(panicked(&bench, call), WORK, "{}", bench.name);
        bench.gate().panic();
        assert_eq!(panicked(&bench, bench.store.try_claim(scope, key, request)), PANIC, "{}", bench.name);
        bench.gate().panic();
        assert_eq!(panicked(&bench, bench.store.lookup(scope, key)), PANIC, "{}", bench.name);
        bench.gate().panic();
        let run = bench.store.run(scope, key, request, async |_| Ok::<_, Error>(reply("done")));
        assert_eq!(panicked(&bench, run), PANIC, "{}", bench.name);
        assert_eq!(bench.claim().attempt(), 1, "{}", bench.name);
    });
}

/// As a claim in a thread is.
#[test]
fn a_claim_whose_renewal_panicked_stays_with_its_owner_and_one_whose_completion_did_stands() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let mut claim = bench.claim();
        bench.gate().panic();
        assert_eq!(panicked(&bench, claim.renew()), PANIC, "{}", bench.name);
        bench.block_on(claim.renew()).expect("a claim that stands");
        let before = bench.record();
        bench.gate().panic();
        assert_eq!(panicked(&bench, claim.complete(reply("done"))), PANIC, "{}", bench.name);
        assert_eq!(bench.record(), before, "{}", bench.name);
        assert_eq!(bench.metrics().dropped_unfinished, 1, "{}", bench.name);
    });
}

/// tokio panics where the system gives it no thread, and leaves the call in its queue.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[test]
fn a_pool_that_gets_no_thread_is_an_indefinite_error_and_no_panic() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let claim = bench.claim();
        // More than there are addresses.
        let stack = 1 << 60;
        let runtime = tokio::runtime::Builder::new_current_thread().thread_stack_size(stack).build();
        let runtime = runtime.expect("a runtime, which needs no thread yet");
        let store = AsyncStore::new(bench.store.store().clone(), runtime.handle().clone());
        let answer = runtime.block_on(store.try_claim(&bench.scope, &bench.key, &bench.request));
        assert!(matches!(&answer, Err(Error::Indefinite(Some(_)))), "{}: {answer:?}", bench.name);
        drop(runtime);
        assert_eq!(bench.gate().calls(), ["claim"], "{}", bench.name);
        drop(claim);
    });
}
