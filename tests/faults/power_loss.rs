//! The power goes at any moment, and any part of what was not synced is lost (case 57).
//!
//! There is no migration to be cut off: the first version of the schema is the only one.

use crate::bench::Setting;
use crate::dice::Dice;
use crate::judge::{Verdict, judge};
use crate::lane::Lane;
use crate::platter::{Left, Platter};
use crate::seed::seed;
use crate::soak::times;
use crate::story::{self, Story};
use crate::tape::{Change, Folder, Tape};
use crate::vfs::Syncs;
use idempotency::Durability;

/// Commits that stay in the log until it is closed, with and without others who have it open; those that are written
/// back now and then; and each by itself.
const SETTINGS: [Setting; 4] = [
    Setting::PLAIN,
    Setting { counter_is_ahead: true, ..Setting::IN_COMPANY },
    Setting { checkpoint_after: 30, counter_is_ahead: true, ..Setting::PLAIN },
    Setting { checkpoint_after: 1, ..Setting::IN_COMPANY },
];

/// How often it is tried to have callers share enough commits. On an idle machine, they do the first time.
const ROUNDS: usize = 50;

const WAYS: [Left; 6] =
    [Left::All, Left::Nothing, Left::TornWrite, Left::Some(0), Left::Some(4), Left::Some(7)];

/// What was found in how many images.
#[derive(Debug, Default)]
pub struct Tally {
    pub images: usize,
    /// In which operations that were acknowledged are missing, and nothing else is wrong.
    pub with_loss: usize,
    pub damaged: usize,
    /// What is wrong with the first of those with loss or damage.
    pub first: Option<String>,
}

impl Tally {
    pub fn count(&mut self, verdict: Result<Verdict, String>, context: impl FnOnce() -> String) {
        self.images += 1;
        let wrong = match verdict {
            Ok(Verdict::Whole) => return,
            Ok(lost) => {
                self.with_loss += 1;
                format!("{lost:?}")
            }
            Err(damage) => {
                self.damaged += 1;
                damage
            }
        };
        self.first.get_or_insert_with(|| format!("{}: {wrong}", context()));
    }
}

/// Shows `see` what is left if the power goes after each of these numbers of changes.
pub fn cut_after(
    tape: &Tape,
    moments: impl IntoIterator<Item = usize>,
    dice: &mut Dice,
    mut see: impl FnMut(&Folder, usize, Left, &mut Dice),
) {
    let mut platter = Platter::new(&tape.before);
    let mut done = 0;
    for at in moments {
        tape.changes[done..at].iter().for_each(|change| platter.apply(change));
        done = at;
        let left = WAYS[dice.between(0, WAYS.len() - 1)];
        see(&platter.left(left, dice), at, left, dice);
    }
}

/// So many moments of the tape, in order.
pub fn moments(tape: &Tape, count: usize, dice: &mut Dice) -> Vec<usize> {
    let mut moments: Vec<_> = (0..count).map(|_| dice.between(0, tape.changes.len())).collect();
    moments.sort_unstable();
    moments
}

/// Cuts the power in all of the story.
fn cut(story: &Story, images: usize, dice: &mut Dice) -> Tally {
    let mut tally = Tally::default();
    let moments = moments(&story.tape, images, dice);
    cut_after(&story.tape, moments, dice, |folder, at, left, dice| {
        tally.count(judge(folder, &story.lanes, at, dice), || format!("after change {at}, left {left:?}"));
    });
    tally
}

fn steps(lanes: &[Lane]) -> usize {
    lanes.iter().map(|lane| lane.steps.len()).sum()
}

fn syncs(tape: &Tape) -> usize {
    tape.changes.iter().filter(|change| matches!(change, Change::Sync { .. })).count()
}

fn report(what: &str, story: &Story, tally: &Tally) {
    let Story { lanes, tape, .. } = story;
    let (changes, syncs) = (tape.changes.len(), syncs(tape));
    println!("{what}: {} operations, {changes} changes, {syncs} of them syncs, {tally:?}", steps(lanes));
}

