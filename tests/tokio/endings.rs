//! Endings whose future is dropped: what was asked for is done, and nothing else.

use crate::bench::{Bench, Place, completed, eventually, is_in_progress, reply};
use crate::common::{on_every_backend, secs};
use crate::gate::Gate;
use idempotency::{AsyncClaim, AsyncStore, CompleteError, Completed, Error, Reply, State, StoredResponse};
use std::pin::Pin;

type Ending<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A way to end a claim, by name.
type Way = (&'static str, for<'a> fn(&'a AsyncStore<Gate>, AsyncClaim, Reply) -> Ending<'a>);
const COMPLETIONS: [Way; 3] = [
    ("complete", |_, claim, reply| Box::pin(async { drop(claim.complete(reply).await) })),
    ("complete_for", |_, claim, reply| Box::pin(async { drop(claim.complete_for(secs(60), reply).await) })),
    ("complete by ticket", |store, claim, reply| {
        let ticket = claim.ticket();
        Box::pin(async move { drop(store.complete(&ticket, reply).await) })
    }),
];
const ABANDONMENTS: [Way; 2] = [
    ("abandon", |_, claim, _| Box::pin(async { drop(claim.abandon().await) })),
    ("abandon by ticket", |store, claim, _| {
        let ticket = claim.ticket();
        Box::pin(async move { drop(store.abandon(&ticket).await) })
    }),
];
const RELEASES: [Way; 2] = [
    ("release", |_, claim, _| Box::pin(async { drop(claim.release().await) })),
    ("release by ticket", |store, claim, _| {
        let ticket = claim.ticket();
        Box::pin(async move { drop(store.release(&ticket).await) })
    }),
];

/// Case 23. The effect has happened, and the reply is there: dropping the future does not lose it.
#[test]
fn a_completion_lands_wherever_its_future_is_dropped() {
    on_every_backend(|fixture| {
        for (way, complete) in COMPLETIONS {
            for place in Place::WAITING {
                let bench = Bench::on(fixture, &format!("{way}, {place:?}"));
                let told = format!("{}: {way}, {place:?}", bench.name);
                let claim = bench.claim();
                bench.drop_at(place, complete(&bench.store, claim, reply("done")));
                eventually(&told, || bench.metrics().completions == 1);

                let answer = bench.block_on(bench.store.try_claim(&bench.scope, &bench.key, &bench.request));
                assert_eq!(completed(answer.expect("an answer")).reply, reply("done"), "{told}");
                assert_eq!(bench.gate().calls(), ["claim", "complete", "claim"], "{told}");
                assert_eq!(bench.metrics().dropped_unfinished, 0, "{told}");
            }
        }
    });
}

/// Case 23. Nothing was asked of the store yet, so the record stays as after a crash.
#[test]
fn an_ending_that_was_never_polled_leaves_the_record_in_progress() {
    on_every_backend(|fixture| {
        for (way, end) in COMPLETIONS.into_iter().chain(ABANDONMENTS).chain(RELEASES) {
            let bench = Bench::on(fixture, way);
            let told = format!("{}: {way}", bench.name);
            let claim = bench.claim();
            let before = bench.record();
            bench.drop_at(Place::Unpolled, end(&bench.store, claim, reply("done")));
            assert_eq!(bench.record(), before, "{told}");
            assert_eq!(bench.gate().calls(), ["claim"], "{told}");
            let by_ticket = way.ends_with("ticket");
            assert_eq!(bench.metrics().dropped_unfinished, u64::from(!by_ticket), "{told}");
        }
    });
}

#[test]
fn an_abandonment_and_a_release_are_done_wherever_their_futures_are_dropped() {
    on_every_backend(|fixture| {
        for (way, end) in ABANDONMENTS.into_iter().chain(RELEASES) {
            for place in Place::WAITING {
                let bench = Bench::on(fixture, &format!("{way}, {place:?}"));
                let told = format!("{}: {way}, {place:?}", bench.name);
                let claim = bench.claim();
                bench.drop_at(place, end(&bench.store, claim, reply("unused")));
                let ended = |bench: &Bench<'_>| bench.metrics().abandons + bench.metrics().releases;
                eventually(&told, || ended(&bench) == 1);
                let expected = if way.starts_with("release") { 1 } else { 2 };
                assert_eq!(bench.claim().attempt(), expected, "{told}");
                assert_eq!((ended(&bench), bench.gate().calls().len()), (1, 3), "{told}");
            }
        }
    });
}

/// Case 23, where the completion is refused after its future was dropped.
#[test]
fn a_completion_that_fails_after_its_future_was_dropped_leaves_the_record_under_its_lease() {
    on_every_backend(|fixture| {
        for place in [Place::Queued, Place::CALLING[0], Place::CALLING[1], Place::Answered] {
            fixture.at(0);
            let bench = Bench::on(fixture, &format!("{place:?}"));
            let told = format!("{}: {place:?}", bench.name);
            let claim = bench.claim();
            let before = bench.record();
            bench.gate().refuse("complete");
            bench.drop_at(place, claim.complete(reply("done")));
            // The claim goes with the last that has it, and nobody has its ticket.
            eventually(&told, || bench.metrics().dropped_unfinished == 1);
            assert_eq!(bench.record(), before, "{told}");
            assert_eq!(bench.gate().calls(), ["claim", "complete"], "{told}");
            fixture.at(30);
            assert_eq!(bench.claim().attempt(), 2, "{told}");
        }
    });
}

/// Takes the claim and the reply out of `failed`.
#[track_caller]
fn handed_back(failed: Result<Completed, CompleteError<AsyncClaim>>) -> (Error, AsyncClaim, Reply) {
    failed.expect_err("a completion that fails").into_parts()
}

/// Case 26.
#[test]
fn a_completion_that_fails_hands_claim_and_reply_back_and_can_be_repeated() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let mut claim = bench.claim();
        bench.block_on(claim.save_checkpoint("half")).expect("a claim that stands");
        let (ticket, before) = (claim.ticket(), bench.record());
        bench.gate().refuse("complete");
        for _ in 0..3 {
            let (error, back, unrecorded) = handed_back(bench.block_on(claim.complete(reply("done"))));
            assert!(error.is_transient(), "{}: {error:?}", bench.name);
            assert_eq!((back.ticket(), unrecorded), (ticket.clone(), reply("done")), "{}", bench.name);
            assert_eq!(back.checkpoint().map(|saved| &saved[..]), Some(&b"half"[..]), "{}", bench.name);
            assert_eq!(bench.record(), before, "{}", bench.name);
            claim = back;
        }
        let answer = bench.block_on(bench.store.try_claim(&bench.scope, &bench.key, &bench.request));
        assert!(is_in_progress(&answer.expect("an answer")), "{}", bench.name);
        bench.gate().refuse("nothing");
        bench.block_on(claim.renew()).expect("a claim that stands");

        let too_large = StoredResponse::new(200).with_body(vec![0; 2 * 1024 * 1024]);
        let (error, claim, _) = handed_back(bench.block_on(claim.complete(too_large)));
        assert!(matches!(error, Error::ReplyTooLarge { .. }), "{}: {error:?}", bench.name);
        let (error, claim, _) = handed_back(bench.block_on(claim.complete_for(secs(0), reply("done"))));
        assert!(matches!(error, Error::Retention(_)), "{}: {error:?}", bench.name);
        let done = bench.block_on(claim.complete(reply("done"))).expect("a claim that stands");
        assert_eq!(done.reply, reply("done"), "{}", bench.name);
        assert_eq!(bench.record().map(|record| record.state), Some(State::Completed), "{}", bench.name);
        assert_eq!(bench.metrics().dropped_unfinished, 0, "{}", bench.name);
    });
}
