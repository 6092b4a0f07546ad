//! Others who write to the file between a commit that failed and the look at what became of it: one owner
//! (case 48).

use crate::bench::{Bench, SCOPE, Setting, Stored, open, options, rival, shell};
use crate::commits::WAYS;
use crate::common::{Answer as _, asks_for, key, scope};
use crate::scenarios::{ALL, Answer, Scenario, try_claim};
use crate::vfs::{Fault, File, Operation};
use idempotency::{Claim, ClaimOutcome, Error, Reply, SqliteStore, State};
use rusqlite::Connection;
use std::sync::{Arc, Mutex};

/// All of them in company, which the rival is.
const SETTINGS: [Setting; 3] = [
    Setting::PLAIN,
    Setting { counter_is_ahead: true, ..Setting::PLAIN },
    Setting { checkpoint_after: 1, ..Setting::PLAIN },
];

/// Those after which "a" may be somebody else's.
fn contended() -> impl Iterator<Item = &'static Scenario> {
    let untouched = ["renew", "checkpoint", "complete", "forget", "sweep", "claim over an expired record"];
    ALL.iter().filter(move |scenario| !untouched.contains(&scenario.name))
}

/// What the rival was granted, as soon as it has asked.
type Asked = Arc<Mutex<Option<Option<Claim>>>>;

/// Has the rival, whose handle never waits, claim "a".
fn ask(rival: &SqliteStore, asked: &Asked) {
    let answer = rival.try_claim(&scope(SCOPE), &key("a"), &asks_for("x"));
    let claim = match answer {
        Ok(ClaimOutcome::Claimed(claim)) => Some(claim),
        Ok(_) | Err(Error::Busy(_)) => None,
        Err(error) => panic!("the rival's disk is sound: {error:?}"),
    };
    *asked.lock().expect("no panic") = Some(claim);
}

/// One owner at most: who was granted "a", or had its completion recorded, owns what the file has; and what
/// the rival was granted stands.
fn one_owner(bench: &Bench, answer: &Result<Answer, Error>, rivals: Option<&Claim>, context: &str) {
    let stored = bench.stored();
    assert_eq!(bench.stored_if_killed(), stored, "{context}");
    let record = stored.record("a");
    let is_ours = match answer {
        Ok(Answer::Granted(granted)) => granted.iter().any(|(name, ..)| *name == "a"),
        Ok(Answer::Completed(_) | Answer::StandsUntil(_)) => true,
        Ok(_) | Err(_) => false,
    };
    let Some(rivals) = rivals else { return };
    assert!(!is_ours, "{context}: and the rival was granted {:?}", rivals.token());
    let record = record.expect("the rival's");
    let its = (rivals.token(), rivals.attempt(), State::InProgress);
    assert_eq!((record.token, record.attempt, record.state), its, "{context}");
}

/// The rival comes once the failed commit has let go of the file, right before it is opened again.
#[test]
fn of_a_claim_whose_commit_failed_and_a_rival_that_came_before_the_settlement_one_is_the_owner() {
    for setting in SETTINGS {
        for scenario in ALL.iter().filter(|scenario| ["claim", "takeover"].contains(&scenario.name)) {
            for fault in [Fault::of(&[Operation::Write], File::Wal), Fault::of(&[Operation::Sync], File::Wal)]
            {
                let bench = Bench::new(setting);
                let claim = scenario.prepare(&bench);
                let (rival, asked) = (bench.rival(), Asked::default());
                bench.disk.before_the_next_open({
                    let (rival, asked) = (rival.clone(), Arc::clone(&asked));
                    move || ask(&rival, &asked)
                });
                bench.disk.fail(fault);
                let answer = scenario.run(&bench, claim);
                assert_eq!(bench.disk.heal().failed(), 1);
                let context = format!("{}, {setting:?}, {fault:?}: {answer:?}", scenario.name);
                let rivals = asked.lock().expect("no panic").take().expect("it has asked");
                let rivals = rivals.expect("nobody else has it");
                one_owner(&bench, &answer, Some(&rivals), &context);
                let error = answer.expect_err("the rival has it");
                assert!(!error.is_indefinite(), "{context}");
                rivals.release().expect("held");
            }
        }
    }
}

