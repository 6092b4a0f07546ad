//! A write-ahead log that is cut off or damaged anywhere: what is found is the operations up to some commit, in the
//! order in which they were acknowledged, and nothing else.

use crate::bench::Setting;
use crate::dice::Dice;
use crate::judge::Image;
use crate::lane::Lane;
use crate::platter::{Left, Platter};
use crate::seed::seed;
use crate::soak::times;
use crate::story::{self, Story};
use crate::tape::Folder;
use crate::vfs::Syncs;

/// The parts of a log (SQLite, "Database File Format", section 4.1).
const HEADER: usize = 32;
const FRAME: usize = 24 + 4_096;

const LOG: &str = "store.db-wal";

/// A store none of whose commits has been written back: all that was ever done is in the log.
struct Logged {
    lane: Lane,
    files: Folder,
    /// How long the log was when each step was acknowledged.
    lens: Vec<usize>,
}

impl Logged {
    fn new() -> Self {
        let Story { mut lanes, tape, before_the_end, .. } =
            story::of_one_caller(Setting::IN_COMPANY, Syncs::Kept);
        let lane = lanes.remove(0);
        let mut platter = Platter::new(&tape.before);
        let mut done = 0;
        let len_after = |step: &crate::lane::Step| {
            tape.changes[done..step.acknowledged].iter().for_each(|change| platter.apply(change));
            done = step.acknowledged;
            platter.left(Left::All, &mut Dice::new(0)).get(LOG).map_or(0, Vec::len)
        };
        let lens = lane.steps.iter().map(len_after).collect();
        let logged = Self { lane, files: before_the_end, lens };
        assert!(logged.lens.is_sorted() && logged.frames() > 100, "{:?}", logged.lens);
        assert_eq!(logged.len(), HEADER + logged.frames() * FRAME);
        assert_eq!(logged.lens.last(), Some(&logged.len()));
        logged
    }

    fn len(&self) -> usize {
        self.files[LOG].len()
    }

    fn frames(&self) -> usize {
        self.len() / FRAME
    }

    /// How much of the log is sound if the byte at `place` is not.
    fn sound_before(&self, place: usize) -> usize {
        place.checked_sub(HEADER).map_or(0, |behind| HEADER + behind / FRAME * FRAME)
    }

    /// Opens the files with another log: there must be the steps whose commits are within its first `sound` bytes,
    /// and no more.
    fn check(&self, log: Vec<u8>, sound: usize, context: &str) {
        let mut files = self.files.clone();
        files.insert(LOG.to_owned(), log);
        let found = Image::open(&files).and_then(|image| image.find(&self.lane));
        let newest = self.lens.partition_point(|len| *len <= sound) - 1;
        assert_eq!(found.as_ref(), Ok(&self.lane.steps[newest].after), "{context}");
    }
}

#[test]
fn of_a_log_that_is_cut_off_anywhere_all_that_was_acknowledged_by_then_is_there_and_nothing_else() {
    let mut dice = Dice::new(seed());
    let logged = Logged::new();
    let starts = (0..=logged.frames()).map(|frame| HEADER + frame * FRAME);
    let headers: Vec<_> = starts.clone().map(|start| start + dice.between(1, 23)).collect();
    let anywhere: Vec<_> = (0..times(100)).map(|_| dice.between(0, logged.len())).collect();
    let mut cuts = 0;
    for len in [0, 1, HEADER - 1].into_iter().chain(starts).chain(headers).chain(anywhere) {
        let len = len.min(logged.len());
        logged.check(logged.files[LOG][..len].to_vec(), len, &format!("{len} bytes of {}", logged.len()));
        cuts += 1;
    }
    println!("{cuts} cuts of a log of {} frames and {} operations", logged.frames(), logged.lens.len());
}

#[test]
fn of_a_log_with_a_flipped_bit_all_that_was_acknowledged_before_it_is_there_and_nothing_else() {
    let mut dice = Dice::new(seed());
    let logged = Logged::new();
    let in_header = (0..HEADER * 8).step_by(5);
    let anywhere: Vec<_> = (0..times(250)).map(|_| dice.between(0, logged.len() * 8 - 1)).collect();
    let mut flips = 0;
    for bit in in_header.chain(anywhere) {
        let mut log = logged.files[LOG].clone();
        log[bit / 8] ^= 1 << (bit % 8);
        logged.check(log, logged.sound_before(bit / 8), &format!("bit {bit} of {}", logged.len() * 8));
        flips += 1;
    }
    println!("{flips} flipped bits in a log of {} frames", logged.frames());
}
