//! A bit of the database file that is not what it was: whatever else comes of it, no reply and no checkpoint is
//! handed out with other bytes.
//!
//! What is not under a checksum may be read as something else: state, token, attempt, times, and whether a key is
//! found at all. That is counted here, and not judged.

use crate::bench::{open, sound_disk};
use crate::caller::reply;
use crate::common::{Answer as _, START, asks_for, key, scope};
use crate::dice::Dice;
use crate::seed::seed;
use crate::soak::times;
use idempotency::{Claim, ClaimOutcome, Error, ManualClock, Record, SqliteOptions, SqliteStore, Timestamp};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const PAGE: usize = 4_096;

/// Of the file (SQLite, "Database File Format", section 1.3).
const HEADER: usize = 100;

/// Where the header says in which format the file is written: one that SQLite does not know makes the file one that
/// it only reads.
const WRITE_VERSION: usize = 18;

fn open_at(path: &Path, clock: &ManualClock) -> Result<SqliteStore, Error> {
    open(path, SqliteOptions::new().with_clock(clock.clone()).with_vfs(sound_disk()))
}

/// Some records that are completed, and some that are in progress with a checkpoint.
fn names() -> impl Iterator<Item = String> {
    let completed = (0..20).map(|record| format!("completed {record}"));
    completed.chain((0..10).map(|record| format!("claimed {record}")))
}

fn claim(store: &SqliteStore, name: &str) -> Result<ClaimOutcome, Error> {
    store.try_claim(&scope("s"), &key(name), &asks_for("x"))
}

/// The bytes of a closed store, and the records in it.
fn sound() -> (Vec<u8>, BTreeMap<String, Record>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("store.db");
    let store = open_at(&path, &ManualClock::new(START)).expect("a fresh store");
    for name in names() {
        let mut claim: Claim = claim(&store, &name).expect("a store").claimed();
        if name.starts_with("completed") {
            claim.complete(reply(&name)).expect("held");
        } else {
            claim.save_checkpoint(name.repeat(100)).expect("held");
        }
    }
    let record = |name: &String| store.lookup(&scope("s"), &key(name)).expect("a sound file");
    let records: BTreeMap<_, _> =
        names().map(|name| (name.clone(), record(&name).expect("a record"))).collect();
    for (name, record) in &records {
        let is_completed = name.starts_with("completed");
        assert_eq!(record.reply, is_completed.then(|| reply(name)));
        assert_eq!(record.checkpoint.is_some(), !is_completed);
    }
    drop(store);
    (fs::read(path).expect("a file"), records)
}

/// What was found of how many records.
#[derive(Debug, Default)]
struct Tally {
    files: usize,
    refused_at_open: usize,
    /// As they were.
    right: usize,
    /// Refused as damaged.
    refused: usize,
    /// Not found.
    absent: usize,
    /// Found, with something else in what is under no checksum.
    other: usize,
    /// Answered to a claim as they were.
    answered: usize,
    /// Told to a claim in another way than they stand, reply and checkpoint apart.
    answered_otherwise: usize,
    /// Granted to a claim though they were completed, or held.
    granted: usize,
}

fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Foreign { .. })
}

/// Looks each record up, then claims it.
fn look(
    store: &SqliteStore,
    clock: &ManualClock,
    records: &BTreeMap<String, Record>,
    tally: &mut Tally,
    context: &str,
) {
    for (name, record) in records {
        clock.set(Timestamp::from_millis(0));
        match store.lookup(&scope("s"), &key(name)) {
            Ok(Some(found)) => {
                assert!(found.reply.is_none() || found.reply == record.reply, "{context}, {name}: {found:?}");
                let checkpoint = found.checkpoint.is_none() || found.checkpoint == record.checkpoint;
                assert!(checkpoint, "{context}, {name}: {found:?}");
                if found == *record { tally.right += 1 } else { tally.other += 1 }
            }
            Ok(None) => tally.absent += 1,
            Err(error) if is_damage(&error) => tally.refused += 1,
            Err(error) => panic!("{context}, {name}: {error:?}"),
        }
        clock.set(START);
        match claim(store, name) {
            Ok(ClaimOutcome::Completed(done)) => {
                assert_eq!(Some(done.reply), record.reply, "{context}, {name}");
                tally.answered += 1;
            }
            Ok(ClaimOutcome::InProgress(_)) if record.reply.is_none() => tally.answered += 1,
            Ok(ClaimOutcome::Claimed(granted)) => {
                let checkpoint =
                    granted.checkpoint().is_none() || granted.checkpoint() == record.checkpoint.as_ref();
                assert!(checkpoint, "{context}, {name}: {granted:?}");
                tally.granted += 1;
            }
            Ok(_) => tally.answered_otherwise += 1,
            Err(error) if is_damage(&error) => {}
            Err(error) => panic!("{context}, {name}: {error:?}"),
        }
    }
}

#[test]
fn no_bit_of_the_file_that_flips_changes_a_reply_or_a_checkpoint_that_is_handed_out() {
    let mut dice = Dice::new(seed());
    let (bytes, records) = sound();
    let mut tally = Tally::default();
    let pages = bytes.len() / PAGE;
    let header = (0..times(30)).map(|_| (0, HEADER));
    let places = (0..pages).flat_map(|page| (0..times(5)).map(move |_| (page * PAGE, (page + 1) * PAGE)));
    for (from, to) in header.chain(places) {
        let bit = dice.between(from * 8, to * 8 - 1);
        let (byte, context) = (bit / 8, format!("bit {} of byte {} of {}", bit % 8, bit / 8, bytes.len()));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("store.db");
        let mut damaged = bytes.clone();
        damaged[byte] ^= 1 << (bit % 8);
        fs::write(&path, damaged).expect("a file");
        tally.files += 1;
        let clock = ManualClock::new(START);
        match open_at(&path, &clock) {
            Ok(store) => look(&store, &clock, &records, &mut tally, &context),
            Err(error) if is_damage(&error) => tally.refused_at_open += 1,
            Err(Error::ReadOnly(_)) if byte == WRITE_VERSION => tally.refused_at_open += 1,
            Err(error) => panic!("{context}: {error:?}"),
        }
    }
    println!("one bit flipped in a file of {pages} pages and {} records: {tally:?}", records.len());
    assert!(tally.right > 10 * tally.files, "{tally:?}");
    assert!(tally.refused + tally.refused_at_open > tally.files / 10, "{tally:?}");
}
