//! Threads that all want one key, beside one that sweeps.

use crate::arena::Arena;
use crate::dice::Dice;
use crate::explore::{Counts, explore};
use crate::soak::times;
use crate::terms::{LEASE, RETENTION, fingerprint, key, scope};
use idempotency::{Claim, ClaimOutcome};
use std::time::Duration;

/// What the threads of one round came to.
struct Round {
    winner: Claim,
    refused: usize,
    removed: usize,
}

fn round(arena: &Arena, threads: usize) -> Round {
    let answers = arena.at_once(threads, |number, store| {
        if number == 0 {
            return Err(store.sweep(1).expect("a sweep").removed);
        }
        Ok(store.try_claim(&scope(), &key("key"), &fingerprint()).expect("an answer"))
    });
    let (mut winners, mut refused, mut removed) = (Vec::new(), 0, 0);
    for answer in answers {
        match answer {
            Ok(ClaimOutcome::Claimed(claim)) => winners.push(claim),
            Ok(ClaimOutcome::InProgress(_)) => refused += 1,
            Ok(other) => panic!("{other:?}"),
            Err(swept) => removed += swept,
        }
    }
    assert_eq!(winners.len(), 1, "{threads} threads: {winners:?}");
    let winner = winners.remove(0);
    let record = arena.store().lookup(&scope(), &key("key")).expect("a look-up");
    let stands = record.map(|record| record.token);
    assert_eq!(stands, Some(winner.token()), "{threads} threads: {removed} swept");
    Round { winner, refused, removed }
}

/// The key is free, then its claim lapsed, then expired: each time one is granted it, and what is granted stands.
fn claimed_three_times(dice: &mut Dice) -> Counts {
    let arena = Arena::new();
    let threads = dice.between(4, 8);
    let mut counts = Counts::new();
    for (passes, attempt) in [(Duration::ZERO, 1), (LEASE, 2), (LEASE + RETENTION, 1)] {
        arena.clock.advance(passes);
        let Round { winner, refused, removed } = round(&arena, threads);
        assert_eq!(winner.attempt(), attempt, "{threads} threads: {removed} swept");
        *counts.entry("claims refused").or_default() += refused;
        *counts.entry("sweeps before the claim").or_default() += removed;
    }
    counts
}

/// Cases 1, 13 and 18.
#[test]
fn of_threads_that_claim_a_free_a_lapsed_or_an_expired_key_beside_a_sweep_one_is_granted_it() {
    let each = times(30_000);
    let happened = explore("one key", each, claimed_three_times);
    // Twice as many interleavings, with 2 to 6 that are refused, three times each.
    assert!(happened["claims refused"] >= 20 * each, "{happened:?}");
    // Sweep and claim meet in both orders.
    let first = happened["sweeps before the claim"];
    assert!((each / 20..each).contains(&first), "{happened:?}");
}
