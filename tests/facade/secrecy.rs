//! A whole story, told to a recorder and a subscriber that keep everything: nothing in it shows a value.

use crate::common::{Answer, Fixture, on_every_backend};
use crate::log::Log;
use crate::recorder::{Recorded, Recorder};
use crate::stage::Stage;
use idempotency::testing::Fault;
use idempotency::{Claim, Failures, Fingerprint, IdempotencyKey, Policy, Reply, Scope, StoredResponse};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tracing::Level;

const SCOPE: &str = "tenant-4711-scope";
const KEY: &str = "client-0815-name";
const ASKED: &str = "amount-3141-asked";
const SAVED: &str = "halfway-9999-there";
const NAME: &str = "x-session-name";
const VALUE: &str = "session-5555-value";
const BODY: &str = "personal-1234-body";
const REFERENCE: &str = "customer-7777-reference";
const PROBLEM: &str = "account-2718-problem";
const SECRETS: [&str; 9] = [SCOPE, KEY, ASKED, SAVED, NAME, VALUE, BODY, REFERENCE, PROBLEM];

fn names() -> (Scope, IdempotencyKey, Fingerprint) {
    let scope = Scope::new(SCOPE).expect("a valid scope");
    let key = IdempotencyKey::new(KEY).expect("a valid key");
    (scope, key, Fingerprint::builder().field("amount", ASKED).finish())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Base64 of all whole groups of three from `bytes`.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |group: &[u8]| {
        let bits = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        [18, 12, 6, 0].map(|shift| char::from(DIGITS[(bits >> shift) as usize & 63]))
    };
    bytes.chunks_exact(3).flat_map(group).collect()
}

/// The ways in which bytes are likely to be shown.
fn forms(bytes: &[u8]) -> Vec<String> {
    let list = |separator: &str| bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(separator);
    let mut forms = vec![hex(bytes), hex(bytes).to_uppercase(), list(", "), list(",")];
    // Where the bytes are a part of what is encoded, they begin at one of three places in a group.
    forms.extend((0..3).map(|skip| base64(&bytes[skip..])));
    forms.extend((0..3).map(|skip| base64(&bytes[skip..]).replace('+', "-").replace('/', "_")));
    forms
}

fn assert_discreet(told: &str) {
    for secret in SECRETS {
        let text = [secret.to_owned(), secret.to_uppercase(), secret[..9].to_owned()];
        for shown in forms(secret.as_bytes()).into_iter().chain(text) {
            assert!(!told.contains(&shown), "{shown}, of {secret}, is in what was told:\n{told}");
        }
    }
    let (_, _, fingerprint) = names();
    for shown in forms(fingerprint.digest()).into_iter().chain([hex(&fingerprint.digest()[..4])]) {
        assert!(!told.contains(&shown), "{shown}, of the fingerprint, is in what was told:\n{told}");
    }
}

fn reply() -> Reply {
    StoredResponse::new(200).with_header(NAME, VALUE).with_body(BODY).into()
}

