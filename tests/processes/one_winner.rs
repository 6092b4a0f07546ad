//! Case 1 across processes: of those that claim a key, one is granted it.

use crate::crew::{Child, Parent, alone, release};
use crate::history::{Seen, Terms, What, check};
use crate::report::{id, parse_all};
use crate::seed;
use crate::worker::{Worker, open, shuffled};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

const PROCESSES: usize = 8;
const KEYS: usize = 1_000;
/// Nothing lapses and nothing expires meanwhile.
const TERMS: Terms = Terms { lease: Duration::from_secs(3_600), retention: Duration::from_secs(3_600) };

#[test]
fn of_eight_processes_that_claim_a_thousand_keys_each_key_has_one_winner_whose_reply_the_others_get() {
    if let Some(parent) = Parent::of_this_process() {
        return claim_all_and_complete_what_was_won(&parent);
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("store.db");
    let this =
        of_eight_processes_that_claim_a_thousand_keys_each_key_has_one_winner_whose_reply_the_others_get;
    let mut crew = Child::start_many(&this, PROCESSES, &file, seed::seed());
    release(&mut crew);
    let [claims, completions] =
        [release(&mut crew), release(&mut crew)].map(|said| parse_all(&said.concat()));
    let replays = parse_all(&crew.into_iter().flat_map(Child::hear_out).collect::<Vec<_>>());

    each_key_has_one_winner(&claims);
    assert_eq!(count(&completions, |what| matches!(what, What::Recorded { .. })), KEYS);
    let early = count(&completions, |what| matches!(what, What::Replayed { .. }));
    println!("{early} replays beside the completions");
    assert!((KEYS..PROCESSES * KEYS).contains(&early), "claims and completions were to mix");
    assert_eq!(count(&replays, |what| matches!(what, What::Replayed { .. })), PROCESSES * KEYS);

    let seen = [claims, completions, replays].concat();
    let ticks: HashSet<_> = seen.iter().flat_map(|seen| [seen.began, seen.ended]).collect();
    assert_eq!(ticks.len(), 2 * seen.len(), "each moment has a number of its own");
    let store = open(&file, TERMS);
    check("eight processes", TERMS, &seen, |key| {
        let left = store.lookup(&id(key).scope, &id(key).key).expect("a look-up");
        assert!(left.is_some(), "nothing has expired");
        left
    });
}

fn claim_all_and_complete_what_was_won(parent: &Parent) {
    let mut dice = parent.dice();
    let mut worker = Worker::new(parent, TERMS);
    worker.report_and_wait();
    for key in shuffled(KEYS, &mut dice) {
        worker.claim(key, 0);
    }
    worker.report_and_wait();
    let mut won = worker.granted.clone().into_iter();
    for key in shuffled(KEYS, &mut dice) {
        worker.claim(key, 0);
        // Faster than its even share, so that others have something to replay.
        for (key, token) in won.by_ref().take(2) {
            worker.complete(key, token);
        }
    }
    worker.report_and_wait();
    for key in shuffled(KEYS, &mut dice) {
        worker.claim(key, 0);
    }
    worker.report();
}

fn count(seen: &[Seen], what: impl Fn(&What) -> bool) -> usize {
    seen.iter().filter(|seen| what(&seen.what)).count()
}

#[track_caller]
fn each_key_has_one_winner(claims: &[Seen]) {
    let mut by_key: BTreeMap<usize, Vec<&What>> = BTreeMap::new();
    for seen in claims {
        by_key.entry(seen.key).or_default().push(&seen.what);
    }
    assert_eq!(by_key.len(), KEYS);
    for (key, answers) in by_key {
        let won = answers.iter().filter(|what| matches!(what, What::Granted { attempt: 1, .. })).count();
        let lost = answers.iter().filter(|what| matches!(what, What::Running { attempt: 1, .. })).count();
        assert_eq!((won, lost), (1, PROCESSES - 1), "key {key}: {answers:?}");
    }
}
