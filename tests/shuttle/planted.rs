//! Whether these tests can fail: two races that are planted in the memory backend must be found.

use std::process::Command;

/// A fault, and the test that must find it.
const RACES: [(&str, &str); 2] = [
    (
        "claim-in-two-steps",
        "one_key::of_threads_that_claim_a_free_a_lapsed_or_an_expired_key_beside_a_sweep_one_is_granted_it",
    ),
    (
        "sweep-by-key-in-memory",
        "one_key::of_threads_that_claim_a_free_a_lapsed_or_an_expired_key_beside_a_sweep_one_is_granted_it",
    ),
];

#[test]
fn the_races_that_are_planted_are_found() {
    for (fault, test) in RACES {
        let mut command = Command::new(std::env::current_exe().expect("the file that runs"));
        command.args([test, "--exact", "--nocapture"]).env("IDEMPOTENCY_PLANTED", fault);
        let output = command.output().expect("a process");
        let (said, complaints) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let failed = said.contains("running 1 test\n") && said.contains("0 passed; 1 failed");
        let mut panics = complaints.lines().skip_while(|line| !line.contains(" panicked at tests/shuttle/"));
        let message = panics.nth(1);
        assert!(failed && message.is_some(), "{fault}: {said}{complaints}");
        println!("planted: {fault} | {test} | {}", message.unwrap_or_default());
    }
}
