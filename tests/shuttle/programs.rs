//! Threads that draw what they do to a few keys: the programs and the checker of the tests with threads of the
//! machine.

use crate::arena::Arena;
use crate::checker::What;
use crate::dice::Dice;
use crate::explore::{Counts, explore};
use crate::history;
use crate::soak::times;

/// How many calls a thread makes: shuttle draws where each is interrupted.
const CALLS: usize = 10;

fn a_program(dice: &mut Dice) -> Counts {
    let arena = Arena::new();
    let threads = dice.between(4, 8);
    // No answer is lost: the checker knows too little of calls that overlap as much as here to tell who was granted what.
    let seen = history::of(&arena, threads, CALLS, 0, false, dice);
    history::check(&format!("{threads} threads"), &arena, 0, &seen);
    let mut counts = Counts::new();
    for seen in &seen {
        let what = match seen.what {
            What::Granted { attempt: 1, .. } => "first claims",
            What::Granted { .. } => "takeovers",
            What::Extended { .. } => "renewals and checkpoints",
            What::Recorded { .. } => "completions",
            What::Replayed { .. } => "replays",
            What::GivenUp { .. } => "ends",
            What::Forgotten => "forgotten records",
            What::Lost { .. } => "lost claims",
            _ => "others",
        };
        *counts.entry(what).or_default() += 1;
    }
    counts
}

/// Cases 9, 13 and 14.
#[test]
fn whatever_threads_do_only_the_newest_claim_writes_and_what_it_records_is_replayed() {
    let each = times(12_000);
    let happened = explore("programs", each, a_program);
    assert_eq!(happened.len(), 9, "{happened:?}");
    for (what, often) in happened {
        assert!(often >= each / 10, "{what} happened only {often} times");
    }
}