/// Once the token counter is ahead of the clock, two who did not hear of each other draw the same number.
#[test]
fn a_rival_that_drew_the_very_same_token_is_not_taken_for_the_claim_whose_commit_failed() {
    let setting = Setting { counter_is_ahead: true, ..Setting::IN_COMPANY };
    let bench = Bench::new(setting);
    let (rival, asked) = (bench.rival(), Asked::default());
    bench.disk.before_the_next_open({
        let (rival, asked) = (rival.clone(), Arc::clone(&asked));
        move || ask(&rival, &asked)
    });
    let doomed = bench.stored_counter().map(|last| last + 1);
    bench.disk.fail(Fault::of(&[Operation::Write], File::Wal));
    let refused = bench.store.try_claim(&scope(SCOPE), &key("a"), &asks_for("x"));
    bench.disk.heal();
    let rivals = asked.lock().expect("no panic").take().expect("it has asked").expect("it was granted");
    assert_eq!(Some(rivals.token().get()), doomed, "the number that the failed claim had drawn");
    assert!(refused.is_err_and(|error| !error.is_indefinite()));
    assert!(rivals.complete(Reply::Marker).is_ok());
}

/// Wherever the rival comes, before and after the fault: it is granted what is free then, and finds the file
/// locked or the claim taken otherwise.
#[test]
fn of_an_operation_whose_commit_failed_and_a_rival_that_comes_at_any_time_one_is_the_owner() {
    for setting in SETTINGS {
        let mut granted = 0;
        for scenario in contended() {
            for nth in 1.. {
                let (bench, asked) = (Bench::new(setting), Asked::default());
                let claim = scenario.prepare(&bench);
                let rival = bench.rival();
                bench.disk.fail(Fault::of(&[Operation::Sync], File::Wal));
                bench.disk.before_operation(nth, {
                    let (rival, asked) = (rival.clone(), Arc::clone(&asked));
                    move || ask(&rival, &asked)
                });
                let answer = scenario.run(&bench, claim);
                bench.disk.heal();
                let Some(rivals) = asked.lock().expect("no panic").take() else { break };
                let context = format!("{}, {setting:?}, rival at {nth}: {answer:?}", scenario.name);
                one_owner(&bench, &answer, rivals.as_ref(), &context);
                granted += usize::from(rivals.is_some());
            }
        }
        assert!(granted >= contended().count(), "the rival was granted {granted} claims");
    }
}

/// An owner that does not know yet whether it is one, and a rival that asks meanwhile.
#[test]
fn of_a_claim_that_is_indefinite_and_a_rival_that_comes_meanwhile_one_is_the_owner() {
    for setting in SETTINGS {
        for fault in WAYS {
            let (bench, asked) = (Bench::new(setting), Asked::default());
            let rival = bench.rival();
            bench.disk.fail(fault.lasting());
            let answer = try_claim(&bench, "a");
            let context = format!("{setting:?}, {fault:?}: {answer:?}");
            assert!(answer.as_ref().is_err_and(Error::is_indefinite), "{context}");
            ask(&rival, &asked);
            bench.disk.heal();
            let rivals = asked.lock().expect("no panic").take().expect("it has asked");
            let again = try_claim(&bench, "a").expect("the disk works again");
            assert_eq!(again, Answer::Refused, "{context}: it is in progress, whoever owns it");
            one_owner(&bench, &Ok(again), rivals.as_ref(), &context);
        }
    }
}

#[test]
fn a_settlement_that_finds_the_file_locked_is_indefinite_and_made_up_for_by_the_next_call() {
    for setting in SETTINGS {
        for fault in WAYS {
            let bench = Bench::new(setting);
            let locked: Arc<Mutex<Option<Connection>>> = Arc::default();
            bench.disk.before_the_next_open({
                let (locked, other) = (Arc::clone(&locked), shell(&bench.path));
                move || {
                    other.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
                    *locked.lock().expect("no panic") = Some(other);
                }
            });
            bench.disk.fail(fault);
            let doubtful = try_claim(&bench, "a").expect_err("its commit has failed");
            assert_eq!(bench.disk.heal().failed(), 1, "{setting:?}, {fault:?}");
            assert!(doubtful.is_indefinite(), "{setting:?}, {fault:?}: {doubtful:?}");
            drop(locked.lock().expect("no panic").take().expect("it was locked"));
            let seen = bench.seen();
            assert_eq!(bench.stored_if_killed(), seen, "{setting:?}, {fault:?}");
            let expected = if seen.record("a").is_some() { "in progress" } else { "claimed" };
            let again = bench.store.try_claim(&scope(SCOPE), &key("a"), &asks_for("x")).expect("a store");
            assert_eq!(again.name(), expected, "{setting:?}, {fault:?}");
        }
    }
}

