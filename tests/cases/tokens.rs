//! Case 11: fencing tokens rise over the store's whole life, whatever happens to its records, its handles or
//! its file.

use crate::common::{Answer, Fixture, asks_for, key, on, on_every_backend, scope, secs};
use crate::support::{Random, race, reply};
use idempotency::{
    Claim, Clock, DynStore, Error, FencingToken, IdempotencyStore, MemoryBackend, MemoryOptions, SystemClock,
};
use std::collections::BTreeSet;

const HOUR: u64 = 3_600;

fn sweep(fixture: &Fixture) {
    assert_eq!(fixture.store.sweep_all().expect("a sweep").removed, 1, "{}", fixture.name);
}

/// What can become of a claim so that its key is free for the next, by name. The store has a retention of a
/// day.
type Way = (&'static str, fn(&mut Fixture, Claim));
const WAYS: [Way; 9] = [
    ("released", |_, claim| claim.release().expect("a claim that stands")),
    ("abandoned", |_, claim| claim.abandon().expect("a claim that stands")),
    ("lapsed", |fixture, claim| {
        drop(claim);
        fixture.clock.advance(secs(HOUR));
    }),
    ("forgotten", |fixture, claim| {
        assert!(fixture.store.forget(claim.scope(), claim.key()).expect("an answer"), "{}", fixture.name);
    }),
    ("expired", |fixture, claim| {
        drop(claim);
        fixture.clock.advance(secs(48 * HOUR));
    }),
    ("swept", |fixture, claim| {
        drop(claim);
        fixture.clock.advance(secs(48 * HOUR));
        sweep(fixture);
    }),
    ("completed and swept", |fixture, claim| {
        claim.complete(reply("done")).expect("a claim that stands");
        fixture.clock.advance(secs(48 * HOUR));
        sweep(fixture);
    }),
    ("completed and swept, and the store reopened", |fixture, claim| {
        claim.complete(reply("done")).expect("a claim that stands");
        fixture.clock.advance(secs(48 * HOUR));
        sweep(fixture);
        fixture.reopen();
    }),
    ("released, and the store reopened with its clock stepped back to where it started", |fixture, claim| {
        claim.release().expect("a claim that stands");
        fixture.at(0);
        fixture.reopen();
    }),
];

#[test]
fn each_token_is_higher_than_all_before_whatever_became_of_the_claim_and_the_claim_before_it() {
    on_every_backend(|fixture| {
        let (scope, key, pay) = (scope("tenant"), key("k"), asks_for("pay"));
        let mut last = None;
        for before in &WAYS {
            for (way, goes) in [before].into_iter().chain(&WAYS) {
                let claim = fixture.store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
                assert!(
                    Some(claim.token()) > last,
                    "{}: {way}: {} after {last:?}",
                    fixture.name,
                    claim.token()
                );
                last = Some(claim.token());
                goes(fixture, claim);
            }
        }
    });
}

/// So that a file that came back from a backup, or a process that was started anew, is ahead of what was
/// granted before. The fixtures' own clocks show January 1970.
#[test]
fn tokens_start_at_the_machines_clock_and_not_at_the_stores() {
    let nanos_per_milli = 1_000_000;
    let before = SystemClock.now().as_millis() * nanos_per_milli;
    on_every_backend(|fixture| {
        let claim = fixture.store.try_claim(&scope("tenant"), &key("k"), &asks_for("pay"));
        let token = claim.expect("an answer").claimed().token();
        // The process' counter starts when the first store of this program in memory grants, which may have
        // been earlier.
        let day = 24 * 3_600 * 1_000 * nanos_per_milli;
        assert!(token.get() > before - day, "{}: {token} against {before}", fixture.name);
        #[cfg(feature = "sqlite")]
        assert!(
            fixture.path().is_none() || token.get() > before,
            "{}: {token} against {before}",
            fixture.name
        );
    });
}

#[test]
fn a_store_in_memory_that_is_made_anew_grants_higher_tokens_than_those_before_it_and_those_that_still_live() {
    let (scope, key, pay) = (scope("tenant"), key("k"), asks_for("pay"));
    let token_of = |store: &DynStore| {
        let claim = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
        let token = claim.token();
        claim.release().expect("a claim that stands");
        token
    };
    let longest = IdempotencyStore::in_memory().erase();
    let mut last = token_of(&longest);
    for _ in 0..20 {
        let anew = IdempotencyStore::in_memory().erase();
        for store in [&anew, &longest, &anew] {
            let token = token_of(store);
            assert!(token > last, "{token} after {last}");
            last = token;
        }
    }
}

#[test]
fn threads_that_claim_many_keys_at_once_never_get_one_token_twice() {
    const THREADS: usize = 8;
    const CLAIMS_EACH: usize = 40;
    on_every_backend(|fixture| {
        let mut random = Random::for_this_run();
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        let tokens = race(&mut random, THREADS, |thread| {
            let claims = (0..CLAIMS_EACH).map(|number| {
                let key = key(&format!("{thread}/{}", number / 2));
                let claim = fixture.store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
                let token = claim.token();
                claim.abandon().expect("a claim that stands");
                token
            });
            claims.collect::<Vec<_>>()
        });
        assert!(
            tokens.iter().all(|own| own.is_sorted()),
            "{}: rising for each thread: {tokens:?}",
            fixture.name
        );
        let distinct: BTreeSet<_> = tokens.iter().flatten().collect();
        assert_eq!(distinct.len(), THREADS * CLAIMS_EACH, "{}", fixture.name);
    });
}

/// What a store does whose last token but one has just been granted to `claim`.
#[track_caller]
pub fn grants_one_more_and_then_none(fixture: &Fixture, store: &DynStore, claim: Claim) {
    let (scope, pay) = (claim.scope().clone(), asks_for("pay"));
    let (owned, last) = (claim.key().clone(), key("last"));
    let highest = store.try_claim(&scope, &last, &pay).expect("an answer").claimed();
    assert_eq!(highest.token().get(), i64::MAX);

    for _ in 0..2 {
        let refused = store.try_claim(&scope, &key("one too many"), &pay);
        assert!(matches!(refused, Err(Error::TokensExhausted)), "{refused:?}");
        assert_eq!(store.lookup(&scope, &key("one too many")).expect("an answer"), None);
    }
    let running = store.try_claim(&scope, &owned, &pay).expect("an answer that needs no token");
    assert_eq!(running.name(), "in progress");
    let mismatch =
        store.try_claim(&scope, &owned, &asks_for("other")).expect("an answer that needs no token");
    assert_eq!(mismatch.name(), "mismatch");

    fixture.clock.advance(secs(100));
    let before = store.lookup(&scope, &owned).expect("a readable record");
    let takeover = store.try_claim(&scope, &owned, &pay);
    assert!(matches!(takeover, Err(Error::TokensExhausted)), "{takeover:?}");
    assert_eq!(store.lookup(&scope, &owned).expect("a readable record"), before);
    let done = claim.complete(reply("done")).expect("a claim that nobody could take over");
    assert_eq!(
        store.try_claim(&scope, &owned, &pay).expect("an answer that needs no token").completed(),
        done
    );
    highest.release().expect("a claim that nobody could take over");
}

#[test]
fn tokens_that_are_exhausted_are_an_error_and_what_was_granted_can_still_be_completed() {
    let fixture = Fixture::in_memory();
    let first = FencingToken::new(i64::MAX - 1).expect("a token");
    let options = MemoryOptions::new().with_clock(fixture.clock.clone()).with_first_token(first);
    let store = on(MemoryBackend::new(options));
    let claim = store.try_claim(&scope("tenant"), &key("k"), &asks_for("pay")).expect("an answer").claimed();
    assert_eq!(claim.token(), first);
    grants_one_more_and_then_none(&fixture, &store, claim);
}
