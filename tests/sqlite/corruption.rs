//! Files of ours whose pages are damaged, or that are cut off: found at open, or by the call that needs what
//! is damaged. Whatever is wrong, no operation that was completed runs again.

use crate::common::{Answer, START, asks_for, key, scope, secs};
use crate::trace::Trace;
use crate::{folder, open, shell};
use idempotency::{
    ClaimOutcome, Durability, Error, ManualClock, Reply, SqliteOptions, SqliteStore, StoredResponse,
};
use std::ops::Range;
use std::path::{Path, PathBuf};

const PAGE: usize = 4_096;
const RECORDS: usize = 60;

/// One record reaches over several pages by itself.
fn reply(record: usize) -> Reply {
    let len = if record == RECORDS / 2 { 5 * PAGE } else { 300 };
    StoredResponse::new(201).with_body(vec![b'a'; len]).with_header("n", record.to_string().as_bytes()).into()
}

fn name(record: usize) -> String {
    format!("record {record}")
}

fn options(clock: &ManualClock) -> SqliteOptions {
    SqliteOptions::new().with_durability(Durability::Normal).with_clock(clock.clone())
}

/// The bytes of a closed store with completed records only, and the first page of each tree in it.
struct Sound {
    bytes: Vec<u8>,
    roots: Vec<(String, u16)>,
}

impl Sound {
    fn new() -> Self {
        let folder = folder();
        let path = folder.path().join("store.db");
        let store = open(&path, options(&ManualClock::new(START))).expect("a fresh store");
        for record in 0..RECORDS {
            let answer = store.try_claim(&scope("a"), &key(&name(record)), &asks_for("x"));
            answer.expect("an answer").claimed().complete(reply(record)).expect("a completion");
        }
        drop(store);
        let roots = shell(&path)
            .prepare("SELECT name, rootpage FROM sqlite_schema")
            .and_then(|mut trees| trees.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
            .expect("the trees");
        let bytes = std::fs::read(&path).expect("a file");
        assert_eq!(bytes.len() % PAGE, 0);
        assert!(bytes.len() > 12 * PAGE, "each tree is to have more pages than its first");
        Self { bytes, roots }
    }

    fn pages(&self) -> usize {
        self.bytes.len() / PAGE
    }

    /// Where the first page of the tree `name` is.
    fn root(&self, name: &str) -> Range<usize> {
        let (_, number) = self.roots.iter().find(|(tree, _)| tree == name).expect("a tree of this name");
        let end = usize::from(*number) * PAGE;
        end - PAGE..end
    }

    fn with(&self, place: Range<usize>, damage: Damage) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[place].iter_mut().for_each(|byte| *byte = damage.of(*byte));
        bytes
    }
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Zeros,
    Ones,
    Flipped,
}

impl Damage {
    const ALL: [Self; 3] = [Self::Zeros, Self::Ones, Self::Flipped];

    fn of(self, byte: u8) -> u8 {
        match self {
            Self::Zeros => 0,
            Self::Ones => 0xff,
            Self::Flipped => byte ^ 0x5a,
        }
    }
}

fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Foreign { .. })
        && !error.is_transient()
        && !error.is_indefinite()
}

/// What became of a store with damage in it.
enum Found {
    AtOpen(Error),
    /// By so many calls.
    ByCalls(usize),
}

/// Opens a file with `bytes` and makes every kind of call. Each must answer as if nothing were damaged, or
/// with an error that says damaged.
#[track_caller]
fn found_in(bytes: &[u8], what: &str) -> Found {
    let folder = folder();
    let path = folder.path().join("store.db");
    std::fs::write(&path, bytes).expect("a file");
    let clock = ManualClock::new(START);
    let store = match open(&path, options(&clock)) {
        Ok(store) => store,
        Err(error) => {
            assert!(std::fs::read(&path).expect("a file") == bytes, "{what}: refused, and changed");
            return Found::AtOpen(error);
        }
    };
    let mut errors = 0;
    let mut check = |call: &str, answer: Result<bool, Error>| match answer {
        Ok(is_right) => assert!(is_right, "{what}: {call}"),
        Err(error) => {
            assert!(is_damage(&error), "{what}: {call}: {error:?}");
            errors += 1;
        }
    };
    for record in 0..RECORDS {
        let (s, k, reply) = (scope("a"), key(&name(record)), Some(reply(record)));
        let stored = store.lookup(&s, &k).map(|stored| stored.and_then(|record| record.reply) == reply);
        check("a look-up", stored);
        let answer = store.try_claim(&s, &k, &asks_for("x"));
        let replayed = answer.map(|answer| match answer {
            ClaimOutcome::Completed(done) => Some(done.reply) == reply,
            _ => false,
        });
        check("a claim of a completed operation", replayed);
        let answer = store.try_claim(&s, &k, &asks_for("y")).map(|answer| answer.name() == "mismatch");
        check("a claim of another operation", answer);
    }
    check("a new claim", new_claim(&store));
    clock.advance(secs(3 * 24 * 60 * 60));
    check("a sweep", store.sweep_all().map(|swept| swept.removed > 0 && !swept.more));
    Found::ByCalls(errors)
}

