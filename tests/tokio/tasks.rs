//! What tasks need of the futures: that they can be sent, spawned, aborted and timed out, and that none of
//! them holds a thread while it only waits.

use crate::bench::{Bench, claimed, completed, reply};
use crate::common::{self, Fixture, asks_for, key, on_every_backend, scope, secs};
use crate::gate::Moment;
use idempotency::{
    AsyncClaim, AsyncStore, Backend, ClaimOutcome, CompleteError, Error, Fingerprint, IdempotencyKey,
    IdempotencyStore, Ran, Reply, RunError, Scope, StoredResponse,
};
use std::error::Error as StdError;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::time::timeout;

/// What the work of a service calls: it takes its time, and borrows.
#[derive(Debug)]
struct Provider {
    name: String,
}

impl Provider {
    async fn charge(&self, downstream_key: &str, amount: &str) -> io::Result<String> {
        tokio::task::yield_now().await;
        Ok(format!("{}: {amount} for {}", self.name, downstream_key.len()))
    }
}

type Handling = Pin<Box<dyn Future<Output = Result<Ran, RunError<io::Error>>> + Send>>;

/// A handler that is generic in what it calls, as a layer of a web server is.
fn handler<B: Backend, F>(
    store: AsyncStore<B>,
    (scope, key, request): (Scope, IdempotencyKey, Fingerprint),
    inner: impl FnOnce(String) -> F + Send + 'static,
) -> Handling
where
    F: Future<Output = io::Result<String>> + Send,
{
    Box::pin(async move {
        let work = async move |claim: &mut AsyncClaim| {
            let answered = inner(claim.downstream_key("inner")).await?;
            claim.renew().await.map_err(io::Error::other)?;
            Ok(StoredResponse::new(201).with_body(answered).into())
        };
        store.run(&scope, &key, &request, work).await
    })
}

#[test]
fn work_of_several_steps_that_captures_and_borrows_can_be_spawned() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let store = bench.store.clone();
        let (scope, key, request) = (bench.scope.clone(), bench.key.clone(), bench.request);
        let provider = Arc::new(Provider { name: "bank".to_owned() });
        let amounts = ["1".to_owned(), "2".to_owned()];
        let paying = bench.runtime.spawn(async move {
            store
                .run(&scope, &key, &request, async |claim: &mut AsyncClaim| {
                    let mut paid = Vec::new();
                    for (step, amount) in amounts.iter().enumerate() {
                        let downstream_key = claim.downstream_key(&format!("charge {step}"));
                        paid.push(provider.charge(&downstream_key, amount).await?);
                        claim.save_checkpoint(paid.join("\n")).await.map_err(io::Error::other)?;
                    }
                    assert_eq!(claim.checkpoint().map(|saved| &saved[..]), Some(paid.join("\n").as_bytes()));
                    Ok::<Reply, io::Error>(StoredResponse::new(201).with_body(paid.join("\n")).into())
                })
                .await
        });
        let ran = bench.block_on(paying).expect("no panic").expect("an answer");
        let expected = StoredResponse::new(201).with_body("bank: 1 for 36\nbank: 2 for 36").into();
        assert_eq!(ran.reply(), Some(&expected), "{}", bench.name);
        assert_eq!(bench.gate().calls(), ["claim", "checkpoint", "checkpoint", "complete"], "{}", bench.name);

        let operation = (bench.scope.clone(), common::key("another"), bench.request);
        let handling = bench.runtime.spawn(handler(bench.store.clone(), operation, |key| async move {
            tokio::task::yield_now().await;
            Ok(key)
        }));
        let ran = bench.block_on(handling).expect("no panic");
        assert!(matches!(ran, Ok(Ran::Executed(_))), "{}: {ran:?}", bench.name);
    });
}

#[test]
fn what_an_operator_asks_is_answered_to_a_task() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        bench.block_on(bench.claim().abandon()).expect("a claim that stands");
        let stats = bench.block_on(bench.store.stats()).expect("counts");
        assert_eq!((stats.in_progress, stats.lapsed), (0, 1), "{}", bench.name);
        let stuck = bench.block_on(bench.store.stuck(1)).expect("a list");
        assert_eq!(
            stuck.iter().map(|stuck| &stuck.id.key).collect::<Vec<_>>(),
            [&bench.key],
            "{}",
            bench.name
        );
        assert_eq!(bench.gate().calls(), ["claim", "abandon", "stats", "stuck"], "{}", bench.name);
    });
}

fn assert_send<T: Send>(value: T) {
    drop(value);
}

#[test]
fn handles_and_futures_can_be_sent_between_threads() {
    fn assert_shared<T: Send + Sync + 'static>() {}
    assert_shared::<AsyncStore<Arc<dyn Backend>>>();
    assert_shared::<AsyncClaim>();
    fn assert_error<T: StdError + Send + Sync + 'static>() {}
    assert_error::<CompleteError<AsyncClaim>>();
    assert_error::<RunError<io::Error>>();

    let fixture = Fixture::in_memory();
    let bench = Bench::on(&fixture, "k");
    let (store, scope, key, request) = (&bench.store, &bench.scope, &bench.key, &bench.request);
    assert_send(store.try_claim(scope, key, request));
    assert_send(store.claim_or_wait(scope, key, request, secs(1)));
    assert_send(store.try_claim_many(&[]));
    assert_send(store.run(scope, key, request, async |_| Err::<Reply, _>(io::Error::other("unused"))));
    assert_send(store.lookup(scope, key));
    assert_send(store.forget(scope, key));
    assert_send(store.sweep(1));
    assert_send(store.sweep_all());
    assert_send(store.stats());
    assert_send(store.stuck(1));
    assert_send(store.call(|_| ()));
    let mut claim = bench.claim();
    let ticket = claim.ticket();
    assert_send(store.complete(&ticket, Reply::Marker));
    assert_send(store.release(&ticket));
    assert_send(store.abandon(&ticket));
    assert_send(store.resume(ticket));
    assert_send(claim.renew());
    assert_send(claim.save_checkpoint("half"));
    assert_send(claim.keep_alive(secs(60)));
    assert_send(bench.claim_of(&common::key("another")).into_ticket());
    assert_send(claim.complete(StoredResponse::new(201)));
}

