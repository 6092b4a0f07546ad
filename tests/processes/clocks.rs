//! Case 39 across processes: each has a clock of its own, which is off and steps, by hours, forward and back. A clock
//! that is ahead takes over early; that is all that may come of it.

use crate::common::{Answer, START, asks_for, key, scope};
use crate::crew::{Child, Parent, alone, release};
use crate::dice::Dice;
use crate::history::{Terms, What, check};
use crate::report::{id, parse_all, reply_of};
use crate::seed;
use crate::soak::times;
use crate::worker::Worker;
use idempotency::{
    Clock, Command, Durability, Error, IdempotencyStore, LostReason, ManualClock, Policy, SqliteBackend,
    SqliteOptions, SqliteStore, Timestamp,
};
use std::path::Path;
use std::time::Duration;

const PROCESSES: usize = 4;
const KEYS: usize = 12;
const CALLS: usize = 1_500;
const TERMS: Terms = Terms { lease: Duration::from_secs(30 * 60), retention: Duration::from_secs(6 * 3_600) };
/// Further than a lease and a retention together.
const FURTHEST_STEP: usize = 8 * 3_600;
const DAY: Duration = Duration::from_secs(24 * 3_600);

fn backend(file: &Path, clock: ManualClock) -> SqliteBackend {
    let options = SqliteOptions::new().with_durability(Durability::Normal).with_clock(clock);
    SqliteBackend::open(file, options).expect("a store that opens")
}

fn open(file: &Path, clock: ManualClock) -> SqliteStore {
    let policy = Policy::new().with_lease(TERMS.lease).with_retention(TERMS.retention);
    IdempotencyStore::new(backend(file, clock)).with_policy(policy).expect("a usable policy")
}

/// The true time, for all: a day after the fixtures', so that there is room to step back.
fn noon() -> Timestamp {
    START.saturating_add(DAY)
}

fn secs(dice: &mut Dice, most: usize) -> Duration {
    Duration::from_secs(u64::try_from(dice.between(0, most)).expect("a small number"))
}

/// Sets the clock to some other time, or lets a little of it go by.
fn step(clock: &ManualClock, dice: &mut Dice) {
    let now = match dice.between(0, 9) {
        0 => noon(),
        1 => clock.now().saturating_add(secs(dice, FURTHEST_STEP)),
        2 => clock.now().saturating_sub(secs(dice, FURTHEST_STEP)),
        _ => clock.now().saturating_add(secs(dice, 600)),
    };
    // Within the day before and the day after, whatever the steps add up to.
    let earliest = noon().saturating_sub(DAY);
    let latest = noon().saturating_add(DAY);
    clock.set(now.clamp(earliest, latest));
}

