//! A sweeper that was carried over a `fork`: its thread is not there.

use crate::alone::alone;
use crate::common::{on_every_backend, secs};
use crate::fork::{AS_IT_SHOULD_BE, in_a_fork};
use crate::support::{AT_ONCE, RARELY, claim_many, until};
use idempotency::Error;

const IT_RUNS: u8 = 1;
const IT_DOES_NOT_SAY_SO: u8 = 2;

#[test]
fn a_sweeper_carried_over_a_fork_does_not_run_there_and_is_dropped_at_once() {
    alone("forks::a_sweeper_carried_over_a_fork_does_not_run_there_and_is_dropped_at_once", || {
        on_every_backend(|fixture| {
            claim_many(&fixture.store_with(secs(10), secs(10)), "key", 3);
            let mut inherited = Some(fixture.store.spawn_sweeper(RARELY));
            let number = in_a_fork(|| {
                let Some(sweeper) = inherited.take() else { return IT_DOES_NOT_SAY_SO };
                if sweeper.is_running() {
                    return IT_RUNS;
                }
                if !matches!(sweeper.last_error(), Some(Error::Forked)) {
                    return IT_DOES_NOT_SAY_SO;
                }
                sweeper.stop();
                AS_IT_SHOULD_BE
            });
            assert_eq!(number, AS_IT_SHOULD_BE, "{}", fixture.name);
            assert!(
                inherited
                    .as_ref()
                    .is_some_and(|sweeper| sweeper.is_running() && sweeper.last_error().is_none())
            );
            drop(inherited);

            fixture.at(20);
            let sweeper = fixture.store.spawn_sweeper(AT_ONCE);
            until("the parent's store is swept", || sweeper.removed() == 3);
        });
    });
}

/// Fork first, and start the sweeper in the process that uses the store.
#[test]
fn a_fork_can_have_a_sweeper_of_its_own() {
    alone("forks::a_fork_can_have_a_sweeper_of_its_own", || {
        let number = in_a_fork(|| {
            on_every_backend(|fixture| {
                claim_many(&fixture.store_with(secs(10), secs(10)), "key", 3);
                fixture.at(20);
                let sweeper = fixture.store.spawn_sweeper(AT_ONCE);
                until("the child's store is swept", || sweeper.removed() == 3);
                assert!(sweeper.is_running() && sweeper.last_error().is_none());
            });
            AS_IT_SHOULD_BE
        });
        assert_eq!(number, AS_IT_SHOULD_BE);
    });
}
