//! Which handles and claims count together.

use crate::common::{Answer, on_every_backend, secs};
use crate::stage::{moved, once, operation};
use idempotency::{ClaimOutcome, IdempotencyStore, Metrics, Policy, Reply};
use std::sync::Arc;
use std::thread;

#[test]
fn all_handles_on_a_store_count_together_and_another_store_for_itself() {
    on_every_backend(|fixture| {
        let (scope, key, fingerprint) = operation();
        let store = IdempotencyStore::new(Arc::clone(fixture.store.backend()));
        let other = IdempotencyStore::new(Arc::clone(fixture.store.backend()));
        let handles = [
            store.clone(),
            store.erase(),
            store.with_policy(Policy::new().with_lease(secs(5))).expect("a policy"),
            store.erase().clone().with_policy(Policy::new()).expect("a policy"),
        ];
        let _ticket = store.try_claim(&scope, &key, &fingerprint).expect("an answer").claimed().into_ticket();
        for handle in &handles {
            drop(handle.try_claim(&scope, &key, &fingerprint).expect("an answer"));
        }
        for handle in handles.iter().chain([&store]) {
            assert_eq!((handle.metrics().claims, handle.metrics().in_progress), (1, 4), "{}", fixture.name);
        }
        assert_eq!(other.metrics(), Metrics::default(), "{}", fixture.name);
        assert_eq!(fixture.store.metrics(), Metrics::default(), "{}", fixture.name);
        drop(other.try_claim(&scope, &key, &fingerprint).expect("an answer"));
        assert_eq!(moved(&Metrics::default(), &other.metrics()), once(&["in_progress"]), "{}", fixture.name);
        assert_eq!(store.metrics().in_progress, 4, "{}", fixture.name);
    });
}

#[test]
fn a_claim_counts_where_it_was_granted_whatever_became_of_the_handle_and_the_thread() {
    on_every_backend(|fixture| {
        let (scope, key, fingerprint) = operation();
        let reader = fixture.store.clone();
        let granting = fixture.store.with_policy(Policy::new()).expect("a policy").erase();
        let mut claim = granting.try_claim(&scope, &key, &fingerprint).expect("an answer").claimed();
        drop(granting);
        claim.renew().expect("a renewal");
        let worker = thread::spawn(move || {
            claim.save_checkpoint("half-way").expect("a checkpoint");
            claim.complete(Reply::Marker).expect("a completion");
        });
        worker.join().expect("a worker that ends");
        assert_eq!(
            moved(&Metrics::default(), &reader.metrics()),
            once(&["claims", "renewals", "checkpoints", "completions"]),
            "{}",
            fixture.name
        );
    });
}

#[test]
fn a_claim_that_is_dropped_after_the_last_handle_is_still_a_claim() {
    on_every_backend(|fixture| {
        let (scope, key, fingerprint) = operation();
        let store = IdempotencyStore::new(Arc::clone(fixture.store.backend()));
        let claim = store.try_claim(&scope, &key, &fingerprint).expect("an answer").claimed();
        drop(store);
        claim.complete(Reply::Marker).expect("a completion");
        let again = fixture.store.try_claim(&scope, &key, &fingerprint).expect("an answer");
        assert!(matches!(again, ClaimOutcome::Completed(_)), "{}", fixture.name);
    });
}

#[test]
fn what_threads_do_at_once_adds_up() {
    const THREADS: usize = 8;
    const EACH: usize = 100;
    on_every_backend(|fixture| {
        let store = &fixture.store;
        thread::scope(|threads| {
            for thread in 0..THREADS {
                threads.spawn(move || {
                    for number in 0..EACH {
                        let (scope, _, fingerprint) = operation();
                        let key = crate::common::key(&format!("{thread} {number}"));
                        let claim = store.try_claim(&scope, &key, &fingerprint).expect("an answer").claimed();
                        claim.complete(Reply::Marker).expect("a completion");
                    }
                });
            }
        });
        let all = (THREADS * EACH) as u64;
        let expected = [("claims".to_owned(), all), ("completions".to_owned(), all)];
        assert_eq!(moved(&Metrics::default(), &store.metrics()), expected.into(), "{}", fixture.name);
    });
}

#[cfg(feature = "sqlite")]
#[test]
fn a_store_that_is_opened_again_counts_from_zero() {
    let mut fixture = crate::common::Fixture::on_sqlite();
    let (scope, key, fingerprint) = operation();
    drop(fixture.store.try_claim(&scope, &key, &fingerprint).expect("an answer"));
    assert_eq!(fixture.store.metrics().claims, 1);
    fixture.reopen();
    assert_eq!(fixture.store.metrics(), Metrics::default());
}
