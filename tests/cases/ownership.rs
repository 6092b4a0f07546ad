//! Ownership: who may write to a record, and what becomes of those who may not any more. `taken_over.rs` has
//! the owners that come too late.

use crate::common::{Answer, asks_for, key, on_every_backend, scope, secs};
use crate::snapshot::snapshot;
use crate::support::{EXTENSIONS, Random, lost, owner_calls, race, reply, watched};
use idempotency::testing::Fault;
use idempotency::{Error, LostReason, State, Ticket};

/// Case 15. Checkpoints renew as well as renewals do.
#[test]
fn nobody_gets_a_claim_that_is_renewed_in_time_for_an_hour_and_somebody_does_once_it_is_not() {
    on_every_backend(|fixture| {
        let store = fixture.store_with(secs(60), secs(3_600));
        let (scope, key, pay) = (scope("tenant"), key("k"), asks_for("pay"));
        let mut claim = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
        for second in 1..=3_600 {
            fixture.at(second);
            match second % 40 {
                0 => claim.renew().expect("a claim that stands"),
                20 => claim.save_checkpoint(second.to_string()).expect("a claim that stands"),
                _ => {}
            }
            let answer = store.try_claim(&scope, &key, &pay).expect("an answer");
            assert_eq!(answer.name(), "in progress", "{}, second {second}", fixture.name);
        }
        for (second, name) in [(3_601, "in progress"), (3_659, "in progress"), (3_660, "claimed")] {
            fixture.at(second);
            let answer = store.try_claim(&scope, &key, &pay).expect("an answer");
            assert_eq!(answer.name(), name, "{}, second {second}", fixture.name);
        }
    });
}

/// Case 16: whichever of the two reaches the store first, they agree on whose the operation is.
#[test]
fn a_renewal_of_a_lapsed_claim_that_races_a_takeover_either_keeps_the_claim_or_loses_it() {
    const ROUNDS: u64 = 150;
    on_every_backend(|fixture| {
        let mut random = Random::for_this_run();
        let store = fixture.store_with(secs(30), secs(3_600));
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        for (round, (_, extend)) in (0..ROUNDS).zip(EXTENSIONS.into_iter().cycle()) {
            let key = key(&format!("key {round}"));
            fixture.at(round * 1_000);
            let first = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
            let ticket = first.into_ticket();
            fixture.at(round * 1_000 + 30);
            let mut answers = race(&mut random, 2, |number| {
                if number == 0 {
                    // Resuming is a read of its own, so a takeover may come before, between or after the two
                    // calls.
                    let extended = store.resume(ticket.clone()).and_then(|mut claim| extend(&mut claim));
                    (Some(extended), None)
                } else {
                    (None, Some(store.try_claim(&scope, &key, &pay).expect("an answer")))
                }
            });
            let second = answers.pop().and_then(|(_, claimed)| claimed).expect("an answer to the claim");
            let renewed = answers.pop().and_then(|(renewed, _)| renewed).expect("an answer to the renewal");
            let record = store.lookup(&scope, &key).expect("a readable record").expect("a record");
            match (renewed, second.name()) {
                (Ok(()), "in progress") => assert_eq!((record.token, record.attempt), (ticket.token(), 1)),
                (Err(Error::ClaimLost(LostReason::Running)), "claimed") => {
                    assert_eq!((record.token, record.attempt), (second.claimed().token(), 2));
                }
                other => panic!("{}, round {round}: {other:?}", fixture.name),
            }
        }
    });
}

/// Case 16. An error says nothing about whose the claim is.
#[test]
fn an_extension_that_fails_in_the_backend_is_no_loss_and_can_be_tried_again() {
    on_every_backend(|fixture| {
        let store = watched(&fixture.store_with(secs(60), secs(3_600)));
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        for (what, extend) in EXTENSIONS {
            for fault in [Fault::Before, Fault::After] {
                let told = format!("{}: {what}, {fault:?}", fixture.name);
                let key = key(&format!("{what} {fault:?}"));
                fixture.at(0);
                let mut claim = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
                claim.save_checkpoint("old").expect("a claim that stands");
                let before = snapshot(fixture, &scope, &key);
                let known_until = claim.lease_until();

                fixture.at(40);
                store.backend().fail(fault, 0, 1);
                let error = extend(&mut claim).expect_err("the injected error");
                assert!(!matches!(error, Error::ClaimLost(_)), "{told}: {error:?}");
                let definite = fault == Fault::Before;
                assert_eq!((error.is_transient(), error.is_indefinite()), (definite, !definite), "{told}");
                assert_eq!(snapshot(fixture, &scope, &key) == before, definite, "{told}");
                assert_eq!(claim.lease_until(), known_until, "{told}: what the handle knows");
                assert_eq!(claim.checkpoint().map(|saved| &saved[..]), Some(&b"old"[..]), "{told}");
                let stored = before.record.expect("a record");
                let now_stored = store.lookup(&scope, &key).expect("a readable record").expect("a record");
                assert!(now_stored.lease_until >= known_until, "{told}");
                assert_eq!(now_stored.token, stored.token, "{told}");

                extend(&mut claim).expect("a claim that still is its owner's");
                assert_eq!(claim.lease_until(), stored.created_at.saturating_add(secs(100)), "{told}");
                claim.complete(reply("done")).expect("a claim that still is its owner's");
            }
        }
    });
}

