//! `examples/webhooks.rs`. `scripts/kill-loop` kills it at random moments; here it is killed at known ones.

use super::{Run, assert_arguments, example, run, sample};
use idempotency::rusqlite::Connection;
use idempotency::{ClaimOutcome, Fingerprint, IdempotencyKey, IdempotencyStore, Scope};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Events applied, cents created, cents paid, cents refunded.
type Sums = [u64; 4];

/// Each event by itself, as without a batch; two together; more of them together than any test has.
const BATCHES: [&str; 3] = ["1", "2", "100"];

fn run_on(batch: &str, database: &Path, events: &Path) -> Run {
    let files = [database.as_os_str(), events.as_os_str()];
    if batch == "1" {
        return run("webhooks", &files);
    }
    run("webhooks", &[["--batch", batch].map(OsStr::new), files].concat())
}

/// How many deliveries were executed, replayed, mismatched, refused and bad.
fn tally(run: &Run) -> [u64; 5] {
    ["executed", "replayed", "mismatched", "refused", "bad line"].map(|what| {
        let counts: Vec<_> =
            run.stdout.lines().filter_map(|line| line.trim().strip_suffix(&format!(" × {what}"))).collect();
        assert_eq!(counts.len(), 1, "one count of {what} in\n{}", run.stdout);
        counts[0].parse().expect("a count")
    })
}

/// The orders below the head of the table, and the totals as the last of them.
fn orders(run: &Run) -> BTreeMap<String, Sums> {
    let table = run.stdout.lines().skip_while(|line| !line.starts_with("order ")).skip(1);
    table
        .map(|row| {
            let mut numbers = row.split_whitespace().rev();
            let mut next = || numbers.next().and_then(|it| it.parse().ok()).expect("a number");
            let [refunded, paid, created, events] = [next(), next(), next(), next()];
            let name = numbers.rev().collect::<Vec<_>>().join(" ");
            (name, [events, created, paid, refunded])
        })
        .collect()
}

fn named<const N: usize>(orders: [(&str, Sums); N]) -> BTreeMap<String, Sums> {
    orders.into_iter().map(|(name, sums)| (name.to_owned(), sums)).collect()
}

#[test]
fn the_sample_is_applied_once_however_often_it_is_read_and_its_bad_lines_are_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (database, batch, expected) in [
        ("a", "1", [12, 6, 3, 0, 8]),
        ("b", "2", [12, 6, 3, 0, 8]),
        ("c", "100", [12, 6, 3, 0, 8]),
        ("a", "100", [0, 18, 3, 0, 8]),
        ("b", "2", [0, 18, 3, 0, 8]),
        ("c", "1", [0, 18, 3, 0, 8]),
    ] {
        let run = run_on(batch, &folder.path().join(database), &sample("events.jsonl"));
        assert_eq!(run.status, Some(1), "there are bad lines: {}", run.stderr);
        assert_eq!(tally(&run), expected, "{}", run.stdout);
        assert!(run.stdout.contains("       29 lines seen\n"), "{}", run.stdout);
        let expected = named([
            ("market/1001", [2, 700, 700, 0]),
            ("shop/1001", [2, 5000, 5000, 0]),
            ("shop/1002", [3, 1200, 1200, 200]),
            ("shop/1003", [4, 900, 900, 100]),
            ("shop/1004", [1, 0, 100, 0]),
            ("all 5", [12, 7800, 7900, 300]),
        ]);
        assert_eq!(orders(&run), expected);
        for (number, why) in [
            (21, "MISMATCH: shop sent evt_7 before, with other content"),
            (22, "MISMATCH: shop sent evt_8 before, with other content"),
            (23, "MISMATCH: market sent evt_2 before, with other content"),
            (26, "BAD LINE: not JSON: EOF while parsing a string"),
            (27, "BAD LINE: not a JSON object"),
            (28, "BAD LINE: `id` is missing"),
            (29, "BAD LINE: `id`: a scope or key must not be empty"),
            (30, "BAD LINE: `source` is not a string"),
            (31, "BAD LINE: `type` is none of created, paid, refunded"),
            (32, "BAD LINE: `amount` is not a whole number"),
            (33, "BAD LINE: `amount` is not a whole number"),
        ] {
            assert!(run.about(number).starts_with(why), "line {number}: {}", run.about(number));
        }
    }
}

