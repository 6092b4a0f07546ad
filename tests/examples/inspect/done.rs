//! What an operator has done: a record forgotten, and all expired ones swept.

use super::{DAY, Scene, document, fine, numbers, secs, tenant};
use idempotency::{Fingerprint, IdempotencyKey};
use serde_json::{Value, json};

#[test]
fn a_record_is_forgotten_and_of_one_that_is_not_there_it_is_said() {
    let scene = Scene::of_each_kind();
    let run = scene.inspect(&["--forget", "tenant 4711", "just dead"]);
    assert!(fine(&run).starts_with("forgotten\n"), "{}", run.stdout);
    assert_eq!(numbers(&run.stdout)["lapsed"], 1, "what is left is printed");
    let run = scene.inspect(&["--forget", "tenant 4711", "just dead"]);
    assert!(fine(&run).starts_with("there was no such record to forget\n"), "{}", run.stdout);
    for (key, is_there) in [("long dead", true), ("long dead", false), ("old", false)] {
        let found = document(&scene.inspect(&["--forget", "tenant 4711", key, "--json"]));
        assert_eq!((&found["forgotten"], &found["swept"]), (&json!(is_there), &Value::Null), "{key}");
    }
    assert_eq!(["just dead", "long dead", "running"].map(|name| scene.is_stored(name)), [false, false, true]);
}

#[test]
fn all_expired_records_are_swept_and_no_others() {
    let scene = Scene::of_each_kind();
    let days_ago = scene.now.saturating_sub(secs(5 * DAY));
    scene.clock.set(days_ago);
    let many: Vec<_> = (0..2_500)
        .map(|number| {
            let key = IdempotencyKey::new(format!("key {number}")).expect("a key");
            (tenant(), key, Fingerprint::builder().finish())
        })
        .collect();
    assert!(scene.open().try_claim_many(&many).iter().all(Result::is_ok));
    let run = scene.inspect(&["--sweep"]);
    // No bar: stderr is no terminal.
    assert!(fine(&run).starts_with("2503 expired records swept\n"), "{}", run.stdout);
    let left = numbers(&run.stdout);
    assert_eq!(
        ["in progress", "lapsed", "completed", "expired, to be swept"].map(|name| left[name]),
        [2, 2, 1, 0]
    );
    let found = document(&scene.inspect(&["--sweep", "--json", "--forget", "tenant 4711", "done"]));
    assert_eq!(
        (&found["swept"], &found["forgotten"], &found["completed"]),
        (&json!(0), &json!(true), &json!(0))
    );
}
