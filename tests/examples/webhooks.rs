//! `examples/webhooks.rs`. `scripts/kill-loop` kills it at random moments; here it is killed at known ones.

use super::{Run, assert_arguments, example, run, sample};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Events applied, cents created, cents paid, cents refunded.
type Sums = [u64; 4];

fn run_on(database: &Path, events: &Path) -> Run {
    run("webhooks", &[database, events])
}

/// How many deliveries were executed, replayed, mismatched and bad.
fn tally(run: &Run) -> [u64; 4] {
    ["executed", "replayed", "mismatched", "bad line"].map(|what| {
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
    let database = folder.path().join("orders.db");
    for expected in [[12, 6, 3, 8], [0, 18, 3, 8]] {
        let run = run_on(&database, &sample("events.jsonl"));
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
        let run = run_on(&folder.path().join(format!("{n}.db")), &file);
        assert_eq!((run.status, tally(&run)), (Some(0), [4, 0, 0, 0]), "{order:?}");
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
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("orders.db");
    let events: Vec<String> = (1..=5).map(|id| event(id, "paid", 10 * id)).collect();
    for committed in 1..=4 {
        let started = Command::new(example("webhooks"))
            .arg(&database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example to start");
        let mut consumer = Guarded(started);
        let mut stdin = consumer.0.stdin.take().expect("its stdin");
        // What it says of the bad line tells that it is done with the lines before. The input stays open.
        let lines = format!("{}\nbad\n", events[..committed].join("\n"));
        stdin.write_all(lines.as_bytes()).expect("a reader");
        let mut said = String::new();
        let stdout = consumer.0.stdout.take().expect("its stdout");
        BufReader::new(stdout).read_line(&mut said).expect("its output");
        assert!(said.starts_with(&format!("line {:>4}  BAD LINE", committed + 1)), "{said}");
        drop(consumer);
        drop(stdin);

        let file = folder.path().join("events");
        std::fs::write(&file, "").expect("a writable file");
        let nothing = run_on(&database, &file);
        let applied = u64::try_from(committed).expect("a small number");
        let paid = (1..=applied).map(|id| 10 * id).sum();
        assert_eq!(orders(&nothing)["s/o"], [applied, 0, paid, 0]);
    }
    let file = folder.path().join("events");
    std::fs::write(&file, events.join("\n")).expect("a writable file");
    let run = run_on(&database, &file);
    assert_eq!((run.status, tally(&run)), (Some(0), [1, 4, 0, 0]), "{}", run.stdout);
    assert_eq!(orders(&run)["s/o"], [5, 0, 150, 0]);
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
    let run = run_on(&folder.path().join("orders.db"), &file);
    assert_eq!((run.status, tally(&run)), (Some(1), [2, 0, 0, 5]), "{}", run.stdout);
    assert!(!run.stdout.contains('\u{1b}'), "a file must not steer the terminal");
    assert_eq!(orders(&run)["s/o"], [1, 0, 1_000_000_000, 0]);
}

#[test]
fn help_is_given_and_bad_arguments_are_refused_without_a_panic() {
    let wrong: [&[&str]; 7] = [
        &[],
        &["-x"],
        &["--generate", "5"],
        &["--generate", "five", "--seed", "1"],
        &["--generate", "5", "--seed", "-1"],
        &["a", "b", "c"],
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
