//! Every limit: what is at it is taken, what is over it is refused whole, and nothing is lost by the refusal.

use crate::common::{Answer, START, asks_for, key, on_every_backend, scope, secs};
use idempotency::{
    ClaimOutcome, Error, Fingerprint, IdempotencyStore, MAX_CHECKPOINT_LEN, MAX_HEADERS_LEN, MAX_REPLY_LEN,
    ManualClock, MemoryBackend, MemoryOptions, MemoryStore, Policy, PolicyError, Reply, StoredResponse,
};
use std::time::Duration;

const MIB: usize = 1024 * 1024;

fn response_of(len: usize) -> Reply {
    StoredResponse::new(200).with_body(vec![b'x'; len]).into()
}

fn reference_of(len: usize) -> Reply {
    Reply::Reference("x".repeat(len))
}

/// Case 30. The default limit is 1 MiB.
#[test]
fn a_reply_at_the_limit_replays_whole_and_a_larger_one_leaves_the_claim_standing() {
    on_every_backend(|fixture| {
        let request = asks_for("pay");
        for (limit, kind) in
            [(None, "default"), (Some(10), "small"), (Some(0), "none"), (Some(2 * MIB), "large")]
        {
            let policy = limit.map_or(Policy::new(), |limit| Policy::new().with_max_reply_len(limit));
            let store = fixture.store.with_policy(policy).expect("a usable policy");
            let max = limit.unwrap_or(MIB);
            for (shape, reply_of) in
                [("response", response_of as fn(usize) -> Reply), ("reference", reference_of)]
            {
                let (tenant, name) = (scope(shape), key(kind));
                let mut claim = store.try_claim(&tenant, &name, &request).expect("an answer").claimed();
                let before = fixture.stored(&tenant, &name);
                for len in [max + 1, 64 * MIB] {
                    let refused = claim.complete(reply_of(len)).expect_err("a refusal");
                    let (error, claim_back, reply_back) = refused.into_parts();
                    assert!(
                        matches!(error, Error::ReplyTooLarge { len: l, max: m } if (l, m) == (len, max)),
                        "{error:?}"
                    );
                    assert!(!error.is_transient() && !error.is_indefinite());
                    assert_eq!(reply_back.payload_len(), len, "the reply comes back whole");
                    claim = claim_back;

                    let refused = claim.complete_for(secs(60), reply_of(len)).expect_err("a refusal");
                    assert!(matches!(refused.error(), Error::ReplyTooLarge { .. }));
                    claim = refused.into_parts().1;

                    let refused = store.complete(&claim.ticket(), reply_of(len)).expect_err("a refusal");
                    assert!(matches!(refused, Error::ReplyTooLarge { .. }));
                    assert_eq!(
                        fixture.stored(&tenant, &name),
                        before,
                        "{}: nothing is written",
                        fixture.name
                    );
                }
                claim.renew().expect("a token that is still valid");
                claim.complete(reply_of(max)).expect("a reply at the limit");
                let replayed = store.try_claim(&tenant, &name, &request).expect("an answer").completed();
                assert!(replayed.reply == reply_of(max), "{}, {shape}, {kind}", fixture.name);
            }
        }
    });
}

/// Case 30. A policy can't ask for more than the crate takes.
#[test]
fn a_policy_above_the_largest_reply_limit_is_refused() {
    on_every_backend(|fixture| {
        let at = |max| fixture.store.with_policy(Policy::new().with_max_reply_len(max));
        assert!(at(MAX_REPLY_LEN).is_ok());
        for max in [MAX_REPLY_LEN + 1, usize::MAX] {
            let refused = at(max).expect_err("a refusal");
            assert!(matches!(refused, Error::Policy(PolicyError::ReplyLimit { max: MAX_REPLY_LEN })));
        }
    });
}

