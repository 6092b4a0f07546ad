//! Case 55, where it is a clock that forks, in the middle of a look at one record or at all.

use crate::alone::alone;
use crate::common::{Answer, START, asks_for, key, scope};
use crate::fork::{_exit, AS_IT_SHOULD_BE, Fork, fork, in_a_fork};
use crate::forks::{TOUCHED_A_HANDLE, handles};
use crate::{folder, open};
use idempotency::{Clock, Error, SqliteOptions, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

/// Forks at the next reading once it is told to.
#[derive(Clone, Default)]
struct Forking {
    at_the_next: Arc<AtomicBool>,
    /// What `fork` answered.
    process: Arc<AtomicI32>,
    /// How many file handles there were then.
    handles: Arc<AtomicUsize>,
}

impl Clock for Forking {
    fn now(&self) -> Timestamp {
        if self.at_the_next.swap(false, Ordering::SeqCst) {
            self.handles.store(handles(), Ordering::SeqCst);
            // SAFETY: as in `Fork::start`.
            self.process.store(unsafe { fork() }, Ordering::SeqCst);
        }
        START
    }
}

/// It is refused before it opens anything: SQLite would take the parent's locks for its own.
#[test]
fn a_look_in_a_fork_opens_no_connection() {
    alone("forked_looks::a_look_in_a_fork_opens_no_connection", || {
        let folder = folder();
        let openings = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&openings);
        let options = SqliteOptions::new().with_connection_setup(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        let store = open(folder.path().join("store.db"), options).expect("a fresh store");
        let openings_in_a_fork = in_a_fork(|| {
            let before = openings.load(Ordering::SeqCst);
            drop((store.stats(), store.stuck(10)));
            u8::try_from(openings.load(Ordering::SeqCst) - before).expect("few openings")
        });
        assert_eq!(openings_in_a_fork, 0);
    });
}

/// The child's copy of the connection is the parent's to close.
#[test]
fn a_look_that_forks_is_answered_in_the_parent_and_refused_in_the_child_which_closes_nothing() {
    alone(
        "forked_looks::a_look_that_forks_is_answered_in_the_parent_and_refused_in_the_child_which_closes_nothing",
        || {
            let folder = folder();
            let clock = Forking::default();
            let options = SqliteOptions::new().with_clock(clock.clone());
            let store = open(folder.path().join("store.db"), options).expect("a fresh store");
            let claim = store.try_claim(&scope("a"), &key("k"), &asks_for("x")).expect("a store").claimed();

            let (s, k) = (scope("a"), key("k"));
            let looks: [&dyn Fn() -> Result<bool, Error>; 3] =
                [&|| Ok(store.stats()?.in_progress == 1), &|| Ok(store.lookup(&s, &k)?.is_some()), &|| {
                    Ok(store.try_claim(&s, &k, &asks_for("x"))?.name() == "in progress")
                }];
            for look in looks {
                clock.at_the_next.store(true, Ordering::SeqCst);
                let looked = look();
                let process = clock.process.load(Ordering::SeqCst);
                if process == 0 {
                    let is_refused =
                        matches!(looked, Err(Error::Forked)) && matches!(look(), Err(Error::Forked));
                    let is_left_alone = handles() == clock.handles.load(Ordering::SeqCst);
                    let number = if is_refused && is_left_alone { AS_IT_SHOULD_BE } else { TOUCHED_A_HANDLE };
                    // SAFETY: as in `Fork::start`.
                    unsafe { _exit(number.into()) }
                }
                assert_eq!(Fork(process).wait(), AS_IT_SHOULD_BE);
                assert!(looked.expect("the parent's answer"));
                assert!(look().expect("the parent goes on"));
            }
            claim.release().expect("the parent's claim stands");
        },
    );
}