fn new_claim(store: &SqliteStore) -> Result<bool, Error> {
    match store.try_claim(&scope("a"), &key("new"), &asks_for("x"))? {
        ClaimOutcome::Claimed(claim) => claim.complete(Reply::Marker).map(|_| true).map_err(Error::from),
        _ => Ok(false),
    }
}

#[test]
fn a_damaged_page_is_found_and_completed_operations_are_replayed_or_refused() {
    let sound = Sound::new();
    assert!(matches!(found_in(&sound.bytes, "no damage"), Found::ByCalls(0)));
    let meta = sound.root("idempotency_meta");
    for page in 0..sound.pages() {
        let place = page * PAGE..(page + 1) * PAGE;
        for damage in Damage::ALL {
            let what = format!("page {} of {}: {damage:?}", page + 1, sound.pages());
            match found_in(&sound.with(place.clone(), damage), &what) {
                Found::AtOpen(Error::Foreign { .. }) => assert_eq!(page, 0, "{what}: no database at all"),
                Found::AtOpen(error) => {
                    assert!(is_damage(&error), "{what}: {error:?}");
                    assert_eq!(place, meta, "{what}: {error:?}");
                }
                Found::ByCalls(errors) => {
                    assert!(errors > 0, "{what}: nobody saw it");
                    assert!(page > 0 && place != meta, "{what}: it was opened");
                }
            }
        }
    }
}

/// The fields of SQLite's header (SQLite, "Database File Format", section 1.3) and of the first tree's.
#[test]
fn a_damaged_header_is_refused_at_open_or_harms_nothing() {
    let sound = Sound::new();
    for (field, place, damage) in [
        ("the magic string", 0..16, Damage::Zeros),
        ("the magic string", 5..6, Damage::Flipped),
        ("the page size", 16..18, Damage::Zeros),
        ("the page size", 16..18, Damage::Ones),
        ("the version for reading", 19..20, Damage::Ones),
        ("the payload fractions", 21..24, Damage::Zeros),
        ("the number of pages", 28..32, Damage::Ones),
        ("the schema format", 44..48, Damage::Ones),
        ("the text encoding", 56..60, Damage::Ones),
        ("the first tree's kind", 100..101, Damage::Zeros),
        ("the first tree's number of cells", 103..105, Damage::Zeros),
        ("the first tree's number of cells", 103..105, Damage::Ones),
        ("the place of the first cell", 108..110, Damage::Zeros),
        ("the place of the first cell", 108..110, Damage::Ones),
    ] {
        match found_in(&sound.with(place, damage), field) {
            Found::AtOpen(error) => assert!(is_damage(&error), "{field}: {error:?}"),
            Found::ByCalls(errors) => panic!("{field}: opened, and {errors} calls failed"),
        }
    }
    for (field, place) in [
        ("the room at the end of each page", 20..21),
        ("the change counter", 24..28),
        ("the free pages", 32..40),
        ("the schema cookie", 40..44),
        ("the cache size", 48..52),
        ("the auto-vacuum root", 52..56),
        ("the application's own numbers", 60..72),
        ("what is reserved", 72..92),
        ("who wrote it last", 92..100),
    ] {
        for damage in Damage::ALL {
            if let Found::AtOpen(error) = found_in(&sound.with(place.clone(), damage), field) {
                assert!(is_damage(&error), "{field}, {damage:?}: {error:?}");
            }
        }
    }
}