/// Case 30, for headers: all names and values count, and 32 bytes for each header.
#[test]
fn headers_at_the_limit_replay_whole_and_larger_ones_leave_the_claim_standing() {
    const EACH: usize = 32;
    let one = |len: usize| StoredResponse::new(200).with_header("n", vec![b'v'; len - EACH - 1]);
    let name_only = |len: usize| StoredResponse::new(200).with_header("n".repeat(len - EACH), "");
    let filled_up = |len: usize, name: &str, value: &'static str| {
        let count = len / (EACH + name.len() + value.len()) - 1;
        let headers = (0..count).fold(StoredResponse::new(200), |r, _| r.with_header(name, value));
        headers.with_header("n".repeat(len - count * (EACH + name.len() + value.len()) - EACH), "")
    };
    let many = |len: usize| filled_up(len, "name", "value");
    let empty = |len: usize| filled_up(len, "", "");
    let shapes: [(&str, &dyn Fn(usize) -> StoredResponse); 4] =
        [("one", &one), ("name", &name_only), ("many", &many), ("empty", &empty)];
    on_every_backend(|fixture| {
        let (tenant, request) = (scope("acct_1"), asks_for("pay"));
        for (shape, of_len) in shapes {
            let name = key(shape);
            let claim = fixture.store.try_claim(&tenant, &name, &request).expect("an answer").claimed();
            let before = fixture.stored(&tenant, &name);
            let refused = claim.complete(of_len(MAX_HEADERS_LEN + 1)).expect_err("a refusal");
            let (error, claim, reply) = refused.into_parts();
            assert!(
                matches!(error, Error::HeadersTooLarge { len, max } if (len, max) == (MAX_HEADERS_LEN + 1, MAX_HEADERS_LEN)),
                "{error:?}"
            );
            assert!(reply == of_len(MAX_HEADERS_LEN + 1).into(), "the reply comes back whole");
            let refused = fixture.store.complete(&claim.ticket(), of_len(MAX_HEADERS_LEN + 1));
            assert!(matches!(refused, Err(Error::HeadersTooLarge { .. })));
            assert_eq!(fixture.stored(&tenant, &name), before, "{}: nothing is written", fixture.name);

            claim.complete(of_len(MAX_HEADERS_LEN)).expect("headers at the limit");
            let replayed = fixture.store.try_claim(&tenant, &name, &request).expect("an answer").completed();
            assert!(replayed.reply == of_len(MAX_HEADERS_LEN).into(), "{}, {shape}", fixture.name);
        }
    });
}

/// Case 30, for checkpoints: 64 KiB.
#[test]
fn a_checkpoint_at_the_limit_is_kept_and_a_larger_one_changes_nothing() {
    on_every_backend(|fixture| {
        let (tenant, name, request) = (scope("acct_1"), key("k"), asks_for("pay"));
        assert_eq!(MAX_CHECKPOINT_LEN, 64 * 1024);
        let mut claim = fixture.store.try_claim(&tenant, &name, &request).expect("an answer").claimed();
        let whole: Vec<u8> = (0..=u8::MAX).cycle().take(MAX_CHECKPOINT_LEN).collect();
        claim.save_checkpoint(whole.clone()).expect("a checkpoint at the limit");
        fixture.at(10);
        let before = fixture.stored(&tenant, &name);
        for len in [MAX_CHECKPOINT_LEN + 1, 64 * MIB] {
            let refused = claim.save_checkpoint(vec![0; len]).expect_err("a refusal");
            assert!(
                matches!(refused, Error::CheckpointTooLarge { len: l, max: MAX_CHECKPOINT_LEN } if l == len),
                "{refused:?}"
            );
            assert_eq!(fixture.stored(&tenant, &name), before, "{}: nothing is written", fixture.name);
            assert_eq!(claim.checkpoint().map(AsRef::as_ref), Some(whole.as_slice()));
        }
        fixture.at(90);
        let next = fixture.store.try_claim(&tenant, &name, &request).expect("an answer").claimed();
        assert_eq!(next.checkpoint().map(AsRef::as_ref), Some(whole.as_slice()), "{}", fixture.name);
        let mut next = next;
        next.save_checkpoint(Vec::new()).expect("an empty checkpoint");
        assert_eq!(next.checkpoint().map(AsRef::as_ref), Some([].as_slice()));
    });
}

fn memory(clock: &ManualClock, set: impl Fn(MemoryOptions) -> MemoryOptions) -> MemoryStore {
    IdempotencyStore::new(MemoryBackend::new(set(MemoryOptions::new().with_clock(clock.clone()))))
}

