//! What is printed: for people, and for machines.

use super::{DAY, HOUR, Scene, digest, document, fine, numbers, rows, secs};
use idempotency::{Clock, SystemClock};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[test]
fn counts_and_stuck_claims_are_printed_with_digests_only() {
    let scene = Scene::of_each_kind();
    let run = scene.inspect(&[]);
    let text = fine(&run);
    let expected = [
        ("in progress", 2),
        ("lapsed", 2),
        ("completed", 1),
        ("expired, to be swept", 3),
        ("damaged", 0),
        // Eight times the scope, and the keys.
        ("bytes of keys, replies and checkpoints", 8 * 11 + 7 + 5 + 9 + 9 + 4 + 3 + 5 + 6),
    ];
    assert_eq!(numbers(text), BTreeMap::from(expected), "{text}");
    let (tenant, digests) = (digest("tenant 4711"), ["long dead", "just dead", "ahead"].map(digest));
    let [long_dead, just_dead, ahead] = &digests;
    assert_eq!(
        rows(text),
        [
            ["lapsed", "2", "3 d ago", "90 s", "2 d ago", "in 27 d", &tenant, long_dead],
            ["lapsed", "1", "5 h ago", "30 min", "5 h ago", "in 18 h", &tenant, just_dead],
            ["lease too long", "1", "in 25 h", "2 h", "in 27 h", "in 2 d", &tenant, ahead],
        ],
        "{text}"
    );
    assert!(!text.contains("4711") && !text.contains("dead"), "{text}");
}

#[test]
fn names_are_shown_on_demand_and_do_not_steer_the_terminal() {
    let scene = Scene::empty();
    drop(scene.claim(scene.now.saturating_sub(secs(HOUR)), (60, DAY), "turned \u{202e}round"));
    let run = scene.inspect(&["--show-keys"]);
    let [row] = &rows(fine(&run))[..] else { panic!("{}", run.stdout) };
    assert_eq!(row[6..], [r#""tenant 4711""#, r#""turned \u{202e}round""#]);
    let stuck = &document(&scene.inspect(&["--json", "--show-keys"]))["stuck"][0];
    assert_eq!((&stuck["scope"], &stuck["key"]), (&json!("tenant 4711"), &json!("turned \u{202e}round")));
}

#[test]
fn machines_get_one_document_with_times_in_milliseconds() {
    let scene = Scene::of_each_kind();
    let found = document(&scene.inspect(&["--json"]));
    for (name, expected) in [
        ("in_progress", json!(2)),
        ("lapsed", json!(2)),
        ("completed", json!(1)),
        ("expired", json!(3)),
        ("damaged", json!(0)),
        ("bytes", json!(136)),
        ("more_stuck", json!(false)),
        ("forgotten", Value::Null),
        ("swept", Value::Null),
    ] {
        assert_eq!(found[name], expected, "{name}: {found}");
    }
    let now = found["now_ms"].as_i64().expect("a time");
    assert!((scene.now.as_millis()..=SystemClock.now().as_millis()).contains(&now), "{found}");

    let stuck = found["stuck"].as_array().expect("a list");
    let reasons: Vec<_> = stuck.iter().map(|stuck| stuck["reason"].as_str()).collect();
    assert_eq!(reasons, [Some("lapsed"), Some("lapsed"), Some("lease_too_long")]);
    let first_claimed = scene.now.as_millis() - 1_000 * i64::try_from(3 * DAY + HOUR).expect("few seconds");
    let second_claimed = first_claimed + 24 * 60 * 60 * 1_000;
    let token = stuck[0]["token"].as_str().expect("a token as text");
    let is_drawn = token.parse::<i64>().is_ok_and(|token| token > 1_000_000 * first_claimed);
    assert!(is_drawn, "not of the wall clock's size: {token}");
    assert_eq!(
        stuck[0],
        json!({
            "reason": "lapsed",
            "attempt": 2,
            "token": token,
            "created_at_ms": first_claimed,
            "lease_ms": 90_000,
            "lease_until_ms": second_claimed + 90_000,
            "expires_at_ms": second_claimed + 90_000 + 30 * 24 * 60 * 60 * 1_000,
            "scope_digest": digest("tenant 4711"),
            "key_digest": digest("long dead"),
            "scope": null,
            "key": null,
        })
    );
}

#[test]
fn no_more_stuck_claims_are_shown_than_were_asked_for_and_it_is_said_that_there_are() {
    let scene = Scene::of_each_kind();
    let run = scene.inspect(&["--limit", "2"]);
    assert_eq!(rows(fine(&run)).len(), 3, "{}", run.stdout);
    assert!(run.stdout.ends_with("\nand more; --limit shows them\n"), "{}", run.stdout);
    let run = scene.inspect(&["--limit", "0"]);
    assert!(fine(&run).ends_with("\nno stuck claims shown\n"), "{}", run.stdout);
    for (limit, shown, more) in
        [("0", 0, true), ("2", 2, true), ("3", 3, false), ("18446744073709551615", 3, false)]
    {
        let found = document(&scene.inspect(&["--json", "--limit", limit]));
        assert_eq!(found["stuck"].as_array().map(Vec::len), Some(shown), "{limit}");
        assert_eq!(found["more_stuck"], json!(more), "{limit}");
    }
    assert!(fine(&Scene::empty().inspect(&[])).ends_with("\nno stuck claims\n"));
}

#[test]
fn another_prefix_is_another_store() {
    let scene = Scene::of_each_kind();
    let run = scene.inspect(&["--prefix", "idempotency_"]);
    assert_eq!(numbers(fine(&run))["completed"], 1);
    let run = scene.inspect(&["--prefix", "other_"]);
    assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""));
    assert!(run.stderr.contains("there is no store in this file"), "{}", run.stderr);
}