/// Pages that were in use once are not the damage of a lost schema.
#[test]
fn a_file_whose_tables_were_all_dropped_is_a_fresh_store() {
    for auto_vacuum in [0, 1, 2] {
        let folder = folder();
        let path = folder.path().join("store.db");
        let (create, drop): (String, String) = (0..20)
            .map(|table| (format!("CREATE TABLE t{table} (a);"), format!("DROP TABLE t{table};")))
            .unzip();
        shell(&path)
            .execute_batch(&format!("PRAGMA auto_vacuum = {auto_vacuum}; {create} {drop}"))
            .expect("a file");
        let store = open(&path, SqliteOptions::new()).expect("a fresh store");
        assert!(new_claim(&store).expect("an answer"), "auto-vacuum {auto_vacuum}");
    }
}

#[test]
fn a_file_that_is_cut_off_is_refused_and_an_empty_one_is_a_fresh_store() {
    let sound = Sound::new();
    let len = sound.bytes.len();
    for len in [len / 2, len / 2 + 1, len - PAGE, 2 * PAGE, PAGE, PAGE - 1, 512, 100, 99, 50] {
        match found_in(&sound.bytes[..len], &format!("{len} bytes")) {
            Found::AtOpen(error) => assert!(is_damage(&error), "{len} bytes: {error:?}"),
            Found::ByCalls(_) => panic!("{len} bytes were opened"),
        }
    }
    let folder = folder();
    let path = folder.path().join("store.db");
    std::fs::write(&path, "").expect("a file");
    let store = open(&path, SqliteOptions::new()).expect("a fresh store");
    assert!(new_claim(&store).expect("an answer"));
}

/// A traced store on a file with `bytes`.
fn traced(bytes: &[u8], path: &Path) -> (&'static Trace, Result<SqliteStore, Error>) {
    std::fs::write(path, bytes).expect("a file");
    let trace = Trace::new();
    let options = trace.on(SqliteOptions::new().with_clock(ManualClock::new(START)));
    (trace, open(path, options.with_busy_timeout(secs(1))))
}

#[test]
fn what_is_damaged_is_not_tried_again() {
    let sound = Sound::new();
    let folder = folder();
    let path = |name: &str| -> PathBuf { folder.path().join(name) };

    // The first statement that reads the file can't even be prepared then, so no run of it is there to count.
    let (trace, refused) = traced(&sound.with(0..PAGE, Damage::Ones), &path("no database"));
    assert!(matches!(refused, Err(Error::Foreign { .. })), "{refused:?}");
    assert_eq!((trace.connections(), trace.take()), (1, vec!["PRAGMA main.locking_mode".to_owned()]));

    let meta = sound.with(sound.root("idempotency_meta"), Damage::Ones);
    let (trace, refused) = traced(&meta, &path("no meta table"));
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    assert_eq!((trace.connections(), trace.runs_of("SELECT schema_version")), (1, 1), "{:?}", trace.take());

    let bytes = sound.with(sound.root("idempotency_record"), Damage::Ones);
    let (trace, store) = traced(&bytes, &path("no records"));
    let store = store.expect("its tables are declared");
    let (s, k, print) = (scope("a"), key(&name(0)), asks_for("x"));
    let many: Vec<_> = (0..3).map(|record| (s.clone(), key(&name(record)), print)).collect();
    let tried_once = |call: &str, statement: &str, answers: Vec<Result<(), Error>>| {
        for answer in answers {
            let error = answer.expect_err(call);
            assert!(matches!(error, Error::Corrupt { .. }), "{call}: {error:?}");
        }
        assert_eq!(trace.runs_of(statement), 1, "{call}: {:?}", trace.take());
        drop(trace.take());
    };
    drop(trace.take());
    tried_once("a claim", "FROM main.idempotency_record", vec![store.try_claim(&s, &k, &print).map(drop)]);
    let answers = store.try_claim_many(&many).into_iter().map(|answer| answer.map(drop));
    tried_once("claims in one call", "BEGIN", answers.collect());
    tried_once("a forget", "BEGIN", vec![store.forget(&s, &k).map(drop)]);
    assert_eq!(trace.connections(), 2, "one that writes, one that reads");
}
