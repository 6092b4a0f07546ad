//! A disk that is full, as far as a limit on the file's pages can stand for one. The limit is one of the
//! connection's, so a store that is opened without it has room again.

use crate::common::{Answer, asks_for, key, scope};
use crate::trace::Trace;
use crate::{folder, open, shell};
use idempotency::{Claim, Error, Reply, SqliteOptions, SqliteStore, StoredResponse};
use std::path::{Path, PathBuf};

/// More claims than fit into the room that a fresh file has left in its pages.
const MORE_THAN_FIT: usize = 1_000;

pub struct FullFile {
    _folder: tempfile::TempDir,
    pub path: PathBuf,
    /// How many pages the file has, and may have.
    pub pages: i64,
    trace: &'static Trace,
    pub store: SqliteStore,
}

impl FullFile {
    /// A store whose file may not get any page more than it has now. The application has two tables in it.
    pub fn new() -> Self {
        let folder = folder();
        let path = folder.path().join("store.db");
        drop(open(&path, SqliteOptions::new()).expect("a fresh store"));
        let shell = shell(&path);
        shell.execute_batch("CREATE TABLE orders (id TEXT); CREATE TABLE notes (id TEXT)").expect("tables");
        let pages = shell.query_row("PRAGMA page_count", [], |row| row.get(0)).expect("a number of pages");
        let trace = Trace::new();
        let options = trace.with_setup(SqliteOptions::new(), move |connection| {
            connection.pragma_update(None, "max_page_count", pages)
        });
        let store = open(&path, options).expect("the store");
        Self { _folder: folder, path, pages, trace, store }
    }

    /// Claims until a claim is refused; gives those that were granted, and why it ended.
    fn claim_until_full(&self) -> (Vec<Claim>, Error) {
        let mut claims = Vec::new();
        for number in 0..MORE_THAN_FIT {
            match claim(&self.store, &number.to_string()) {
                Ok(claim) => claims.push(claim),
                Err(error) => return (claims, error),
            }
        }
        panic!("the limit does not hold: {} claims", claims.len());
    }
}

fn claim(store: &SqliteStore, name: &str) -> Result<Claim, Error> {
    store.try_claim(&scope("a"), &key(name), &asks_for(name)).map(Answer::claimed)
}

/// Whether it says that there is no room, and that nothing was done.
#[track_caller]
fn is_full(error: &Error) {
    assert!(matches!(error, Error::Full(_)), "{error:?}");
    assert!(!error.is_transient() && !error.is_indefinite(), "{error:?}");
}

fn rows(path: &Path) -> usize {
    let count: u32 = shell(path)
        .query_row("SELECT count(*) FROM idempotency_record", [], |row| row.get(0))
        .expect("a count");
    count.try_into().expect("a small number")
}

fn large() -> Reply {
    StoredResponse::new(201).with_body(vec![b'a'; 500_000]).into()
}

#[test]
fn a_claim_for_which_there_is_no_room_is_full_and_was_not_made_and_not_tried_again() {
    let f = FullFile::new();
    drop(f.trace.take());
    let (claims, error) = f.claim_until_full();
    is_full(&error);
    assert!(!claims.is_empty(), "there was room for none");
    assert_eq!(rows(&f.path), claims.len());
    let attempts = claims.len() + 1;
    assert_eq!(f.trace.runs_of("BEGIN"), attempts, "{:?}", f.trace.take());
    assert_eq!(f.trace.runs_of("INSERT INTO"), attempts, "{:?}", f.trace.take());
    assert_eq!(f.trace.connections(), 2, "one that writes, one that reads");

    let refused = claims.len().to_string();
    assert_eq!(f.store.lookup(&scope("a"), &key(&refused)).expect("an answer"), None);
    is_full(&claim(&f.store, &refused).expect_err("there is no more room than before"));
    let store = open(&f.path, SqliteOptions::new()).expect("the store, without the limit");
    let granted = claim(&store, &refused).expect("there is room");
    assert_eq!((granted.attempt(), granted.is_takeover()), (1, false));
    assert!(claims.iter().all(|earlier| earlier.token() < granted.token()));
    granted.complete(large()).expect("there is room");
}

