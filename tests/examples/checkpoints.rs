//! `examples/checkpoints.rs`.

use super::{assert_arguments, assert_story, run};

#[test]
fn every_scenario_of_the_story_comes_out_as_expected() {
    let scenarios = [
        ("a job", "attempt 1: reserve, charge, mail; 3 calls, each once"),
        ("the same job again", "replayed, same reply; 3 calls, each once"),
        ("killed before the first step", "attempt 2: reserve, charge, mail; 3 calls, each once"),
        ("killed after reserving", "attempt 2: reserve, charge, mail; 4 calls, each once"),
        ("killed after the checkpoint of it", "attempt 2: charge, mail; 3 calls, each once"),
        ("killed after charging", "attempt 2: charge, mail; 4 calls, each once"),
        ("killed after the checkpoint of it", "attempt 2: mail; 3 calls, each once"),
        ("killed after mailing", "attempt 2: mail; 4 calls, each once"),
        ("killed after the checkpoint of it", "attempt 2: no step; 3 calls, each once"),
        ("killed at each of these, one by one", "attempt 8: no step; 6 calls, each once"),
        ("a step that fails", "attempt 1 failed: reserve, charge; 2 calls, 1 done"),
        ("its retry", "attempt 2: charge, mail; 4 calls, each once"),
        ("taken over from one that is only slow", "attempt 2: reserve, charge, mail; 4 calls, each once"),
        ("the slow one goes on", "lost: another completed; 4 calls, each once"),
    ];
    assert_story(&run::<&str>("checkpoints", &[]), &scenarios);
}

#[test]
fn help_is_given_and_bad_arguments_are_refused_without_a_panic() {
    assert_arguments(
        "checkpoints",
        "play the story",
        &[&["x"], &["--helpful"], &["--work"], &["--help", "--help"]],
    );
}
