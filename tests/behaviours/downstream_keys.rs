//! What is sent to the next provider: the same for every attempt, different for everything else, readable by
//! any provider.

use crate::common::{Answer, asks_for, key, on_every_backend, scope};
use crate::keys_and_fingerprints::PART_LISTS;
use idempotency::{Fingerprint, IdempotencyKey, IdempotencyStore, MemoryStore, Scope};
use std::cell::RefCell;
use std::collections::HashSet;

fn downstream(
    store: &MemoryStore,
    label: &str,
    tenant: &Scope,
    name: &IdempotencyKey,
    request: &Fingerprint,
) -> String {
    let claim = store.try_claim(tenant, name, request).expect("an answer").claimed();
    let derived = claim.downstream_key(label);
    claim.release().expect("an end");
    derived
}

#[test]
fn every_attempt_every_handle_and_every_store_derive_the_same_key() {
    let derived = RefCell::new(HashSet::new());
    on_every_backend(|fixture| {
        let (tenant, name, request) = (scope("acct_1"), key("k"), asks_for("pay"));
        for attempt in 1..=3 {
            let claim = fixture.store.try_claim(&tenant, &name, &request).expect("an answer").claimed();
            assert_eq!(claim.attempt(), attempt);
            let of_ticket = claim.ticket().downstream_key("charge");
            assert_eq!(claim.downstream_key("charge"), of_ticket);
            derived.borrow_mut().insert(of_ticket);
            let resumed = fixture.store.resume(claim.into_ticket()).expect("a claim");
            derived.borrow_mut().insert(resumed.downstream_key("charge"));
            resumed.abandon().expect("an end");
        }
        fixture.at(100 * 24 * 3600);
        let fresh = fixture.store.try_claim(&tenant, &name, &request).expect("an answer").claimed();
        assert_eq!(fresh.attempt(), 1, "the record before has expired");
        derived.borrow_mut().insert(fresh.downstream_key("charge"));
    });
    assert_eq!(derived.borrow().len(), 1, "{derived:?}");
}

/// Case 33.
#[test]
fn parts_that_run_into_one_another_derive_keys_of_their_own() {
    let store = IdempotencyStore::in_memory();
    let (tenant, name, request) = (scope("s"), key("k"), asks_for("pay"));
    let mut all = HashSet::new();
    let mut made = 0;
    let mut add = |derived: String| {
        made += 1;
        assert!(all.insert(derived), "two part lists derive one key");
    };
    for (first, second) in PART_LISTS {
        if let Ok(second) = IdempotencyKey::new(second) {
            add(downstream(&store, first, &tenant, &second, &request));
            if let Ok(first) = Scope::new(first) {
                add(downstream(&store, "label", &first, &second, &request));
            }
        }
        if let Ok(second) = Scope::new(second) {
            add(downstream(&store, first, &second, &name, &request));
        }
        let fields = Fingerprint::builder().field(first, second).finish();
        add(downstream(&store, "label", &tenant, &name, &fields));
    }
    assert_eq!(made, 7 + 5 + 7 + 9);
}

#[test]
fn label_scope_key_and_fingerprint_each_make_another_key() {
    let store = IdempotencyStore::in_memory();
    let labels = ["", "a", "b", "A", "a ", "\0", "ä", "charge"];
    let values = ["a", "b", "A", "a ", "ä"];
    let requests = [
        asks_for("a"),
        asks_for("b"),
        Fingerprint::from_bytes(*asks_for("a").digest()),
        Fingerprint::from_stored(0, *asks_for("a").digest()),
    ];
    let mut all = HashSet::new();
    for label in labels {
        for tenant in values.map(scope) {
            for name in values.map(key) {
                for request in &requests {
                    all.insert(downstream(&store, label, &tenant, &name, request));
                }
            }
        }
    }
    assert_eq!(all.len(), labels.len() * values.len() * values.len() * requests.len());
}

#[test]
fn any_provider_can_take_it_and_nobody_can_read_it() {
    let store = IdempotencyStore::in_memory();
    let long = "secret".repeat(42);
    for (label, tenant, name) in
        [("", "t", "k"), ("charge", "tenant", "name"), (&*"l".repeat(10_000), &long, &long)]
    {
        let derived = downstream(&store, label, &scope(tenant), &key(name), &asks_for("pay"));
        assert!((1..=64).contains(&derived.len()), "{derived}");
        assert!(derived.bytes().all(|byte| byte.is_ascii_graphic()), "{derived}");
        // What separates or quotes in a header would end the key there.
        assert!(!derived.contains(['"', ',', ';', '\\']), "{derived}");
        for part in [label, tenant, name].into_iter().filter(|part| part.len() > 2) {
            assert!(!derived.contains(part), "{derived} shows {part}");
        }
        assert_eq!(IdempotencyKey::from_header(&derived).map(|key| key.as_str() == derived), Ok(true));
    }
}