#[test]
fn a_full_store_still_replays_completes_what_needs_no_room_and_gives_room_back() {
    let f = FullFile::new();
    let (mut claims, _) = f.claim_until_full();
    let refused = claims.len().to_string();
    let done = claims.pop().expect("a claim that was granted");
    let name = done.key().as_str().to_owned();
    done.complete(Reply::Marker).expect("it needs no room");
    let answer = f.store.try_claim(&scope("a"), &key(&name), &asks_for(&name)).expect("an answer");
    assert_eq!(answer.completed().reply, Reply::Marker);
    is_full(&claim(&f.store, &refused).expect_err("there is no more room than before"));
    for claim in claims {
        claim.release().expect("it needs no room");
    }
    drop(claim(&f.store, &refused).expect("the released claims have left room"));
    assert_eq!(rows(&f.path), 2);
}

#[test]
fn a_reply_for_which_there_is_no_room_comes_back_with_its_claim_and_can_be_recorded_later() {
    let f = FullFile::new();
    let claim = claim(&f.store, "k").expect("there is room for one");
    let (s, k) = (claim.scope().clone(), claim.key().clone());
    let before = f.store.lookup(&s, &k).expect("an answer").expect("a record");
    drop(f.trace.take());
    let (error, claim, reply) = claim.complete(large()).expect_err("there is no room").into_parts();
    is_full(&error);
    assert_eq!(reply, large());
    assert_eq!(f.trace.runs_of("BEGIN"), 1, "{:?}", f.trace.take());
    assert_eq!(f.trace.runs_of("UPDATE main.idempotency_record"), 1, "{:?}", f.trace.take());
    assert_eq!(f.trace.connections(), 2, "one that writes, one that reads");
    assert_eq!(f.store.lookup(&s, &k).expect("an answer"), Some(before), "the claim stands as it was");
    assert_eq!(f.store.try_claim(&s, &k, &asks_for("k")).expect("an answer").name(), "in progress");

    let mut claim = claim;
    let too_much = vec![b'a'; 60_000];
    is_full(&claim.save_checkpoint(too_much).expect_err("there is no room for it either"));
    assert_eq!(claim.checkpoint(), None);
    let store = open(&f.path, SqliteOptions::new()).expect("the store, without the limit");
    let done = store.complete(&claim.ticket(), reply).expect("there is room");
    assert_eq!(done.reply, large());
    let replayed = f.store.try_claim(&s, &k, &asks_for("k")).expect("an answer").completed();
    assert_eq!(replayed.reply, large(), "under the limit, too: a replay needs no room");
}

/// Some of the batch would fit.
#[test]
fn of_claims_in_one_call_for_which_there_is_no_room_none_is_half_made() {
    let f = FullFile::new();
    let operations: Vec<_> = (0..MORE_THAN_FIT)
        .map(|number| (scope("a"), key(&number.to_string()), asks_for(&number.to_string())))
        .collect();
    let answers = f.store.try_claim_many(&operations);
    assert_eq!(answers.len(), operations.len());
    let mut granted = 0;
    for answer in answers {
        match answer {
            Ok(answer) => {
                drop(answer.claimed());
                granted += 1;
            }
            Err(error) => is_full(&error),
        }
    }
    assert!(granted < MORE_THAN_FIT);
    assert_eq!(rows(&f.path), granted, "what was answered is what is there");
}

#[test]
fn a_fresh_store_for_which_there_is_no_room_is_full_at_open_and_not_half_made() {
    let folder = folder();
    let path = folder.path().join("app.db");
    shell(&path).execute_batch("CREATE TABLE orders (id TEXT)").expect("the application's own table");
    for pages in 2..6 {
        let limited = SqliteOptions::new()
            .with_connection_setup(move |connection| connection.pragma_update(None, "max_page_count", pages));
        is_full(&open(&path, limited).expect_err("two tables and two indexes need more pages"));
        let tables: i64 = shell(&path)
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .expect("a count");
        assert_eq!(tables, 1, "of {pages} pages");
    }
    let store = open(&path, SqliteOptions::new()).expect("there is room");
    drop(claim(&store, "k").expect("there is room"));
}
