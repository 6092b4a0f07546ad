//! A store on which a sequence is played, and what its callers hold to be true of it.

use crate::calls::{Caller, Resumed, Surveyed};
use crate::flaky::Fate;
use crate::held::{Decided, Held};
use crate::history::History;
use crate::machine::{Machine, Truth, happen, happen_inside};
use crate::plain::{Told, moment};
use crate::steps::{KEYS, Step};
use crate::stores::Kind;
use idempotency::{ManualClock, StuckReason, Timestamp};
use proptest_state_machine::StateMachineTest;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::marker::PhantomData;

/// How often each thing happened, over all sequences of a test.
pub type Tally = BTreeMap<&'static str, usize>;

thread_local! {
    static TALLY: RefCell<Tally> = const { RefCell::new(Tally::new()) };
}

pub fn take_tally() -> Tally {
    TALLY.take()
}

fn count(what: &'static str) {
    TALLY.with_borrow_mut(|tally| *tally.entry(what).or_default() += 1);
}

pub struct Subject<K> {
    caller: Caller<K>,
    held: Held,
    /// What was true before the step.
    truth: Truth,
}

pub struct Play<K>(PhantomData<K>);

impl<K: Kind> StateMachineTest for Play<K> {
    type SystemUnderTest = Subject<K>;
    type Reference = Machine<K>;

    fn init_test(truth: &Truth) -> Subject<K> {
        let clock = ManualClock::new(moment(truth.now));
        Subject { caller: Caller::new(clock), held: Held::nothing_happened(), truth: truth.clone() }
    }

    fn apply(mut subject: Subject<K>, truth: &Truth, step: Step) -> Subject<K> {
        let played = subject.play(&step, truth);
        played.unwrap_or_else(|difference| panic!("{}, {step:?}: {difference}", K::NAME));
        subject.truth = truth.clone();
        subject.caller.clock.set(moment(truth.now));
        subject
    }

    /// What is stored is what truly happened, and nobody who has heard all answers holds that impossible.
    fn check_invariants(subject: &Subject<K>, truth: &Truth) {
        for key in 0..KEYS {
            assert_eq!(subject.caller.stored(key), truth.history.stored(key), "{}, key {key}", K::NAME);
        }
        subject.caller.clock.set(moment(truth.now));
        assert!(subject.held.holds(&truth.history), "{}: what is true is held impossible", K::NAME);
    }

    /// A look at each record, when none has expired yet, leaves no doubt.
    fn teardown(mut subject: Subject<K>, truth: Truth) {
        subject.caller.clock.set(Timestamp::from_millis(0));
        for key in 0..KEYS {
            let stored = subject.caller.stored(key);
            let decided = subject.held.answered(&stored, |state| state.stored(key));
            tell(decided.expect("a state that is held"));
        }
        assert_eq!(subject.held.count(), 1, "{}: {:?}", K::NAME, subject.held);
        assert!(subject.held.holds(&truth.history));
    }
}

fn tell(decided: Option<Decided>) {
    match decided {
        Some(Decided::Done) => count("doubts decided: done"),
        Some(Decided::NotDone) => count("doubts decided: not done"),
        None => {}
    }
}

impl<K: Kind> Subject<K> {
    fn play(&mut self, step: &Step, after: &Truth) -> Result<(), String> {
        let (now, calls) = (self.truth.now, self.truth.calls(step));
        match step {
            Step::Do { way, fate, .. } => {
                let call = &calls[0];
                let told = self.caller.give(call, *way, *fate, now)?;
                match told {
                    Some(told) => {
                        self.answered(&told, |state| way.as_told(state.ask(call.0, now, &call.1)))?;
                    }
                    None if fate.is_unheard() => {
                        self.perhaps(*fate, |state| drop(happen(state, now, &calls[..1])));
                    }
                    None => count("refused calls"),
                }
            }
            Step::Together(_) => {
                let told = self.caller.give_together(&calls)?;
                told.iter().for_each(|_| count("commands in batches"));
                self.answered(&told, |state| happen(state, now, &calls))?;
            }
            Step::ClaimMany { .. } => {
                let told = self.caller.claim_many(&calls, now)?;
                told.iter().for_each(|_| count("claims of many"));
                self.answered(&told, |state| happen(state, now, &calls))?;
            }
            Step::Inside { what, .. } => {
                let told = self.caller.inside(&calls[0], *what, now)?;
                count("transactions");
                self.answered(&told, |state| {
                    happen_inside(state, now, &calls[0], *what).map(|told| what.as_told(told))
                })?;
            }
            Step::Read(key, handle) => {
                let told = self.caller.read(*key, *handle)?;
                let stands =
                    |state: &mut History| Told::Seen(state.standing(*key, now).map(|record| (record, now)));
                self.answered(&told, stands)?;
            }
            Step::Resume(key, proof) => {
                let token = self.truth.token(*key, *proof).expect("a token, by the precondition");
                if let Some((key, told)) = self.caller.resume(token)? {
                    self.answered(&told, |state| resumed(state, key, now, token))?;
                }
            }
            Step::Foreign(key) => self.caller.show_foreign_ticket(*key)?,
            Step::Survey(limit) => {
                let told = self.caller.survey(*limit)?;
                self.answered(&told, |state| surveyed(state, now, *limit))?;
            }
            Step::Sweep(limit, fate) => self.sweep(*limit, *fate, now)?,
            Step::Jump { .. } => count("jumps to a deadline"),
            Step::Shift(_) => {}
            Step::Reopen => {
                self.caller.reopen();
                count("reopenings");
            }
        }
        // A grant that no caller was told of has a number all the same.
        let granted = &after.granted[self.truth.granted.len()..];
        granted.iter().try_for_each(|(token, key)| self.caller.learn(*token, *key))
    }

