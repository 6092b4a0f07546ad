//! Which test must fail for which fault.

use crate::Must;

/// The one-step table: it plays all that a claim can meet, so it must object to every edit of the claim's SQL.
const ONE_STEP_TABLE: Row =
    row("", "agreement", "every_backend_answers_and_stores_what_the_table_says", Must::Say("sqlite: "));

/// A fault, and a test that must fail for it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub fault: &'static str,
    /// The test target, or `lib` for the library's own tests.
    pub target: &'static str,
    pub test: &'static str,
    pub must: Must,
}

const fn row(fault: &'static str, target: &'static str, test: &'static str, must: Must) -> Row {
    Row { fault, target, test, must }
}

const fn fails(fault: &'static str, target: &'static str, test: &'static str) -> Row {
    row(fault, target, test, Must::Fail)
}

/// The row of what is called `fault`.
pub fn row_of(fault: &'static str) -> Option<Row> {
    let of_its_own = ROWS.iter().copied().find(|row| row.fault == fault);
    let is_of_the_claim = || {
        idempotency::planted::EDITS.iter().any(|edit| edit.statement == "claim" && edit.variant.name == fault)
    };
    of_its_own.or_else(|| is_of_the_claim().then_some(Row { fault, ..ONE_STEP_TABLE }))
}

/// All but the edits of the claim.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    fails("complete-without-token", "cases",
        "taken_over::an_owner_that_was_taken_over_is_told_so_by_every_call_and_the_new_owners_record_stays_as_it_is"),
    fails("release-without-token", "cases",
        "taken_over::an_owner_that_was_taken_over_is_told_so_by_every_call_and_the_new_owners_record_stays_as_it_is"),
    fails("takeover-released-as-first", "cases",
        "taken_over::a_takeover_that_is_released_leaves_the_record_lapsed_and_bound_for_the_next_takeover"),
    fails("deadline-late", "behaviours",
        "deadlines::a_millisecond_before_at_and_after_a_deadline_every_command_reads_it_alike"),
    fails("deadline-early", "behaviours",
        "deadlines::a_millisecond_before_at_and_after_a_deadline_every_command_reads_it_alike"),
    fails("replay-of-the-expired", "behaviours",
        "sweeping::expired_records_stay_until_they_are_swept_and_answer_as_absent_meanwhile"),
    fails("takeover-for-another-request", "behaviours",
        "mismatches::another_fingerprint_is_refused_on_every_path_until_the_record_has_expired"),
    fails("replay-to-another-request", "behaviours",
        "mismatches::another_fingerprint_is_refused_on_every_path_until_the_record_has_expired"),
    fails("takeover-without-checkpoint", "cases",
        "endings::a_takeover_that_is_dropped_keeps_its_lease_and_its_checkpoint"),
    fails("renewal-shortens", "behaviours", "time::a_step_back_of_the_clock_ends_nothing_early"),
    fails("scope-ignored", "behaviours", "keys_and_fingerprints::scope_and_key_do_not_run_into_one_another"),
    fails("clock-before-the-lock", "cases",
        "clock::what_waited_for_access_longer_than_its_lease_counts_from_the_moment_it_is_done"),
    fails("token-of-the-record", "cases",
        "tokens::each_token_is_higher_than_all_before_whatever_became_of_the_claim_and_the_claim_before_it"),
    fails("token-of-the-live-rows", "cases",
        "tokens::each_token_is_higher_than_all_before_whatever_became_of_the_claim_and_the_claim_before_it"),
    fails("claim-in-two-steps", "races", "of_many_threads_that_claim_one_key_exactly_one_is_granted"),
    fails("sweep-by-key-in-memory", "races", "a_fresh_claim_survives_the_sweep_that_races_it"),
    fails("sweep-by-key-in-sqlite", "races", "a_fresh_claim_survives_the_sweep_that_races_it"),
    row("stranded-followers", "lib",
        "commit_queue::tests::a_leader_that_panics_hears_it_and_its_followers_that_it_may_have_happened", Must::Hang),
    row("turn-not-passed-on", "lib",
        "commit_queue::tests::no_command_of_a_batch_is_acknowledged_whose_commit_fails", Must::Hang),
    fails("grant-from-returning", "faults", "commits::a_commit_whose_write_or_sync_fails_once_has_a_definite_answer"),
    fails("commit-unchecked", "sqlite", "failed_commits::a_claim_whose_commit_failed_is_not_made_and_can_be_made_at_once"),
    fails("followers-before-the-commit", "faults",
        "together::a_commit_that_fails_acknowledges_none_of_those_who_shared_it"),
    fails("commit-not-settled", "faults",
        "commits::a_claim_that_was_refused_after_its_sync_failed_does_not_come_back_with_a_crash"),
    fails("doubt-called-definite", "sqlite",
        "failed_commits::a_failed_commit_that_cannot_be_settled_is_indefinite_and_one_that_can_is_not"),
    fails("writer-ignored", "faults",
        "rivals::a_rival_that_drew_the_very_same_token_is_not_taken_for_the_claim_whose_commit_failed"),
    fails("sync-off", "faults",
        "power_loss::with_full_durability_nothing_that_was_acknowledged_is_lost_with_the_power"),
    fails("checksum-unchecked", "sqlite",
        "damage::whatever_is_damaged_in_a_reply_or_a_checkpoint_is_corrupt_and_runs_nothing_again"),
    fails("fork-unnoticed", "sqlite", "forks::a_store_carried_over_a_fork_is_refused_and_the_parents_is_unharmed"),
    fails("ended-transaction-unnoticed", "transactions",
        "ended::work_that_ends_the_transaction_and_gives_a_reply_gets_it_back_unrecorded_with_what_was_committed"),
    fails("completion-outside", "transactions",
        "in_the_middle::a_file_without_room_for_the_reply_of_atomically_keeps_nothing_and_goes_on_with_less"),
];
