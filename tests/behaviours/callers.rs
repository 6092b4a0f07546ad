//! What the code around the store relies on: an error is never an answer, refusals cost the store nothing,
//! hints can be sent as they are.

use crate::common::{Answer, Fixture, asks_for, key, on, on_every_backend, scope, secs};
use idempotency::testing::{Fault, FaultyBackend};
use idempotency::{
    Backend, Claim, ClaimOutcome, DynStore, Error, IdempotencyKey, IdempotencyStore, InProgress, Policy,
    Scope, StoredResponse, Ticket,
};
use std::sync::Arc;
use std::time::Duration;

type Faulty = IdempotencyStore<FaultyBackend<Arc<dyn Backend>>>;

fn faulty(fixture: &Fixture) -> Faulty {
    IdempotencyStore::new(FaultyBackend::new(Arc::clone(fixture.store.backend())))
}

fn claim(store: &DynStore, name: &str) -> Claim {
    store.try_claim(&scope("acct_1"), &key(name), &asks_for("pay")).expect("an answer").claimed()
}

fn reply() -> StoredResponse {
    StoredResponse::new(201).with_body("done")
}

/// A call through a faulty store, with a claim that was granted before. Gives whether it was done.
type Call = fn(&Faulty, &mut Claim) -> Result<(), Error>;

/// Every method that asks the backend; the claim is resumed through the faulty store beforehand.
const CALLS: [(&str, Call); 18] = [
    ("try_claim of a new key", |store, _| {
        store.try_claim(&scope("acct_1"), &key("new"), &asks_for("pay")).map(drop)
    }),
    ("try_claim_many", |store, claim| {
        let operation = (claim.scope().clone(), claim.key().clone(), asks_for("pay"));
        store.try_claim_many(&[operation]).into_iter().try_for_each(|answer| answer.map(drop))
    }),
    ("try_claim of a running key", |store, claim| {
        store.try_claim(claim.scope(), claim.key(), &asks_for("pay")).map(drop)
    }),
    ("try_claim with another fingerprint", |store, claim| {
        store.try_claim(claim.scope(), claim.key(), &asks_for("other")).map(drop)
    }),
    ("lookup", |store, claim| store.lookup(claim.scope(), claim.key()).map(drop)),
    ("forget", |store, claim| store.forget(claim.scope(), claim.key()).map(drop)),
    ("sweep", |store, _| store.sweep(10).map(drop)),
    ("sweep_all", |store, _| store.sweep_all().map(drop)),
    ("stats", |store, _| store.stats().map(drop)),
    ("stuck", |store, _| store.stuck(10).map(drop)),
    ("resume", |store, claim| store.resume(claim.ticket()).map(drop)),
    ("complete by ticket", |store, claim| store.complete(&claim.ticket(), reply()).map(drop)),
    ("release by ticket", |store, claim| store.release(&claim.ticket())),
    ("abandon by ticket", |store, claim| store.abandon(&claim.ticket())),
    ("renew", |_, claim| claim.renew()),
    ("save_checkpoint", |_, claim| claim.save_checkpoint("half")),
    ("try_claim through a handle with a policy", |store, claim| {
        let other = store.with_policy(Policy::new().with_lease(secs(5)))?;
        other.try_claim(claim.scope(), claim.key(), &asks_for("pay")).map(drop)
    }),
    ("lookup through an erased handle", |store, claim| {
        store.erase().lookup(claim.scope(), claim.key()).map(drop)
    }),
];

/// The methods that use the claim up.
type End = fn(Claim) -> Result<(), Error>;

const ENDS: [(&str, End); 4] = [
    ("complete", |claim| Ok(claim.complete(reply()).map(drop)?)),
    ("complete_for", |claim| Ok(claim.complete_for(secs(60), reply()).map(drop)?)),
    ("release", Claim::release),
    ("abandon", Claim::abandon),
];

/// Runs each call on a store of its own, on every backend. It gets the fixture, the faulty store and a claim
/// to try it with.
fn with_each_call(
    test: impl Fn(&mut Fixture, &Faulty, Claim, &str, &dyn Fn(&Faulty, Claim) -> Result<(), Error>),
) {
    on_every_backend(|fixture| {
        let (store, mut number) = (faulty(fixture), 0);
        let mut run = |name: &str, call: &dyn Fn(&Faulty, Claim) -> Result<(), Error>| {
            number += 1;
            let ticket = claim(&fixture.store, &format!("key-{number}")).into_ticket();
            let resumed = store.resume(ticket).expect("a claim");
            test(fixture, &store, resumed, name, call);
            fixture.store.forget(&scope("acct_1"), &key("new")).expect("an answer");
        };
        for (name, call) in CALLS {
            run(name, &|store, mut claim| call(store, &mut claim));
        }
        for (name, end) in ENDS {
            run(name, &|_, claim| end(claim));
        }
    });
}

