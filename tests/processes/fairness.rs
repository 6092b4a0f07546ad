//! Case 51: who writes beside others gets its turn. Operations are counted; how long one took is not asked.

use crate::common::{asks_for, key, scope};
use crate::crew::{Child, Parent, alone, release};
use crate::seed;
use idempotency::{ClaimOutcome, Clock, IdempotencyStore, MonotonicClock, SqliteStore};
use std::env;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

const SIDE_BY_SIDE: usize = 8;
/// How long they write, in seconds; more for a measurement.
const VARIABLE: &str = "IDEMPOTENCY_TEST_FAIRNESS_SECONDS";
const SECONDS: u64 = 6;
/// How often they may try. A machine that is busy with something else holds one of eight up now and then; a
/// store that starves them does it every time.
const TRIES: usize = 3;

#[derive(Debug, Default)]
struct Count {
    operations: u64,
    errors: u64,
    first_error: String,
}

/// Claims fresh keys, at full durability, for as long as it is to.
fn claim_on(store: &SqliteStore, number: usize) -> Count {
    let seconds = env::var(VARIABLE).map_or(SECONDS, |value| value.parse().expect("a number of seconds"));
    let (scope, fingerprint, clock) = (scope("tenant"), asks_for("it"), MonotonicClock::new());
    let end = clock.now().saturating_add(Duration::from_secs(seconds));
    let mut count = Count::default();
    while !end.is_over(clock.now()) {
        let name = format!("{number} {}", count.operations + count.errors);
        match store.try_claim(&scope, &key(&name), &fingerprint) {
            Ok(ClaimOutcome::Claimed(_)) => count.operations += 1,
            other => {
                count.errors += 1;
                if count.first_error.is_empty() {
                    count.first_error = format!("{other:?}");
                }
            }
        }
    }
    count
}

/// Never an error, and at least once the slowest did half of what each did on average, or more.
#[track_caller]
fn assert_fair(writes: impl Fn() -> Vec<Count>) {
    let is_fair = |_| {
        let counts = writes();
        let operations: Vec<_> = counts.iter().map(|count| count.operations).collect();
        let (sum, slowest) = (operations.iter().sum::<u64>(), operations.iter().min().copied().unwrap_or(0));
        let each = u64::try_from(counts.len()).expect("a small number");
        let percent = (slowest * each * 100).checked_div(sum);
        println!("operations: {operations:?}; the slowest did {percent:?} % of the mean");
        let errors: u64 = counts.iter().map(|count| count.errors).sum();
        assert_eq!(errors, 0, "{counts:?}");
        assert_eq!(counts.len(), SIDE_BY_SIDE);
        slowest > 0 && 2 * slowest * each >= sum
    };
    assert!((0..TRIES).any(is_fair), "one of them starves");
}

#[test]
fn none_of_eight_processes_that_write_to_one_file_starves() {
    if let Some(parent) = Parent::of_this_process() {
        let store = IdempotencyStore::open(&parent.file).expect("the store");
        parent.wait();
        let Count { operations, errors, first_error } = claim_on(&store, parent.number);
        return parent.hears(format!("{operations} {errors} {first_error}"));
    }
    let _alone = alone();
    let this = none_of_eight_processes_that_write_to_one_file_starves;
    assert_fair(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("store.db");
        let mut crew = Child::start_many(&this, SIDE_BY_SIDE, &file, seed::seed());
        release(&mut crew);
        crew.into_iter().map(counted_by).collect()
    });
}

fn counted_by(child: Child) -> Count {
    let said = child.hear_out().concat();
    let words: Vec<_> = said.splitn(3, ' ').collect();
    let [operations, errors, first_error] = words.try_into().expect("two numbers and a text");
    let number = |word: &str| word.parse().expect("a number");
    Count { operations: number(operations), errors: number(errors), first_error: first_error.to_owned() }
}

#[test]
fn none_of_eight_threads_that_write_through_one_store_starves() {
    let _alone = alone();
    assert_fair(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = IdempotencyStore::open(folder.path().join("store.db")).expect("a fresh store");
        let barrier = Barrier::new(SIDE_BY_SIDE);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..SIDE_BY_SIDE)
                .map(|number| {
                    let (store, barrier) = (&store, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        claim_on(store, number)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("a thread that ends well")).collect()
        })
    });
}
