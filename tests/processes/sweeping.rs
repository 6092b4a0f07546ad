//! Case 13 across processes: sweeps beside claims and completions of what has just expired.

use crate::common::{START, asks_for, key, scope};
use crate::crew::{Child, Parent, alone, release};
use crate::report::reply_of;
use crate::seed;
use crate::worker::shuffled;
use idempotency::{
    ClaimOutcome, Durability, DynStore, FencingToken, IdempotencyStore, ManualClock, Policy, SqliteBackend,
    SqliteOptions, State, Timestamp,
};
use std::path::Path;
use std::time::Duration;

const SWEEPERS: usize = 1;
const CLAIMERS: usize = 5;
const KEYS: usize = 60;
const ROUNDS: u64 = 15;
const LEASE: Duration = Duration::from_secs(30);
const RETENTION: Duration = Duration::from_secs(60);

/// When the claims of the round before, completed or not, have just expired.
fn beginning(round: u64) -> Timestamp {
    let millis = (LEASE + RETENTION).as_millis() * u128::from(round);
    START.saturating_add(Duration::from_millis(u64::try_from(millis).expect("a short time")))
}

fn open(file: &Path) -> (DynStore, ManualClock) {
    let clock = ManualClock::new(START);
    let options = SqliteOptions::new().with_clock(clock.clone()).with_durability(Durability::Normal);
    let backend = SqliteBackend::open(file, options).expect("a store that opens");
    let policy = Policy::new().with_lease(LEASE).with_retention(RETENTION);
    (IdempotencyStore::new(backend).with_policy(policy).expect("a usable policy").erase(), clock)
}

#[test]
fn what_is_claimed_and_completed_anew_survives_the_sweeps_of_other_processes() {
    if let Some(parent) = Parent::of_this_process() {
        return if parent.number < SWEEPERS { sweep(&parent) } else { claim_and_complete(&parent) };
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("store.db");
    let (store, clock) = open(&file);
    let this = what_is_claimed_and_completed_anew_survives_the_sweeps_of_other_processes;
    let mut crew = Child::start_many(&this, SWEEPERS + CLAIMERS, &file, seed::seed());
    let mut removed = 0;
    for round in 0..ROUNDS {
        clock.set(beginning(round));
        release(&mut crew);
        let (sweepers, claimers) = crew.split_at(SWEEPERS);
        for sweeper in sweepers {
            removed += sweeper.hear().parse::<usize>().expect("a count");
        }
        let said: Vec<_> =
            claimers.iter().flat_map(|child| (0..KEYS / CLAIMERS).map(|_| child.hear())).collect();
        assert_eq!(said.len(), KEYS);
        for line in said {
            assert_found(&store, &line);
        }
    }
    let overwritten_or_removed = KEYS * usize::try_from(ROUNDS - 1).expect("a small number");
    println!("{removed} of {overwritten_or_removed} expired records were swept, the others claimed anew");
    assert!(0 < removed && removed < overwritten_or_removed, "sweeps and claims were to mix");
    assert_eq!(store.sweep(KEYS).expect("a sweep").removed, 0, "nothing has expired");
    for child in crew {
        assert_eq!(child.hear_out(), [""; 0]);
    }
}

/// One record at a time, so that there is always one more transaction for a claim to land before.
fn sweep(parent: &Parent) {
    let (store, clock) = open(&parent.file);
    for round in 0..ROUNDS {
        parent.wait();
        clock.set(beginning(round));
        let swept = (0..KEYS).map(|_| store.sweep(1).expect("a sweep").removed);
        parent.hears(swept.sum::<usize>());
    }
}

/// Claims its share of the keys, and completes every other one.
fn claim_and_complete(parent: &Parent) {
    let mut dice = parent.dice();
    let (store, clock) = open(&parent.file);
    for round in 0..ROUNDS {
        parent.wait();
        clock.set(beginning(round));
        let own =
            shuffled(KEYS, &mut dice).into_iter().filter(|key| key % CLAIMERS == parent.number % CLAIMERS);
        let mut done = Vec::new();
        for (number, completes) in own.zip([true, false].into_iter().cycle()) {
            let name = format!("key {number}");
            let answer = store.try_claim(&scope("tenant"), &key(&name), &asks_for("it")).expect("an answer");
            let ClaimOutcome::Claimed(claim) = answer else { panic!("round {round}, {name}: {answer:?}") };
            assert_eq!(claim.attempt(), 1, "round {round}, {name}");
            let token = claim.token();
            if completes {
                claim.complete(reply_of(token)).expect("a claim that stands");
            }
            done.push(format!("{number} {token} {completes}"));
        }
        done.iter().for_each(|line| parent.hears(line));
    }
}

/// What a claimer was told is what is stored.
#[track_caller]
fn assert_found(store: &DynStore, line: &str) {
    let words: Vec<_> = line.split(' ').collect();
    let [number, token, completed] = words.as_slice() else { panic!("{line}") };
    let token = FencingToken::new(token.parse().expect("a number")).expect("a token");
    let record = store.lookup(&scope("tenant"), &key(&format!("key {number}"))).expect("a look-up");
    let record = record.unwrap_or_else(|| panic!("swept: {line}"));
    assert_eq!(record.token, token, "{line}");
    let completed = *completed == "true";
    assert_eq!(record.state == State::Completed, completed, "{line}");
    assert_eq!(record.reply, completed.then(|| reply_of(token)), "{line}");
}
