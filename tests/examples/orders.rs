//! `examples/orders`.

use super::{assert_arguments, assert_story, run};

#[test]
fn every_scenario_of_the_story_comes_out_as_expected() {
    let scenarios = [
        ("an order", "201 executed; 1 call, 1 charge, 1 order"),
        ("its retry", "201 replayed, same bytes; 1 call, 1 charge, 1 order"),
        ("its key, another amount", "422 key reused; 1 call, 1 charge, 1 order"),
        ("another order, during a slow call", "201 executed; 1 call, 1 charge, 1 order"),
        ("a second caller, during that call", "409 in progress; 1 call, 0 charges, 0 orders"),
        ("the slow one itself", "201 executed; 1 call, 1 charge, 1 order"),
        ("the provider says 502", "503 provider said 502; 1 call, 0 charges, 0 orders"),
        ("a retry, at once", "201 executed, attempt 2; 2 calls, 1 charge, 1 order"),
        ("its answer is lost", "503 no answer came; 1 call, 1 charge, 0 orders"),
        ("a retry, at once", "201 executed, attempt 2; 2 calls, 1 charge, 1 order"),
        ("the provider declines", "402 executed; 1 call, 0 charges, 0 orders"),
        ("a retry, though now it would not", "402 replayed, same bytes; 1 call, 0 charges, 0 orders"),
        ("charged, and the row is not written", "503 the table broke; 1 call, 1 charge, 0 orders"),
        ("a retry, at once", "201 executed, attempt 2; 2 calls, 1 charge, 1 order"),
        ("a reply that is too large", "201 executed, 0 bytes; 1 call, 1 charge, 1 order"),
        ("its retry", "201 replayed, same bytes; 1 call, 1 charge, 1 order"),
        ("its owner died: a retry", "409 in progress; 1 call, 1 charge, 0 orders"),
        ("a retry after the lease", "201 executed, attempt 2; 2 calls, 1 charge, 1 order"),
        ("an owner that was taken over commits", "lost: another runs; 2 calls, 1 charge, 0 orders"),
        ("the one that took over commits", "201 executed, attempt 2; 2 calls, 1 charge, 1 order"),
        ("the slow one tries again", "lost: another completed; 2 calls, 1 charge, 1 order"),
        ("one that takes over during a call", "201 executed, attempt 2; 2 calls, 1 charge, 1 order"),
        ("and the one that was slow", "201 replayed, same bytes; 2 calls, 1 charge, 1 order"),
        ("a slow one, while another runs", "409 in progress; 2 calls, 1 charge, 0 orders"),
        ("that other one", "201 executed, attempt 2; 2 calls, 1 charge, 1 order"),
        ("a slow one, after another that failed", "503 nobody has a reply; 2 calls, 1 charge, 0 orders"),
        ("a retry, at once", "201 executed, attempt 4; 3 calls, 1 charge, 1 order"),
        ("an owner commits", "201 executed; 1 call, 1 charge, 1 order"),
        ("and once more, with the same ticket", "201 from before, same bytes; 1 call, 1 charge, 1 order"),
        ("completed, then rolled back: a retry", "409 in progress; 1 call, 1 charge, 0 orders"),
        ("its owner tries again", "201 executed; 1 call, 1 charge, 1 order"),
        ("in a deferred transaction", "refused: no write lock; 1 call, 1 charge, 0 orders"),
        ("in a transaction on another database", "refused: another database; 1 call, 1 charge, 0 orders"),
        ("as it should be", "201 executed; 1 call, 1 charge, 1 order"),
    ];
    assert_story(&run::<&str>("orders", &[]), &scenarios);
}

#[test]
fn help_is_given_and_bad_arguments_are_refused_without_a_panic() {
    assert_arguments("orders", "play the story", &[&["x"], &["--helpful"], &["--help", "--help"]]);
}
