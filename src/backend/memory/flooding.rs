//! Clients choose the keys. Whether they can choose where a key lies is decided by the hash alone, so it is
//! looked at here and not through the store.

use super::{MemoryBackend, MemoryOptions};
use crate::key::{IdempotencyKey, RecordId, Scope};
use std::collections::HashSet;

/// As many as an attacker would try to find enough that lie together.
const TRIED: u32 = 1 << 18;
/// The bits that a small table and its shard go by.
const PLACE: u64 = (7 << 32) | 0x1ff;

fn id(number: u32) -> RecordId {
    let scope = Scope::new("acct_1").expect("a scope");
    RecordId::new(scope, IdempotencyKey::new(format!("key-{number}")).expect("a key"))
}

/// How many of `ids` lie in the fullest place of `backend`.
fn most_together(backend: &MemoryBackend, ids: &[RecordId]) -> usize {
    let mut places: Vec<u64> = ids.iter().map(|id| backend.hash(id) & PLACE).collect();
    places.sort_unstable();
    places.chunk_by(|one, other| one == other).map(<[u64]>::len).max().unwrap_or(0)
}

#[test]
fn keys_that_lie_together_under_a_known_seed_are_spread_in_a_store_of_the_default_options() {
    let known = MemoryBackend::new(MemoryOptions::new().with_hash_seed(1, 2));
    let place = known.hash(&id(0)) & PLACE;
    let chosen: Vec<RecordId> = (0..TRIED).map(id).filter(|id| known.hash(id) & PLACE == place).collect();
    assert!(chosen.len() >= 40, "{} found of the 64 that chance has there", chosen.len());
    assert_eq!(most_together(&known, &chosen), chosen.len(), "they do lie together there");

    let stores: Vec<_> = (0..10).map(|_| MemoryBackend::new(MemoryOptions::new())).collect();
    let hashes: HashSet<u64> = stores.iter().map(|store| store.hash(&id(0))).collect();
    assert_eq!(hashes.len(), stores.len(), "each has a key of its own");
    // Eight of some 64 in one place of 4,096 come once in 10¹⁵ stores.
    for store in &stores {
        let most = most_together(store, &chosen);
        assert!(most < 8, "{most} of {} in one place", chosen.len());
    }
}