/// Case 16: what was told of the failing call is not held against the next one, which tells the loss.
#[test]
fn an_owner_whose_calls_fail_hears_of_a_takeover_from_the_first_call_that_does_not() {
    on_every_backend(|fixture| {
        let store = watched(&fixture.store_with(secs(30), secs(3_600)));
        let (scope, key, pay) = (scope("tenant"), key("k"), asks_for("pay"));
        let mut first = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
        fixture.at(30);
        let second = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
        let before = snapshot(fixture, &scope, &key);
        for fault in [Fault::Before, Fault::After] {
            store.backend().fail(fault, 0, 1);
            let error = first.renew().expect_err("the injected error");
            assert!(!matches!(error, Error::ClaimLost(_)), "{}: {error:?}", fixture.name);
        }
        assert_eq!(lost(first.renew()), LostReason::Running, "{}", fixture.name);
        assert_eq!(snapshot(fixture, &scope, &key), before, "{}", fixture.name);
        second.complete(reply("done")).expect("a claim that stands");
    });
}

/// Case 17. The token proves the claim, lapsed or not, up to the record's last millisecond.
#[test]
fn every_call_of_an_owner_whose_lease_lapsed_succeeds_as_long_as_nobody_took_over() {
    on_every_backend(|fixture| {
        let (lease, retention) = (30_000, 3_600_000);
        let store = fixture.store_with(secs(30), secs(3_600));
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        for (what, call) in owner_calls() {
            for millis in [lease - 1, lease, lease + 1, lease + retention - 1] {
                let told = format!("{}: {what} after {millis} ms", fixture.name);
                let key = key(&format!("{what} {millis}"));
                fixture.at(0);
                let claim = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
                let token = claim.token();
                fixture.clock.advance(std::time::Duration::from_millis(millis));
                assert!(call(&store, claim).is_ok(), "{told}");

                let record = fixture.stored(&scope, &key);
                let answer = store.try_claim(&scope, &key, &pay).expect("an answer");
                let expected = match what {
                    "release" | "release by ticket" => {
                        assert!(record.is_none(), "{told}");
                        "claimed"
                    }
                    "abandon" | "abandon by ticket" => "claimed",
                    // It reads, and so does not extend the lease.
                    "resume" if millis >= lease => "claimed",
                    "renew" | "save_checkpoint" | "resume" => "in progress",
                    _ => "completed",
                };
                assert_eq!(answer.name(), expected, "{told}");
                assert!(record.is_none_or(|record| record.token == token && record.attempt == 1), "{told}");
            }
        }
    });
}

/// Case 18. All have seen that the lease is over; seeing is not claiming.
#[test]
fn of_callers_that_all_judge_a_claim_lapsed_one_takes_over_and_the_others_hear_that_it_runs() {
    const ROUNDS: u64 = 60;
    on_every_backend(|fixture| {
        let mut random = Random::for_this_run();
        let store = fixture.store_with(secs(30), secs(3_600));
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        for (round, callers) in (0..ROUNDS).zip([2, 2, 8].into_iter().cycle()) {
            let key = key(&format!("key {round}"));
            fixture.at(round * 1_000);
            let mut first = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
            first.save_checkpoint("half").expect("a claim that stands");
            fixture.at(round * 1_000 + 30);
            let now =
                fixture.store.lookup(&scope, &key).expect("a readable record").expect("a record").lease_until;
            let answers = race(&mut random, callers, |_| {
                let seen = store.lookup(&scope, &key).expect("a readable record").expect("a record");
                let lapsed = seen.is_lapsed(now);
                (lapsed, store.try_claim(&scope, &key, &pay).expect("an answer"))
            });
            let told = format!("{}, round {round}: {answers:?}", fixture.name);
            let taken: Vec<_> = answers.iter().filter(|(_, answer)| answer.name() == "claimed").collect();
            let running = answers.iter().filter(|(_, answer)| answer.name() == "in progress").count();
            assert_eq!((taken.len(), running), (1, callers - 1), "{told}");
            assert!(taken.iter().all(|(lapsed, _)| *lapsed), "{told}");
            let winner =
                answers.into_iter().map(|(_, answer)| answer).find(|answer| answer.name() == "claimed");
            let winner = winner.expect("one that took over").claimed();
            assert_eq!(
                (winner.attempt(), winner.checkpoint().map(|c| &c[..])),
                (2, Some(&b"half"[..])),
                "{told}"
            );
            let record = store.lookup(&scope, &key).expect("a readable record").expect("a record");
            assert_eq!((record.token, record.attempt), (winner.token(), 2), "{told}");
        }
    });
}