/// All that a caller can do, and much that goes wrong.
fn story(fixture: &Fixture) {
    let stage = Stage::new(fixture);
    let store = stage.store.with_policy(Policy::new().with_max_reply_len(100)).expect("a policy");
    let (scope, key, fingerprint) = names();
    let ask = || store.try_claim(&scope, &key, &fingerprint);
    let fail = |fault| store.backend().fail(fault, 0, 1);

    let mut claim = ask().expect("an answer").claimed();
    let _for_the_provider = claim.downstream_key(PROBLEM);
    claim.save_checkpoint(SAVED).expect("a checkpoint");
    claim.save_checkpoint(SAVED.repeat(9_999)).expect_err("too large");
    claim.renew().expect("a renewal");
    drop(ask().expect("in progress"));
    drop(store.try_claim(&scope, &key, &Fingerprint::from_bytes([7; 32])).expect("a mismatch"));
    for fault in [Fault::Before, Fault::After] {
        fail(fault);
        ask().expect_err("a fault");
        fail(fault);
        claim.renew().expect_err("a fault");
        fail(fault);
        claim.save_checkpoint(SAVED).expect_err("a fault");
    }
    let late = claim.ticket();
    drop(claim);
    stage.lapse();
    let claim = ask().expect("an answer").claimed();
    store.complete(&late, reply()).expect_err("a loss");
    store.resume(late).map(drop).expect_err("a loss");
    let ticket = claim
        .complete(Reply::Reference(REFERENCE.repeat(9)))
        .expect_err("too large")
        .into_parts()
        .1
        .into_ticket();
    fail(Fault::Before);
    store.complete(&ticket, reply()).expect_err("a fault");
    store.complete(&ticket, reply()).expect("a completion");
    store.complete(&ticket, Reply::Reference(REFERENCE.to_owned())).expect("the first reply");
    drop(ask().expect("a replay"));
    store.lookup(&scope, &key).expect("an answer");
    store.forget(&scope, &key).expect("an answer");
    drop(store.try_claim_many(&[names(), names()]));
    store.forget(&scope, &key).expect("an answer");

    for failures in [Failures::Abandon, Failures::Release, Failures::Record] {
        let store = store.with_policy(Policy::new().with_failures(failures)).expect("a policy");
        let run = |work: fn(&mut Claim) -> Result<Reply, String>| store.run(&scope, &key, &fingerprint, work);
        drop(run(|_| Err(PROBLEM.to_owned())).expect_err("the work's own error"));
        catch_unwind(AssertUnwindSafe(|| run(|_| panic!("{PROBLEM}")))).expect_err("the panic goes on");
        drop(run(|_| Ok(StoredResponse::new(500).with_header(NAME, VALUE).with_body(BODY).into())));
        store.forget(&scope, &key).expect("an answer");
    }
    drop(store.run(&scope, &key, &fingerprint, |_| Ok::<_, ()>(Reply::Reference(REFERENCE.repeat(9)))));
    stage.expire();
    store.sweep_all().expect("a sweep");
    store.stats().expect("counts");
    store.stuck(1).expect("a list");
    fail(Fault::Before);
    store.sweep(1).expect_err("a fault");
}

/// What went out, and whether it was a lot: all of a story, not the beginning of it.
fn told(play: impl FnOnce()) -> String {
    let (((), log), recorded) = Recorder::of(|| Log::of(Level::TRACE, play));
    let Recorded { counters, samples, descriptions, .. } = &recorded;
    let told = format!("{log:#?}\n{counters:#?}\n{samples:#?}\n{descriptions:#?}");
    let (scope, key, _) = names();
    assert!(told.contains(&scope.to_string()) && told.contains(&key.to_string()), "the digests are in it");
    told
}

#[test]
fn a_whole_story_shows_no_value_of_a_caller_s() {
    on_every_backend(|fixture| {
        let told = told(|| story(fixture));
        for line in crate::events::messages() {
            assert!(told.contains(line), "the story has no \"{line}\" on {}", fixture.name);
        }
        for name in [
            "run",
            "claim",
            "complete",
            "renew",
            "checkpoint",
            "release",
            "abandon",
            "forget",
            "read",
            "sweep",
            "stats",
            "stuck",
            "batch",
        ] {
            assert!(told.contains(&format!("name: {name:?}")), "the story has no {name} on {}", fixture.name);
        }
        assert_discreet(&told);
    });
}

#[cfg(feature = "sqlite")]
mod on_a_file {
    use super::{
        BODY, Fixture, KEY, NAME, PROBLEM, REFERENCE, SAVED, SCOPE, VALUE, assert_discreet, names, reply,
        told,
    };
    use crate::common::Answer;
    use idempotency::rusqlite::{self, Connection, Transaction, TransactionBehavior, params};
    use idempotency::{Error, IdempotencyStore, Ran, Reply, RunError, SqliteStore};

