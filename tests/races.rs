//! Threads that race: on memory, on SQLite, and on two handles of one SQLite file.
//!
//! How many threads race and what they do is drawn from a seed that each test prints;
//! `IDEMPOTENCY_TEST_SEED=<number>` draws the same again. The order in which the threads run is the
//! machine's, so a failure may take several runs to come back.

#[path = "races/arena.rs"]
mod arena;
#[path = "common/history.rs"]
mod checker;
#[path = "common/dice.rs"]
mod dice;
#[path = "common/flaky.rs"]
#[expect(dead_code, reason = "what is refused is no part of a history")]
mod flaky;
#[path = "races/history.rs"]
mod history;
#[path = "common/seed.rs"]
mod seed;
#[path = "common/soak.rs"]
mod soak;
#[path = "races/terms.rs"]
mod terms;

use arena::{Arena, arenas};
use dice::Dice;
use idempotency::{Claim, ClaimOutcome, DynStore, Error, FencingToken, LostReason};
use std::collections::HashSet;
use terms::{LEASE, RETENTION, fingerprint, key, reply_of, scope};

fn claim(store: &DynStore, name: &str) -> ClaimOutcome {
    store.try_claim(&scope(), &key(name), &fingerprint()).expect("an answer")
}

#[track_caller]
fn granted(store: &DynStore, name: &str) -> Claim {
    match claim(store, name) {
        ClaimOutcome::Claimed(claim) => claim,
        other => panic!("{name}: {other:?}"),
    }
}

/// The one claim among the answers, after a look at the others: each must say that this very claim is in
/// progress.
#[track_caller]
fn only_winner(about: &str, answers: Vec<ClaimOutcome>) -> Claim {
    let (mut winners, mut running) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            ClaimOutcome::Claimed(claim) => winners.push(claim),
            ClaimOutcome::InProgress(other) => running.push((other.attempt, other.lease_until)),
            other => panic!("{about}: {other:?}"),
        }
    }
    assert_eq!(winners.len(), 1, "{about}: {} losers", running.len());
    let winner = winners.remove(0);
    assert!(
        running.iter().all(|seen| *seen == (winner.attempt(), winner.lease_until())),
        "{about}: {running:?}"
    );
    winner
}

/// Case 1.
#[test]
fn of_many_threads_that_claim_one_key_exactly_one_is_granted() {
    const ROUNDS: usize = 24;
    let mut dice = Dice::new(seed::seed());
    for arena in arenas() {
        let mut tokens = Vec::new();
        for round in 0..ROUNDS {
            let threads = dice.between(2, 32);
            let about = format!("{}, round {round}, {threads} threads", arena.name);
            let name = format!("key {round}");
            let answers = arena.at_once(threads, |_, store| claim(store, &name));
            assert_eq!(answers.len(), threads, "{about}");
            let winner = only_winner(&about, answers);
            assert_eq!(winner.attempt(), 1, "{about}");
            tokens.push(winner.token());
        }
        assert_rising(arena.name, &tokens);
        assert_eq!(tokens.len(), ROUNDS, "{}", arena.name);
    }
}

/// Case 18.
#[test]
fn of_many_threads_that_find_a_claim_lapsed_exactly_one_takes_over() {
    const ROUNDS: usize = 24;
    let mut dice = Dice::new(seed::seed());
    for arena in arenas() {
        let mut owner = granted(arena.store(), "key");
        for round in 0..ROUNDS {
            let threads = dice.between(2, 32);
            let about = format!("{}, round {round}, {threads} threads", arena.name);
            arena.clock.set(owner.lease_until());
            let next = only_winner(&about, arena.at_once(threads, |_, store| claim(store, "key")));
            assert_eq!(next.attempt(), owner.attempt() + 1, "{about}");
            assert_rising(&about, &[owner.token(), next.token()]);
            assert_eq!(lost(owner.renew().err()), LostReason::Running, "{about}");
            owner = next;
        }
    }
}

#[track_caller]
fn lost(error: Option<Error>) -> LostReason {
    match error {
        Some(Error::ClaimLost(reason)) => reason,
        other => panic!("wanted a lost claim, got {other:?}"),
    }
}

#[track_caller]
fn assert_rising(about: &str, tokens: &[FencingToken]) {
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{about}: {tokens:?}");
}

#[test]
fn tokens_granted_to_many_threads_are_unique_and_rise_for_each_of_them() {
    const KEYS: usize = 10;
    let mut dice = Dice::new(seed::seed());
    for arena in arenas() {
        let threads = dice.between(2, 32);
        let tokens = arena.at_once(threads, |thread, store| {
            let keys = (0..KEYS).map(|number| format!("{thread} {number}"));
            keys.map(|name| granted(store, &name).token()).collect::<Vec<_>>()
        });
        for tokens in &tokens {
            assert_rising(arena.name, tokens);
        }
        let unique: HashSet<_> = tokens.iter().flatten().collect();
        assert_eq!(unique.len(), threads * KEYS, "{}", arena.name);
    }
}