/// The model of a disk is one of this disk: after all changes it holds what the system's files hold.
#[test]
fn what_is_on_tape_is_what_is_in_the_files() {
    for setting in SETTINGS {
        let story = story::of_one_caller(setting, Syncs::Kept);
        let mut platter = Platter::new(&story.tape.before);
        story.tape.changes.iter().for_each(|change| platter.apply(change));
        let left = platter.left(Left::All, &mut Dice::new(0));
        assert!(left == story.end, "{setting:?}");
        assert!(syncs(&story.tape) > steps(&story.lanes), "{setting:?}: each commit is synced");
    }
}

#[test]
fn with_full_durability_nothing_that_was_acknowledged_is_lost_with_the_power() {
    let mut dice = Dice::new(seed());
    for setting in SETTINGS {
        let story = story::of_one_caller(setting, Syncs::Kept);
        let tally = cut(&story, times(300), &mut dice);
        report(&format!("full durability, {setting:?}"), &story, &tally);
        assert!(tally.with_loss == 0 && tally.damaged == 0, "{setting:?}: {tally:?}");
    }
}

#[test]
fn with_full_durability_nothing_that_callers_who_share_commits_were_told_is_lost_with_the_power() {
    let mut dice = Dice::new(seed());
    let mut stories = (1..=ROUNDS).map(|_| story::of_threads(4, 4, Setting::PLAIN));
    let story = stories.find(|story| story.shared() > 5).expect("callers that meet");
    let tally = cut(&story, times(200), &mut dice);
    report(&format!("full durability, 4 threads, {} syncs saved", story.shared()), &story, &tally);
    assert!(tally.with_loss == 0 && tally.damaged == 0, "{tally:?}");
}

/// What [`Durability::Normal`] promises, and that these tests can find a loss.
#[test]
fn with_normal_durability_the_newest_operations_may_be_lost_with_the_power_and_nothing_else_is_wrong() {
    let mut dice = Dice::new(seed());
    // Where each commit is written back, it is synced, too. A counter that is not ahead of the wall clock is raised to it
    // at the next opening, so that what is lost of the counter is not granted again.
    for setting in SETTINGS.into_iter().filter(|setting| setting.checkpoint_after > 1) {
        let setting = Setting { durability: Durability::Normal, counter_is_ahead: false, ..setting };
        let story = story::of_one_caller(setting, Syncs::Kept);
        let tally = cut(&story, times(200), &mut dice);
        report(&format!("normal durability, {setting:?}"), &story, &tally);
        assert!(tally.with_loss > 10, "{setting:?}: {tally:?}");
        assert_eq!(tally.damaged, 0, "{setting:?}: {tally:?}");
    }
}

/// That these tests can find damage: a store that asks for syncs, on a disk that does none.
#[test]
fn on_a_disk_that_ignores_syncs_the_file_is_damaged_and_acknowledged_operations_are_lost_with_the_power() {
    let mut dice = Dice::new(seed());
    let setting = Setting { checkpoint_after: 30, ..Setting::PLAIN };
    let story = story::of_one_caller(setting, Syncs::Ignored);
    let tally = cut(&story, times(150), &mut dice);
    report("syncs ignored", &story, &tally);
    assert!(tally.with_loss > 0 && tally.damaged > 0, "{tally:?}");
}

/// The power goes, and once more while the store is opened again, looked at and closed.
#[test]
fn with_full_durability_nothing_is_lost_with_power_that_goes_again_during_the_recovery() {
    let mut dice = Dice::new(seed());
    let mut tally = Tally::default();
    let mut recoveries = 0;
    for setting in SETTINGS {
        let story = story::of_one_caller(setting, Syncs::Kept);
        let moments = moments(&story.tape, times(4), &mut dice);
        cut_after(&story.tape, moments, &mut dice, |folder, at, left, dice| {
            let recovery = story::recovery(folder, setting);
            recoveries += 1;
            cut_after(&recovery, 0..=recovery.changes.len(), dice, |folder, again, left_again, dice| {
                tally.count(judge(folder, &story.lanes, at, dice), || {
                    format!("{setting:?}, after change {at}, left {left:?}, then {again}, {left_again:?}")
                });
            });
        });
    }
    println!("full durability, {recoveries} recoveries cut off after each change: {tally:?}");
    assert!(tally.images > 10 * recoveries, "{tally:?}");
    assert!(tally.with_loss == 0 && tally.damaged == 0, "{tally:?}");
}