    const TABLES: &str = "CREATE TABLE orders (account TEXT PRIMARY KEY,
        parent TEXT REFERENCES orders (account) DEFERRABLE INITIALLY DEFERRED)";

    fn order(tx: &Connection, account: &str, parent: Option<&str>) -> rusqlite::Result<Reply> {
        tx.execute("INSERT INTO orders VALUES (?1, ?2)", params![account, parent])?;
        Ok(reply())
    }

    fn shop() -> (SqliteStore, Connection, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("shop.db");
        let shell = Connection::open(&path).expect("a file");
        shell.execute_batch(TABLES).expect("a table");
        (IdempotencyStore::open(path).expect("a fresh store"), shell, folder)
    }

    #[test]
    fn work_in_a_transaction_and_what_goes_wrong_there_shows_no_value() {
        let told = told(|| {
            let (store, mut shell, _folder) = shop();
            let (scope, key, fingerprint) = names();
            let run = |work: &dyn Fn(&Transaction<'_>) -> rusqlite::Result<Reply>| {
                store.atomically(&scope, &key, &fingerprint, |tx| work(tx))
            };
            let dangling = run(&|tx| order(tx, PROBLEM, Some(REFERENCE)));
            assert!(matches!(dangling, Err(RunError::NotRecorded { .. })), "{dangling:?}");
            shell.execute("INSERT INTO orders VALUES (?1, NULL)", [PROBLEM]).expect("an order");
            let twice = run(&|tx| order(tx, PROBLEM, None));
            assert!(matches!(twice, Err(RunError::Work(_))), "{twice:?}");
            let committed = run(&|tx| tx.execute_batch("COMMIT").map(|()| reply()));
            assert!(matches!(committed, Err(RunError::NotRecorded { .. })), "{committed:?}");
            store.forget(&scope, &key).expect("an answer");
            let inside = run(&|_| {
                assert!(matches!(store.try_claim(&scope, &key, &fingerprint), Err(Error::Reentrant)));
                Ok(reply())
            });
            assert!(matches!(inside, Ok(Ran::Executed(_))), "{inside:?}");
            store.forget(&scope, &key).expect("an answer");
            let ticket =
                store.try_claim(&scope, &key, &fingerprint).expect("an answer").claimed().into_ticket();
            let deferred = shell.transaction().expect("a transaction");
            store.complete_in(&deferred, &ticket, reply()).expect_err("no write lock");
            drop(deferred);
            let tx = shell.transaction_with_behavior(TransactionBehavior::Immediate).expect("the lock");
            store.complete_in(&tx, &ticket, reply()).expect("a completion");
            store.complete_in(&tx, &ticket, reply()).expect_err("it has completed");
        });
        assert!(told.contains("FOREIGN KEY constraint failed"), "the cause of what failed is told: {told}");
        assert_discreet(&told);
    }

    #[test]
    fn damage_to_what_is_stored_is_told_without_it() {
        let columns =
            ["fingerprint", "reply_body", "reply_headers", "reply_checksum", "checkpoint", "reply_kind"];
        for column in columns {
            let mut kinds = Vec::new();
            let told = told(|| {
                let fixture = Fixture::on_sqlite();
                let (scope, key, fingerprint) = names();
                let mut claim =
                    fixture.store.try_claim(&scope, &key, &fingerprint).expect("an answer").claimed();
                if column == "checkpoint" {
                    claim.save_checkpoint(SAVED).expect("a checkpoint");
                    let _ticket = claim.into_ticket();
                    fixture.at(90);
                } else {
                    claim.complete(reply()).expect("a completion");
                }
                let shell = Connection::open(fixture.path().expect("a file")).expect("the file");
                shell.execute_batch("PRAGMA ignore_check_constraints = ON").expect("a setting");
                let text = [SCOPE, KEY, NAME, VALUE, BODY].concat();
                let sql = format!("UPDATE idempotency_record SET {column} = ?1");
                let changed = match column {
                    "reply_kind" => shell.execute(&sql, [&text]),
                    _ => shell.execute(&sql, [text.as_bytes()]),
                };
                assert_eq!(changed, Ok(1), "{column}");
                let answers = [
                    fixture.store.try_claim(&scope, &key, &fingerprint).map(drop),
                    fixture.store.lookup(&scope, &key).map(drop),
                ];
                kinds.extend(answers.map(|answer| answer.map_err(|error| error.kind().as_str())));
            });
            assert_eq!(kinds, [Err("corrupt"); 2], "{column}");
            assert_discreet(&told);
        }
    }
}