/// Case 59.
#[test]
fn a_store_that_is_down_answers_with_an_error_and_never_with_an_outcome() {
    with_each_call(|fixture, store, claim, name, call| {
        let ticket = claim.ticket();
        let before = fixture.stored(ticket.scope(), ticket.key());
        let calls = store.backend().calls();
        store.backend().fail(Fault::Before, 0, usize::MAX);
        let error = call(store, claim).expect_err(name);
        assert!(matches!(error, Error::Unavailable(_)), "{}, {name}: {error:?}", fixture.name);
        assert!(error.is_transient() && !error.is_indefinite(), "{name}");
        assert_eq!(
            store.backend().calls() - calls,
            1,
            "{name}: nothing is tried again behind the caller's back"
        );
        assert_eq!(fixture.stored(ticket.scope(), ticket.key()), before, "{}, {name}", fixture.name);
        assert_eq!(fixture.stored(&scope("acct_1"), &key("new")), None, "{}, {name}", fixture.name);

        store.backend().fail(Fault::Before, 0, 0);
        let claim = store.resume(ticket).expect("the claim stands");
        call(store, claim).expect("once the store is up, it is done");
    });
}

/// Case 59: neither an outcome nor "nothing was done" where that is not known.
#[test]
fn an_answer_that_was_lost_on_its_way_is_indefinite() {
    with_each_call(|fixture, store, claim, name, call| {
        store.backend().fail(Fault::After, 0, usize::MAX);
        let error = call(store, claim).expect_err(name);
        assert!(error.is_indefinite() && !error.is_transient(), "{}, {name}: {error:?}", fixture.name);
        store.backend().fail(Fault::After, 0, 0);
    });
}

/// What the docs of `try_claim` promise: after an indefinite claim, asking again answers "in progress" until
/// that lease ends.
#[test]
fn a_claim_whose_answer_was_lost_is_taken_over_only_after_its_lease() {
    on_every_backend(|fixture| {
        let (store, tenant, name, request) = (faulty(fixture), scope("acct_1"), key("k"), asks_for("pay"));
        store.backend().fail(Fault::After, 0, 1);
        assert!(store.try_claim(&tenant, &name, &request).expect_err("no answer").is_indefinite());
        assert_eq!(store.try_claim(&tenant, &name, &request).expect("an answer").name(), "in progress");
        fixture.at(90);
        let next = store.try_claim(&tenant, &name, &request).expect("an answer").claimed();
        assert_eq!(next.attempt(), 2, "{}", fixture.name);
    });
}

/// A completion whose answer was lost is recorded, and completing again gives the same: the caller need not
/// know.
#[test]
fn a_completion_whose_answer_was_lost_can_be_made_again() {
    on_every_backend(|fixture| {
        let store = faulty(fixture);
        let resumed = store.resume(claim(&fixture.store, "k").into_ticket()).expect("a claim");
        store.backend().fail(Fault::After, 0, 1);
        let unknown = resumed.complete(reply()).expect_err("no answer");
        let (error, resumed, kept) = unknown.into_parts();
        assert!(error.is_indefinite() && kept == reply().into());
        fixture.at(1);
        let done = resumed.complete(StoredResponse::new(500)).expect("an answer");
        assert!(done.reply == reply().into(), "{}: the first reply stands", fixture.name);
        assert_eq!(done.completed_at, crate::common::START, "{}", fixture.name);
    });
}

/// A backend that is down when it is asked says so through every kind of handle on it.
#[test]
fn a_fault_goes_through_arcs_boxes_and_erased_stores() {
    let inner = || {
        let backend = FaultyBackend::new(Arc::clone(Fixture::in_memory().store.backend()));
        backend.fail(Fault::Before, 0, usize::MAX);
        backend
    };
    let boxed: Box<dyn Backend> = Box::new(inner());
    for store in [on(inner()), on(Arc::new(inner())), on(boxed), on(inner()).erase()] {
        let answer = store.try_claim(&scope("acct_1"), &key("k"), &asks_for("pay"));
        assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
        assert!(matches!(store.sweep(1), Err(Error::Unavailable(_))));
        assert!(matches!(store.lookup(&scope("acct_1"), &key("k")), Err(Error::Unavailable(_))));
    }
}

#[track_caller]
fn running(store: &DynStore, name: &str) -> InProgress {
    let answer = store.try_claim(&scope("acct_1"), &key(name), &asks_for("pay")).expect("an answer");
    assert_eq!(answer.suggested_status(), Some(409));
    match answer {
        ClaimOutcome::InProgress(running) => running,
        other => panic!("wanted InProgress, got {other:?}"),
    }
}

