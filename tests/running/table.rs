//! The table in the docs of `run`: what becomes of a claim by what its work gives and by the policy, for a
//! first attempt and for a takeover.

use crate::common::{Fixture, START, asks_for, key, on_every_backend, secs};
use crate::support::{a_print, a_scope, no_work, reply, watched};
use idempotency::{
    Claim, ClaimOutcome, Clock, Completed, Failures, IdempotencyKey, Metrics, Policy, Ran, Record, Reply,
    RunError, State,
};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Gives {
    Reply,
    Failure,
    Error,
    Panic,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Leaves {
    Recorded,
    Abandoned,
    Nothing,
}
use Leaves::{Abandoned, Nothing, Recorded};

const POLICIES: [Failures; 3] = [Failures::Abandon, Failures::Release, Failures::Record];

/// What a first attempt leaves, under each policy.
const FIRST: [(Gives, [Leaves; 3]); 4] = [
    (Gives::Reply, [Recorded, Recorded, Recorded]),
    (Gives::Failure, [Abandoned, Nothing, Recorded]),
    (Gives::Error, [Abandoned, Nothing, Abandoned]),
    (Gives::Panic, [Abandoned, Abandoned, Abandoned]),
];

/// What a takeover leaves: an earlier attempt may have had the effect, so there is always something.
const TAKEOVER: [(Gives, [Leaves; 3]); 4] = [
    (Gives::Reply, [Recorded, Recorded, Recorded]),
    (Gives::Failure, [Abandoned, Abandoned, Recorded]),
    (Gives::Error, [Abandoned, Abandoned, Abandoned]),
    (Gives::Panic, [Abandoned, Abandoned, Abandoned]),
];

/// What came of a run: an answer, an error, or a panic.
type Came = thread::Result<Result<Ran, RunError<&'static str>>>;

/// One field of the table, with a key of its own.
struct Field<'a> {
    fixture: &'a Fixture,
    name: String,
    key: IdempotencyKey,
    attempt: u32,
    gives: Gives,
    failures: Failures,
    leaves: Leaves,
}

/// Cases 22 and 66.
#[test]
fn work_leaves_its_claim_as_the_table_says() {
    on_every_backend(|fixture| {
        for (attempt, table) in [(1, FIRST), (2, TAKEOVER)] {
            for (gives, row) in table {
                for (failures, leaves) in POLICIES.into_iter().zip(row) {
                    let key = key(&format!("{gives:?}, {failures:?}, {attempt}"));
                    let name = format!("{}: {}", fixture.name, key.as_str());
                    Field { fixture, name, key, attempt, gives, failures, leaves }.check();
                }
            }
        }
    });
}