/// Cases 14 and 17: until somebody takes over, the late owner may complete; afterwards it may not.
#[test]
fn a_late_completion_that_races_takeovers_either_stands_or_is_lost() {
    const ROUNDS: usize = 24;
    let mut dice = Dice::new(seed::seed());
    for arena in arenas() {
        for round in 0..ROUNDS {
            let threads = dice.between(2, 8);
            let about = format!("{}, round {round}, {threads} threads", arena.name);
            let name = format!("key {round}");
            let owner = granted(arena.store(), &name);
            arena.clock.set(owner.lease_until());
            let ticket = owner.ticket();
            let answers = arena.at_once(threads, |thread, store| {
                if thread == 0 {
                    Err(store.complete(&ticket, reply_of(ticket.token())).err())
                } else {
                    Ok(claim(store, &name))
                }
            });
            let (claims, completion): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
            let claims: Vec<_> = claims.into_iter().filter_map(Result::ok).collect();
            match completion.into_iter().find_map(Result::err).expect("one completion") {
                None => {
                    for answer in &claims {
                        let ClaimOutcome::Completed(done) = answer else { panic!("{about}: {answer:?}") };
                        assert_eq!(done.reply, reply_of(ticket.token()), "{about}");
                    }
                }
                error => {
                    assert_eq!(lost(error), LostReason::Running, "{about}");
                    assert_eq!(only_winner(&about, claims).attempt(), 2, "{about}");
                }
            }
        }
    }
}

/// Case 13.
#[test]
fn a_fresh_claim_survives_the_sweep_that_races_it() {
    // Many rounds: in some, all is claimed before the first sweep begins.
    const ROUNDS: usize = 12;
    const KEYS: usize = 8;
    let mut dice = Dice::new(seed::seed());
    for arena in arenas() {
        for number in 0..KEYS {
            drop(granted(arena.store(), &number.to_string()));
        }
        for round in 0..ROUNDS {
            arena.clock.advance(LEASE + RETENTION);
            let (claimers, sweepers) = (dice.between(2, 6), dice.between(1, 4));
            let about = format!("{}, round {round}, {claimers} claim, {sweepers} sweep", arena.name);
            claim_what_is_swept(&about, &arena, KEYS, claimers, sweepers);
        }
    }
}

fn claim_what_is_swept(about: &str, arena: &Arena, keys: usize, claimers: usize, sweepers: usize) {
    let did = arena.at_once(claimers + sweepers, |thread, store| {
        if thread < claimers {
            let own = (0..keys).filter(|number| number % claimers == thread);
            Ok(own.map(|number| (number, granted(store, &number.to_string()))).collect::<Vec<_>>())
        } else {
            Err((0..keys).map(|_| store.sweep(1).expect("a sweep").removed).sum::<usize>())
        }
    });
    let (mut claims, mut removed) = (0, 0);
    for did in did {
        match did {
            Ok(granted) => {
                for (number, claim) in granted {
                    assert_eq!(claim.attempt(), 1, "{about}: {number}");
                    let stored = arena.store().lookup(&scope(), &key(&number.to_string()));
                    let token = stored.expect("a look-up").map(|record| record.token);
                    assert_eq!(token, Some(claim.token()), "{about}: {number}");
                    claims += 1;
                }
            }
            Err(swept) => removed += swept,
        }
    }
    assert_eq!(claims, keys, "{about}");
    assert!(removed <= keys, "{about}: {removed} removed");
    let left = arena.store().sweep(keys).expect("a sweep");
    assert_eq!((left.removed, left.more), (0, false), "{about}");
}

/// Cases 9, 13 and 14, by threads that draw what they do, some of which lose answers; the checker is in [`checker`].
#[test]
fn whatever_threads_do_to_a_key_only_its_newest_claim_writes_and_what_it_records_is_replayed() {
    use checker::What;
    const CALLS: usize = 150;
    let rounds = soak::times(6);
    let mut dice = Dice::new(seed::seed());
    for arena in arenas() {
        let (mut all, mut shown_done, mut open) = (Vec::new(), 0, 0);
        for round in 0..rounds {
            let threads = dice.between(2, 8);
            let about = format!("{}, round {round}, {threads} threads", arena.name);
            let seen = history::of(&arena, threads, CALLS, round, true, &mut dice);
            let doubts = history::check(&about, &arena, round, &seen);
            (shown_done, open) = (shown_done + doubts.shown_done, open + doubts.open);
            all.extend(seen);
        }
        let count = |what: fn(&What) -> bool| all.iter().filter(|seen| what(&seen.what)).count();
        let happened = [
            ("first claims", count(|what| matches!(what, What::Granted { attempt: 1, .. }))),
            ("takeovers", count(|what| matches!(what, What::Granted { attempt: 2.., .. }))),
            ("renewals and checkpoints", count(|what| matches!(what, What::Extended { .. }))),
            ("completions", count(|what| matches!(what, What::Recorded { .. }))),
            ("replays", count(|what| matches!(what, What::Replayed { .. }))),
            ("ends", count(|what| matches!(what, What::GivenUp { .. }))),
            ("forgotten records", count(|what| matches!(what, What::Forgotten))),
            ("lost claims", count(|what| matches!(what, What::Lost { .. }))),
            ("calls that may have been done", count(|what| matches!(what, What::Perhaps(_)))),
            ("of them, shown to have been", shown_done),
            ("of them, open", open),
        ];
        println!("{}: {} calls: {happened:?}", arena.name, all.len());
        for (what, times) in happened {
            assert!(times >= rounds, "{}: {what} happened only {times} times", arena.name);
        }
    }
}
