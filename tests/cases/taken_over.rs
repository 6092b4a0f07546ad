//! Owners that come too late: their lease lapsed and somebody else has the operation, or nobody has it any
//! more. Nothing they do changes what is stored.

use crate::common::{Answer, Fixture, asks_for, key, on, on_every_backend, scope, secs};
use crate::snapshot::snapshot;
use crate::support::{ENDINGS_WITHOUT_REPLY, lost, owner_calls, reply};
use idempotency::{Claim, DynStore, Error, FencingToken, LostReason, MemoryBackend, MemoryOptions, State};

/// What the second owner does before the first one comes back, by name, and why the first has then lost.
type SecondOwner = (&'static str, fn(&Fixture, Claim), LostReason);
const SECOND_OWNERS: [SecondOwner; 8] = [
    ("runs", |_, second| drop(second), LostReason::Running),
    ("renewed", |_, mut second| second.renew().expect("a claim that stands"), LostReason::Running),
    (
        "saved",
        |_, mut second| second.save_checkpoint("mine").expect("a claim that stands"),
        LostReason::Running,
    ),
    ("lapsed", |fixture, second| lapse(fixture, second), LostReason::Running),
    ("abandoned", |_, second| second.abandon().expect("a claim that stands"), LostReason::Running),
    ("released", |_, second| second.release().expect("a claim that stands"), LostReason::Running),
    (
        "completed",
        |_, second| drop(second.complete(reply("done")).expect("a claim that stands")),
        LostReason::Completed,
    ),
    (
        "completed after it lapsed",
        |fixture, second| {
            fixture.at(75);
            drop(second.complete(reply("done")).expect("a claim that nobody took over"));
        },
        LostReason::Completed,
    ),
];

fn lapse(fixture: &Fixture, second: Claim) {
    drop(second);
    fixture.at(75);
}

/// Case 9.
#[test]
fn an_owner_that_was_taken_over_is_told_so_by_every_call_and_the_new_owners_record_stays_as_it_is() {
    on_every_backend(|fixture| {
        let store = fixture.store_with(secs(30), secs(3_600));
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        for (doing, second_does, reason) in SECOND_OWNERS {
            for (what, call) in owner_calls() {
                let told = format!("{}: {what} where the second owner {doing}", fixture.name);
                let key = key(&format!("{what}, {doing}"));
                fixture.at(0);
                let first = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
                fixture.at(30);
                let second = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
                assert!(
                    second.token() > first.token() && second.attempt() == 2 && second.is_takeover(),
                    "{told}"
                );
                fixture.at(40);
                second_does(fixture, second);
                let before = snapshot(fixture, &scope, &key);
                assert_eq!(lost(call(&store, first)), reason, "{told}");
                assert_eq!(snapshot(fixture, &scope, &key), before, "{told}");
            }
        }
    });
}

/// How a first claim's record goes away, by name.
type WayToGo = (&'static str, fn(&Fixture, &DynStore, &Claim));
const WAYS_TO_GO: [WayToGo; 5] = [
    ("expired and swept", |fixture, store, _| {
        fixture.at(3_630);
        assert!(store.sweep_all().expect("a sweep").removed >= 1);
    }),
    ("expired, not swept", |fixture, _, _| fixture.at(3_630)),
    ("forgotten", |_, store, claim| {
        assert!(store.forget(claim.scope(), claim.key()).expect("an answer"));
    }),
    ("released by ticket", |_, store, claim| store.release(&claim.ticket()).expect("a claim that stands")),
    ("completed, expired and swept", |fixture, store, claim| {
        store.complete(&claim.ticket(), reply("done")).expect("a claim that stands");
        fixture.at(3_630);
        assert!(store.sweep_all().expect("a sweep").removed >= 1);
    }),
];

/// Case 10. All but token and times is equal: the token alone tells the two claims apart.
#[test]
fn a_claim_whose_record_went_away_is_lost_to_a_new_first_claim_that_looks_just_like_it() {
    on_every_backend(|fixture| {
        let store = fixture.store_with(secs(30), secs(3_600));
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        for (going, goes) in WAYS_TO_GO {
            for (what, call) in owner_calls() {
                let told = format!("{}: {what} where the record was {going}", fixture.name);
                let key = key(&format!("{what}, {going}"));
                fixture.at(0);
                let first = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
                let as_first = fixture.stored(&scope, &key).expect("a record");
                goes(fixture, &store, &first);
                let second = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
                assert_eq!((second.attempt(), second.is_takeover()), (1, false), "{told}");
                assert!(second.token() > first.token(), "{told}");
                let before = snapshot(fixture, &scope, &key);
                let as_second = before.record.clone().expect("a record");
                assert_eq!(
                    (
                        as_second.state,
                        as_second.attempt,
                        as_second.fingerprint,
                        as_second.lease,
                        as_second.retention
                    ),
                    (
                        as_first.state,
                        as_first.attempt,
                        as_first.fingerprint,
                        as_first.lease,
                        as_first.retention
                    ),
                    "{told}"
                );
                assert_eq!(lost(call(&store, first)), LostReason::Running, "{told}");
                assert_eq!(snapshot(fixture, &scope, &key), before, "{told}");
                second.complete(reply("done")).expect("a claim that stands");
            }
        }
    });
}

/// Case 12. Identity is the claim, not the worker: it is told the same by the same thread through the same
/// handle.
#[test]
fn a_worker_that_claims_one_key_twice_across_a_lapse_is_refused_with_its_first_token_and_not_with_its_second()
{
    on_every_backend(|fixture| {
        let store = fixture.store_with(secs(30), secs(3_600));
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        for (what, call) in owner_calls() {
            let told = format!("{}: {what}", fixture.name);
            let key = key(what);
            fixture.at(0);
            let mut first = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
            first.save_checkpoint("half").expect("a claim that stands");
            fixture.at(30);
            let second = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
            assert_eq!(second.checkpoint().map(|saved| &saved[..]), Some(&b"half"[..]), "{told}");
            let before = snapshot(fixture, &scope, &key);
            assert_eq!(lost(call(&store, first)), LostReason::Running, "{told}");
            assert_eq!(snapshot(fixture, &scope, &key), before, "{told}");
            assert!(call(&store, second).is_ok(), "{told} with the second token");
        }
    });
}

/// Case 20. Whoever releases a takeover says that its own attempt had no effect, and can't say it of the
/// attempt before.
#[test]
fn a_takeover_that_is_released_leaves_the_record_lapsed_and_bound_for_the_next_takeover() {
    on_every_backend(|fixture| {
        let store = fixture.store_with(secs(30), secs(3_600));
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        for (what, release) in
            ENDINGS_WITHOUT_REPLY.into_iter().filter(|(what, _)| what.starts_with("release"))
        {
            let key = key(what);
            fixture.at(0);
            let mut first = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
            first.save_checkpoint("half").expect("a claim that stands");
            fixture.at(30);
            let mut owner = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
            for attempt in 2..=5 {
                let told = format!("{}: {what}, attempt {attempt}", fixture.name);
                assert_eq!((owner.attempt(), owner.is_takeover()), (attempt, true), "{told}");
                assert_eq!(owner.checkpoint().map(|saved| &saved[..]), Some(&b"half"[..]), "{told}");
                let (token, taken) = (owner.token(), fixture.stored(&scope, &key).expect("a record"));
                fixture.at(30 + u64::from(attempt));
                release(&store, owner).expect("a claim that stands");

                let left = fixture.stored(&scope, &key).expect("a record that stays");
                let now =
                    fixture.store.lookup(&scope, &key).expect("a readable record").map(|r| r.lease_until);
                assert_eq!(Some(left.lease_until), now, "{told}");
                assert!(
                    left.lease_until < taken.lease_until && left.expires_at == taken.expires_at,
                    "{told}"
                );
                assert_eq!(
                    (
                        left.state,
                        left.fingerprint,
                        left.token,
                        left.attempt,
                        &left.checkpoint,
                        left.created_at
                    ),
                    (State::InProgress, pay, token, attempt, &taken.checkpoint, taken.created_at),
                    "{told}"
                );

                let before = snapshot(fixture, &scope, &key);
                let stale = first.ticket();
                assert_eq!(
                    lost(store.complete(&stale, reply("late")).map(drop)),
                    LostReason::Running,
                    "{told}"
                );
                let other = store.try_claim(&scope, &key, &asks_for("other")).expect("an answer");
                assert_eq!(other.name(), "mismatch", "{told}");
                assert_eq!(snapshot(fixture, &scope, &key), before, "{told}");
                owner = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
            }
            owner.complete(reply("done")).expect("a claim that stands");
        }
    });
}

/// Case 20.
#[test]
fn an_owner_whose_record_is_gone_creates_none_whatever_it_calls() {
    on_every_backend(|fixture| {
        let store = fixture.store_with(secs(30), secs(3_600));
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        for (going, goes) in WAYS_TO_GO {
            for (what, call) in owner_calls() {
                let told = format!("{}: {what} where the record was {going}", fixture.name);
                let key = key(&format!("{what}, {going}"));
                fixture.at(0);
                let claim = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
                goes(fixture, &store, &claim);
                let before = snapshot(fixture, &scope, &key);
                let answer = call(&store, claim);
                if ENDINGS_WITHOUT_REPLY.iter().any(|(ending, _)| *ending == what) {
                    assert!(answer.is_ok(), "{told}: {answer:?}");
                } else {
                    assert_eq!(lost(answer), LostReason::Gone, "{told}");
                }
                assert_eq!(snapshot(fixture, &scope, &key), before, "{told}");
                assert!(store.lookup(&scope, &key).expect("an answer").is_none(), "{told}");
            }
        }
    });
}

/// The calls that name a claim of any store: by its ticket.
fn finished_by_ticket(store: &DynStore, claim: &Claim) -> [(&'static str, Result<(), Error>); 4] {
    let ticket = claim.ticket();
    [
        ("complete", store.complete(&ticket, reply("elsewhere")).map(drop)),
        ("release", store.release(&ticket)),
        ("abandon", store.abandon(&ticket)),
        ("resume", store.resume(ticket).map(drop)),
    ]
}

/// Case 20.
#[test]
fn a_ticket_of_another_store_is_lost_and_writes_nothing() {
    on_every_backend(|fixture| {
        let (scope, key, pay) = (scope("tenant"), key("k"), asks_for("pay"));
        let elsewhere = [
            Fixture::in_memory(),
            #[cfg(feature = "sqlite")]
            Fixture::on_sqlite(),
        ];
        for other in &elsewhere {
            let foreign = other.store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
            let told = format!("a ticket of {} in {}", other.name, fixture.name);
            assert!(fixture.store.forget(&scope, &key).is_ok(), "{told}");
            for claimed_here_too in [false, true] {
                if claimed_here_too {
                    drop(fixture.store.try_claim(&scope, &key, &pay).expect("an answer").claimed());
                }
                let before = snapshot(fixture, &scope, &key);
                assert_eq!(before.record.is_some(), claimed_here_too, "{told}");
                for (what, answer) in finished_by_ticket(&fixture.store, &foreign) {
                    assert_eq!(lost(answer), LostReason::Gone, "{told}: {what}");
                    assert_eq!(snapshot(fixture, &scope, &key), before, "{told}: {what}");
                }
            }
            foreign.complete(reply("done")).expect("a claim that stands where it was made");
        }
    });
}

/// Case 20: not even where scope, key, fingerprint, attempt and token are the same by chance.
#[test]
fn a_ticket_of_another_store_is_lost_where_the_record_has_the_very_same_token() {
    let first = FencingToken::new(7).expect("a token");
    let store = || on(MemoryBackend::new(MemoryOptions::new().with_first_token(first)));
    let (here, there) = (store(), store());
    let (scope, key, pay) = (scope("tenant"), key("k"), asks_for("pay"));
    let own = here.try_claim(&scope, &key, &pay).expect("an answer").claimed();
    let foreign = there.try_claim(&scope, &key, &pay).expect("an answer").claimed();
    assert_eq!(own.token(), foreign.token());
    let before = here.lookup(&scope, &key).expect("a readable record");
    for (what, answer) in finished_by_ticket(&here, &foreign) {
        assert_eq!(lost(answer), LostReason::Gone, "{what}");
        assert_eq!(here.lookup(&scope, &key).expect("a readable record"), before, "{what}");
    }
    own.complete(reply("done")).expect("a claim that stands");
}

/// Cases 2, 7, 9 and 19 once more, at the file: what changes nothing costs no commit, and so no sync.
#[cfg(feature = "sqlite")]
#[test]
fn whatever_is_refused_commits_nothing_to_the_file() {
    let fixture = Fixture::on_sqlite();
    let store = fixture.store_with(secs(30), secs(3_600));
    let (scope, key, pay) = (scope("tenant"), key("k"), asks_for("pay"));
    let observer = rusqlite::Connection::open(fixture.path().expect("a file")).expect("the file");
    // Changes whenever another connection has committed a change (SQLite, "PRAGMA data_version").
    let version = || -> i64 {
        observer.query_row("PRAGMA data_version", [], |row| row.get(0)).expect("the file's version")
    };
    let refused = |what: &str, call: &dyn Fn()| {
        let before = version();
        call();
        assert_eq!(version(), before, "{what}");
    };

    let at_first = version();
    let stale = store.try_claim(&scope, &key, &pay).expect("an answer").claimed().into_ticket();
    assert_ne!(version(), at_first, "a grant is a commit");
    fixture.at(30);
    let owner = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
    let by_the_stale_owner = || {
        lost(store.complete(&stale, reply("late")).map(drop));
        lost(store.release(&stale));
        lost(store.abandon(&stale));
        lost(store.resume(stale.clone()).map(drop));
    };
    let claims = |request: &'static str, answer: &'static str| {
        let (store, scope, key) = (&store, &scope, &key);
        move || assert_eq!(store.try_claim(scope, key, &asks_for(request)).expect("an answer").name(), answer)
    };
    refused("a claim of what runs", &claims("pay", "in progress"));
    refused("a claim of what runs for another request", &claims("other", "mismatch"));
    refused("calls of an owner that was taken over", &by_the_stale_owner);
    let ended = owner.ticket();
    owner.complete(reply("done")).expect("a claim that stands");
    refused("a claim of what has completed", &claims("pay", "completed"));
    refused("a claim of what has completed for another request", &claims("other", "mismatch"));
    refused("calls of an owner that was taken over", &by_the_stale_owner);
    refused("completing again", &|| drop(store.complete(&ended, reply("again")).expect("the first reply")));
    assert!(store.forget(&scope, &key).expect("an answer"));
    refused("a forget of nothing", &|| assert!(!store.forget(&scope, &key).expect("an answer")));
    refused("a release of nothing", &|| store.release(&ended).expect("nothing to do"));
    refused("a completion of nothing", &|| {
        assert_eq!(lost(store.complete(&ended, reply("late")).map(drop)), LostReason::Gone);
    });
}