fn event(id: u64, change: &str, cents: u64) -> String {
    format!(r#"{{"source": "s", "id": "e{id}", "type": "{change}", "order": "o", "amount": {cents}}}"#)
}

#[test]
fn the_orders_are_the_same_in_whatever_order_the_events_come() {
    let events =
        [event(1, "created", 500), event(2, "paid", 300), event(3, "paid", 200), event(4, "refunded", 7)];
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Every order of four: each number in base four that has every digit.
    let orders_of_four = (0..256_usize).map(|n| [n % 4, n / 4 % 4, n / 16 % 4, n / 64]);
    let orders_of_four: Vec<_> = orders_of_four.filter(|it| BTreeSet::from(*it).len() == 4).collect();
    assert_eq!(orders_of_four.len(), 24);
    for (n, order) in orders_of_four.into_iter().enumerate() {
        let file = folder.path().join("events");
        std::fs::write(&file, order.map(|at| events[at].as_str()).join("\n")).expect("a writable file");
        let run = run_on(BATCHES[n % 3], &folder.path().join(format!("{n}.db")), &file);
        assert_eq!((run.status, tally(&run)), (Some(0), [4, 0, 0, 0, 0]), "{order:?}");
        assert_eq!(
            orders(&run),
            named([("s/o", [4, 500, 500, 7]), ("all 1", [4, 500, 500, 7])]),
            "{order:?}"
        );
    }
}

/// A process that does not outlive its test.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_consumer_that_is_killed_and_started_again_replays_what_it_had_committed_and_executes_the_rest() {
    let events: Vec<String> = (1..=5).map(|id| event(id, "paid", 10 * id)).collect();
    for batch in [1, 2] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (database, file) = (folder.path().join("orders.db"), folder.path().join("events"));
        for received in 1..=4 {
            let started = Command::new(example("webhooks"))
                .args(["--batch", &batch.to_string()])
                .arg(&database)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("the example to start");
            let mut consumer = Guarded(started);
            let mut stdin = consumer.0.stdin.take().expect("its stdin");
            // What it says of the bad line tells that it is done with the lines before. The input stays open.
            let lines = format!("{}\nbad\n", events[..received].join("\n"));
            stdin.write_all(lines.as_bytes()).expect("a reader");
            let mut said = String::new();
            let stdout = consumer.0.stdout.take().expect("its stdout");
            BufReader::new(stdout).read_line(&mut said).expect("its output");
            assert!(said.starts_with(&format!("line {:>4}  BAD LINE", received + 1)), "{said}");
            drop(consumer);
            drop(stdin);

            std::fs::write(&file, "").expect("a writable file");
            let nothing = run_on("1", &database, &file);
            // What waited for its batch to be full is not there.
            let applied = u64::try_from(received - received % batch).expect("a small number");
            let paid: u64 = (1..=applied).map(|id| 10 * id).sum();
            let (_, totals) = orders(&nothing).pop_first().expect("totals");
            assert_eq!(totals, [applied, 0, paid, 0], "{received} received, in batches of {batch}");
        }
        std::fs::write(&file, events.join("\n")).expect("a writable file");
        let run = run_on(&batch.to_string(), &database, &file);
        assert_eq!((run.status, tally(&run)), (Some(0), [1, 4, 0, 0, 0]), "{}", run.stdout);
        assert_eq!(orders(&run)["s/o"], [5, 0, 150, 0]);
    }
}

#[test]
fn an_event_that_an_order_has_no_room_for_is_undone_alone_and_is_new_when_it_comes_again() {
    let half = 1_000_000_000;
    let [first, second, third] = [1, 2, 3].map(|id| event(id, "paid", half));
    let events = [first, second, third.clone(), event(4, "created", 7)].join("\n");
    for batch in BATCHES {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (database, file) = (folder.path().join("orders.db"), folder.path().join("events"));
        std::fs::write(&file, &events).expect("a writable file");
        for expected in [[3, 0, 0, 1, 0], [0, 3, 0, 1, 0]] {
            let run = run_on(batch, &database, &file);
            assert_eq!((run.status, tally(&run)), (Some(1), expected), "{batch}: {}", run.stdout);
            assert!(run.about(3).starts_with("REFUSED: e3 of s: CHECK constraint failed: paid"));
            assert_eq!(orders(&run)["s/o"], [3, 7, 2 * half, 0], "{batch}");
        }
        let connection = Connection::open(&database).expect("the orders");
        connection.execute("UPDATE orders SET paid = 0", []).expect("room");
        std::fs::write(&file, &third).expect("a writable file");
        let run = run_on(batch, &database, &file);
        assert_eq!((run.status, tally(&run)), (Some(0), [1, 0, 0, 0, 0]), "{batch}: {}", run.stdout);
        assert_eq!(orders(&run)["s/o"], [4, 7, half, 0], "{batch}");
    }
}

