//! Claims that are kept alive while their tasks wait.

use crate::bench::{Bench, Started, eventually, reply};
use crate::common::{START, key, on_every_backend, secs};
use crate::gate::Moment;
use idempotency::{AsyncClaim, AsyncStore, Error, IdempotencyKey, LostReason, Reply, Timestamp};
use std::future::pending;
use std::time::Duration;

/// A third of it is 20 ms: soon, but not at once. The store's clock stands still meanwhile.
const LEASE: Duration = Duration::from_millis(60);

impl Bench<'_> {
    /// Gives the bench's claims leases that are soon renewed.
    fn with_short_lease(mut self) -> Self {
        let policy = self.store.policy().with_lease(LEASE);
        self.store = self.store.with_policy(policy).expect("a usable policy");
        self
    }

    #[track_caller]
    fn kept(&self, key: &IdempotencyKey) -> AsyncClaim {
        let mut claim = self.claim_of(key);
        self.block_on(claim.keep_alive(Duration::MAX)).expect("a thread");
        claim
    }

    /// Waits until a claim of another key, that is kept alive meanwhile, was renewed a few times: those of
    /// this one would have been, too.
    fn let_renewals_pass(&self) {
        let other = self.kept(&key("another"));
        let renewals = self.metrics().renewals;
        eventually("renewals of another claim", || self.metrics().renewals >= renewals + 5);
        self.block_on(other.abandon()).expect("a claim that stands");
    }
}

/// The end of a lease that is extended `seconds` after the start.
fn lease_from(seconds: u64) -> Timestamp {
    START.saturating_add(secs(seconds)).saturating_add(LEASE)
}

#[test]
fn a_claim_that_is_kept_alive_is_renewed_while_its_task_waits_and_shows_it() {
    on_every_backend(|fixture| {
        fixture.at(0);
        let bench = Bench::on(fixture, "k").with_short_lease();
        let claim = bench.kept(&bench.key);
        for seconds in [10, 20] {
            fixture.at(seconds);
            eventually(bench.name, || claim.lease_until() == lease_from(seconds));
        }
        assert_eq!(
            bench.record().map(|record| record.lease_until),
            Some(claim.lease_until()),
            "{}",
            bench.name
        );
        assert!(!claim.is_lost() && claim.renewal_error().is_none(), "{}", bench.name);
        bench.block_on(claim.complete(reply("done"))).expect("a claim that stands");
        let metrics = bench.metrics();
        assert_eq!((metrics.lost_claims, metrics.renewal_failures), (0, 0), "{}", bench.name);
    });
}

#[test]
fn a_claim_hears_of_its_loss_and_of_renewals_that_fail_without_a_call() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k").with_short_lease();
        let claim = bench.kept(&bench.key);
        bench.gate().refuse("batch");
        eventually(bench.name, || claim.renewal_error().is_some_and(|error| error.is_transient()));
        assert!(!claim.is_lost(), "{}", bench.name);
        bench.gate().refuse("nothing");
        eventually(bench.name, || claim.renewal_error().is_none());

        bench.block_on(bench.store.forget(&bench.scope, &bench.key)).expect("an answer");
        eventually(bench.name, || claim.is_lost());
        let failed = bench.block_on(claim.complete(reply("late"))).expect_err("a lost claim");
        assert!(matches!(failed.error(), Error::ClaimLost(LostReason::Gone)), "{}: {failed:?}", bench.name);
    });
}

/// A call of its own tells an owner, too.
#[test]
fn a_claim_that_is_given_back_by_a_failed_completion_knows_whether_it_is_lost() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let claim = bench.claim();
        bench.gate().refuse("complete");
        let (_, claim, _) =
            bench.block_on(claim.complete(reply("done"))).expect_err("a refused call").into_parts();
        assert!(!claim.is_lost(), "{}", bench.name);
        bench.gate().refuse("nothing");
        bench.block_on(bench.store.forget(&bench.scope, &bench.key)).expect("an answer");
        let (_, claim, _) =
            bench.block_on(claim.complete(reply("done"))).expect_err("a lost claim").into_parts();
        assert!(claim.is_lost(), "{}", bench.name);
    });
}

/// Case 23. The renewing goes with the task, and the record stays as after a crash.
#[test]
fn a_run_that_is_dropped_is_not_kept_alive_any_more() {
    on_every_backend(|fixture| {
        fixture.at(0);
        let bench = Bench::on(fixture, "k").with_short_lease();
        let running = bench.runtime.spawn({
            let store: AsyncStore<_> = bench.store.clone();
            let (scope, key, request) = (bench.scope.clone(), bench.key.clone(), bench.request);
            async move {
                let work = async |claim: &mut AsyncClaim| -> Result<Reply, Error> {
                    claim.keep_alive(Duration::MAX).await?;
                    pending().await
                };
                store.run(&scope, &key, &request, work).await
            }
        });
        bench.run_until(bench.name, || bench.metrics().renewals >= 2);
        running.abort();
        assert!(bench.block_on(running).is_err_and(|error| error.is_cancelled()), "{}", bench.name);
        fixture.at(10);
        bench.let_renewals_pass();
        assert_eq!(bench.record().map(|record| record.lease_until), Some(lease_from(0)), "{}", bench.name);
        assert_eq!(bench.metrics().dropped_unfinished, 1, "{}", bench.name);
        assert_eq!(bench.claim().attempt(), 2, "{}", bench.name);
    });
}

/// Else the renewal would undo what is done by the ticket.
#[test]
fn turning_a_claim_into_a_ticket_waits_for_the_renewal_that_is_on_its_way_and_none_comes_after_it() {
    on_every_backend(|fixture| {
        for moment in [Moment::Before, Moment::After] {
            let bench = Bench::on(fixture, &format!("{moment:?}")).with_short_lease();
            let claim = bench.kept(&bench.key);
            bench.gate().shut_for("batch", moment);
            bench.gate().wait_for_call();
            let mut turning = Started::new(claim.into_ticket());
            // The pool has begun with it once it is done with what came after it.
            bench.block_on(bench.store.call(|_| ())).expect("a free thread");
            assert!(turning.poll().is_pending(), "{}", bench.name);
            bench.gate().open();
            let ticket = turning.answer();
            bench.block_on(bench.store.abandon(&ticket)).expect("a claim that stands");
            let abandoned = bench.record();
            bench.let_renewals_pass();
            assert_eq!(bench.record(), abandoned, "{}", bench.name);
            assert_eq!(bench.claim().attempt(), 2, "{}", bench.name);
        }
    });
}
