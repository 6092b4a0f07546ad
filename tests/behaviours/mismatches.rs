//! A key that is used for something else is found out on every path, and nothing is written by it.

use crate::common::{Answer, Fixture, asks_for, key, on_every_backend, scope, secs};
use idempotency::{
    Claim, ClaimOutcome, DynStore, Fingerprint, FingerprintMismatch, IdempotencyKey, State, StoredResponse,
};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

#[track_caller]
fn mismatch(answer: ClaimOutcome) -> FingerprintMismatch {
    assert_eq!(answer.suggested_status(), Some(422));
    match answer {
        ClaimOutcome::FingerprintMismatch(mismatch) => mismatch,
        other => panic!("wanted FingerprintMismatch, got {other:?}"),
    }
}

fn claim(fixture: &Fixture, name: &IdempotencyKey) -> Claim {
    fixture.store.try_claim(&scope("acct_1"), name, &asks_for("pay")).expect("an answer").claimed()
}

fn complete(claim: Claim) {
    claim.complete(StoredResponse::new(201)).expect("a completion");
}

/// A way that a record gets where it is, from second 0 on, under a lease of 90 s.
type Path = (&'static str, State, fn(&Fixture, &IdempotencyKey));

const PATHS: [Path; 11] = [
    ("in progress", State::InProgress, |fixture, name| drop(claim(fixture, name))),
    ("in progress, the last millisecond", State::InProgress, |fixture, name| {
        let deadline = claim(fixture, name).lease_until();
        fixture.clock.set(deadline.saturating_sub(Duration::from_millis(1)));
    }),
    ("renewed", State::InProgress, |fixture, name| {
        let mut claim = claim(fixture, name);
        fixture.at(89);
        claim.renew().expect("a renewal");
        fixture.at(100);
    }),
    ("with a checkpoint", State::InProgress, |fixture, name| {
        claim(fixture, name).save_checkpoint("half").expect("a checkpoint");
    }),
    ("lapsed", State::InProgress, |fixture, name| {
        drop(claim(fixture, name));
        fixture.at(90);
    }),
    ("taken over", State::InProgress, |fixture, name| {
        drop(claim(fixture, name));
        fixture.at(90);
        assert_eq!(claim(fixture, name).attempt(), 2);
    }),
    ("abandoned", State::InProgress, |fixture, name| claim(fixture, name).abandon().expect("an end")),
    ("released by a later attempt", State::InProgress, |fixture, name| {
        drop(claim(fixture, name));
        fixture.at(90);
        claim(fixture, name).release().expect("an end");
    }),
    ("completed", State::Completed, |fixture, name| complete(claim(fixture, name))),
    ("completed after its lease", State::Completed, |fixture, name| {
        let claim = claim(fixture, name);
        fixture.at(1_000);
        complete(claim);
    }),
    ("completed by a later attempt", State::Completed, |fixture, name| {
        claim(fixture, name).abandon().expect("an end");
        complete(claim(fixture, name));
    }),
];

/// Case 32.
#[test]
fn another_fingerprint_is_refused_on_every_path_until_the_record_has_expired() {
    on_every_backend(|fixture| {
        let tenant = scope("acct_1");
        for (path, state, set_up) in PATHS {
            let name = key(path);
            fixture.at(0);
            set_up(fixture, &name);
            assert_bound(fixture, &name, state, path);
            fixture.reopen();
            assert_bound(fixture, &name, state, path);

            let expires_at = fixture.stored(&tenant, &name).expect("a record").expires_at;
            fixture.clock.set(expires_at.saturating_sub(Duration::from_millis(1)));
            assert_bound(fixture, &name, state, path);
            fixture.clock.set(expires_at);
            let fresh =
                fixture.store.try_claim(&tenant, &name, &asks_for("other")).expect("an answer").claimed();
            assert_eq!((fresh.attempt(), fresh.checkpoint()), (1, None), "{}: as if new", fixture.name);
            let old = fixture.store.try_claim(&tenant, &name, &asks_for("pay")).expect("an answer");
            assert_eq!(mismatch(old).created_at, expires_at, "{}: bound to the new request", fixture.name);
        }
    });
}

#[track_caller]
fn assert_bound(fixture: &Fixture, name: &IdempotencyKey, state: State, path: &str) {
    let tenant = scope("acct_1");
    let before = fixture.stored(&tenant, name);
    let created_at = before.as_ref().expect("a record").created_at;
    let same_digest = Fingerprint::from_bytes(*asks_for("pay").digest());
    for (other, format_change) in [(asks_for("other"), false), (same_digest, true)] {
        let found = mismatch(fixture.store.try_claim(&tenant, name, &other).expect("an answer"));
        assert_eq!((found.state, found.created_at), (state, created_at), "{}, {path}", fixture.name);
        assert_eq!(found.is_format_change(), format_change, "{}, {path}", fixture.name);
        assert_eq!(fixture.stored(&tenant, name), before, "{}, {path}: nothing is written", fixture.name);
    }
}

/// Case 32: a key that is free again is free for any request.
#[test]
fn a_released_and_a_forgotten_key_take_another_fingerprint() {
    on_every_backend(|fixture| {
        let tenant = scope("acct_1");
        claim(fixture, &key("released")).release().expect("an end");
        complete(claim(fixture, &key("forgotten")));
        assert!(fixture.store.forget(&tenant, &key("forgotten")).expect("an answer"));
        for name in ["released", "forgotten"] {
            let other = asks_for("other");
            let fresh = fixture.store.try_claim(&tenant, &key(name), &other).expect("an answer").claimed();
            assert_eq!(fresh.attempt(), 1, "{}, {name}", fixture.name);
        }
    });
}

/// Case 32: the losers of the race for a new key, and of the race for a lapsed one.
#[test]
fn losing_a_race_to_another_request_is_a_mismatch_and_to_the_same_one_is_in_progress() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 40;
    on_every_backend(|fixture| {
        for round in 0..ROUNDS {
            let name = key(&format!("key-{round}"));
            let taken_over = round % 2 == 1;
            if taken_over {
                claim(fixture, &name).abandon().expect("an end");
            }
            let mut seen = race(&fixture.store, &name, THREADS);
            let wins = seen.iter().filter(|(_, answer)| *answer == "claimed").count();
            assert_eq!(wins, 1, "{}: {seen:?}", fixture.name);
            seen.sort_unstable();
            let winner = seen.iter().find(|(_, answer)| *answer == "claimed").map(|(request, _)| *request);
            for (request, answer) in &seen {
                let same = Some(*request) == winner;
                let wanted: &[_] = if same { &["claimed", "in progress"] } else { &["mismatch"] };
                assert!(wanted.contains(answer), "{}, round {round}: {seen:?}", fixture.name);
            }
            assert!(!taken_over || winner == Some("pay"), "a lapsed record is bound to its request");
        }
    });
}

