//! Every operation that writes, each with what it finds and with what the file says once it is done.

use crate::bench::{Bench, SCOPE, Stored};
use crate::common::{Answer as _, START, asks_for, key, scope, secs};
use idempotency::{
    BackendError, Claim, ClaimOutcome, Completed, Error, Ran, Record, Reply, RunError, State, StoredResponse,
    Timestamp,
};
use std::cell::Cell;

/// What an operation answered.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Key, token and attempt of each claim.
    Granted(Vec<(&'static str, i64, u32)>),
    Completed(Completed),
    StandsUntil(Timestamp),
    Ended,
    Forgotten(bool),
    Removed(usize),
    /// Somebody else's record is in the way; which no operation expects that is alone.
    Refused,
}

pub struct Scenario {
    pub name: &'static str,
    /// Whether one fault leaves its answer definite. Of a sweep nobody acts on what it says to have removed.
    pub is_settled: bool,
    /// What there is before the operation, and the claim that it is called on.
    prepare: fn(&Bench) -> Option<Claim>,
    run: fn(&Bench, Option<Claim>) -> Result<Answer, Error>,
    /// What the operation answers if it has made the second of the first; none if it can't have.
    answer: fn(&Stored, &Stored) -> Option<Answer>,
}

impl Scenario {
    /// Another operation's completed record is always there, too.
    pub fn prepare(&self, bench: &Bench) -> Option<Claim> {
        claim(bench, "b").complete(Reply::Marker).expect("held");
        (self.prepare)(bench)
    }

    pub fn run(&self, bench: &Bench, claim: Option<Claim>) -> Result<Answer, Error> {
        (self.run)(bench, claim)
    }

    /// What the operation answers if it has made `after` of `before`; none if it can't have.
    pub fn answer(&self, before: &Stored, after: &Stored) -> Option<Answer> {
        (self.answer)(before, after)
    }
}

/// Longer than a page, so that a commit that stands by half would show.
fn reply() -> Reply {
    StoredResponse::new(201).with_header("a", "b").with_body(vec![7; 6_000]).into()
}

fn claim(bench: &Bench, name: &'static str) -> Claim {
    bench.store.try_claim(&scope(SCOPE), &key(name), &asks_for("x")).expect("a sound disk").claimed()
}

pub fn try_claim(bench: &Bench, name: &'static str) -> Result<Answer, Error> {
    Ok(match bench.store.try_claim(&scope(SCOPE), &key(name), &asks_for("x"))? {
        ClaimOutcome::Claimed(claim) => Answer::Granted(vec![(name, claim.token().get(), claim.attempt())]),
        _ => Answer::Refused,
    })
}

/// The grant of `name`, if `after` is `before` with a new claim of it.
fn grant(before: &Stored, after: &Stored, name: &'static str) -> Option<(&'static str, i64, u32)> {
    let record = after.record(name).filter(|record| record.state == State::InProgress)?;
    (record.token.get() > before.highest_token()).then_some((name, record.token.get(), record.attempt))
}

/// The record that an operation on "a" alone has left, if it touched nothing else.
fn only_a<'s>(before: &Stored, after: &'s Stored) -> Option<Option<&'s Record>> {
    let untouched = before.without(&["a"]) == after.without(&["a"]) && before.orders == after.orders;
    untouched.then(|| after.record("a"))
}

/// The record of "a" after an operation of its owner.
fn still_held<'s>(before: &Stored, after: &'s Stored) -> Option<&'s Record> {
    let (held, record) = (before.record("a")?, only_a(before, after)??);
    (held.token == record.token && held.attempt == record.attempt).then_some(record)
}

const EXPIRED: u64 = 90 + 24 * 60 * 60;

fn at(bench: &Bench, seconds: u64) {
    bench.clock.set(START.saturating_add(secs(seconds)));
}

