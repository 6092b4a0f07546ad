//! Endings: what becomes of the record when a claim ends, well or badly, or just goes away. `periods.rs` has
//! the times of it.

use crate::common::{Answer, Fixture, asks_for, key, on_every_backend, scope, secs};
use crate::snapshot::snapshot;
use crate::support::{ENDINGS_WITHOUT_REPLY, lost, reply, watched};
use bytes::Bytes;
use idempotency::testing::Fault;
use idempotency::{
    Claim, ClaimOutcome, CompleteError, Completed, Error, Fingerprint, IdempotencyKey, LostReason, Reply,
    Scope, State, StoredResponse,
};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Ways in which a claim goes away without a word to the store.
type WayToDrop = (&'static str, fn(ClaimOutcome));
const WAYS_TO_DROP: [WayToDrop; 6] = [
    ("dropped", |answer| drop(answer.claimed())),
    ("dropped within its answer", |answer| drop(answer)),
    ("dropped as a ticket", |answer| drop(answer.claimed().into_ticket())),
    ("dropped while a ticket of it lives", |answer| {
        let claim = answer.claimed();
        let ticket = claim.ticket();
        drop(claim);
        drop(ticket);
    }),
    ("dropped while unwinding", |answer| {
        let claim = answer.claimed();
        let unwound = catch_unwind(AssertUnwindSafe(move || {
            let _held = claim;
            // As a panic does, without the message.
            resume_unwind(Box::new("the work failed"))
        }));
        let () = match unwound {
            Ok(never) => never,
            Err(payload) => assert!(payload.is::<&str>()),
        };
    }),
    ("dropped within a refused completion", |answer| {
        // Refused before the store is asked, so it takes the claim along and makes no call either.
        let too_large = StoredResponse::new(200).with_body(vec![0; 2 * 1024 * 1024]);
        let refused = answer.claimed().complete(too_large).expect_err("a reply that is too large");
        assert!(matches!(refused.error(), Error::ReplyTooLarge { .. }));
        drop(refused);
    }),
];

/// Case 22. What the work had called may still be in flight, so the key stays taken as after a crash.
#[test]
fn a_claim_that_is_dropped_makes_no_call_and_is_taken_over_only_when_its_lease_ends() {
    on_every_backend(|fixture| {
        let store = watched(&fixture.store_with(secs(30), secs(3_600)));
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        for (going, goes) in WAYS_TO_DROP {
            let told = format!("{}: {going}", fixture.name);
            let key = key(going);
            fixture.at(0);
            let answer = store.try_claim(&scope, &key, &pay).expect("an answer");
            let before = snapshot(fixture, &scope, &key);
            let calls = store.backend().calls();
            goes(answer);
            assert_eq!(store.backend().calls(), calls, "{told}");
            assert_eq!(snapshot(fixture, &scope, &key), before, "{told}");

            fixture.at(29);
            assert_eq!(
                store.try_claim(&scope, &key, &pay).expect("an answer").name(),
                "in progress",
                "{told}"
            );
            assert_eq!(snapshot(fixture, &scope, &key), before, "{told}");
            fixture.at(30);
            let next = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
            assert_eq!((next.attempt(), next.is_takeover()), (2, true), "{told}");
        }
    });
}

/// Case 22: a takeover that is dropped is no different, and what was saved is there for the next one.
#[test]
fn a_takeover_that_is_dropped_keeps_its_lease_and_its_checkpoint() {
    on_every_backend(|fixture| {
        let store = watched(&fixture.store_with(secs(30), secs(3_600)));
        let (scope, key, pay) = (scope("tenant"), key("k"), asks_for("pay"));
        for attempt in 1..=4 {
            fixture.at(30 * u64::from(attempt));
            let mut claim = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
            assert_eq!(claim.attempt(), attempt, "{}", fixture.name);
            let inherited = (attempt > 1).then(|| Bytes::from(format!("saved by {}", attempt - 1)));
            assert_eq!(claim.checkpoint(), inherited.as_ref(), "{}", fixture.name);
            claim.save_checkpoint(format!("saved by {attempt}")).expect("a claim that stands");
            let (calls, before) = (store.backend().calls(), snapshot(fixture, &scope, &key));
            drop(claim);
            assert_eq!(store.backend().calls(), calls, "{}", fixture.name);
            assert_eq!(snapshot(fixture, &scope, &key), before, "{}", fixture.name);
        }
    });
}

/// Case 24. The identity is fixed at the claim, whatever the caller's variables hold when it completes.
#[test]
fn what_is_completed_is_what_was_claimed_whatever_the_caller_does_to_its_own_buffers() {
    on_every_backend(|fixture| {
        let (mut scope_text, mut key_text) = (String::from("tenant 1"), String::from("order 1"));
        let mut request = b"one".to_vec();
        let mut scope = Scope::new(&scope_text).expect("a valid scope");
        let mut key = IdempotencyKey::new(&key_text).expect("a valid key");
        let mut fingerprint = Fingerprint::of_request("POST", "/orders", "", &request);
        let claimed = (scope.clone(), key.clone(), fingerprint);
        let mut store = fixture.store_with(secs(30), secs(3_600));
        let mut claim = store.try_claim(&scope, &key, &fingerprint).expect("an answer").claimed();
        let mut progress = b"half".to_vec();
        claim.save_checkpoint(Bytes::copy_from_slice(&progress)).expect("a claim that stands");

        for text in [&mut scope_text, &mut key_text] {
            text.pop();
            text.push('2');
        }
        request.fill(b'2');
        progress.fill(b'2');
        scope = Scope::new(&scope_text).expect("a valid scope");
        key = IdempotencyKey::new(&key_text).expect("a valid key");
        fingerprint = Fingerprint::of_request("POST", "/orders", "", &request);
        store = fixture.store_with(secs(1), secs(1));
        assert_ne!((&scope, &key, fingerprint), (&claimed.0, &claimed.1, claimed.2));

        let saved = fixture.stored(&claimed.0, &claimed.1).expect("a record").checkpoint;
        assert_eq!(saved.as_deref(), Some(&b"half"[..]), "{}", fixture.name);
        let (mut header, mut body) = (String::from("x-one"), b"one".to_vec());
        let response = StoredResponse::new(201)
            .with_header(&header, Bytes::copy_from_slice(&body))
            .with_body(Bytes::copy_from_slice(&body));
        let first_reply = Reply::from(response.clone());
        let done = claim.complete(response.clone()).expect("a claim that stands");
        header.replace_range(.., "x-two");
        body.fill(b'2');
        // A response shares its parts with its clones, and with what was recorded.
        let other_reply = response.with_header(&header, body.clone()).with_body(body);
        assert_ne!(Reply::from(other_reply), first_reply);

        assert_eq!(done.reply, first_reply, "{}", fixture.name);
        assert_eq!(done.expires_at, done.completed_at.saturating_add(secs(3_600)), "{}", fixture.name);
        let replayed = store.try_claim(&claimed.0, &claimed.1, &claimed.2).expect("an answer").completed();
        assert_eq!(replayed, done, "{}", fixture.name);
        for (scope, key) in [(&scope, &key), (&scope, &claimed.1), (&claimed.0, &key)] {
            assert_eq!(store.lookup(scope, key).expect("an answer"), None, "{}", fixture.name);
        }
    });
}

/// How a first attempt is released.
type Release = (&'static str, fn(&Fixture, Claim));
const RELEASES: [Release; 5] = [
    ("at once", |_, claim| claim.release().expect("a claim that stands")),
    ("by ticket", |fixture, claim| fixture.store.release(&claim.into_ticket()).expect("a claim that stands")),
    ("renewed", |fixture, mut claim| {
        fixture.at(20);
        claim.renew().expect("a claim that stands");
        claim.release().expect("a claim that stands");
    }),
    ("with a checkpoint", |_, mut claim| {
        claim.save_checkpoint("half").expect("a claim that stands");
        claim.release().expect("a claim that stands");
    }),
    ("lapsed", |fixture, claim| {
        fixture.at(31);
        claim.release().expect("a claim that nobody took over");
    }),
];

/// Case 25.
#[test]
fn a_first_attempt_that_is_released_frees_the_key_at_once_for_any_request() {
    on_every_backend(|fixture| {
        let store = fixture.store_with(secs(30), secs(3_600));
        let scope = scope("tenant");
        for (releasing, release) in RELEASES {
            for request in ["pay", "something else"] {
                let told = format!("{}: {request}, after a release {releasing}", fixture.name);
                let key = key(&format!("{releasing}, {request}"));
                fixture.at(0);
                let first = store.try_claim(&scope, &key, &asks_for("pay")).expect("an answer").claimed();
                let stale = first.ticket();
                release(fixture, first);
                assert_eq!(fixture.stored(&scope, &key), None, "{told}");
                store.release(&stale).expect("there is nothing left to release");
                let gone = store.complete(&stale, reply("late")).map(drop);
                assert_eq!(lost(gone), LostReason::Gone, "{told}");
                assert_eq!(fixture.stored(&scope, &key), None, "{told}");

                let next = store.try_claim(&scope, &key, &asks_for(request)).expect("an answer").claimed();
                assert_eq!(
                    (next.attempt(), next.is_takeover(), next.checkpoint()),
                    (1, false, None),
                    "{told}"
                );
                assert!(next.token() > stale.token(), "{told}");
                let done = next.complete(reply("done")).expect("a claim that stands");
                assert_eq!(done.reply, reply("done"), "{told}");
            }
        }
    });
}

/// The two ways in which a claim completes, by name.
type Completion = (&'static str, fn(Claim, Reply) -> Result<Completed, CompleteError>);
const COMPLETIONS: [Completion; 2] = [
    ("complete", |claim, reply| claim.complete(reply)),
    ("complete_for", |claim, reply| claim.complete_for(secs(60), reply)),
];

/// Takes the claim and the reply out of `failed`, which must be an error of the backend's.
#[track_caller]
fn handed_back(failed: Result<Completed, CompleteError>, fault: Fault) -> (Claim, Reply) {
    let failed = failed.expect_err("the injected error");
    assert_eq!(failed.error().is_indefinite(), fault == Fault::After, "{failed:?}");
    let (error, claim, reply) = failed.into_parts();
    assert_eq!(error.is_transient(), fault == Fault::Before, "{error:?}");
    (claim, reply)
}

/// Case 26, where nothing was done.
#[test]
fn a_completion_that_fails_hands_claim_and_reply_back_and_the_record_stays_under_its_lease() {
    on_every_backend(|fixture| {
        let store = watched(&fixture.store_with(secs(30), secs(3_600)));
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        for (what, complete) in COMPLETIONS {
            let told = format!("{}: {what}", fixture.name);
            let key = key(what);
            fixture.at(0);
            let mut claim = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
            claim.save_checkpoint("half").expect("a claim that stands");
            let (ticket, before) = (claim.ticket(), snapshot(fixture, &scope, &key));
            let mut reply = reply("done");
            fixture.at(10);
            for failures in 1..=3 {
                store.backend().fail(Fault::Before, 0, 1);
                (claim, reply) = handed_back(complete(claim, reply), Fault::Before);
                assert_eq!(claim.ticket(), ticket, "{told}, {failures} times");
                assert_eq!(claim.checkpoint().map(|saved| &saved[..]), Some(&b"half"[..]), "{told}");
                assert_eq!(reply, crate::support::reply("done"), "{told}, {failures} times");
                assert_eq!(snapshot(fixture, &scope, &key), before, "{told}, {failures} times");
                let other = store.try_claim(&scope, &key, &pay).expect("an answer");
                assert_eq!(other.name(), "in progress", "{told}, {failures} times");
            }
            fixture.at(29);
            assert_eq!(
                store.try_claim(&scope, &key, &pay).expect("an answer").name(),
                "in progress",
                "{told}"
            );
            let done = complete(claim, reply).expect("a claim that stands");
            assert_eq!(store.try_claim(&scope, &key, &pay).expect("an answer").completed(), done, "{told}");
        }
    });
}

/// Case 26, where it was done and the caller can't know: asking again is safe, and gives what stands.
#[test]
fn a_completion_with_an_unknown_outcome_can_be_repeated_and_the_first_reply_stands() {
    on_every_backend(|fixture| {
        let store = watched(&fixture.store_with(secs(30), secs(3_600)));
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        for (what, complete) in COMPLETIONS {
            let told = format!("{}: {what}", fixture.name);
            let key = key(what);
            fixture.at(0);
            let claim = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
            store.backend().fail(Fault::After, 0, 1);
            let (claim, reply) = handed_back(complete(claim, reply("first")), Fault::After);
            let before = snapshot(fixture, &scope, &key);
            let stored = before.record.as_ref().map(|record| (record.state, record.reply.clone()));
            assert_eq!(stored, Some((State::Completed, Some(reply.clone()))), "{told}");

            fixture.at(10);
            let ticket = claim.ticket();
            let done = complete(claim, reply.clone()).expect("the first reply");
            assert_eq!(done.reply, reply, "{told}");
            let other = store.complete(&ticket, crate::support::reply("second")).expect("the first reply");
            assert_eq!(other, done, "{told}");
            assert_eq!(snapshot(fixture, &scope, &key), before, "{told}");
        }
    });
}

/// Case 26: nobody reruns before the lease ends, and the owner that comes too late still has its reply.
#[test]
fn an_owner_that_could_not_complete_before_it_was_taken_over_gets_claim_and_reply_back_again() {
    on_every_backend(|fixture| {
        let store = watched(&fixture.store_with(secs(30), secs(3_600)));
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        for (what, complete) in COMPLETIONS {
            let told = format!("{}: {what}", fixture.name);
            let key = key(what);
            fixture.at(0);
            let claim = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
            let ticket = claim.ticket();
            store.backend().fail(Fault::Before, 0, 1);
            let (claim, unrecorded) = handed_back(complete(claim, reply("first")), Fault::Before);
            fixture.at(30);
            let second = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
            assert_eq!(second.attempt(), 2, "{told}");
            let before = snapshot(fixture, &scope, &key);
            let refused = complete(claim, unrecorded).expect_err("a claim that was taken over");
            let (error, claim, unrecorded) = refused.into_parts();
            assert!(matches!(error, Error::ClaimLost(LostReason::Running)), "{told}: {error:?}");
            assert_eq!((claim.ticket(), unrecorded), (ticket, reply("first")), "{told}");
            assert_eq!(snapshot(fixture, &scope, &key), before, "{told}");
            second.complete(reply("second")).expect("a claim that stands");
        }
    });
}

/// Case 26 for the endings that give nothing back: the ticket is what they are repeated with.
#[test]
fn a_release_or_an_abandonment_that_fails_leaves_the_record_under_its_lease_and_can_be_repeated() {
    on_every_backend(|fixture| {
        let store = watched(&fixture.store_with(secs(30), secs(3_600)));
        let (scope, pay) = (scope("tenant"), asks_for("pay"));
        for (what, end) in ENDINGS_WITHOUT_REPLY {
            let told = format!("{}: {what}", fixture.name);
            let key = key(what);
            let claim = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
            let (ticket, before) = (claim.ticket(), snapshot(fixture, &scope, &key));
            store.backend().fail(Fault::Before, 0, 1);
            let error = end(&store.erase(), claim).expect_err("the injected error");
            assert!(error.is_transient(), "{told}: {error:?}");
            assert_eq!(snapshot(fixture, &scope, &key), before, "{told}");
            assert_eq!(
                store.try_claim(&scope, &key, &pay).expect("an answer").name(),
                "in progress",
                "{told}"
            );
            end(&store.erase(), store.resume(ticket).expect("a claim that stands"))
                .expect("a claim that stands");
            let next = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
            assert_eq!(next.attempt(), if what.starts_with("release") { 1 } else { 2 }, "{told}");
        }
    });
}

/// Case 26 on a file that another program keeps locked, instead of an injected error.
#[cfg(feature = "sqlite")]
#[test]
fn a_completion_that_finds_the_file_locked_hands_claim_and_reply_back() {
    use crate::support::handle_on_file;
    use idempotency::Policy;
    let fixture = Fixture::on_sqlite();
    let path = fixture.path().expect("a file");
    let store =
        handle_on_file(&fixture, |options| options.with_busy_timeout(std::time::Duration::from_millis(1)));
    let store = store.with_policy(Policy::new().with_lease(secs(30))).expect("a usable policy");
    let (scope, key, pay) = (scope("tenant"), key("k"), asks_for("pay"));
    let claim = store.try_claim(&scope, &key, &pay).expect("an answer").claimed();
    let before = snapshot(&fixture, &scope, &key);

    let other = rusqlite::Connection::open(path).expect("the file");
    other.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
    let failed = claim.complete(reply("done")).expect_err("a file that is locked");
    let (error, claim, unrecorded) = failed.into_parts();
    assert!(matches!(error, Error::Busy(_)) && error.is_transient() && !error.is_indefinite(), "{error:?}");
    other.execute_batch("ROLLBACK").expect("an end to the transaction");
    assert_eq!(snapshot(&fixture, &scope, &key), before);

    let done = claim.complete(unrecorded).expect("a claim that stands");
    assert_eq!(done.reply, reply("done"));
    assert_eq!(store.try_claim(&scope, &key, &pay).expect("an answer").completed(), done);
}