fn claim_number(store: &MemoryStore, number: usize, request: &Fingerprint) -> Result<ClaimOutcome, Error> {
    store.try_claim(&scope("acct_1"), &key(&format!("key-{number:06}")), request)
}

/// How many claims of fresh keys the store takes before it says that it is full.
fn fill(store: &MemoryStore, request: &Fingerprint) -> usize {
    fill_from(store, 0, request)
}

fn fill_from(store: &MemoryStore, first: usize, request: &Fingerprint) -> usize {
    for number in first..first + 100_000 {
        match claim_number(store, number, request) {
            Ok(answer) => drop(answer.claimed()),
            Err(Error::Full(_)) => return number - first,
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("the store never said that it is full");
}

#[test]
fn a_memory_store_takes_exactly_as_many_records_as_it_may_hold() {
    for max in [0, 1, 2, 1_000] {
        let store = memory(&ManualClock::new(START), |options| options.with_max_records(max));
        assert_eq!(fill(&store, &asks_for("pay")), max);
    }
}

#[test]
fn a_memory_store_stops_before_it_holds_more_bytes_than_it_may() {
    let request = asks_for("pay");
    let fits = |max| fill(&memory(&ManualClock::new(START), |options| options.with_max_bytes(max)), &request);
    let (few, many) = (fits(100_000), fits(1_000_000));
    assert_eq!(fits(0), 0);
    assert!(few > 0 && few * 16 < 100_000, "at the least, scope and key of each record are counted: {few}");
    assert!(
        (few * 10..few * 10 + 10).contains(&many),
        "ten times the room takes ten times the records: {few}, {many}"
    );
}

/// The overshoot is bounded because only new records are refused.
#[test]
fn a_full_memory_store_takes_everything_that_needs_no_new_record() {
    let by_records = |options: MemoryOptions| options.with_max_records(6);
    let by_bytes = |options: MemoryOptions| options.with_max_bytes(4_000);
    let limits: [&dyn Fn(MemoryOptions) -> MemoryOptions; 2] = [&by_records, &by_bytes];
    for limit in limits {
        let (clock, request) = (ManualClock::new(START), asks_for("pay"));
        let store = memory(&clock, limit);
        let held = fill(&store, &request);
        assert!(held >= 4, "{held}");
        let is_full = || matches!(claim_number(&store, 999_999, &request), Err(Error::Full(_)));
        assert!(is_full());

        clock.advance(secs(90));
        let mut claim = claim_number(&store, 0, &request).expect("a takeover").claimed();
        assert_eq!(claim.attempt(), 2);
        claim.save_checkpoint(vec![1; MAX_CHECKPOINT_LEN]).expect("a checkpoint");
        claim.renew().expect("a renewal");
        claim.complete(response_of(MIB)).expect("a completion");
        assert!(claim_number(&store, 0, &request).expect("a replay").completed().reply == response_of(MIB));
        let second = claim_number(&store, 1, &request).expect("a takeover").claimed();
        second.complete(StoredResponse::new(200).with_header("n", vec![b'v'; 60_000])).expect("a completion");
        claim_number(&store, 2, &request).expect("a takeover").claimed().abandon().expect("an end");
        assert!(is_full(), "nothing that is live made room");
        let mismatch = claim_number(&store, 2, &asks_for("other")).expect("an answer");
        assert!(matches!(mismatch, ClaimOutcome::FingerprintMismatch(_)));

        for number in 0..held {
            let record = store.lookup(&scope("acct_1"), &key(&format!("key-{number:06}")));
            assert!(record.expect("an answer").is_some(), "a live record is never evicted");
        }
    }
}

/// Whatever ends a record gives back the room it took, to the byte: else a store fills up for ever.
#[test]
fn a_memory_store_gives_back_all_the_room_that_an_ended_record_took() {
    let by_records = |options: MemoryOptions| options.with_max_records(10);
    let by_bytes = |options: MemoryOptions| options.with_max_bytes(5_000);
    let limits: [&dyn Fn(MemoryOptions) -> MemoryOptions; 2] = [&by_records, &by_bytes];
    type End = fn(&MemoryStore, usize, &Fingerprint, &ManualClock);
    let own = |store: &MemoryStore, number| store.lookup(&scope("acct_1"), &key(&format!("key-{number:06}")));
    let ends: [(&str, End); 4] = [
        ("release", |store, number, request, clock| {
            clock.advance(secs(200_000));
            let mut claim = claim_number(store, number, request).expect("over the expired one").claimed();
            claim.save_checkpoint("saved").expect("a checkpoint");
            claim.release().expect("an end");
        }),
        ("forget", |store, number, request, clock| {
            clock.advance(secs(90));
            let claim = claim_number(store, number, request).expect("a takeover").claimed();
            claim.complete(response_of(100)).expect("a completion");
            assert!(store.forget(&scope("acct_1"), &key(&format!("key-{number:06}"))).expect("an answer"));
        }),
        ("expiry of a claim", |store, number, request, clock| {
            clock.advance(secs(90));
            let mut claim = claim_number(store, number, request).expect("a takeover").claimed();
            claim.save_checkpoint("saved").expect("a checkpoint");
            clock.advance(secs(200_000));
        }),
        ("expiry of a reply", |store, number, request, clock| {
            clock.advance(secs(90));
            let claim = claim_number(store, number, request).expect("a takeover").claimed();
            let response = StoredResponse::new(200).with_header("name", "value").with_body("body");
            claim.complete(response).expect("a completion");
            clock.advance(secs(200_000));
        }),
    ];
    for limit in limits {
        for (end, ended_by) in ends {
            let (clock, request) = (ManualClock::new(START), asks_for("pay"));
            let store = memory(&clock, limit);
            let held = fill(&store, &request);
            for _ in 0..3 {
                for number in 0..held {
                    ended_by(&store, number, &request, &clock);
                    let left = own(&store, number).expect("an answer");
                    assert!(left.is_none(), "{end} left {left:?}");
                }
                store.sweep_all().expect("a sweep");
                assert_eq!(fill(&store, &request), held, "after {end}");
            }
        }
    }
}

/// Nobody has to sweep for a full store to go on: it does so itself, as far as it needs to.
#[test]
fn a_full_memory_store_sweeps_what_has_expired_before_it_refuses() {
    let (clock, request) = (ManualClock::new(START), asks_for("pay"));
    let store = memory(&clock, |options| options.with_max_records(50));
    let short = Policy::new().with_lease(secs(10)).with_retention(secs(10));
    let short = store.with_policy(short).expect("a usable policy");
    for number in 0..40 {
        drop(claim_number(&short, number, &request).expect("room").claimed());
    }
    assert_eq!(fill_from(&store, 100, &request), 10);
    clock.set(START.saturating_add(secs(20)).saturating_sub(Duration::from_millis(1)));
    assert_eq!(fill_from(&store, 200, &request), 0, "a millisecond before the deadline nothing may go");
    clock.set(START.saturating_add(secs(20)));
    assert_eq!(fill_from(&store, 200, &request), 40, "all that has expired makes room");
    for number in (100..110).chain(200..240) {
        let record = store.lookup(&scope("acct_1"), &key(&format!("key-{number:06}"))).expect("an answer");
        assert!(record.is_some(), "{number} is live and was evicted");
    }
}

/// Replies are taken beyond the limit, so more may have to go than one new record needs, and than one batch
/// removes.
#[test]
fn a_memory_store_far_over_its_bytes_recovers_with_the_first_claim_after_the_expiry() {
    let (clock, request) = (ManualClock::new(START), asks_for("pay"));
    let store = memory(&clock, |options| options.with_max_bytes(500_000));
    let held = fill(&store, &request);
    assert!(held > 600, "more than a few batches: {held}");
    for number in 0..held {
        clock.advance(secs(90));
        let claim = claim_number(&store, number, &request).expect("a takeover").claimed();
        claim.complete(response_of(100_000)).expect("a completion");
    }
    assert!(matches!(claim_number(&store, 999_999, &request), Err(Error::Full(_))));
    clock.advance(secs(24 * 3600));
    drop(claim_number(&store, 999_999, &request).expect("all the others have expired").claimed());
}
