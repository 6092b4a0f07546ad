//! `examples/reference.rs`.

use super::{assert_arguments, assert_story, run};

#[test]
fn every_scenario_of_the_story_comes_out_as_expected() {
    let scenarios = [
        ("a payment", "201 500 pending; 1 payment"),
        ("its retry", "201 500 pending, replayed; 1 payment"),
        ("another client time", "201 500 pending, replayed; 1 payment"),
        ("no client time, other spacing", "201 500 pending, replayed; 1 payment"),
        ("another order of members", "201 500 pending, replayed; 1 payment"),
        ("what the store keeps: a reference to", "1; 1 payment"),
        ("a payment", "201 500 pending; 1 payment"),
        ("its key, another amount", "409 key-reused; 1 payment"),
        ("its key, another currency", "409 key-reused; 1 payment"),
        ("its key, another recipient", "409 key-reused; 1 payment"),
        ("the same payment under a new key", "201 500 pending; 2 payments"),
        ("a retry while the payment runs", "409 in-progress, again in 1 s; 0 payments"),
        ("its key reused, while it runs", "409 key-reused; 0 payments"),
        ("the payment itself", "201 500 pending; 1 payment"),
        ("a payment", "201 500 pending; 1 payment"),
        ("its retry, once it is settled", "201 500 settled, replayed; 1 payment"),
        ("its retry, once its row is gone", "410 payment-removed, replayed; 0 payments"),
        ("a key of 100 characters", "201 500 pending; 1 payment"),
        ("the same in quotes, which don't count", "201 500 pending, replayed; 1 payment"),
        ("a key of 101 characters", "400 key-refused; 1 payment"),
        ("a payment to nobody", "400 payment-refused; 0 payments"),
        ("its key, once it is mended", "201 500 pending; 1 payment"),
    ];
    assert_story(&run::<&str>("reference", &[]), &scenarios);
}

#[test]
fn help_is_given_and_bad_arguments_are_refused_without_a_panic() {
    assert_arguments("reference", "play the story", &[&["x"], &["--helpful"], &["--help", "--help"]]);
}
