//! Cases 1 and 50: many processes open the same fresh file at once, and claim on it.

use crate::common::{asks_for, key, scope};
use crate::crew::{Child, Parent, alone, release};
use crate::seed;
use crate::soak::times;
use idempotency::{ClaimOutcome, Error, IdempotencyStore};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const PROCESSES: usize = 20;
const FILES: usize = 20;
/// So that four processes claim each key.
const KEYS: usize = 5;

#[test]
fn of_twenty_processes_that_open_a_fresh_file_at_once_all_succeed_and_each_key_has_one_winner() {
    if let Some(parent) = Parent::of_this_process() {
        return open_and_claim(&parent);
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let this = of_twenty_processes_that_open_a_fresh_file_at_once_all_succeed_and_each_key_has_one_winner;
    let mut crew = Child::start_many(&this, PROCESSES, folder.path(), seed::seed());
    let mut errors = Vec::new();
    let files = times(FILES);
    for round in 0..files {
        crew.iter_mut().for_each(|child| child.tell(format!("{round}.db")));
        release(&mut crew);
        let mut answers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for child in &crew {
            let line = child.hear();
            let (key, answer) = line.split_once(' ').expect("a key and an answer");
            answers.entry(key.to_owned()).or_default().push(answer.to_owned());
        }
        assert_eq!(answers.values().map(Vec::len).collect::<Vec<_>>(), [PROCESSES / KEYS; KEYS]);
        for (key, answers) in answers {
            let (won, others): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer == "won");
            let failed: Vec<_> = others.into_iter().filter(|answer| answer != "lost").collect();
            // An error grants nothing, so somebody may be missing; nobody may win beside another.
            assert!(
                won.len() <= 1 && (won.len() == 1 || !failed.is_empty()),
                "round {round}, {key}: {won:?}"
            );
            errors.extend(failed);
        }
    }
    let kinds: BTreeSet<_> = errors.iter().collect();
    assert!(errors.is_empty(), "{} of {} failed: {kinds:?}", errors.len(), PROCESSES * files);
    println!(
        "{PROCESSES} processes opened {files} fresh files at once, {} times without error",
        PROCESSES * files
    );
    assert_eq!(crew.into_iter().map(Child::hear_out).collect::<Vec<_>>(), [[""; 0]; PROCESSES]);
}

fn open_and_claim(parent: &Parent) {
    let mut round = 0;
    while let Some(file) = parent.order() {
        let key = format!("key {}", (parent.number + round) % KEYS);
        parent.wait();
        // Closed again before the answer is given.
        let answer = match claim(&parent.file.join(file), &key) {
            Ok(ClaimOutcome::Claimed(claim)) if claim.attempt() == 1 => "won".to_owned(),
            Ok(ClaimOutcome::InProgress(other)) if other.attempt == 1 => "lost".to_owned(),
            other => format!("{other:?}"),
        };
        parent.hears(format!("{} {answer}", key.replace(' ', "-")));
        round += 1;
    }
}

fn claim(file: &Path, name: &str) -> Result<ClaimOutcome, Error> {
    IdempotencyStore::open(file)?.try_claim(&scope("tenant"), &key(name), &asks_for("it"))
}