/// Claims `name` from many threads at once, half of them for another request.
fn race(store: &DynStore, name: &IdempotencyKey, threads: usize) -> Vec<(&'static str, &'static str)> {
    let barrier = Barrier::new(threads);
    thread::scope(|threads_scope| {
        let racers: Vec<_> = (0..threads)
            .map(|number| {
                let barrier = &barrier;
                threads_scope.spawn(move || {
                    let what = if number % 2 == 0 { "pay" } else { "refund" };
                    let (tenant, request) = (scope("acct_1"), asks_for(what));
                    barrier.wait();
                    (what, store.try_claim(&tenant, name, &request).expect("an answer").name())
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().expect("no panic")).collect()
    })
}

/// Case 36.
#[test]
fn a_record_of_another_fingerprint_format_can_be_told_from_a_reused_key() {
    let digest = *asks_for("pay").digest();
    let formats = [0, 1, 2, 3, 127, 128, 254, 255];
    on_every_backend(|fixture| {
        let tenant = scope("acct_1");
        for stored in formats {
            let name = key(&format!("format-{stored}"));
            let old = Fingerprint::from_stored(stored, digest);
            complete(fixture.store.try_claim(&tenant, &name, &old).expect("an answer").claimed());
            fixture.reopen();
            for presented in formats.into_iter().filter(|format| *format != stored) {
                let new = Fingerprint::from_stored(presented, digest);
                let found = mismatch(fixture.store.try_claim(&tenant, &name, &new).expect("an answer"));
                assert!(found.is_format_change(), "{}", fixture.name);
                assert_eq!(
                    (found.stored_format, found.presented_format),
                    (stored, presented),
                    "{}",
                    fixture.name
                );
            }
            let other_digest = Fingerprint::from_stored(stored, [9; 32]);
            let found = mismatch(fixture.store.try_claim(&tenant, &name, &other_digest).expect("an answer"));
            assert!(!found.is_format_change(), "{}: the same format, another request", fixture.name);
            // So a program that has changed its fingerprint computes the old one and asks again.
            let replayed = fixture.store.try_claim(&tenant, &name, &old).expect("an answer").completed();
            assert_eq!(replayed.reply.response().map(StoredResponse::status), Some(201), "{}", fixture.name);
        }
    });
}

/// All 256 bits of the digest are compared, and the format beside them.
#[test]
fn a_fingerprint_that_differs_in_any_one_bit_is_another_one() {
    on_every_backend(|fixture| {
        let (tenant, name) = (scope("acct_1"), key("k"));
        let digest = [0b0101_1010; 32];
        let request = Fingerprint::from_bytes(digest);
        let _claim = fixture.store.try_claim(&tenant, &name, &request).expect("an answer").claimed();
        fixture.clock.advance(secs(90));
        for bit in 0..256 {
            let mut other = digest;
            other[bit / 8] ^= 1 << (bit % 8);
            let answer = fixture.store.try_claim(&tenant, &name, &Fingerprint::from_bytes(other));
            assert!(!mismatch(answer.expect("an answer")).is_format_change(), "{}, bit {bit}", fixture.name);
        }
        let taken_over = fixture.store.try_claim(&tenant, &name, &request).expect("an answer").claimed();
        assert_eq!(taken_over.attempt(), 2, "{}", fixture.name);
    });
}