#[test]
fn nothing_of_a_batch_is_kept_that_an_error_ends() {
    let events = [1, 2, 3].map(|id| event(id, "paid", 10)).join("\n");
    for (batch, kept) in [("1", 1), ("2", 0), ("100", 0)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (database, file) = (folder.path().join("orders.db"), folder.path().join("events"));
        std::fs::write(&file, &events).expect("a writable file");
        // Another program has the second of them, for which the consumer is not made.
        let store = IdempotencyStore::open(&database).expect("a store");
        let (scope, key) = (Scope::new("s").expect("a scope"), IdempotencyKey::new("e2").expect("a key"));
        let fingerprint =
            Fingerprint::builder().field("type", "paid").field("order", "o").field("amount", "10").finish();
        let claimed = store.try_claim(&scope, &key, &fingerprint).expect("a store that answers");
        let ClaimOutcome::Claimed(claim) = claimed else { panic!("{claimed:?}") };

        let run = run_on(batch, &database, &file);
        assert_eq!(run.status, Some(2), "{batch}: {}", run.stdout);
        assert!(run.stderr.contains("used by another program"), "{batch}: {}", run.stderr);
        let connection = Connection::open(&database).expect("the orders");
        let applied = "SELECT coalesce(sum(events), 0) FROM orders";
        let applied: u32 = connection.query_row(applied, [], |row| row.get(0)).expect("a sum");
        assert_eq!(u64::from(applied), kept, "{batch}");

        claim.release().expect("the end of the claim");
        let run = run_on(batch, &database, &file);
        assert_eq!((run.status, tally(&run)), (Some(0), [3 - kept, kept, 0, 0, 0]), "{batch}");
        assert_eq!(orders(&run)["s/o"], [3, 0, 30, 0], "{batch}");
    }
}

#[test]
fn generated_events_are_the_same_for_one_seed_and_come_repeated_reordered_and_with_reused_ids() {
    let generate = |seed: &str| {
        let run = run("webhooks", &["--generate", "1000", "--seed", seed]);
        assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
        run.stdout
    };
    let lines = generate("7");
    assert_eq!(lines, generate("7"));
    assert_ne!(lines, generate("8"));

    let mut content_of = BTreeMap::<(String, String), BTreeSet<String>>::new();
    let mut order_of_coming = Vec::new();
    let mut deliveries = 0;
    for line in lines.lines() {
        let event: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let text = |name: &str| event[name].as_str().expect("a string").to_owned();
        let content = format!("{} {} {}", text("type"), text("order"), event["amount"]);
        let name = (text("source"), text("id"));
        if !content_of.contains_key(&name) && name.0 == "shop" {
            order_of_coming.push(name.1["evt_".len()..].parse::<u64>().expect("a number"));
        }
        content_of.entry(name).or_default().insert(content);
        deliveries += 1;
    }
    assert_eq!(content_of.len(), 1000);
    let reused = content_of.values().filter(|contents| contents.len() > 1).count();
    assert!(deliveries > 1500 && reused > 0, "{deliveries} deliveries, {reused} ids with several contents");
    assert!(!order_of_coming.is_sorted());
}

#[test]
fn whatever_stands_on_a_line_the_next_one_is_applied() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let control = br#"{"source": "s", "id": "a", "type": "paid", "order": "\u001b[31m\n", "amount": 1}"#;
    let large = event(2, "paid", 1_000_000_001);
    let bad: [&[u8]; 5] = [b"\xff\xfe", &b"[".repeat(100_000), b"\0", b"null", large.as_bytes()];
    let good = event(1, "paid", 1_000_000_000);
    let lines: Vec<&[u8]> = bad.into_iter().chain([b"\r".as_slice(), control, good.as_bytes()]).collect();
    let file = folder.path().join("events");
    std::fs::write(&file, lines.join(b"\n".as_slice())).expect("a writable file");
    for batch in BATCHES {
        let run = run_on(batch, &folder.path().join(batch), &file);
        assert_eq!((run.status, tally(&run)), (Some(1), [2, 0, 0, 0, 5]), "{}", run.stdout);
        assert!(!run.stdout.contains('\u{1b}'), "a file must not steer the terminal");
        assert_eq!(orders(&run)["s/o"], [1, 0, 1_000_000_000, 0]);
    }
}

#[test]
fn help_is_given_and_bad_arguments_are_refused_without_a_panic() {
    let wrong: [&[&str]; 14] = [
        &[],
        &["-x"],
        &["--generate", "5"],
        &["--generate", "five", "--seed", "1"],
        &["--generate", "5", "--seed", "-1"],
        &["a", "b", "c"],
        &["--batch"],
        &["--batch", "2"],
        &["--batch", "0", "orders.db"],
        &["--batch", "-1", "orders.db"],
        &["--batch", "two", "orders.db"],
        &["--batch", "2", "--batch", "orders.db"],
        &["orders.db", "--batch", "2"],
        &["orders.db", "/nowhere/at/all"],
    ];
    assert_arguments("webhooks", "--generate N --seed S", &wrong);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("orders.db");
    for (arguments, why) in [
        ([&*database, folder.path()], "a folder has no events"),
        ([folder.path(), &sample("events.jsonl")], "a folder is no database"),
    ] {
        let run = run("webhooks", &arguments);
        assert_eq!((run.status, run.stdout.as_str()), (Some(2), ""), "{why}");
    }
}