    fn answered<T: PartialEq + Debug + Names>(
        &mut self,
        told: &T,
        answer: impl Fn(&mut History) -> T,
    ) -> Result<(), String> {
        told.names().into_iter().for_each(count);
        self.held.answered(told, answer).map(tell)
    }

    fn perhaps(&mut self, fate: Fate, change: impl Fn(&mut History)) {
        count(if fate.is_done() { "done unheard" } else { "not done unheard" });
        if self.held.perhaps(fate.is_done(), change) {
            count("doubts");
        }
    }

    /// Sweeps until there is no more, each time so many; not at all is once, too.
    fn sweep(&mut self, limit: usize, fate: Fate, now: i64) -> Result<(), String> {
        let first = self.caller.sweep(limit, fate)?;
        let Some(mut swept) = first else {
            if fate.is_unheard() {
                self.perhaps(fate, |state| state.sweep(now));
            }
            return Ok(());
        };
        let mut batches = vec![swept];
        // No more often than there can be something to remove.
        while swept.1 && limit > 0 && batches.len() <= KEYS {
            swept = self.caller.sweep(limit, Fate::Answered)?.expect("an answer");
            batches.push(swept);
        }
        self.answered(&batches, |state| {
            let expired = state.expired(now).len();
            if limit == 0 {
                return vec![(0, expired > 0)];
            }
            state.sweep(now);
            let batch = |number: usize| {
                let left = expired - number * limit;
                (left.min(limit), left > limit)
            };
            (0..expired.div_ceil(limit).max(1)).map(batch).collect()
        })
    }
}

/// What a ticket is told that is turned into a claim.
fn resumed(state: &History, key: usize, now: i64, token: usize) -> Resumed {
    if let Some(reason) = state.why_not(key, now, token) {
        return Err(reason);
    }
    let record = state.stored(key).expect("a record that stands");
    Ok((record.token, record.attempt, record.lease_until, record.checkpoint))
}

fn surveyed(state: &History, now: i64, limit: usize) -> Surveyed {
    let mut counts = [0; 4];
    let mut stuck: Vec<(StuckReason, usize, usize, u32, [i64; 4])> = Vec::new();
    for key in 0..KEYS {
        let Some(record) = state.stored(key) else { continue };
        let lapsed = record.lease_until <= now;
        let standing = match (record.expires_at <= now, record.completed.is_some(), lapsed) {
            (true, ..) => 3,
            (false, true, _) => 2,
            (false, false, true) => 1,
            (false, false, false) => 0,
        };
        counts[standing] += 1;
        let reason = match standing {
            1 => StuckReason::Lapsed,
            0 if record.lease_until > now + record.lease => StuckReason::LeaseTooLong,
            _ => continue,
        };
        let times = [record.lease_until, record.created_at, record.lease, record.expires_at];
        stuck.push((reason, key, record.token, record.attempt, times));
    }
    stuck.sort_by_key(|(reason, key, _, _, times)| (*reason, times[0], *key));
    stuck.truncate(limit);
    (counts, stuck)
}

/// What to count an answer as.
trait Names {
    fn names(&self) -> Vec<&'static str>;
}

impl Names for Told {
    fn names(&self) -> Vec<&'static str> {
        vec![match self {
            Self::Claimed { attempt: 1, .. } => "first claims",
            Self::Claimed { .. } => "takeovers",
            Self::Completed(_) => "replays",
            Self::InProgress { .. } => "in progress",
            Self::Mismatch { .. } => "mismatches",
            Self::Recorded(_) => "completions",
            Self::AlreadyRecorded(_) => "repeated completions",
            Self::Renewed { .. } => "renewals",
            Self::Released => "releases",
            Self::Abandoned => "abandonments",
            Self::AlreadyGone => "ends of what was gone",
            Self::Lost(_) => "lost claims",
            Self::Forgotten { existed: true } => "forgotten records",
            Self::Forgotten { existed: false } => "nothing forgotten",
            Self::Seen(_) | Self::Swept { .. } => "looks",
        }]
    }
}

impl<T: Names> Names for Vec<T> {
    fn names(&self) -> Vec<&'static str> {
        self.iter().flat_map(Names::names).collect()
    }
}

impl Names for Option<Told> {
    fn names(&self) -> Vec<&'static str> {
        self.as_ref().map_or_else(|| vec!["work that failed"], Names::names)
    }
}

impl Names for Resumed {
    fn names(&self) -> Vec<&'static str> {
        vec![if self.is_ok() { "tickets resumed" } else { "tickets lost" }]
    }
}

impl Names for Surveyed {
    fn names(&self) -> Vec<&'static str> {
        self.1.iter().map(|_| "stuck claims").collect()
    }
}

/// A sweep: how many it removed, and whether there were more.
impl Names for (usize, bool) {
    fn names(&self) -> Vec<&'static str> {
        vec!["records swept"; self.0]
    }
}
