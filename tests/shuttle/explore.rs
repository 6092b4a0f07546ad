//! Draws interleavings of a test, and adds up what happened in them.

use crate::dice::Dice;
use crate::seed::seed;
use shuttle::rand::{RngCore, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// How many changes of thread PCT places: enough for two threads that meet twice, with one to spare.
const DEPTH: usize = 3;

/// How often each thing has happened.
pub type Counts = BTreeMap<&'static str, usize>;

/// Runs `test` in so many interleavings of each of the two kinds, which draws what it does from the dice that it is given
/// and says what has happened; gives the sums.
pub fn explore(name: &str, interleavings: usize, test: fn(&mut Dice) -> Counts) -> Counts {
    let seed = seed();
    let sums = Arc::new(Mutex::new(Counts::new()));
    let mut config = Config::new();
    // It warns that weaker orderings are taken for the strongest: loom's models are for those.
    config.silence_warnings = true;
    let run = |kind: &str, scheduler: Box<dyn Scheduler + Send>| {
        let all = Arc::clone(&sums);
        let ran = Runner::new(scheduler, config.clone()).run(move || {
            // By shuttle's own dice, so that a schedule has the program in it.
            let happened = test(&mut Dice::new(thread_rng().next_u64()));
            let mut all = all.lock().expect("no interleaving has failed");
            for (what, times) in happened {
                *all.entry(what).or_default() += times;
            }
        });
        assert_eq!(ran, interleavings, "{name}, {kind}");
    };
    run("random", Box::new(RandomScheduler::new_from_seed(seed, interleavings)));
    run("pct", Box::new(PctScheduler::new_from_seed(seed, DEPTH, interleavings)));
    let sums = sums.lock().expect("no interleaving has failed").clone();
    println!("{name}: {} interleavings, half of them by PCT: {sums:?}", 2 * interleavings);
    sums
}
