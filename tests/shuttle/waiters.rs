//! Threads that wait for one key. A pause of theirs lets others run, and takes no time; the store's clock moves on
//! with each reading, so that a lease ends while they wait.

use crate::arena::{at_once, options};
use crate::dice::Dice;
use crate::explore::{Counts, explore};
use crate::soak::times;
use crate::terms::{self, LEASE, fingerprint, key, reply_of, scope};
use idempotency::{
    Claim, ClaimOutcome, Clock, DynStore, Error, ManualClock, MemoryBackend, Policy, Ran, Reply, RunError,
    Timestamp,
};
use std::time::Duration;

/// How much of a lease passes with each reading of the clock: it is over after fifteen.
const STEP: Duration = Duration::from_secs(2);
/// Never over in a test: a reply that was recorded stays.
const RETENTION: Duration = Duration::from_secs(1_000_000);

/// A clock that moves on with each reading.
struct Ticking(ManualClock);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        self.0.advance(STEP);
        self.0.now()
    }
}

/// What somebody does with the first claim that he is granted.
#[derive(Clone, Copy, Debug)]
enum First {
    Completes,
    Releases,
    Abandons,
    /// Ends nothing: the others get it when its lease is over.
    Dies,
    /// Abandons it, and does not wait for the next one.
    Runs,
}

/// The reply that a thread has come to, and how many claims it was granted.
struct Heard {
    reply: Reply,
    granted: usize,
}

/// Waits for the key again and again, until there is a reply.
fn hear(store: &DynStore, first: First) -> Heard {
    let mut granted = 0;
    loop {
        let claim = match store.claim_or_wait(&scope(), &key("key"), &fingerprint(), Duration::MAX) {
            Ok(ClaimOutcome::Completed(done)) => return Heard { reply: done.reply, granted },
            Ok(ClaimOutcome::Claimed(claim)) => claim,
            other => panic!("a wait without an end ended with {other:?}"),
        };
        granted += 1;
        let what = if granted == 1 { first } else { First::Completes };
        if let Some(reply) = ended(store, what, claim) {
            return Heard { reply, granted };
        }
    }
}

/// The reply, if that is how it ended. Any end may come after somebody else has taken over.
fn ended(store: &DynStore, what: First, claim: Claim) -> Option<Reply> {
    let lost = |error: Error| assert!(matches!(error, Error::ClaimLost(_)), "{error:?}");
    match what {
        First::Completes => {
            let reply = reply_of(claim.token());
            return claim.complete(reply).map_err(|failed| lost(failed.into())).ok().map(|done| done.reply);
        }
        First::Releases => claim.release().unwrap_or_else(lost),
        First::Abandons => claim.abandon().unwrap_or_else(lost),
        First::Dies => drop(claim),
        First::Runs => {
            claim.abandon().unwrap_or_else(lost);
            let work = |claim: &mut Claim| Ok::<_, Error>(reply_of(claim.token()));
            return match store.run(&scope(), &key("key"), &fingerprint(), work) {
                Ok(Ran::Executed(done) | Ran::Replayed(done)) => Some(done.reply),
                Ok(Ran::InProgress(_)) => None,
                // Taken over before it could record.
                Err(RunError::NotRecorded { error, .. }) => {
                    lost(error);
                    None
                }
                other => panic!("{other:?}"),
            };
        }
    }
    None
}

fn all_hear(dice: &mut Dice) -> Counts {
    let clock = Ticking(terms::clock());
    let store = terms::handle(MemoryBackend::new(options().with_clock(clock)));
    let policy = Policy::new().with_lease(LEASE).with_retention(RETENTION);
    let store = store.with_policy(policy).expect("a usable policy");
    let threads = dice.between(4, 8);
    let firsts: Vec<_> = (0..threads)
        .map(|_| {
            [First::Completes, First::Releases, First::Abandons, First::Dies, First::Runs][dice.between(0, 4)]
        })
        .collect();
    let heard = at_once(&store, threads, |number, store| hear(store, firsts[number]));
    assert_eq!(heard.len(), threads, "{firsts:?}");
    assert!(heard.iter().all(|each| each.reply == heard[0].reply), "{firsts:?}");
    let metrics = store.metrics();
    assert_eq!(metrics.completions, 1, "{firsts:?}: one reply is recorded");
    let granted: usize = heard.iter().map(|each| each.granted).sum();
    Counts::from([
        ("replies heard", threads),
        ("claims granted while waiting", granted),
        ("waits begun", usize::try_from(metrics.in_progress).expect("few")),
        ("takeovers", usize::try_from(metrics.takeovers).expect("few")),
    ])
}

#[test]
fn all_who_wait_for_a_key_hear_the_one_reply_however_the_owners_before_it_ended() {
    let each = times(12_000);
    let happened = explore("waiters", each, all_hear);
    // Twice as many interleavings, of 4 to 8 threads.
    assert!(happened["replies heard"] >= 11 * each, "{happened:?}");
    for what in ["claims granted while waiting", "waits begun", "takeovers"] {
        assert!(happened[what] >= 2 * each, "{what}: {happened:?}");
    }
}
