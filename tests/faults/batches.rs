//! Commands of different kinds in one commit that fails: what one of them finds proves nothing of the others,
//! unless it can have come from nobody else.

use crate::bench::{Bench, SCOPE, Setting};
use crate::common::{Answer, asks_for, key, scope};
use crate::vfs::{Fault, File, Operation};
use idempotency::{Backend, Command, Error, Outcome, Period, Record, RecordId, Timestamp};
use std::sync::{Arc, Mutex};

type Batch = Vec<(RecordId, Command)>;
type Case = (&'static str, fn(&Bench) -> Batch);

fn id(name: &str) -> RecordId {
    RecordId::new(scope(SCOPE), key(name))
}

fn claim(name: &str) -> (RecordId, Command) {
    let period = |millis| Period::from_millis(millis).expect("a period");
    let command =
        Command::Claim { fingerprint: asks_for("x"), lease: period(90_000), retention: period(900_000) };
    (id(name), command)
}

/// The batches, each with a claim of "b" behind something that is found as it would be left.
fn batches() -> [Case; 4] {
    [
        ("an abandonment that is renewed at once", |bench| {
            let token = bench
                .store
                .try_claim(&scope(SCOPE), &key("a"), &asks_for("x"))
                .expect("a store")
                .claimed()
                .token();
            vec![(id("a"), Command::Abandon { token }), (id("a"), Command::Renew { token }), claim("b")]
        }),
        ("a renewal that changes nothing", |bench| {
            let owner =
                bench.store.try_claim(&scope(SCOPE), &key("a"), &asks_for("x")).expect("a store").claimed();
            vec![(id("a"), Command::Renew { token: owner.token() }), claim("b")]
        }),
        ("a claim that is forgotten at once", |_| vec![claim("c"), (id("c"), Command::Forget), claim("b")]),
        ("a release of what a rival forgets", |bench| {
            let owner =
                bench.store.try_claim(&scope(SCOPE), &key("d"), &asks_for("x")).expect("a store").claimed();
            vec![(id("d"), Command::Release { token: owner.token() }), claim("b")]
        }),
    ]
}

/// Whether the file says what a command was answered, whoever has written it.
fn is_true(outcome: &Outcome, stands: Option<(Record, Timestamp)>) -> bool {
    match (outcome, stands) {
        (Outcome::Renewed { lease_until }, Some((record, _))) => record.lease_until == *lease_until,
        (Outcome::Released, None) => true,
        _ => false,
    }
}

#[test]
fn what_others_may_have_left_does_not_grant_a_claim_that_was_committed_with_it() {
    for (name, batch) in batches() {
        for counter_is_ahead in [false, true] {
            let bench = Bench::new(Setting { counter_is_ahead, ..Setting::IN_COMPANY });
            let batch = batch(&bench);
            let rival = bench.rival();
            let granted = Arc::new(Mutex::new(None));
            bench.disk.before_the_next_open({
                let granted = Arc::clone(&granted);
                move || {
                    let claim = |name| rival.try_claim(&scope(SCOPE), &key(name), &asks_for("x"));
                    // The counter moves beyond all that the batch has drawn.
                    drop(claim("e"));
                    drop(rival.forget(&scope(SCOPE), &key("d")));
                    *granted.lock().expect("no panic") = Some(claim("b"));
                }
            });
            bench.disk.fail(Fault::of(&[Operation::Write], File::Wal));
            let answers = bench.store.backend().execute_many(&batch);
            assert_eq!(bench.disk.heal().failed(), 1, "{name}");
            let rival = granted.lock().expect("no panic").take().expect("the rival came by");
            assert_eq!(rival.expect("a sound disk").name(), "claimed", "{name}");
            for ((id, _), answer) in batch.iter().zip(answers) {
                let is_claimed = matches!(answer, Ok(Outcome::Claimed(_)));
                assert!(!is_claimed, "{name}, {counter_is_ahead}: the rival has it");
                let is_honest = match answer {
                    Ok(outcome) => is_true(&outcome, bench.store.backend().read(id).expect("a sound disk")),
                    Err(error) => matches!(Error::from(error), Error::Indefinite(_) | Error::Unavailable(_)),
                };
                assert!(is_honest, "{name}, {counter_is_ahead}");
            }
        }
    }
}
