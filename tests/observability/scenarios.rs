//! For each counter, the one thing that moves it and no other.

use crate::common::{Answer, asks_for, scope, secs};
use crate::stage::{Stage, operation, until};
use idempotency::testing::Fault;
use idempotency::{Claim, Metrics, Policy, Reply};

pub struct Scenario {
    /// The counter that it moves, by its field.
    pub counter: &'static str,
    /// The kind of error that goes with it.
    pub error: Option<&'static str>,
    /// Prepares, notes the counters, does what counts, and gives what was noted.
    pub play: fn(&Stage<'_>) -> Metrics,
}

const fn counts(counter: &'static str, play: fn(&Stage<'_>) -> Metrics) -> Scenario {
    Scenario { counter, error: None, play }
}

pub const SCENARIOS: &[Scenario] = &[
    counts("claims", |stage| {
        let before = stage.store.metrics();
        let _ticket = stage.ticket();
        before
    }),
    counts("takeovers", |stage| {
        let _dead = stage.ticket();
        stage.lapse();
        let before = stage.store.metrics();
        let _ticket = stage.ticket();
        before
    }),
    counts("replays", |stage| {
        stage.complete();
        let before = stage.store.metrics();
        drop(stage.ask().expect("an answer"));
        before
    }),
    counts("in_progress", |stage| {
        let _running = stage.ticket();
        let before = stage.store.metrics();
        drop(stage.ask().expect("an answer"));
        before
    }),
    counts("mismatches", |stage| {
        let _running = stage.ticket();
        let before = stage.store.metrics();
        let (scope, key, _) = operation();
        drop(stage.store.try_claim(&scope, &key, &asks_for("another order")).expect("an answer"));
        before
    }),
    counts("completions", |stage| {
        let claim = stage.claim();
        let before = stage.store.metrics();
        claim.complete(Reply::Marker).expect("a completion");
        before
    }),
    Scenario {
        counter: "failed_completions",
        error: Some("errors.unavailable"),
        play: |stage| {
            let ticket = stage.ticket();
            let before = stage.store.metrics();
            stage.store.backend().fail(Fault::Before, 0, 1);
            stage.store.complete(&ticket, Reply::Marker).expect_err("a fault");
            before
        },
    },
    counts("releases", |stage| {
        let claim = stage.claim();
        let before = stage.store.metrics();
        claim.release().expect("a release");
        before
    }),
    counts("abandons", |stage| {
        let claim = stage.claim();
        let before = stage.store.metrics();
        claim.abandon().expect("the end of the lease");
        before
    }),
    // The work has released its claim already, so that there is nothing to abandon.
    counts("failed_runs", |stage| {
        let (scope, key, fingerprint) = operation();
        let mut before = Metrics::default();
        let work = |claim: &mut Claim| {
            stage.store.release(&claim.ticket()).expect("a release");
            before = stage.store.metrics();
            Err("no money")
        };
        stage.store.run(&scope, &key, &fingerprint, work).expect_err("the work's own error");
        before
    }),
    counts("lost_claims", |stage| {
        let claim = stage.claim();
        stage.store.forget(claim.scope(), claim.key()).expect("an answer");
        let before = stage.store.metrics();
        claim.complete(Reply::Marker).expect_err("a loss");
        before
    }),
    counts("dropped_unfinished", |stage| {
        let claim = stage.claim();
        let before = stage.store.metrics();
        drop(claim);
        before
    }),
    counts("renewals", |stage| {
        let mut claim = stage.claim();
        let before = stage.store.metrics();
        claim.renew().expect("a renewal");
        let _ticket = claim.into_ticket();
        before
    }),
    Scenario {
        counter: "renewal_failures",
        error: Some("errors.unavailable"),
        play: |stage| {
            // A claim that was resumed is renewed at once, and after that not for some part of its lease.
            let policy = Policy::new().with_lease(secs(24 * 3_600));
            let store = stage.store.with_policy(policy).expect("a usable policy");
            let (scope, key, fingerprint) = operation();
            let claim = store.try_claim(&scope, &key, &fingerprint).expect("an answer").claimed();
            let claim = store.resume(claim.into_ticket()).expect("the claim");
            let before = store.metrics();
            store.backend().fail(Fault::Before, 0, 1);
            claim.keep_alive(secs(3_600)).expect("a thread");
            until("a renewal fails", || store.metrics().renewal_failures > 0);
            let _ticket = claim.into_ticket();
            before
        },
    },
    counts("checkpoints", |stage| {
        let mut claim = stage.claim();
        let before = stage.store.metrics();
        claim.save_checkpoint("half-way").expect("a checkpoint");
        let _ticket = claim.into_ticket();
        before
    }),
    counts("forgotten", |stage| {
        let _ticket = stage.ticket();
        let before = stage.store.metrics();
        let (scope, key, _) = operation();
        assert!(stage.store.forget(&scope, &key).expect("an answer"));
        before
    }),
    counts("swept", |stage| {
        stage.complete();
        stage.expire();
        let before = stage.store.metrics();
        assert_eq!(stage.store.sweep(10).expect("a sweep").removed, 1);
        before
    }),
];

/// Something by name, that plays as a scenario does.
pub type Play = (&'static str, fn(&Stage<'_>) -> Metrics);

/// What is nobody's business to count: it changed nothing, and nothing went wrong.
pub const UNCOUNTED: &[Play] = &[
    ("a completion that is repeated", |stage| {
        let ticket = stage.ticket();
        stage.store.complete(&ticket, Reply::Marker).expect("a completion");
        let before = stage.store.metrics();
        stage.store.complete(&ticket, Reply::Marker).expect("the first reply");
        before
    }),
    ("a renewal after the claim's own completion", |stage| {
        let mut claim = stage.claim();
        stage.store.complete(&claim.ticket(), Reply::Marker).expect("a completion");
        let before = stage.store.metrics();
        claim.renew().expect_err("it has completed");
        before
    }),
    ("a release and an abandon of what is gone", |stage| {
        let ticket = stage.ticket();
        stage.store.release(&ticket).expect("a release");
        let before = stage.store.metrics();
        stage.store.release(&ticket).expect("nothing to do");
        stage.store.abandon(&ticket).expect("nothing to do");
        before
    }),
    ("looking up, forgetting and sweeping what is not there", |stage| {
        let _ticket = stage.ticket();
        let before = stage.store.metrics();
        let (_, key, _) = operation();
        assert!(stage.store.lookup(&scope("nobody"), &key).expect("an answer").is_none());
        assert!(!stage.store.forget(&scope("nobody"), &key).expect("an answer"));
        assert_eq!(stage.store.sweep_all().expect("a sweep").removed, 0);
        before
    }),
    ("handing a claim over", |stage| {
        let ticket = stage.ticket();
        let before = stage.store.metrics();
        let resumed = stage.store.resume(ticket).expect("the claim");
        let _ticket = resumed.into_ticket();
        before
    }),
    ("a claim that is known to be lost, dropped", |stage| {
        let mut claim = stage.claim();
        stage.store.forget(claim.scope(), claim.key()).expect("an answer");
        claim.renew().expect_err("a loss");
        let before = stage.store.metrics();
        drop(claim);
        before
    }),
];
