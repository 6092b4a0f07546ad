//! A system that has no thread to give.

use crate::address_space::without_room_for_a_stack;
use crate::alone::alone;
use crate::common::{on_every_backend, secs};
use crate::support::{AT_ONCE, claim_many};
use idempotency::Error;
use std::cell::RefCell;
use std::error::Error as _;
use std::io;

#[test]
fn a_sweeper_that_gets_no_thread_says_so_and_the_store_works_on() {
    alone("without_thread::a_sweeper_that_gets_no_thread_says_so_and_the_store_works_on", || {
        // Both before there is any other thread: the stack of one that has ended would do for the next.
        let sweepers = RefCell::new(Vec::new());
        on_every_backend(|fixture| {
            claim_many(&fixture.store_with(secs(10), secs(10)), "key", 3);
            fixture.at(20);
            let sweeper = without_room_for_a_stack(|| fixture.store.spawn_sweeper(AT_ONCE));
            sweepers.borrow_mut().push((sweeper, fixture.store.clone()));
            assert!(fixture.store.sweep(1).is_ok_and(|swept| swept.removed == 1));
        });
        for (sweeper, store) in sweepers.into_inner() {
            assert!(!sweeper.is_running(), "{sweeper:?}");
            assert_eq!((sweeper.runs(), sweeper.removed(), sweeper.failures()), (0, 0, 1));
            let error = sweeper.last_error().expect("the reason");
            assert!(matches!(error, Error::Unavailable(_)) && error.is_transient(), "{error:?}");
            let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
            assert!(source.is_some_and(|source| source.raw_os_error().is_some()), "{error:?}");
            sweeper.stop();
            assert!(store.spawn_sweeper(AT_ONCE).is_running(), "there is room again");
        }
    });
}