/// No sweeps here, and nobody gives up: what a sweep removes whose clock is ahead is gone for all, and what was abandoned
/// at a time to come runs until then for whoever is behind. The checker takes both for faults; the test below shows them.
#[test]
fn of_processes_whose_clocks_are_off_and_step_by_hours_only_the_newest_owner_writes_and_no_token_comes_twice()
{
    if let Some(parent) = Parent::of_this_process() {
        return do_as_the_dice_say(&parent);
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("store.db");
    let this = of_processes_whose_clocks_are_off_and_step_by_hours_only_the_newest_owner_writes_and_no_token_comes_twice;
    let mut crew = Child::start_many(&this, PROCESSES, &file, seed::seed());
    release(&mut crew);
    let said: Vec<_> = crew.into_iter().flat_map(Child::hear_out).collect();
    let (steps, said): (Vec<_>, Vec<_>) = said.into_iter().partition(|line| line.starts_with("steps"));
    let seen = parse_all(&said);

    let store = open(&file, ManualClock::new(noon().saturating_sub(DAY)));
    check("clocks", TERMS, &seen, |key| store.lookup(&id(key).scope, &id(key).key).expect("a look-up"));

    let count = |what: fn(&What) -> bool| seen.iter().filter(|seen| what(&seen.what)).count();
    let happened = [
        ("first claims", count(|what| matches!(what, What::Granted { attempt: 1, .. }))),
        ("takeovers", count(|what| matches!(what, What::Granted { attempt: 2.., .. }))),
        ("renewals", count(|what| matches!(what, What::Extended { .. }))),
        ("completions", count(|what| matches!(what, What::Recorded { .. }))),
        ("replays", count(|what| matches!(what, What::Replayed { .. }))),
        ("claims told that another runs", count(|what| matches!(what, What::Running { .. }))),
        ("lost claims", count(|what| matches!(what, What::Lost { .. }))),
    ];
    println!("{steps:?}, {} calls: {happened:?}", seen.len());
    assert_eq!(steps.len(), PROCESSES);
    for (what, times) in happened {
        assert!(times >= KEYS / 2, "{what} happened only {times} times");
    }
}

fn do_as_the_dice_say(parent: &Parent) {
    let mut dice = parent.dice();
    let clock = ManualClock::new(noon().saturating_sub(DAY).saturating_add(secs(&mut dice, 2 * 86_400)));
    let mut worker = Worker::on(parent, TERMS, backend(&parent.file, clock.clone()));
    worker.report_and_wait();
    let mut steps = 0;
    for _ in 0..times(CALLS) {
        if dice.between(0, 3) == 0 {
            step(&clock, &mut dice);
            steps += 1;
        }
        let key = dice.between(0, KEYS - 1);
        let shown = worker.granted.len().checked_sub(1).filter(|_| dice.between(0, 1) == 0);
        let Some((key, token)) = shown.map(|last| worker.granted[last - dice.between(0, last.min(5))]) else {
            worker.claim(key, 0);
            continue;
        };
        match dice.between(0, 11) {
            0..=5 => worker.execute(key, &Command::Renew { token }),
            6 | 7 => worker.execute(key, &Command::Checkpoint { token, bytes: "half way".into() }),
            8..=10 => worker.complete(key, token),
            _ => worker.execute(key, &Command::Forget),
        }
    }
    worker.report();
    parent.hears(format!("steps: {steps}"));
}

/// What a clock that is ahead does early, in the words of the guide: it takes over, runs anew what is still to be
/// replayed for others, and removes it.
#[test]
fn a_store_whose_clock_is_ahead_takes_over_and_sweeps_early_and_the_owners_before_it_write_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("store.db");
    let right = open(&file, ManualClock::new(noon()));
    let claim = |store: &SqliteStore, name: &str| {
        store.try_claim(&scope("tenant"), &key(name), &asks_for("it")).expect("an answer").claimed()
    };
    let look =
        |store: &SqliteStore, name: &str| store.lookup(&scope("tenant"), &key(name)).expect("a look-up");
    let (held, swept) = (claim(&right, "held"), claim(&right, "swept"));

    let ahead = open(&file, ManualClock::new(noon().saturating_add(TERMS.lease)));
    let early = claim(&ahead, "held");
    assert_eq!((early.attempt(), early.is_takeover()), (2, true));
    assert!(early.token() > held.token() && early.token() > swept.token());
    let before = look(&right, "held");
    let refused = held.complete(reply_of(early.token())).expect_err("it was taken over").into_parts().0;
    assert!(matches!(refused, Error::ClaimLost(LostReason::Running)), "{refused:?}");
    assert_eq!(look(&right, "held"), before);

    let far_ahead = open(&file, ManualClock::new(noon().saturating_add(TERMS.lease + TERMS.retention)));
    assert_eq!(far_ahead.sweep_all().expect("a sweep").removed, 1);
    let refused = swept.complete(reply_of(early.token())).expect_err("it was swept").into_parts().0;
    assert!(matches!(refused, Error::ClaimLost(LostReason::Gone)), "{refused:?}");
    assert_eq!(look(&right, "swept"), None);
    let anew = claim(&right, "swept");
    // The counter follows no clock of the application's.
    assert!(anew.attempt() == 1 && anew.token() > early.token());

    // Given up at a moment that has not come yet for the others: nobody has it for longer than was promised.
    let (given_up, promised) = (claim(&right, "given up").into_ticket(), noon().saturating_add(TERMS.lease));
    let ahead = open(&file, ManualClock::new(noon().saturating_add(TERMS.lease / 2)));
    ahead.abandon(&given_up).expect("a claim that stands");
    let record = look(&right, "given up").expect("a record");
    assert_eq!((record.attempt, record.lease_until), (1, noon().saturating_add(TERMS.lease / 2)));
    assert!(record.lease_until < promised);
    let running = right.try_claim(&scope("tenant"), &key("given up"), &asks_for("it")).expect("an answer");
    assert_eq!(running.name(), "in progress");
    assert_eq!(claim(&ahead, "given up").attempt(), 2);
}
