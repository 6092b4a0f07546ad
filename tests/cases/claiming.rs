//! Claiming: who gets the operation when several ask.

use crate::common::{Answer, asks_for, key, on_every_backend, scope, secs};
use crate::snapshot::snapshot;
use crate::support::{Random, race, reply, watched};
use idempotency::{ClaimOutcome, DynStore, FencingToken, Fingerprint, IdempotencyKey, Scope, State};
use std::collections::BTreeMap;

/// What became of many claims of one key.
#[derive(Default)]
struct Tally {
    granted: Vec<FencingToken>,
    in_progress: usize,
}

impl Tally {
    /// Counts `answers`, which must say the same of the claim that was granted.
    #[track_caller]
    fn of(answers: Vec<ClaimOutcome>) -> Self {
        let lease_ends: Vec<_> = answers
            .iter()
            .filter_map(|answer| match answer {
                ClaimOutcome::Claimed(claim) => Some(claim.lease_until()),
                ClaimOutcome::InProgress(running) => Some(running.lease_until),
                ClaimOutcome::Completed(_) | ClaimOutcome::FingerprintMismatch(_) => None,
            })
            .collect();
        assert!(lease_ends.windows(2).all(|pair| pair.first() == pair.last()), "one lease: {lease_ends:?}");
        let mut tally = Self::default();
        for answer in answers {
            match answer {
                ClaimOutcome::Claimed(claim) => tally.granted.push(claim.token()),
                ClaimOutcome::InProgress(_) => tally.in_progress += 1,
                other => panic!("neither granted nor in progress: {other:?}"),
            }
        }
        tally
    }
}

fn token_of(store: &DynStore, scope: &Scope, key: &IdempotencyKey) -> Option<FencingToken> {
    store.lookup(scope, key).expect("a readable record").map(|record| record.token)
}

/// Case 1.
#[test]
fn of_32_threads_that_claim_one_key_one_is_granted_it_and_31_hear_that_it_runs() {
    const ROUNDS: usize = 25;
    on_every_backend(|fixture| {
        let mut random = Random::for_this_run();
        let (store, scope) = (&fixture.store, scope("tenant"));
        for round in 0..ROUNDS {
            let key = key(&format!("key {round}"));
            let tally = Tally::of(race(&mut random, 32, |_| {
                store.try_claim(&scope, &key, &asks_for("pay")).expect("an answer")
            }));
            let name = fixture.name;
            assert_eq!((tally.granted.len(), tally.in_progress), (1, 31), "{name}, round {round}");
            assert_eq!(
                token_of(store, &scope, &key),
                tally.granted.first().copied(),
                "{name}, round {round}"
            );
        }
    });
}

/// Case 1, with a connection for each thread, which is what processes have.
#[cfg(feature = "sqlite")]
#[test]
fn of_eight_handles_on_one_file_that_claim_one_key_one_is_granted_it() {
    use crate::common::Fixture;
    use crate::support::handle_on_file;
    const ROUNDS: usize = 25;
    let fixture = Fixture::on_sqlite();
    let handles: Vec<_> = (0..8).map(|_| handle_on_file(&fixture, |options| options)).collect();
    let mut random = Random::for_this_run();
    let scope = scope("tenant");
    for round in 0..ROUNDS {
        let key = key(&format!("key {round}"));
        let tally = Tally::of(race(&mut random, handles.len(), |number| {
            handles[number].try_claim(&scope, &key, &asks_for("pay")).expect("an answer")
        }));
        assert_eq!((tally.granted.len(), tally.in_progress), (1, 7), "round {round}");
        assert_eq!(token_of(&fixture.store, &scope, &key), tally.granted.first().copied(), "round {round}");
    }
}

/// Case 1: only the fingerprint of the one that is granted the claim is bound.
#[test]
fn of_threads_that_claim_one_key_for_different_requests_one_is_granted_it_and_its_request_is_bound() {
    const THREADS: usize = 16;
    const ROUNDS: usize = 25;
    on_every_backend(|fixture| {
        let mut random = Random::for_this_run();
        let (store, scope) = (&fixture.store, scope("tenant"));
        let request = |number: usize| asks_for(&format!("pay {}", number % 4));
        for round in 0..ROUNDS {
            let key = key(&format!("key {round}"));
            let answers = race(&mut random, THREADS, |number| {
                let answer = store.try_claim(&scope, &key, &request(number)).expect("an answer");
                (request(number), answer.name())
            });
            let bound =
                store.lookup(&scope, &key).expect("a readable record").map(|record| record.fingerprint);
            let bound = bound.expect("a record");
            let with = |same: bool, name: &str| {
                let counted =
                    |(asked, answer): &&(Fingerprint, &str)| (*asked == bound) == same && *answer == name;
                answers.iter().filter(counted).count()
            };
            assert_eq!(with(true, "claimed"), 1, "{}, round {round}: {answers:?}", fixture.name);
            assert_eq!(with(true, "in progress"), 3, "{}, round {round}: {answers:?}", fixture.name);
            assert_eq!(with(false, "mismatch"), 12, "{}, round {round}: {answers:?}", fixture.name);
        }
    });
}

