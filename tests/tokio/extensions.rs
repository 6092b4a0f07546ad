//! Renewals and checkpoints whose future is dropped: the claim stays with its owner.

use crate::bench::{Bench, LEASE, Place, Started, completed, eventually, reply};
use crate::common::{START, key, on_every_backend, secs};
use crate::gate::Moment;
use idempotency::AsyncClaim;
use std::pin::Pin;

type Extending<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The two calls that extend a claim's lease, by name, and the backend's call that each is.
type Extension = (&'static str, &'static str, for<'a> fn(&'a mut AsyncClaim) -> Extending<'a>);
const EXTENSIONS: [Extension; 2] = [
    ("renew", "renew", |claim| Box::pin(async { drop(claim.renew().await) })),
    ("save_checkpoint", "checkpoint", |claim| Box::pin(async { drop(claim.save_checkpoint("half").await) })),
];

/// Case 23, in the middle of the work.
#[test]
fn a_claim_whose_extension_was_dropped_can_be_extended_and_completed() {
    on_every_backend(|fixture| {
        for (extension, call, extend) in EXTENSIONS {
            for place in Place::WAITING {
                fixture.at(0);
                let bench = Bench::on(fixture, &format!("{extension}, {place:?}"));
                let told = format!("{}: {extension}, {place:?}", bench.name);
                let mut claim = bench.claim();
                fixture.at(10);
                bench.drop_at(place, extend(&mut claim));
                eventually(&told, || bench.gate().calls() == ["claim", call]);
                fixture.at(20);
                bench.block_on(claim.renew()).expect("a claim that stands");
                let extended = START.saturating_add(secs(20)).saturating_add(LEASE);
                assert_eq!(claim.lease_until(), extended, "{told}");
                // What the dropped call has saved is known again after the next one.
                let saved = claim.checkpoint().map(|saved| &saved[..]);
                assert_eq!(saved, (call == "checkpoint").then_some(&b"half"[..]), "{told}");

                bench.block_on(claim.complete(reply("done"))).expect("a claim that stands");
                assert_eq!(bench.gate().calls(), ["claim", call, "renew", "complete"], "{told}");
                assert_eq!(bench.metrics().dropped_unfinished, 0, "{told}");
            }
        }
    });
}

#[test]
fn an_extension_that_was_never_polled_does_nothing() {
    on_every_backend(|fixture| {
        for (extension, _, extend) in EXTENSIONS {
            let bench = Bench::on(fixture, extension);
            let mut claim = bench.claim();
            bench.drop_at(Place::Unpolled, extend(&mut claim));
            bench.block_on(claim.complete(reply("done"))).expect("a claim that stands");
            assert_eq!(bench.gate().calls(), ["claim", "complete"], "{}: {extension}", bench.name);
        }
    });
}

/// What an owner calls is done in that order, whether or not it waits for it.
#[test]
fn a_completion_comes_after_an_extension_that_is_still_being_made() {
    on_every_backend(|fixture| {
        for (extension, call, extend) in EXTENSIONS {
            for moment in [Moment::Before, Moment::After] {
                let bench = Bench::on(fixture, &format!("{extension}, {moment:?}"));
                let told = format!("{}: {extension}, {moment:?}", bench.name);
                let mut claim = bench.claim();
                bench.gate().shut(moment);
                drop(Started::new(extend(&mut claim)));
                bench.gate().wait_for_call();
                // What a getter shows is at hand, whatever the call that is being made does.
                assert_eq!(
                    (claim.attempt(), claim.lease_until()),
                    (1, START.saturating_add(LEASE)),
                    "{told}"
                );
                let ticket = claim.ticket();
                assert_eq!(ticket.token(), claim.token(), "{told}");

                let completing = Started::new(claim.complete(reply("done")));
                // The pool has begun with the completion once it is done with what came after it.
                bench.block_on(bench.store.call(|_| ())).expect("a pool");
                bench.gate().open();
                let done = completing.answer().expect("a claim that stands");
                assert_eq!(bench.gate().calls(), ["claim", call, "complete"], "{told}");
                let answer = bench.block_on(bench.store.try_claim(&bench.scope, &bench.key, &bench.request));
                assert_eq!(completed(answer.expect("an answer")), done, "{told}");
                let metrics = bench.metrics();
                assert_eq!((metrics.lost_claims, metrics.dropped_unfinished), (0, 0), "{told}");
            }
        }
    });
}

/// What an owner does with a claim that it does not end, by name, and how often that is counted.
type Going = (&'static str, fn(AsyncClaim), u64);
const GOINGS: [Going; 2] = [
    ("dropped", |claim| drop(claim), 1),
    ("dropped while a ticket of it lives", |claim| drop((claim.ticket(), claim)), 0),
];

/// The counter speaks of keys that are blocked until a lease ends.
#[test]
fn a_claim_that_is_dropped_is_counted_once_also_while_a_call_of_it_is_being_made() {
    on_every_backend(|fixture| {
        for (going, go, counted) in GOINGS {
            for extends in [None, Some(Moment::Before), Some(Moment::After)] {
                let bench = Bench::on(fixture, &format!("{going}, {extends:?}"));
                let mut claim = bench.claim();
                if let Some(moment) = extends {
                    bench.gate().shut(moment);
                    drop(Started::new(claim.renew()));
                    bench.gate().wait_for_call();
                }
                go(claim);
                bench.gate().open();
                let metrics = bench.shut_down().metrics();
                assert_eq!(metrics.dropped_unfinished, counted, "{}: {going}, {extends:?}", fixture.name);
            }
        }
    });
}

/// A ticket that nobody got ends no claim.
#[test]
fn a_claim_is_counted_unless_the_ticket_that_it_was_turned_into_has_arrived() {
    on_every_backend(|fixture| {
        for place in [Place::Unpolled, Place::Queued] {
            let bench = Bench::on(fixture, &format!("{place:?}"));
            let ticket = bench.block_on(bench.claim_of(&key("another")).into_ticket());
            bench.drop_at(place, bench.claim().into_ticket());
            let store = bench.shut_down();
            assert_eq!(store.metrics().dropped_unfinished, 1, "{}: {place:?}", fixture.name);
            store.abandon(&ticket).expect("a claim that stands");
        }
    });
}

#[test]
fn a_ticket_that_was_taken_before_a_failed_ending_keeps_the_claim_from_being_counted() {
    on_every_backend(|fixture| {
        for (is_taken, counted) in [(true, 0), (false, 1)] {
            let bench = Bench::on(fixture, &format!("{is_taken}"));
            let claim = bench.claim();
            let ticket = is_taken.then(|| claim.ticket());
            bench.gate().refuse("complete");
            drop(bench.block_on(claim.complete(reply("done"))).expect_err("a refused completion"));
            assert_eq!(bench.metrics().dropped_unfinished, counted, "{}", fixture.name);
            drop(ticket);
        }
    });
}