impl Field<'_> {
    fn check(&self) {
        self.begin();
        let (claimed, metrics, came) = self.run_the_work();
        assert_eq!(claimed.created_at, START, "{}", self.name);
        let left = self.fixture.stored(&a_scope(), &self.key);
        assert_eq!(left, self.record_after(&claimed), "{}", self.name);
        assert_eq!(metrics, self.counted(), "{}", self.name);
        self.came_out(came, left.as_ref());
        self.another_request_hears(left.as_ref());
        self.next_caller_hears(left.as_ref());
    }

    /// Brings the record to where the attempt can be made.
    fn begin(&self) {
        let fixture = self.fixture;
        fixture.at(0);
        if self.attempt > 1 {
            let answer = fixture.store.try_claim(&a_scope(), &self.key, &a_print()).expect("an answer");
            let ClaimOutcome::Claimed(mut earlier) = answer else { panic!("{}: {answer:?}", self.name) };
            earlier.save_checkpoint("half-way").expect("a claim that stands");
            drop(earlier);
            fixture.at(90);
        }
    }

    /// Runs the work, which takes 10 seconds. Gives the record as it was meanwhile, what was counted, and what
    /// came of it.
    fn run_the_work(&self) -> (Record, Metrics, Came) {
        let policy = Policy::new().with_failures(self.failures);
        let store = watched(self.fixture, policy);
        let mut meanwhile = None;
        let work = |claim: &mut Claim| {
            assert_eq!(
                (claim.attempt(), claim.is_takeover()),
                (self.attempt, self.attempt > 1),
                "{}",
                self.name
            );
            self.fixture.clock.advance(secs(10));
            meanwhile = self.fixture.stored(&a_scope(), &self.key);
            match self.gives {
                Gives::Reply => Ok(reply(201)),
                Gives::Failure => Ok(reply(503)),
                Gives::Error => Err("the work's own error"),
                // As a panic, without its message.
                Gives::Panic => resume_unwind(Box::new("the work panicked")),
            }
        };
        let came = catch_unwind(AssertUnwindSafe(|| store.run(&a_scope(), &self.key, &a_print(), work)));
        assert_eq!(store.backend().calls(), 2, "{}: the claim, and its end", self.name);
        (meanwhile.expect("work that was run"), store.metrics(), came)
    }

    fn given(&self) -> Reply {
        reply(if self.gives == Gives::Failure { 503 } else { 201 })
    }

    /// `claimed`, changed in nothing but what its end must change.
    fn record_after(&self, claimed: &Record) -> Option<Record> {
        let now = self.fixture.clock.now();
        assert_eq!(claimed.state, State::InProgress, "{}", self.name);
        assert!(claimed.lease_until > now, "{}", self.name);
        match self.leaves {
            Recorded => Some(Record {
                state: State::Completed,
                completed_at: Some(now),
                expires_at: now.saturating_add(secs(24 * 60 * 60)),
                checkpoint: None,
                reply: Some(self.given()),
                ..claimed.clone()
            }),
            Abandoned => Some(Record { lease_until: now, ..claimed.clone() }),
            Nothing => None,
        }
    }

    fn counted(&self) -> Metrics {
        let mut counted = Metrics::default();
        match self.attempt {
            1 => counted.claims = 1,
            _ => counted.takeovers = 1,
        }
        match (self.leaves, self.gives, self.failures) {
            (Recorded, ..) => counted.completions = 1,
            // Asked for as a release, whatever the earlier attempt makes of it.
            (_, Gives::Failure | Gives::Error, Failures::Release) => counted.releases = 1,
            _ => counted.abandons = 1,
        }
        if self.leaves != Recorded {
            counted.failed_runs = 1;
        }
        counted
    }

    fn came_out(&self, came: Came, left: Option<&Record>) {
        let name = &self.name;
        match (self.gives, came) {
            (_, Ok(Ok(Ran::Executed(done)))) if self.leaves == Recorded => {
                assert_eq!(Some(done), left.and_then(Completed::of), "{name}");
            }
            (Gives::Failure, Ok(Ok(ran @ Ran::Failed(_)))) if self.leaves != Recorded => {
                assert_eq!((ran.reply(), ran.suggested_status()), (Some(&reply(503)), Some(503)), "{name}");
            }
            (Gives::Error, Ok(Err(RunError::Work(error)))) => {
                assert_eq!(error, "the work's own error", "{name}");
            }
            (Gives::Panic, Err(payload)) => {
                assert_eq!(payload.downcast_ref(), Some(&"the work panicked"), "{name}");
            }
            (_, came) => panic!("{name}: {came:?}"),
        }
    }

    fn another_request_hears(&self, left: Option<&Record>) {
        let answer = self.fixture.store.try_claim(&a_scope(), &self.key, &asks_for("something else"));
        match (self.leaves, answer.expect("an answer")) {
            (Recorded | Abandoned, ClaimOutcome::FingerprintMismatch(_)) => {
                assert_eq!(self.fixture.stored(&a_scope(), &self.key).as_ref(), left, "{}", self.name);
            }
            (Nothing, ClaimOutcome::Claimed(claim)) => {
                assert_eq!((claim.attempt(), claim.checkpoint()), (1, None), "{}", self.name);
                claim.release().expect("a claim that stands");
            }
            (_, answer) => panic!("{}: {answer:?}", self.name),
        }
    }

    /// At once: the clock stands still.
    fn next_caller_hears(&self, left: Option<&Record>) {
        let (store, name) = (&self.fixture.store, &self.name);
        if self.leaves == Recorded {
            let ran = store.run(&a_scope(), &self.key, &a_print(), no_work).expect("an answer");
            let Ran::Replayed(done) = ran else { panic!("{name}: {ran:?}") };
            assert_eq!(Some(&done), left.and_then(Completed::of).as_ref(), "{name}");
            assert_eq!(done.reply, self.given(), "{name}");
            return;
        }
        let attempt = if self.leaves == Abandoned { self.attempt + 1 } else { 1 };
        let checkpoint = (attempt == 3).then_some(b"half-way".as_slice());
        let ran = store.run(&a_scope(), &self.key, &a_print(), |claim| {
            assert_eq!((claim.attempt(), claim.is_takeover()), (attempt, attempt > 1), "{name}");
            assert_eq!(claim.checkpoint().map(|saved| &saved[..]), checkpoint, "{name}");
            Ok::<_, ()>(Reply::Marker)
        });
        assert!(matches!(ran, Ok(Ran::Executed(_))), "{name}: {ran:?}");
    }
}