pub static ALL: [Scenario; 14] = [
    Scenario {
        name: "claim",
        is_settled: true,
        prepare: |_| None,
        run: |bench, _| try_claim(bench, "a"),
        answer: |before, after| {
            only_a(before, after)?;
            let granted = grant(before, after, "a").filter(|(_, _, attempt)| *attempt == 1)?;
            Some(Answer::Granted(vec![granted]))
        },
    },
    Scenario {
        name: "claim over an expired record",
        is_settled: true,
        prepare: |bench| {
            claim(bench, "a").complete(reply()).expect("held");
            at(bench, EXPIRED);
            None
        },
        run: |bench, _| try_claim(bench, "a"),
        answer: |before, after| {
            only_a(before, after)?;
            let granted = grant(before, after, "a").filter(|(_, _, attempt)| *attempt == 1)?;
            Some(Answer::Granted(vec![granted]))
        },
    },
    Scenario {
        name: "takeover",
        is_settled: true,
        prepare: |bench| {
            claim(bench, "a").save_checkpoint(vec![1; 6_000]).expect("held");
            at(bench, 90);
            None
        },
        run: |bench, _| try_claim(bench, "a"),
        answer: |before, after| {
            let record = only_a(before, after)??;
            let kept = record.checkpoint == before.record("a")?.checkpoint;
            let granted = grant(before, after, "a").filter(|(_, _, attempt)| kept && *attempt == 2)?;
            Some(Answer::Granted(vec![granted]))
        },
    },
    Scenario {
        name: "complete",
        is_settled: true,
        prepare: |bench| Some(claim(bench, "a")),
        run: |_, claim| Ok(Answer::Completed(owned(claim).complete(reply())?)),
        answer: |before, after| {
            let completed = Completed::of(still_held(before, after)?)?;
            (completed.reply == reply()).then_some(Answer::Completed(completed))
        },
    },
    Scenario {
        name: "complete after a lapse",
        is_settled: true,
        prepare: |bench| {
            let mut claim = claim(bench, "a");
            claim.save_checkpoint(vec![1; 6_000]).expect("held");
            at(bench, 90);
            Some(claim)
        },
        run: |_, claim| Ok(Answer::Completed(owned(claim).complete(reply())?)),
        answer: |before, after| {
            let completed = Completed::of(still_held(before, after)?)?;
            (completed.reply == reply()).then_some(Answer::Completed(completed))
        },
    },
    Scenario {
        name: "renew",
        is_settled: true,
        prepare: |bench| {
            let claim = claim(bench, "a");
            at(bench, 30);
            Some(claim)
        },
        run: |_, claim| {
            let mut claim = owned(claim);
            claim.renew()?;
            Ok(Answer::StandsUntil(claim.lease_until()))
        },
        answer: |before, after| {
            let record = still_held(before, after)?;
            (record.lease_until > before.record("a")?.lease_until)
                .then_some(Answer::StandsUntil(record.lease_until))
        },
    },
    Scenario {
        name: "checkpoint",
        is_settled: true,
        prepare: |bench| Some(claim(bench, "a")),
        run: |_, claim| {
            let mut claim = owned(claim);
            claim.save_checkpoint(vec![2; 6_000])?;
            Ok(Answer::StandsUntil(claim.lease_until()))
        },
        answer: |before, after| {
            let record = still_held(before, after)?;
            (record.checkpoint.as_ref()?[..] == [2; 6_000]).then_some(Answer::StandsUntil(record.lease_until))
        },
    },
    Scenario {
        name: "release",
        is_settled: true,
        prepare: |bench| Some(claim(bench, "a")),
        run: |_, claim| owned(claim).release().map(|()| Answer::Ended),
        answer: |before, after| only_a(before, after)?.is_none().then_some(Answer::Ended),
    },
    Scenario {
        name: "abandon",
        is_settled: true,
        prepare: |bench| Some(claim(bench, "a")),
        run: |_, claim| owned(claim).abandon().map(|()| Answer::Ended),
        answer: |before, after| (still_held(before, after)?.lease_until == START).then_some(Answer::Ended),
    },
    Scenario {
        name: "forget",
        is_settled: true,
        prepare: |bench| {
            claim(bench, "a").complete(reply()).expect("held");
            None
        },
        run: |bench, _| bench.store.forget(&scope(SCOPE), &key("a")).map(Answer::Forgotten),
        answer: |before, after| only_a(before, after)?.is_none().then_some(Answer::Forgotten(true)),
    },
    Scenario {
        name: "claim of many",
        is_settled: true,
        prepare: |_| None,
        run: |bench, _| {
            let many = ["a", "c", "d"].map(|name| (scope(SCOPE), key(name), asks_for("x")));
            let mut granted = Vec::new();
            for answer in bench.store.try_claim_many(&many) {
                if let ClaimOutcome::Claimed(claim) = answer? {
                    let name = ["a", "c", "d"].into_iter().find(|name| *claim.key() == key(name));
                    granted.push((name.expect("one of them"), claim.token().get(), claim.attempt()));
                }
            }
            Ok(Answer::Granted(granted))
        },
        answer: |before, after| {
            let untouched = before.without(&[]) == after.without(&["a", "c", "d"]);
            let granted: Option<Vec<_>> =
                ["a", "c", "d"].into_iter().map(|name| grant(before, after, name)).collect();
            Some(Answer::Granted(granted.filter(|_| untouched && before.orders == after.orders)?))
        },
    },
    Scenario {
        name: "sweep",
        is_settled: false,
        prepare: |bench| {
            for name in ["a", "c"] {
                claim(bench, name).complete(reply()).expect("held");
            }
            at(bench, EXPIRED);
            // Not the bystander: its record was claimed over.
            claim(bench, "b").complete(Reply::Marker).expect("held");
            None
        },
        run: |bench, _| bench.store.sweep(10).map(|swept| Answer::Removed(swept.removed)),
        answer: |before, after| {
            (before.without(&["a", "c"]) == after.without(&[])).then_some(Answer::Removed(2))
        },
    },
    Scenario {
        name: "atomically",
        is_settled: true,
        prepare: |_| None,
        run: |bench, _| atomically(bench),
        answer: |before, after| done_atomically(before, after, 1),
    },
    Scenario {
        name: "atomically after a lapse",
        is_settled: true,
        prepare: |bench| {
            claim(bench, "a").save_checkpoint(vec![1; 6_000]).expect("held");
            at(bench, 90);
            None
        },
        run: |bench, _| atomically(bench),
        answer: |before, after| done_atomically(before, after, 2),
    },
];

