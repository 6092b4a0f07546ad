//! Whether the one-step table can fail: each planted edit of the claim's SQL must be found by it. `just
//! planted` runs it and shows what was found.

use idempotency::planted::MUTANTS;
use std::collections::HashSet;
use std::process::{Command, Output};

const TABLE: &str = "every_backend_answers_and_stores_what_the_table_says";

/// Plays the table in a process of its own, on the store as it is or with one edit.
fn play(mutant: Option<&str>) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("the file that runs"));
    command.args([TABLE, "--exact", "--nocapture"]).env("RUST_BACKTRACE", "0");
    match mutant {
        Some(name) => command.env("IDEMPOTENCY_PLANTED", name),
        None => command.env_remove("IDEMPOTENCY_PLANTED"),
    };
    command.output().expect("a process")
}

/// The first line of what the table has to say against SQLite, or what happened instead.
///
/// SQL that is merely broken is not found but stumbled over: SQLite refuses it at the first claim, before any
/// row is played.
fn objection(output: &Output) -> Result<String, String> {
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Err(format!("survived:\n{said}"));
    }
    let mut panics = complaints.lines().skip_while(|line| !line.contains(" panicked at "));
    let place = panics.next().unwrap_or_default();
    let message = panics.next().unwrap_or_default();
    let others_passed =
        ["core: ", "memory: "].iter().all(|name| said.lines().any(|line| line.starts_with(name)));
    let of_a_row = place.contains(" panicked at tests/agreement/") && message.contains("sqlite: ");
    if others_passed && of_a_row {
        Ok(message.to_owned())
    } else {
        Err(format!("broken:\n{said}{complaints}"))
    }
}

#[test]
fn the_table_objects_to_every_edit_of_the_claims_sql() {
    let names: HashSet<_> = MUTANTS.iter().map(|mutant| mutant.name).collect();
    assert_eq!(names.len(), MUTANTS.len(), "names that stand twice");
    assert!(names.len() >= 12, "a dozen at the least");

    let unchanged = play(None);
    assert!(unchanged.status.success(), "without an edit: {unchanged:?}");

    let mut alive = Vec::new();
    println!("\n{:28} | {:70} | the test that fails | its message", "mutant", "what is wrong");
    for mutant in MUTANTS {
        match objection(&play(Some(mutant.name))) {
            Ok(message) => println!("{:28} | {:70} | {TABLE} | {message}", mutant.name, mutant.wrong),
            Err(instead) => alive.push(format!("{}: {instead}", mutant.name)),
        }
    }
    assert!(alive.is_empty(), "{}", alive.join("\n"));
    println!("mutants: {} found, 0 left", MUTANTS.len());
}