/// Case 61: lease, the policy's hint, milliseconds since the claim → the hint given, and the header.
#[test]
fn the_hint_to_retry_is_never_beyond_the_lease_and_never_zero() {
    let ms = Duration::from_millis;
    let cases = [
        // The defaults, over the whole lease.
        (secs(90), secs(1), 0, secs(1), 1),
        (secs(90), secs(1), 88_999, secs(1), 1),
        (secs(90), secs(1), 89_000, secs(1), 1),
        (secs(90), secs(1), 89_001, ms(999), 1),
        (secs(90), secs(1), 89_999, ms(1), 1),
        // No hint at all, and one below a millisecond.
        (secs(90), Duration::ZERO, 0, ms(1), 1),
        (secs(90), Duration::from_nanos(1), 0, ms(1), 1),
        (secs(90), Duration::ZERO, 89_999, ms(1), 1),
        // A part of a millisecond rounds up.
        (secs(90), Duration::from_micros(1_500), 0, ms(2), 1),
        (secs(90), Duration::from_nanos(1_000_000_001), 0, ms(1_001), 2),
        // The header has whole seconds, rounded up.
        (secs(90), ms(1_001), 0, ms(1_001), 2),
        (secs(90), ms(2_000), 0, ms(2_000), 2),
        (secs(90), ms(59_999), 0, ms(59_999), 60),
        (secs(90), secs(30), 79_900, ms(10_100), 11),
        // More than the lease has.
        (secs(90), Duration::MAX, 0, secs(90), 90),
        (secs(90), secs(90), 1, ms(89_999), 90),
        (ms(1), secs(1), 0, ms(1), 1),
        (secs(36_525 * 86_400), Duration::MAX, 0, secs(36_525 * 86_400), 36_525 * 86_400),
    ];
    on_every_backend(|fixture| {
        for (number, (lease, hint, passed, wanted, header)) in cases.into_iter().enumerate() {
            fixture.at(0);
            let policy = Policy::new().with_lease(lease).with_retry_after(hint);
            let store = fixture.store.with_policy(policy).expect("a usable policy");
            let name = format!("key-{number}");
            let claim = claim(&store, &name);
            fixture.clock.advance(ms(passed));
            let told = running(&store, &name);
            let what = format!("{}, lease {lease:?}, hint {hint:?}, after {passed} ms", fixture.name);
            assert_eq!(told.retry_after, wanted, "{what}");
            assert_eq!(told.retry_after_secs(), header, "{what}");
            assert_eq!((told.lease_until, told.attempt), (claim.lease_until(), 1), "{what}");
        }
    });
}

/// Case 61.
#[test]
fn under_the_default_policy_a_client_is_told_to_come_back_in_a_second() {
    on_every_backend(|fixture| {
        let claim = claim(&fixture.store, "k");
        let told = running(&fixture.store, "k");
        assert_eq!((told.retry_after, told.retry_after_secs()), (secs(1), 1), "{}", fixture.name);
        assert_eq!(told.lease_until, crate::common::START.saturating_add(secs(90)), "{}", fixture.name);
        assert_eq!(told.lease_until, claim.lease_until());
    });
}

/// What a service does before it asks the store, and what it is told.
#[derive(Debug, PartialEq)]
enum Served {
    Refused(&'static str),
    Ran { attempt: u32 },
    Replayed,
}

struct Request<'a> {
    principal: Option<&'a str>,
    key_header: Option<&'a str>,
    body_len: usize,
    over_rate: bool,
}

/// A front door in this order: whatever can be refused without the store is refused before it.
fn serve(store: &Faulty, request: &Request<'_>) -> Result<Served, Error> {
    let Some(principal) = request.principal else { return Ok(Served::Refused("authentication")) };
    if request.over_rate {
        return Ok(Served::Refused("rate"));
    }
    if request.body_len > 1_000 {
        return Ok(Served::Refused("size"));
    }
    let Ok(tenant) = Scope::new(principal) else { return Ok(Served::Refused("scope")) };
    let Some(header) = request.key_header else { return Ok(Served::Refused("no key")) };
    let Ok(name) = IdempotencyKey::from_header(header) else { return Ok(Served::Refused("key")) };
    Ok(match store.try_claim(&tenant, &name, &asks_for("pay"))? {
        ClaimOutcome::Claimed(claim) => {
            let attempt = claim.attempt();
            claim.complete(reply())?;
            Served::Ran { attempt }
        }
        _ => Served::Replayed,
    })
}

