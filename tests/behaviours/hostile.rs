//! What a client can get by asking: it chooses its keys and its requests, and never its scope. `SECURITY.md`
//! names these tests.

use crate::common::{Answer, Fixture, asks_for, key, on_every_backend, scope, secs};
use idempotency::{
    Claim, ClaimOutcome, IdempotencyStore, ManualClock, MemoryBackend, MemoryOptions, Record, Reply,
    StoredResponse,
};

const SECRET: &[u8] = b"card 4242, refunded to account 17";

fn reply() -> Reply {
    StoredResponse::new(201).with_header("location", "/payments/17").with_body(SECRET).into()
}

fn claim(fixture: &Fixture, name: &str) -> Claim {
    fixture.store.try_claim(&scope("victim"), &key(name), &asks_for("pay")).expect("an answer").claimed()
}

/// The victim's records: completed, in progress, lapsed, and one with a checkpoint.
fn victims(fixture: &Fixture) -> Vec<&'static str> {
    let claim = |name| claim(fixture, name);
    claim("completed").complete(reply()).expect("held");
    claim("lapsed").abandon().expect("held");
    claim("saved").save_checkpoint(SECRET).expect("held");
    let _runs = claim("runs");
    vec!["completed", "lapsed", "saved", "runs"]
}

fn records(fixture: &Fixture, names: &[&str]) -> Vec<Record> {
    let record = |name: &&str| fixture.stored(&scope("victim"), &key(name)).expect("the victim's record");
    names.iter().map(record).collect()
}

#[test]
fn who_knows_another_tenants_key_and_request_is_answered_as_if_nobody_had_used_the_key() {
    on_every_backend(|fixture| {
        let names = victims(fixture);
        let before = records(fixture, &names);
        for name in &names {
            let guess = |name: &str| {
                let store = &fixture.store;
                let claim = store.try_claim(&scope("attacker"), &key(name), &asks_for("pay"));
                let claim = claim.expect("an answer").claimed();
                (claim.attempt(), claim.checkpoint().cloned(), claim.lease_until())
            };
            let unused = guess(&format!("{name}, unused"));
            assert_eq!(guess(name), unused, "{}, {name}: no sign of the victim's record", fixture.name);
            let seen = fixture.store.lookup(&scope("attacker"), &key(name)).expect("an answer");
            assert_eq!(seen.and_then(|record| record.reply), None, "{}, {name}", fixture.name);
        }
        assert_eq!(records(fixture, &names), before, "{}: the victim's stay as they are", fixture.name);
    });
}

#[test]
fn what_an_attacker_does_with_its_own_records_reaches_nobody_elses() {
    on_every_backend(|fixture| {
        let names = victims(fixture);
        let before = records(fixture, &names);
        for name in &names {
            let claim = |name| {
                let claim = fixture.store.try_claim(&scope("attacker"), &key(name), &asks_for("pay"));
                claim.expect("an answer").claimed()
            };
            claim(name).release().expect("held");
            claim(name).complete(Reply::Marker).expect("held");
            assert!(fixture.store.forget(&scope("attacker"), &key(name)).expect("an answer"));
        }
        assert_eq!(records(fixture, &names), before, "{}", fixture.name);
    });
}

/// Inside one scope, a guessed key is worth nothing without the very same request: the answer is the same whatever is
/// behind it.
#[test]
fn who_reuses_a_key_for_another_request_hears_when_it_was_claimed_and_nothing_of_the_reply() {
    on_every_backend(|fixture| {
        let steal = |name| {
            let answer = fixture.store.try_claim(&scope("victim"), &key(name), &asks_for("steal"));
            match answer.expect("an answer") {
                ClaimOutcome::FingerprintMismatch(found) => found,
                other => panic!("{}, {name}: {other:?}", fixture.name),
            }
        };
        victims(fixture);
        claim(fixture, "nothing to tell").complete(Reply::Marker).expect("held");
        assert_eq!(steal("completed"), steal("nothing to tell"), "{}", fixture.name);
        claim(fixture, "nothing saved").abandon().expect("held");
        assert_eq!(steal("saved"), steal("nothing saved"), "{}", fixture.name);
        assert_eq!(steal("runs"), steal("lapsed"), "{}", fixture.name);
    });
}

#[test]
fn a_client_that_floods_a_full_memory_store_is_refused_and_evicts_nothing_of_the_others() {
    let clock = ManualClock::new(crate::common::START);
    let options = MemoryOptions::new().with_clock(clock.clone()).with_max_records(100);
    let store = IdempotencyStore::new(MemoryBackend::new(options));
    let pay = |who: &str, name: &str| store.try_claim(&scope(who), &key(name), &asks_for("pay"));
    pay("victim", "completed").expect("room").claimed().complete(reply()).expect("held");
    let running = pay("victim", "runs").expect("room").claimed();

    let answers = (0..10_000).map(|number| pay("attacker", &format!("{number}")));
    let refused = answers.filter(|answer| matches!(answer, Err(idempotency::Error::Full(_)))).count();
    assert_eq!(refused, 10_000 - 98, "there was room for 98");

    assert_eq!(pay("victim", "completed").expect("an answer").completed().reply, reply());
    assert_eq!(pay("victim", "runs").expect("an answer").name(), "in progress");
    running.complete(reply()).expect("what exists is completed in a full store, too");
    // What the flood took is given back when its retention is over, and by nothing else.
    clock.advance(secs(90 + 24 * 60 * 60));
    assert_eq!(pay("victim", "next").expect("room").name(), "claimed");
}