/// The second fails, and is settled, before the first is.
#[test]
fn of_two_claims_whose_commits_failed_one_upon_the_other_none_is_there_and_none_comes_back() {
    for setting in SETTINGS {
        for fault in WAYS {
            let bench = Bench::new(setting);
            let second = open(&bench.path, options(&bench.disk, &bench.clock, setting)).expect("the store");
            let refused = Arc::new(Mutex::new(None));
            bench.disk.before_the_next_open({
                let refused = Arc::clone(&refused);
                move || {
                    let answer = second.try_claim(&scope(SCOPE), &key("a"), &asks_for("x"));
                    *refused.lock().expect("no panic") = answer.err().map(|error| (error, second));
                }
            });
            bench.disk.fail(fault.times(2));
            let first = try_claim(&bench, "a").expect_err("its commit has failed");
            assert_eq!(bench.disk.heal().failed(), 2, "{setting:?}, {fault:?}");
            let (error, second) = refused.lock().expect("no panic").take().expect("its commit has failed");
            assert!(!first.is_indefinite() && !error.is_indefinite(), "{setting:?}, {first:?}, {error:?}");
            assert_eq!(bench.stored_if_killed().record("a"), None, "{setting:?}, {fault:?}");
            let granted = second.try_claim(&scope(SCOPE), &key("a"), &asks_for("x")).expect("a sound disk");
            assert_eq!(granted.claimed().attempt(), 1);
            assert_eq!(try_claim(&bench, "a").expect("a sound disk"), Answer::Refused);
        }
    }
}

/// A look that fails has its connection closed; the next one opens another.
fn close_the_connection_that_reads(bench: &Bench) {
    bench.forget_pages();
    bench.disk.fail(Fault::of(&[Operation::Read], File::Main));
    let looked = bench.store.lookup(&scope(SCOPE), &key("a"));
    assert_eq!(bench.disk.heal().failed(), 1);
    assert!(looked.is_err(), "{looked:?}");
    // A log that begins anew is synced first, and the fault is meant for a commit.
    shell(&bench.path)
        .execute_batch("UPDATE idempotency_meta SET last_token = last_token + 1")
        .expect("somebody else's commit");
}

/// A commit that failed comes to life when somebody opens the file whom its connection, closed on a failing
/// disk, has left the log to. What others have seen of it, and removed, was done.
fn removed_after_it_came_to_life(name: &str, remove: fn(&SqliteStore)) {
    let scenario = ALL.iter().find(|scenario| scenario.name == name).expect("a scenario");
    let bench = Bench::new(Setting::PLAIN);
    let claim = scenario.prepare(&bench);
    // It would hold the log open, and then nothing of it comes to life.
    close_the_connection_that_reads(&bench);
    let before = bench.stored();
    let found = Arc::new(Mutex::new(None));
    bench.disk.before_the_next_open({
        let (found, path, clock) = (Arc::clone(&found), bench.path.clone(), bench.clock.clone());
        move || {
            *found.lock().expect("no panic") = Some(Stored::if_killed(&path));
            remove(&rival(&path, &clock));
        }
    });
    bench.disk.fail(Fault::of(&[Operation::Sync], File::Wal).times(2));
    let answer = scenario.run(&bench, claim);
    assert_eq!(bench.disk.heal().failed(), 2, "the commit, and what closing the connection does");
    let found = found.lock().expect("no panic").take().expect("it was opened again");
    assert!(scenario.answer(&before, &found).is_some(), "{name} came to life: {found:?}");
    let is_indefinite = answer.as_ref().is_err_and(Error::is_indefinite);
    assert!(is_indefinite, "{name} was done, and is gone: {answer:?}");
}

#[test]
fn a_completion_that_came_to_life_and_was_forgotten_by_a_rival_is_not_called_undone() {
    removed_after_it_came_to_life("complete", |rival| {
        let replay = rival.try_claim(&scope(SCOPE), &key("a"), &asks_for("x")).expect("a sound disk");
        assert_eq!(replay.name(), "completed");
        assert!(rival.forget(&scope(SCOPE), &key("a")).expect("a sound disk"));
    });
}

#[test]
fn a_release_that_came_to_life_and_was_followed_by_a_rivals_claim_is_not_called_undone() {
    removed_after_it_came_to_life("release", |rival| {
        let anew = rival.try_claim(&scope(SCOPE), &key("a"), &asks_for("x")).expect("a sound disk");
        assert_eq!(anew.claimed().attempt(), 1);
    });
}