/// Case 1 for batches, which go through their keys in different orders.
#[test]
fn of_threads_that_claim_the_same_keys_in_one_call_each_key_is_granted_once() {
    const THREADS: usize = 8;
    const KEYS: usize = 12;
    const ROUNDS: usize = 15;
    on_every_backend(|fixture| {
        let mut random = Random::for_this_run();
        let store = watched(&fixture.store);
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        for round in 0..ROUNDS {
            let calls = store.backend().calls();
            let answers = race(&mut random, THREADS, |thread| {
                let named = |number: usize| key(&format!("key {round}/{}", (number + thread) % KEYS));
                let batch: Vec<_> = (0..KEYS).map(|number| (scope.clone(), named(number), pay)).collect();
                let answers =
                    store.try_claim_many(&batch).into_iter().map(|answer| answer.expect("an answer"));
                batch.iter().map(|(_, key, _)| key.clone()).zip(answers).collect::<Vec<_>>()
            });
            let mut by_key = BTreeMap::<_, Vec<_>>::new();
            for (key, answer) in answers.into_iter().flatten() {
                by_key.entry(key).or_default().push(answer);
            }
            assert_eq!(by_key.len(), KEYS, "{}, round {round}", fixture.name);
            for (key, answers) in by_key {
                let tally = Tally::of(answers);
                let told = format!("{}, round {round}", fixture.name);
                assert_eq!((tally.granted.len(), tally.in_progress), (1, THREADS - 1), "{told}");
                assert_eq!(token_of(&fixture.store, &scope, &key), tally.granted.first().copied(), "{told}");
            }
            assert_eq!(store.backend().calls() - calls, THREADS, "{}: one call for each batch", fixture.name);
        }
    });
}

/// Case 2. Who asks later may use a handle with another policy: it must not touch the lease that stands.
#[test]
fn a_claim_that_stands_is_told_to_others_and_its_record_stays_as_it_is() {
    on_every_backend(|fixture| {
        let (scope, key, pay) = (scope("tenant"), key("k"), asks_for("pay"));
        let claim = fixture.store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
        let before = snapshot(fixture, &scope, &key);
        let others = [
            fixture.store.clone(),
            fixture.store_with(secs(1), secs(1)),
            fixture.store_with(secs(3_600), secs(1_000_000)),
        ];
        for seconds in [0, 1, 45, 89] {
            fixture.at(seconds);
            for other in &others {
                let ClaimOutcome::InProgress(running) =
                    other.try_claim(&scope, &key, &pay).expect("an answer")
                else {
                    panic!("{}: not in progress after {seconds} s", fixture.name);
                };
                assert_eq!(
                    (running.lease_until, running.attempt),
                    (claim.lease_until(), 1),
                    "{}",
                    fixture.name
                );
                let mismatch = other.try_claim(&scope, &key, &asks_for("other")).expect("an answer");
                assert_eq!(mismatch.name(), "mismatch", "{}", fixture.name);
                assert_eq!(snapshot(fixture, &scope, &key), before, "{}, after {seconds} s", fixture.name);
            }
        }

        let done = claim.complete(reply("done")).expect("a claim that stands");
        let completed = snapshot(fixture, &scope, &key);
        assert_eq!(completed.record.as_ref().map(|record| record.state), Some(State::Completed));
        for other in &others {
            let replayed = other.try_claim(&scope, &key, &pay).expect("an answer").completed();
            assert_eq!(replayed, done, "{}", fixture.name);
            assert_eq!(replayed.reply, reply("done"), "{}", fixture.name);
            assert_eq!(snapshot(fixture, &scope, &key), completed, "{}", fixture.name);
        }
    });
}

/// Case 7. The store asks its backend once for each claim, whoever wins, so that a hot key makes no retry
/// storm.
#[test]
fn a_thousand_claims_of_one_key_at_once_cost_one_backend_call_each_and_grant_one() {
    const CLAIMS: usize = 1_000;
    on_every_backend(|fixture| {
        let mut random = Random::for_this_run();
        let store = watched(&fixture.store);
        let (scope, key, pay) = (scope("tenant"), key("hot"), asks_for("pay"));
        let tally =
            Tally::of(race(&mut random, CLAIMS, |_| store.try_claim(&scope, &key, &pay).expect("an answer")));
        assert_eq!((tally.granted.len(), tally.in_progress), (1, CLAIMS - 1), "{}", fixture.name);
        assert_eq!(store.backend().calls(), CLAIMS, "{}", fixture.name);
        let record = fixture.store.lookup(&scope, &key).expect("a readable record").expect("a record");
        assert_eq!((Some(&record.token), record.attempt), (tally.granted.first(), 1), "{}", fixture.name);
    });
}

/// Case 7, for the other two states that a hot key is found in: each caller is answered with one call, and
/// nothing is written.
#[test]
fn a_thousand_claims_of_one_completed_or_misused_key_cost_one_backend_call_each_and_write_nothing() {
    const CLAIMS: usize = 1_000;
    on_every_backend(|fixture| {
        let mut random = Random::for_this_run();
        let store = watched(&fixture.store);
        let (scope, key) = (scope("tenant"), key("hot"));
        let claim = fixture.store.try_claim(&scope, &key, &asks_for("pay")).expect("an answer").claimed();
        claim.complete(reply("done")).expect("a claim that stands");
        let before = snapshot(fixture, &scope, &key);
        for (request, name) in [("pay", "completed"), ("other", "mismatch")] {
            let calls = store.backend().calls();
            let answers = race(&mut random, CLAIMS, |_| {
                store.try_claim(&scope, &key, &asks_for(request)).expect("an answer").name()
            });
            assert_eq!(answers, vec![name; CLAIMS], "{}", fixture.name);
            assert_eq!(store.backend().calls() - calls, CLAIMS, "{}", fixture.name);
            assert_eq!(snapshot(fixture, &scope, &key), before, "{}", fixture.name);
        }
    });
}
