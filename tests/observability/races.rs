//! Who loses a race gets an answer, and no error is counted.

use crate::common::{Answer, on_every_backend};
use crate::stage::{Stage, counts, moved, once, operation};
use idempotency::{
    Backend, BackendError, Command, IdempotencyKey, IdempotencyStore, Metrics, Outcome, Record, RecordId,
    Reply, StoreId, Swept, Timestamp,
};
use std::fmt;
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

const THREADS: usize = 8;
const ROUNDS: usize = 200;

/// Case 3.
#[test]
fn of_threads_that_claim_a_key_at_once_one_claims_and_all_others_find_it_in_progress_without_an_error() {
    on_every_backend(|fixture| {
        let stage = Stage::new(fixture);
        let barrier = Barrier::new(THREADS);
        thread::scope(|threads| {
            for _ in 0..THREADS {
                threads.spawn(|| {
                    let (scope, _, fingerprint) = operation();
                    for round in 0..ROUNDS {
                        let key = IdempotencyKey::new(format!("{round}")).expect("a valid key");
                        barrier.wait();
                        let answer = stage.store.try_claim(&scope, &key, &fingerprint).expect("an answer");
                        if answer.name() == "claimed" {
                            let _ticket = answer.claimed().into_ticket();
                        }
                    }
                });
            }
        });
        let mut expected = counts(&Metrics::default());
        expected.insert("claims".to_owned(), ROUNDS as u64);
        expected.insert("in_progress".to_owned(), (ROUNDS * (THREADS - 1)) as u64);
        assert_eq!(counts(&stage.store.metrics()), expected, "{}", fixture.name);
    });
}

type Deed = Mutex<Option<Box<dyn FnOnce() + Send>>>;

fn happens(deed: &Deed) {
    let deed = deed.lock().unwrap_or_else(PoisonError::into_inner).take();
    deed.into_iter().for_each(|deed| deed());
}

/// A backend that lets others in: after the first command, and after the first look at a record.
struct Gaps {
    inner: Arc<dyn Backend>,
    after_command: Deed,
    after_look: Deed,
}

impl fmt::Debug for Gaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gaps")
    }
}

impl Backend for Gaps {
    fn execute(&self, id: &RecordId, command: &Command) -> Result<Outcome, BackendError> {
        let outcome = self.inner.execute(id, command);
        happens(&self.after_command);
        outcome
    }

    fn read(&self, id: &RecordId) -> Result<Option<(Record, Timestamp)>, BackendError> {
        let read = self.inner.read(id);
        happens(&self.after_look);
        read
    }

    fn sweep(&self, limit: usize) -> Result<Swept, BackendError> {
        self.inner.sweep(limit)
    }

    fn store_id(&self) -> StoreId {
        self.inner.store_id()
    }
}

/// Case 3, where there is a gap: who waits looks at the record, and claims if it may be had.
#[test]
fn who_is_overtaken_between_its_look_and_its_claim_gets_an_answer_and_no_error_is_counted() {
    on_every_backend(|fixture| {
        let (scope, key, fingerprint) = operation();
        let first = fixture.store.try_claim(&scope, &key, &fingerprint).expect("an answer").claimed();
        let overtaker = fixture.store.clone();
        let overtake = move || {
            let (scope, key, fingerprint) = operation();
            let claim = overtaker.try_claim(&scope, &key, &fingerprint).expect("an answer").claimed();
            claim.complete(Reply::Marker).expect("a completion");
        };
        let store = IdempotencyStore::new(Gaps {
            inner: Arc::clone(fixture.store.backend()),
            after_command: Mutex::new(Some(Box::new(move || first.release().expect("a release")))),
            after_look: Mutex::new(Some(Box::new(overtake))),
        });
        let answer = store.claim_or_wait(&scope, &key, &fingerprint, Duration::from_secs(600));
        assert_eq!(answer.expect("an answer").name(), "completed", "{}", fixture.name);
        assert_eq!(
            moved(&Metrics::default(), &store.metrics()),
            once(&["in_progress", "replays"]),
            "{}",
            fixture.name
        );
    });
}
