//! Callers that come together share a commit, and what becomes of it: nobody of a batch is acknowledged whose
//! commit fails.

use crate::bench::{Bench, SCOPE, Setting};
use crate::commits::WAYS;
use crate::common::{asks_for, key, scope};
use crate::vfs::{Disk, Fault, File, Operation};
use idempotency::{Claim, ClaimOutcome, Error, IdempotencyStore, SqliteBackend, SqliteOptions, SqliteStore};
use std::sync::Barrier;
use std::thread;

const CALLERS: usize = 16;
/// How often it is tried to have callers meet. On an idle machine, they do the first time.
const ROUNDS: usize = 200;

fn name(caller: usize) -> String {
    format!("caller {caller}")
}

/// What all callers are answered who claim at once, each a key of its own.
fn claim_at_once(store: &SqliteStore) -> Vec<Result<Claim, Error>> {
    let ready = Barrier::new(CALLERS);
    thread::scope(|callers| {
        let claim = |caller| {
            let ready = &ready;
            callers.spawn(move || {
                ready.wait();
                store.try_claim(&scope(SCOPE), &key(&name(caller)), &asks_for("x")).map(|outcome| {
                    match outcome {
                        ClaimOutcome::Claimed(claim) => claim,
                        other => panic!("nobody else has this key: {other:?}"),
                    }
                })
            })
        };
        let callers: Vec<_> = (0..CALLERS).map(claim).collect();
        callers.into_iter().map(|caller| caller.join().expect("no panic")).collect()
    })
}

#[test]
fn a_commit_that_fails_acknowledges_none_of_those_who_shared_it() {
    // Whoever comes first has a commit of its own, of eight writes and a sync. The next is shared.
    for (fault, in_the_second) in WAYS.into_iter().zip([12, 2, 12]) {
        let shared = (0..ROUNDS).any(|round| {
            let bench = Bench::new(Setting::IN_COMPANY);
            bench.disk.fail(fault.from(in_the_second));
            let answers = claim_at_once(&bench.store);
            if bench.disk.heal().failed() == 0 {
                return false; // all of them met at once
            }
            let mut refused = 0;
            for (caller, answer) in answers.iter().enumerate() {
                let context = format!("round {round}, {fault:?}, caller {caller}: {answer:?}");
                match answer {
                    Ok(claim) => {
                        assert_eq!(bench.stored_token(&name(caller)), Some(claim.token().get()), "{context}");
                    }
                    Err(error) => {
                        assert!(!error.is_indefinite(), "it was found out: {context}");
                        assert_eq!(bench.stored_token(&name(caller)), None, "{context}");
                        refused += 1;
                    }
                }
            }
            assert!(refused > 0, "round {round}, {fault:?}: somebody's commit has failed");
            refused > 1
        });
        assert!(shared, "{fault:?}: no two callers met in {ROUNDS} rounds");
    }
}

#[test]
fn commits_that_fail_for_long_acknowledge_nobody_and_the_store_works_again_afterwards() {
    for fault in WAYS {
        let bench = Bench::new(Setting::IN_COMPANY);
        bench.disk.fail(fault.lasting());
        for (caller, answer) in claim_at_once(&bench.store).into_iter().enumerate() {
            assert!(answer.is_err(), "{fault:?}, caller {caller}: {answer:?}");
        }
        assert!(bench.disk.heal().failed() > 0, "{fault:?}");
        for (caller, answer) in claim_at_once(&bench.store).into_iter().enumerate() {
            let claim = answer.expect("a sound disk");
            let stored = bench.stored_token(&name(caller));
            assert_eq!(stored, Some(claim.token().get()), "{fault:?}, caller {caller}");
        }
    }
}

#[test]
fn callers_that_come_together_share_syncs_and_one_that_is_alone_has_its_own() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let disk = Disk::new();
    let options = SqliteOptions::new().with_vfs(disk.vfs());
    let backend = SqliteBackend::open(folder.path().join("store.db"), options).expect("a fresh store");
    let store = IdempotencyStore::new(backend);
    let syncs_of = |call: &dyn Fn()| {
        disk.fail(Fault::none());
        call();
        disk.heal().count(Operation::Sync, File::Wal)
    };
    let alone = |key_name: &str| {
        let outcome = store.try_claim(&scope(SCOPE), &key(key_name), &asks_for("x")).expect("a sound disk");
        assert!(matches!(outcome, ClaimOutcome::Claimed(_)), "{outcome:?}");
    };
    assert_eq!(syncs_of(&|| alone("first")), 1);
    assert_eq!(syncs_of(&|| alone("second")), 1);
    let shared = (0..ROUNDS).any(|_| {
        let syncs = syncs_of(&|| {
            for answer in claim_at_once(&store) {
                answer.expect("a sound disk").release().expect("held");
            }
        });
        // Each caller is released by itself, one after the other.
        let claiming = syncs.checked_sub(CALLERS).expect("a sync for each release");
        assert!((1..=CALLERS).contains(&claiming), "{claiming}");
        claiming < CALLERS
    });
    assert!(shared, "no two callers met in {ROUNDS} rounds");
}