/// Stores an order and a reply together. What the order needs of the file is more than one page.
fn atomically(bench: &Bench) -> Result<Answer, Error> {
    let runs = Cell::new(0);
    let ran = bench.store.atomically(&scope(SCOPE), &key("a"), &asks_for("x"), |transaction| {
        runs.set(runs.get() + 1);
        transaction.execute("INSERT INTO orders (id) VALUES (?1)", ["7".repeat(6_000)])?;
        Ok::<_, rusqlite::Error>(reply())
    });
    assert!(runs.get() <= 1, "the work ran {} times", runs.get());
    match ran {
        Ok(Ran::Executed(completed)) => Ok(Answer::Completed(completed)),
        Ok(_) => Ok(Answer::Refused),
        Err(RunError::Store(error) | RunError::NotRecorded { error, .. }) => Err(error),
        // SQLite has failed inside the work, and nothing is kept of it.
        Err(RunError::Work(_)) => Err(BackendError::unavailable().into()),
    }
}

fn done_atomically(before: &Stored, after: &Stored, attempt: u32) -> Option<Answer> {
    let record = after.record("a").filter(|record| record.token.get() > before.highest_token())?;
    let is_whole = record.attempt == attempt
        && before.without(&["a"]) == after.without(&["a"])
        && after.orders == ["7".repeat(6_000)];
    let completed = Completed::of(record).filter(|completed| is_whole && completed.reply == reply())?;
    Some(Answer::Completed(completed))
}

fn owned(claim: Option<Claim>) -> Claim {
    claim.expect("a claim was prepared")
}