/// Case 63.
#[test]
fn what_is_refused_before_the_claim_never_reaches_the_store_and_stays_retryable() {
    on_every_backend(|fixture| {
        let store = faulty(fixture);
        let good =
            || Request { principal: Some("acct_1"), key_header: Some("k"), body_len: 1, over_rate: false };
        let long = "k".repeat(256);
        let bad_keys = ["", " ", "\"\"", "\"k", "k l", "k,l", "é", "k\0", &long];
        let mut refused: Vec<(Request<'_>, &str)> =
            bad_keys.map(|header| (Request { key_header: Some(header), ..good() }, "key")).into();
        refused.extend([
            (Request { key_header: None, ..good() }, "no key"),
            (Request { principal: None, ..good() }, "authentication"),
            (Request { principal: Some(""), ..good() }, "scope"),
            (Request { principal: Some(&long), ..good() }, "scope"),
            (Request { over_rate: true, ..good() }, "rate"),
            (Request { body_len: 1_001, ..good() }, "size"),
        ]);
        for (request, why) in &refused {
            assert_eq!(serve(&store, request).expect("an answer"), Served::Refused(why));
        }
        assert_eq!(store.backend().calls(), 0, "{}", fixture.name);
        assert_eq!(store.lookup(&scope("acct_1"), &key("k")).expect("an answer"), None, "{}", fixture.name);
        assert_eq!(store.backend().calls(), 1, "{}: the double does count", fixture.name);

        assert_eq!(
            serve(&store, &good()).expect("an answer"),
            Served::Ran { attempt: 1 },
            "{}",
            fixture.name
        );
        assert_eq!(serve(&store, &good()).expect("an answer"), Served::Replayed, "{}", fixture.name);
    });
}

/// Case 63: what the crate itself refuses does not cost a call either.
#[test]
fn policies_replies_and_tickets_that_are_refused_never_reach_the_store() {
    on_every_backend(|fixture| {
        let store = faulty(fixture);
        let ticket: Ticket = claim(&fixture.store, "k").into_ticket();
        let other_store = Fixture::in_memory();
        let foreign = claim(&other_store.store, "k").into_ticket();

        let policy = Policy::new().with_lease(Duration::ZERO);
        assert!(matches!(store.with_policy(policy), Err(Error::Policy(_))));
        let large = StoredResponse::new(200).with_body(vec![0; 1024 * 1024 + 1]);
        assert!(matches!(store.complete(&ticket, large), Err(Error::ReplyTooLarge { .. })));
        let large = StoredResponse::new(200).with_header("n", vec![0; 64 * 1024]);
        assert!(matches!(store.complete(&ticket, large), Err(Error::HeadersTooLarge { .. })));
        assert!(matches!(store.complete(&foreign, reply()), Err(Error::ClaimLost(_))));
        assert!(matches!(store.release(&foreign), Err(Error::ClaimLost(_))));
        assert!(matches!(store.abandon(&foreign), Err(Error::ClaimLost(_))));
        assert!(matches!(store.resume(foreign), Err(Error::ClaimLost(_))));
        assert_eq!(store.backend().calls(), 0, "{}", fixture.name);

        let mut resumed = store.resume(ticket).expect("a claim");
        assert_eq!(store.backend().calls(), 1, "{}: one read", fixture.name);
        let too_large = resumed.save_checkpoint(vec![0; 64 * 1024 + 1]);
        assert!(matches!(too_large, Err(Error::CheckpointTooLarge { .. })));
        let unusable = resumed.complete_for(Duration::ZERO, reply()).expect_err("a refusal");
        assert!(matches!(unusable.error(), Error::Retention(_)));
        drop(unusable.into_parts());
        assert_eq!(store.backend().calls(), 1, "{}: dropping a claim is no call either", fixture.name);
    });
}

/// Case 65.
#[test]
fn a_fingerprint_is_no_key() {
    on_every_backend(|fixture| {
        let request = asks_for("the same order");
        let names = [("acct_1", "k"), ("acct_1", "l"), ("acct_2", "k"), ("k", "acct_1")];
        let mut effects = 0;
        for (tenant, name) in names {
            let claim =
                fixture.store.try_claim(&scope(tenant), &key(name), &request).expect("an answer").claimed();
            assert_eq!(claim.attempt(), 1, "{}", fixture.name);
            effects += 1;
            let reply = StoredResponse::new(201).with_body(format!("order {effects}"));
            claim.complete(reply).expect("a completion");
        }
        for (number, (tenant, name)) in (1..).zip(names) {
            let answer = fixture.store.try_claim(&scope(tenant), &key(name), &request).expect("an answer");
            let body = answer.completed().reply.response().map(|response| response.body().clone());
            assert_eq!(body.as_deref(), Some(format!("order {number}").as_bytes()), "{}", fixture.name);
        }
        assert_eq!(effects, 4);
    });
}