/// `ticket` as somebody who knows only the key would have to make it up.
fn forged(ticket: &Ticket, token: i64) -> Ticket {
    let mut data = serde_json::to_value(ticket).expect("a ticket as data");
    data["token"] = token.to_string().into();
    serde_json::from_value(data).expect("a well-formed ticket")
}

/// Case 19.
#[test]
fn a_caller_that_was_not_granted_the_claim_has_no_call_that_changes_the_record() {
    on_every_backend(|fixture| {
        let store = fixture.store_with(secs(30), secs(3_600));
        let loser = watched(&store);
        let (scope, key, pay) = (scope("tenant"), key("k"), asks_for("pay"));
        let claim = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
        let before = snapshot(fixture, &scope, &key);
        let unchanged = |what: &str| {
            assert_eq!(snapshot(fixture, &scope, &key), before, "{}: {what}", fixture.name);
        };

        drop(loser.try_claim(&scope, &key, &pay).expect("an answer"));
        unchanged("an answer that is dropped");
        drop(loser.try_claim(&scope, &key, &asks_for("other")).expect("an answer"));
        unchanged("a mismatch that is dropped");
        loser.sweep(usize::MAX).expect("a sweep");
        loser.sweep_all().expect("a sweep");
        unchanged("sweeping");

        for fault in [Fault::Before, Fault::After] {
            for request in ["pay", "other"] {
                loser.backend().fail(fault, 0, 1);
                drop(loser.try_claim(&scope, &key, &asks_for(request)).expect_err("the injected error"));
                unchanged("a claim that fails in the backend");
            }
        }

        let ticket = claim.ticket();
        for token in [1, ticket.token().get() - 1, ticket.token().get() + 1, i64::MAX] {
            let forged = forged(&ticket, token);
            assert_eq!(lost(store.complete(&forged, reply("forged")).map(drop)), LostReason::Running);
            assert_eq!(lost(store.release(&forged)), LostReason::Running);
            assert_eq!(lost(store.abandon(&forged)), LostReason::Running);
            assert_eq!(lost(store.resume(forged).map(drop)), LostReason::Running);
            unchanged("a token that was never granted");
        }

        let done = claim.complete(reply("done")).expect("a claim that stands");
        assert_eq!(
            store.try_claim(&scope, &key, &pay).expect("an answer").completed(),
            done,
            "{}",
            fixture.name
        );
    });
}

/// Case 19: a claim of one key is no claim of another, within one scope or across scopes.
#[test]
fn the_owner_of_one_key_changes_no_other_record() {
    on_every_backend(|fixture| {
        let store = fixture.store_with(secs(30), secs(3_600));
        let (theirs, pay) = ((scope("tenant"), key("theirs")), asks_for("pay"));
        let standing = store.try_claim(&theirs.0, &theirs.1, &pay).expect("an answer").claimed();
        let before = fixture.stored(&theirs.0, &theirs.1);
        for mine in [(scope("tenant"), key("mine")), (scope("neighbour"), key("theirs"))] {
            for (what, call) in owner_calls() {
                let claim = store.try_claim(&mine.0, &mine.1, &pay).expect("an answer").claimed();
                call(&store, claim).expect("a claim that stands");
                assert_eq!(fixture.stored(&theirs.0, &theirs.1), before, "{}: {what}", fixture.name);
                assert!(store.forget(&mine.0, &mine.1).is_ok(), "{}: {what}", fixture.name);
                assert_eq!(fixture.stored(&theirs.0, &theirs.1), before, "{}: forget", fixture.name);
            }
        }
        standing.complete(reply("done")).expect("a claim that stands");
    });
}

/// Beside cases 9 to 12: completing ends the claim, for its owner too.
#[test]
fn a_claim_that_has_completed_writes_nothing_more_and_completing_again_gives_the_first_reply() {
    on_every_backend(|fixture| {
        let store = fixture.store_with(secs(30), secs(3_600));
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        for (what, call) in owner_calls() {
            let key = key(what);
            fixture.at(0);
            let claim = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
            let first = store.complete(&claim.ticket(), reply("first")).expect("a claim that stands");
            let before = snapshot(fixture, &scope, &key);
            assert_eq!(before.record.as_ref().map(|record| record.state), Some(State::Completed));
            fixture.at(10);
            let told = format!("{}: {what}", fixture.name);
            if what.starts_with("complete") {
                let again = store.complete(&claim.ticket(), reply("second")).expect("the first reply");
                assert_eq!(again, first, "{told}");
                call(&store, claim).expect("the first reply");
            } else {
                assert_eq!(lost(call(&store, claim)), LostReason::CompletedByThisClaim, "{told}");
            }
            assert_eq!(snapshot(fixture, &scope, &key), before, "{told}");
        }
    });
}
