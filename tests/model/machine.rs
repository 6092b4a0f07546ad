//! The reference of the state machine: what truly happens in a sequence, the fate of each call included. No
//! store is asked; what a store answers is held against it in [`crate::subject`].

use crate::history::{Asked, History, NEVER_ISSUED};
use crate::plain::Told;
use crate::steps::{Deadline, Inside, KEYS, Proof, Step, Want, reply, step};
use crate::stores::Kind;
use proptest::prelude::{BoxedStrategy, Just, Strategy};
use proptest_state_machine::ReferenceStateMachine;
use std::marker::PhantomData;

/// What is true after some steps.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    pub now: i64,
    pub history: History,
    /// Every token that was granted, and for which key, in order.
    pub granted: Vec<(usize, usize)>,
    /// How many claims were asked for, granted or not: the number of the next one's token.
    pub asked: usize,
}

impl Truth {
    /// The commands that a step gives, their tokens found. Those of one batch are found before any of them is
    /// executed.
    pub fn calls(&self, step: &Step) -> Vec<(usize, Asked)> {
        let wants = match step {
            Step::Do { key, want, .. } => vec![(*key, want.clone())],
            Step::Together(wants) => wants.clone(),
            Step::ClaimMany { requests, lease, retention } => {
                let (lease, retention) = (*lease, *retention);
                let claim = |&(key, request)| (key, Want::Claim { request, lease, retention });
                requests.iter().map(claim).collect()
            }
            Step::Inside { key, request, lease, retention, .. } => {
                vec![(*key, Want::Claim { request: *request, lease: *lease, retention: *retention })]
            }
            _ => Vec::new(),
        };
        let mut next = self.asked..;
        wants.into_iter().map(|(key, want)| (key, self.find(key, want, &mut next))).collect()
    }

    fn find(&self, key: usize, want: Want, next: &mut impl Iterator<Item = usize>) -> Asked {
        let token = |proof| self.token(key, proof).unwrap_or(NEVER_ISSUED);
        match want {
            Want::Claim { request, lease, retention } => {
                Asked::Claim { token: next.next().expect("one more number"), request, lease, retention }
            }
            Want::Complete { by, reply: number, retention } => {
                Asked::Complete { token: token(by), reply: reply(number), retention }
            }
            Want::Renew(by) => Asked::Renew { token: token(by) },
            Want::Save(by, bytes) => Asked::Save { token: token(by), bytes },
            Want::Release(by) => Asked::Release { token: token(by) },
            Want::Abandon(by) => Asked::Abandon { token: token(by) },
            Want::Forget => Asked::Forget,
        }
    }

    /// The token that a proof means now, if there is one.
    pub fn token(&self, key: usize, proof: Proof) -> Option<usize> {
        let of_key = || self.granted.iter().rev().filter(|(_, of)| *of == key).map(|(token, _)| *token);
        match proof {
            Proof::Newest => of_key().next(),
            Proof::Older(back) => of_key().nth(back),
            Proof::Any(number) => Some(self.granted[number.checked_rem(self.granted.len())?].0),
            Proof::NeverIssued => Some(NEVER_ISSUED),
        }
    }

    fn note(&mut self, key: usize, asked: &Asked, told: &Told) {
        if let (Asked::Claim { token, .. }, Told::Claimed { .. }) = (asked, told) {
            self.granted.push((*token, key));
        }
    }
}

/// What happens to a store in which everything happened that `history` says; what each caller is told.
pub fn happen(history: &mut History, now: i64, calls: &[(usize, Asked)]) -> Vec<Told> {
    calls.iter().map(|(key, asked)| history.ask(*key, now, asked)).collect()
}

/// A claim in a transaction, and what it comes to; the work of one that fails is told nothing.
pub fn happen_inside(history: &mut History, now: i64, call: &(usize, Asked), what: Inside) -> Option<Told> {
    let (key, asked) = call;
    let &Asked::Claim { token, retention, .. } = asked else { panic!("{asked:?} is no claim") };
    let before = history.clone();
    let told = history.ask(*key, now, asked);
    if !matches!(told, Told::Claimed { .. }) {
        return Some(told);
    }
    let mut complete =
        |number| history.ask(*key, now, &Asked::Complete { token, reply: reply(number), retention });
    let (told, is_kept) = match what {
        Inside::Atomically(number) => (Some(complete(number)), true),
        Inside::AtomicallyFails => (None, false),
        Inside::ClaimIn { reply: Some(number), commits } => (Some(complete(number)), commits),
        Inside::ClaimIn { reply: None, commits } => (Some(told), commits),
    };
    if !is_kept {
        *history = before;
    }
    told
}

pub struct Machine<K>(PhantomData<K>);

impl<K: Kind> ReferenceStateMachine for Machine<K> {
    type State = Truth;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Truth> {
        Just(Truth::default()).boxed()
    }

    fn transitions(truth: &Truth) -> BoxedStrategy<Step> {
        let recorded = (0..KEYS).filter(|key| truth.history.stored(*key).is_some());
        step(recorded.collect(), K::ON_FILE)
    }

    /// A deadline to jump to, and a token to show, must be there.
    fn preconditions(truth: &Truth, step: &Step) -> bool {
        let there = |key: &usize, want: &Want| match want {
            Want::Claim { .. } | Want::Forget => true,
            Want::Complete { by, .. }
            | Want::Renew(by)
            | Want::Save(by, _)
            | Want::Release(by)
            | Want::Abandon(by) => truth.token(*key, *by).is_some(),
        };
        match step {
            Step::Do { key, want, .. } => there(key, want),
            Step::Together(wants) => wants.iter().all(|(key, want)| there(key, want)),
            Step::Resume(key, proof) => truth.token(*key, *proof).is_some_and(|token| token != NEVER_ISSUED),
            Step::Jump { key, .. } => truth.history.stored(*key).is_some(),
            _ => true,
        }
    }

    fn apply(mut truth: Truth, step: &Step) -> Truth {
        let calls = truth.calls(step);
        match step {
            Step::Do { fate, .. } if !fate.is_done() => {}
            Step::Do { .. } | Step::Together(_) | Step::ClaimMany { .. } => {
                let told = happen(&mut truth.history, truth.now, &calls);
                for ((key, asked), told) in calls.iter().zip(told) {
                    truth.note(*key, asked, &told);
                }
            }
            Step::Inside { what, key, .. } => {
                happen_inside(&mut truth.history, truth.now, &calls[0], *what);
                let granted = truth.history.stored(*key).is_some_and(|record| record.token == truth.asked);
                if granted {
                    truth.granted.push((truth.asked, *key));
                }
            }
            Step::Sweep(limit, fate) => {
                if *limit > 0 && fate.is_done() {
                    truth.history.sweep(truth.now);
                }
            }
            Step::Jump { key, deadline, by } => {
                let record = truth.history.stored(*key).expect("a record, by the precondition");
                let deadline = match deadline {
                    Deadline::Lease => record.lease_until,
                    Deadline::Expiry => record.expires_at,
                };
                truth.now = deadline + by;
            }
            Step::Shift(by) => truth.now += by,
            Step::Read(..) | Step::Resume(..) | Step::Foreign(_) | Step::Survey(_) | Step::Reopen => {}
        }
        truth.asked += calls.iter().filter(|(_, asked)| matches!(asked, Asked::Claim { .. })).count();
        truth
    }
}
