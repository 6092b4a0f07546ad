//! All rules: the one list of them, from which the table of checks and the tests of a backend are made.
//!
//! What a rule says is told in full by [`transition`](crate::transition) and by the [contract](crate::backend).

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_list {
    ([$($then:tt)*] $($with:tt)*) => { $($then)* ! { [$($with)*]
        claims {
            a_free_key_is_granted:
                "A claim of a key without a record is granted as attempt 1, for one lease from now.";
            a_claim_that_stands_is_told_to_others_and_not_touched:
                "While a claim stands, others hear until when and which attempt it is; nothing is written.";
            a_lapsed_claim_is_taken_over:
                "A claim whose lease is over is taken over: a new token, attempt 2, the new claim's terms, the old creation.";
            each_takeover_counts_and_hands_the_checkpoint_on:
                "Each takeover counts one attempt more, and gets the last checkpoint.";
            a_completed_operation_is_replayed:
                "A claim of a completed operation gets its reply, with its times; nothing is written.";
            an_expired_claim_is_a_free_key:
                "A claim that has expired is no record: the next one is attempt 1, of any request, and knows nothing of it.";
            an_expired_reply_is_a_free_key:
                "A reply that has expired is no record: the next claim is attempt 1, of any request.";
            a_lapsed_claim_is_known_for_one_whole_retention:
                "A lapsed claim can be taken over for one whole retention after its lease, however long it was renewed.";
            a_released_and_a_forgotten_key_are_free_for_any_request:
                "After a release of attempt 1, and after a forget, the next claim is attempt 1, of any request.";
            an_abandoned_claim_is_taken_over_at_once:
                "After an abandonment the next claim takes over at once, with the checkpoint.";
        }
        mismatches {
            another_request_is_refused_while_the_claim_stands:
                "Another fingerprint is a mismatch while the claim stands; nothing is written.";
            another_request_is_refused_once_the_claim_has_lapsed:
                "Another fingerprint is a mismatch, and takes nothing over, when the lease is over.";
            another_request_is_refused_once_the_claim_is_abandoned:
                "Another fingerprint is a mismatch after an abandonment, too.";
            another_request_is_refused_once_the_claim_has_completed:
                "Another fingerprint is a mismatch, and gets no reply, when the operation has completed.";
            another_request_is_refused_until_the_record_expires:
                "Another fingerprint is a mismatch to the last millisecond of the record.";
            a_fingerprint_that_differs_in_one_bit_is_another:
                "Fingerprints are compared in every bit of the digest.";
            a_fingerprint_of_another_format_is_another_and_both_formats_are_told:
                "A fingerprint of another format is a mismatch, which says both formats.";
        }
        owners {
            completing_records_the_reply_for_one_retention_from_now:
                "Completing records the reply, which expires one retention from now, and drops the checkpoint.";
            completing_again_gives_the_first_reply_and_writes_nothing:
                "Completing a second time gives the first reply, whatever the second one is; nothing is written.";
            renewing_stands_for_one_lease_from_now:
                "Renewing moves the lease's end to one lease from now, and the record's to one retention after it.";
            renewing_never_shortens_a_lease:
                "Renewing, and saving a checkpoint, leave a lease as long as it was if the clock has stepped back.";
            a_checkpoint_takes_the_place_of_the_one_before_and_renews:
                "A checkpoint takes the place of the one before it, and renews; an empty one is one, too.";
            releasing_a_first_attempt_deletes_its_record:
                "Releasing attempt 1 deletes the record.";
            releasing_a_takeover_leaves_it_lapsed_and_bound:
                "Releasing a later attempt ends its lease, and leaves the record: an earlier attempt may have had the effect.";
            abandoning_ends_the_lease_and_nothing_else:
                "Abandoning ends the lease now, unless it is over; all else of the record stays.";
            a_lapsed_owner_keeps_its_rights_while_nobody_takes_over:
                "An owner whose lease is over can do all that it could before, while nobody has taken over.";
            forgetting_deletes_whatever_stands_and_says_whether_there_was_something:
                "Forgetting deletes the record, whoever owns it, and says whether there was one that had not expired.";
        }
        losses {
            an_owner_that_was_taken_over_changes_nothing:
                "An owner that was taken over hears so from every command, and the new record stays as it is.";
            an_owner_whose_successor_has_completed_changes_nothing:
                "An owner whose successor has completed hears that from every command; it does not get the reply.";
            a_claim_that_has_completed_changes_nothing_more:
                "A claim that has completed can't renew, save, release or abandon, and hears that it has completed.";
            a_token_of_another_claim_is_no_proof:
                "The token of another key's claim, or of none, proves nothing.";
            an_owner_whose_record_is_gone_creates_none:
                "An owner without a record hears that it is gone; releasing and abandoning it is fine. None is created.";
            an_expired_record_is_gone_for_its_owner_and_stays_until_it_is_swept:
                "For its owner, too, a record that has expired is gone; no command of the owner's removes or revives it.";
            a_token_from_before_the_record_went_away_is_no_proof:
                "The token of an earlier record of the same key proves nothing.";
        }
        deadlines {
            a_lease_stands_to_its_last_millisecond:
                "A claim stands a millisecond before the end of its lease, and can be taken over at it.";
            a_claims_retention_lasts_to_its_last_millisecond:
                "A claim's record is there a millisecond before it expires, and is no record at that time.";
            a_reply_is_replayed_to_its_last_millisecond:
                "A reply is replayed a millisecond before it expires, and not at that time.";
            an_owner_is_heard_to_the_last_millisecond_of_its_record:
                "A lapsed owner is heard a millisecond before its record expires, and not at that time.";
            a_deadline_that_was_moved_counts_from_there:
                "After a renewal, a checkpoint or an abandonment the deadlines are the moved ones, to the millisecond.";
        }
        replies {
            every_status_comes_back:
                "Every status comes back.";
            a_body_of_any_bytes_comes_back:
                "A body comes back byte for byte: empty, null, NULs, or no text at all.";
            headers_keep_order_repeats_case_and_bytes:
                "Headers come back in their order, with repeats, in their case, with any bytes.";
            the_kinds_of_replies_stay_apart:
                "Responses, references and markers come back as what they were, empty ones, too.";
            the_largest_replies_come_back_whole:
                "Replies of 1 MiB, and headers of 64 KiB, come back whole.";
            a_checkpoint_of_any_bytes_comes_back:
                "A checkpoint comes back byte for byte, up to 64 KiB; an empty one is not none.";
        }
        tokens {
            each_token_is_higher_than_all_before:
                "Each token is higher than all before it, those of other keys included.";
            tokens_rise_whatever_became_of_the_claim_before:
                "No release, forget, abandonment, completion, expiry or sweep makes a token come again.";
            tokens_rise_on_when_the_store_is_reopened:
                "Tokens rise on when the store is reopened, with no record left, too.";
        }
        clocks {
            what_a_command_writes_goes_by_one_reading_of_the_clock:
                "All times that one command writes come from one reading of the clock.";
            each_command_reads_the_clock_anew:
                "Each command, and each reading of a record, goes by what the clock shows then.";
            who_reads_the_clock_first_has_access_first:
                "The clock is read after exclusive access is had: nobody is answered by a time that was over by then.";
            a_clock_out_of_range_is_an_error_and_nothing_is_done:
                "While the clock is outside the years 1970-9999 everything is refused with that error, and nothing is done.";
            the_longest_and_the_shortest_periods_are_kept_at_both_ends_of_time:
                "Periods of 1 ms and of 36,525 days are kept at both ends of time; nothing wraps.";
            a_clock_that_steps_back_ends_nothing_early:
                "A clock that steps back is believed; no lease and no reply ends early for it.";
        }
        sweeps {
            a_sweep_removes_what_has_expired_and_nothing_else:
                "A sweep removes claims and replies that have expired; whatever has not stays as it is.";
            a_sweep_leaves_a_record_to_its_last_millisecond:
                "A sweep leaves a record a millisecond before it expires, and removes it at that time.";
            a_sweep_removes_at_most_its_limit_and_says_whether_there_is_more:
                "A sweep removes at most its limit, and says whether more has expired.";
            a_record_that_lives_longer_than_it_was_to_is_not_swept:
                "A record that was renewed, completed, taken over or claimed anew is not swept at its old deadline.";
            a_record_that_ends_earlier_than_it_was_to_is_swept:
                "A reply that expires before the claim would have is swept then.";
            a_sweep_changes_no_answer:
                "Whether an expired record was swept makes no difference to any answer.";
        }
        batches {
            a_batch_is_answered_in_its_order:
                "Each command of a batch has its own answer, in the order of the batch.";
            a_command_sees_what_those_before_it_in_the_batch_did:
                "A command sees what those before it in the same batch did.";
            a_long_batch_has_an_answer_for_each_command:
                "A batch may be empty, or long; its tokens rise in its order.";
        }
        names {
            scopes_are_apart:
                "One key in two scopes is two records.";
            scope_and_key_do_not_run_into_one_another:
                "No separator makes two pairs of scope and key one record.";
            names_are_compared_byte_by_byte:
                "Names are compared byte by byte: no folding, trimming or normalising.";
            the_longest_and_the_oddest_names_are_kept:
                "Names of 255 bytes, and those that mean something to a file system or in SQL, are names like others.";
        }
        inspection {
            reading_gives_the_record_and_the_time_and_changes_nothing:
                "Reading gives the record as it is stored and the time, and changes nothing.";
            an_expired_record_is_not_read:
                "Reading gives none once a record has expired.";
            each_record_is_counted_once_as_it_stands:
                "Counting counts each record once: in progress, lapsed, completed, or expired and not swept.";
            what_records_hold_is_counted:
                "Counting adds up what records hold; nothing of it is left when they are gone.";
            lapsed_claims_are_listed_by_the_end_of_their_leases:
                "Lapsed claims are listed as stuck, the oldest lease first, up to the limit.";
            a_lease_that_a_step_of_the_clock_made_too_long_is_listed:
                "Claims whose lease is longer than one lease from now are listed after them.";
            a_store_is_one_store:
                "A store has one id, and shares neither it nor a record with another store.";
        }
        reopening {
            what_was_answered_is_there_when_the_store_is_reopened:
                "What was answered before a store is closed is there, byte for byte, when it is opened again.";
            deadlines_pass_while_the_store_is_closed:
                "Leases and retentions end while a store is closed as they do while it is open.";
            a_reopened_store_is_the_same_store:
                "A store has the same id when it is opened again, so that tickets stay good.";
        }
        threads {
            of_callers_at_once_one_is_granted_the_key:
                "Of callers that claim one free key at once, exactly one is granted it.";
            of_callers_at_once_one_takes_a_lapsed_claim_over:
                "Of callers that claim one lapsed key at once, exactly one takes over.";
            no_two_claims_at_once_have_one_token:
                "Callers that claim at once get different tokens, each caller rising ones.";
            of_completions_at_once_one_stands:
                "Of completions of one claim at once, one is recorded, and all hear of its reply.";
            a_sweep_beside_claims_removes_none_of_them:
                "A sweep beside claims of expired keys removes none that was granted.";
        }
        explained {
            the_core_explains_every_answer_and_every_record:
                "Over histories that are drawn, every answer and every record is what the core makes of the one before.";
        }
    } };
}