/// Whether the call has come to the store by then or not.
#[test]
fn a_claim_that_times_out_leaves_the_key_to_others() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        bench.gate().shut(Moment::Before);
        let (scope, key, request) = (bench.scope.clone(), bench.key.clone(), bench.request);
        let answer = bench.block_on(async {
            timeout(Duration::from_millis(20), bench.store.try_claim(&scope, &key, &request)).await
        });
        assert!(answer.is_err(), "{}", bench.name);
        bench.gate().open();
        let store = bench.shut_down();
        let metrics = store.metrics();
        assert_eq!(metrics.claims, metrics.releases, "{}", fixture.name);
        assert_eq!(metrics.dropped_unfinished, 0, "{}", fixture.name);
        let next = store.try_claim(&scope, &key, &request).expect("an answer");
        assert!(matches!(next, ClaimOutcome::Claimed(_)), "{}: {next:?}", fixture.name);
    });
}

/// The pool has one thread: who comes after a waiter would have to wait for it.
#[test]
fn a_waiter_holds_no_thread_while_it_pauses() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let runtime = Builder::new_current_thread().enable_time().max_blocking_threads(1).build();
        let runtime = runtime.expect("a runtime");
        let store = AsyncStore::new(bench.store.store().clone(), runtime.handle().clone());
        let claim = bench.claim();
        let mut waiting =
            bench.answered(store.claim_or_wait(&bench.scope, &bench.key, &bench.request, secs(30)));
        // It has heard that the operation is running. The timers of its runtime stand still.
        assert!(waiting.poll().is_pending(), "{}", bench.name);
        for _ in 0..3 {
            bench.block_on(store.call(|_| ())).expect("a free thread");
        }
        assert!(!waiting.is_woken(), "{}", bench.name);

        let done = bench.block_on(claim.complete(reply("done"))).expect("a claim that stands");
        let answer = runtime.block_on(waiting.into_future()).expect("an answer");
        assert_eq!(completed(answer), done, "{}", bench.name);
    });
}

#[test]
fn all_who_wait_hear_of_the_reply() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let claim = bench.claim();
        let waiting: Vec<_> = (0..16)
            .map(|_| {
                let (store, scope, key) = (bench.store.clone(), bench.scope.clone(), bench.key.clone());
                let request = bench.request;
                let waiting = async move { store.claim_or_wait(&scope, &key, &request, secs(30)).await };
                bench.runtime.spawn(waiting)
            })
            .collect();
        bench.run_until(bench.name, || bench.metrics().in_progress == 16);
        let done = bench.block_on(claim.complete(reply("done"))).expect("a claim that stands");
        for waiter in waiting {
            let answer = bench.block_on(waiter).expect("no panic").expect("an answer");
            assert_eq!(completed(answer), done, "{}", bench.name);
        }
        assert_eq!(bench.metrics().claims, 1, "{}", bench.name);
    });
}

#[test]
fn only_a_waiter_that_has_to_wait_needs_timers() {
    let store = IdempotencyStore::in_memory();
    let runtime = Builder::new_current_thread().build().expect("a runtime without timers");
    let store = AsyncStore::new(store, runtime.handle().clone());
    let (scope, key, request) = (scope("tenant"), key("k"), asks_for("pay"));
    let wait = |max_wait| {
        let (store, scope, key) = (store.clone(), scope.clone(), key.clone());
        runtime.block_on(
            runtime.spawn(async move { store.claim_or_wait(&scope, &key, &request, max_wait).await }),
        )
    };
    let claim = claimed(wait(secs(1)).expect("no panic").expect("an answer"));
    assert!(wait(secs(0)).is_ok());
    assert!(wait(secs(1)).is_err_and(|error| error.is_panic()));
    runtime.block_on(claim.complete(reply("done"))).expect("a claim that stands");
    assert_eq!(completed(wait(secs(1)).expect("no panic").expect("an answer")).reply, reply("done"));
}

#[test]
fn handles_with_policies_of_their_own_share_the_store() {
    on_every_backend(|fixture| {
        let bench = Bench::on(fixture, "k");
        let policy = bench.store.policy().with_lease(secs(5));
        let other = bench.store.with_policy(policy).expect("a usable policy");
        assert_eq!(other.policy().lease(), secs(5));
        let too_short = bench.store.policy().with_lease(secs(0));
        assert!(matches!(bench.store.with_policy(too_short), Err(Error::Policy(_))));
        let answer = bench.block_on(other.try_claim(&bench.scope, &bench.key, &bench.request));
        let claim = claimed(answer.expect("an answer"));
        assert_eq!(claim.ticket().lease(), secs(5), "{}", bench.name);
        let resumed = bench
            .block_on(async { bench.store.resume(claim.into_ticket().await).await })
            .expect("a claim that stands");
        bench.block_on(resumed.abandon()).expect("a claim that stands");
        assert_eq!(bench.claim().attempt(), 2, "{}", bench.name);
    });
}
