//! Flaws in what a claim is answered, and in what it writes.

use super::store::{Asked, Flaw, SOUND};
use idempotency::transition::{Transition, Write};
use idempotency::{Command, Completed, Fingerprint, FingerprintMismatch, Outcome, Record, State, Timestamp};

/// The fingerprint that a claim asks for.
fn presented(asked: &Asked<'_>) -> Option<Fingerprint> {
    match asked.command {
        Command::Claim { fingerprint, .. } => Some(*fingerprint),
        _ => None,
    }
}

/// The record, as one that binds whatever is asked for, where `when` says so.
fn bound_by(asked: &Asked<'_>, when: impl Fn(&Record, Fingerprint) -> bool) -> Transition {
    let own = asked.record.zip(presented(asked)).filter(|(record, asks)| when(record, *asks));
    let record = own.map(|(record, fingerprint)| Record { fingerprint, ..record.clone() });
    if record.is_some() { asked.with(record.as_ref()) } else { asked.rightly() }
}

/// The last millisecond in which `record` is there, if that is over.
fn before_its_end(asked: &Asked<'_>, state: State) -> Option<Timestamp> {
    let record = asked.record.filter(|record| record.state == state && record.is_expired(asked.now))?;
    Some(Timestamp::from_millis(record.expires_at.as_millis() - 1))
}

pub const FLAWS: &[Flaw] = &[
    Flaw {
        name: "counts a claim's retention from the claim",
        refused_by: &["a_free_key_is_granted", "a_claims_retention_lasts_to_its_last_millisecond"],
        decide: |asked| {
            asked.spoiled(|record| {
                if presented(asked).is_some() {
                    record.expires_at = record.retention.after(asked.now).max(record.lease_until);
                }
            })
        },
        ..SOUND
    },
    Flaw {
        name: "renews a claim for whoever asks",
        refused_by: &["a_claim_that_stands_is_told_to_others_and_not_touched"],
        decide: |asked| {
            let mut decided = asked.rightly();
            if let (Outcome::InProgress { .. }, Some(record)) = (&decided.outcome, asked.record) {
                let lease_until = record.lease.after(asked.now).max(record.lease_until);
                decided.write = Write::Put(Record { lease_until, ..record.clone() });
            }
            decided
        },
        ..SOUND
    },
    Flaw {
        name: "takes over on the old terms",
        refused_by: &["a_lapsed_claim_is_taken_over"],
        decide: |asked| {
            asked.spoiled(|new| {
                if let Some(old) = asked.record.filter(|old| old.attempt < new.attempt) {
                    (new.lease, new.retention) = (old.lease, old.retention);
                }
            })
        },
        ..SOUND
    },
    Flaw {
        name: "counts no attempt",
        refused_by: &[
            "a_lapsed_claim_is_taken_over",
            "each_takeover_counts_and_hands_the_checkpoint_on",
            "of_callers_at_once_one_takes_a_lapsed_claim_over",
            "deadlines_pass_while_the_store_is_closed",
        ],
        decide: |asked| {
            let mut decided = asked.spoiled(|record| record.attempt = 1);
            if let Outcome::Claimed(grant) = &mut decided.outcome {
                grant.attempt = 1;
            }
            decided
        },
        ..SOUND
    },
    Flaw {
        name: "forgets the checkpoint at a takeover",
        refused_by: &[
            "each_takeover_counts_and_hands_the_checkpoint_on",
            "an_abandoned_claim_is_taken_over_at_once",
            "a_checkpoint_of_any_bytes_comes_back",
            "releasing_a_takeover_leaves_it_lapsed_and_bound",
            "the_core_explains_every_answer_and_every_record",
        ],
        decide: |asked| {
            let mut decided = asked.rightly();
            if let (Outcome::Claimed(grant), Write::Put(record)) = (&mut decided.outcome, &mut decided.write)
            {
                (grant.checkpoint, record.checkpoint) = (None, None);
            }
            decided
        },
        ..SOUND
    },
    Flaw {
        name: "replays only while the lease would stand",
        refused_by: &["a_completed_operation_is_replayed", "a_reply_is_replayed_to_its_last_millisecond"],
        decide: |asked| match asked.record {
            Some(record) if record.lease_until.is_over(asked.now) && presented(asked).is_some() => {
                let (state, reply) = (State::InProgress, None);
                asked.with(Some(&Record { state, reply, completed_at: None, ..record.clone() }))
            }
            _ => asked.rightly(),
        },
        ..SOUND
    },
    Flaw {
        name: "takes over what has expired",
        refused_by: &["an_expired_claim_is_a_free_key", "a_claims_retention_lasts_to_its_last_millisecond"],
        decide: |asked| match before_its_end(asked, State::InProgress) {
            Some(then) if presented(asked).is_some() => asked.at(then),
            _ => asked.rightly(),
        },
        ..SOUND
    },
    Flaw {
        name: "removes what has expired, and loses the claim that is granted there",
        refused_by: &["the_core_explains_every_answer_and_every_record"],
        decide: |asked| {
            let mut decided = asked.rightly();
            if asked.record.is_some_and(|record| record.is_expired(asked.now)) {
                decided.write = Write::Delete;
            }
            decided
        },
        ..SOUND
    },
    Flaw {
        name: "replays for ever",
        refused_by: &["an_expired_reply_is_a_free_key", "a_reply_is_replayed_to_its_last_millisecond"],
        decide: |asked| match before_its_end(asked, State::Completed) {
            Some(then) if presented(asked).is_some() => asked.at(then),
            _ => asked.rightly(),
        },
        ..SOUND
    },
    Flaw {
        name: "compares no fingerprint while a claim stands",
        refused_by: &[
            "another_request_is_refused_while_the_claim_stands",
            "a_fingerprint_that_differs_in_one_bit_is_another",
            "a_batch_is_answered_in_its_order",
        ],
        decide: |asked| {
            bound_by(asked, |record, _| record.state == State::InProgress && !record.is_lapsed(asked.now))
        },
        ..SOUND
    },
    Flaw {
        name: "hands a lapsed claim to any request",
        refused_by: &[
            "another_request_is_refused_once_the_claim_has_lapsed",
            "another_request_is_refused_once_the_claim_is_abandoned",
            "another_request_is_refused_until_the_record_expires",
        ],
        decide: |asked| bound_by(asked, |record, _| record.is_lapsed(asked.now)),
        ..SOUND
    },
    Flaw {
        name: "replays to any request",
        refused_by: &[
            "another_request_is_refused_once_the_claim_has_completed",
            "another_request_is_refused_until_the_record_expires",
        ],
        decide: |asked| bound_by(asked, |record, _| record.state == State::Completed),
        ..SOUND
    },
    Flaw {
        name: "compares a part of the digest",
        refused_by: &["a_fingerprint_that_differs_in_one_bit_is_another"],
        decide: |asked| {
            bound_by(asked, |record, asks| {
                let same =
                    record.fingerprint.digest().iter().zip(asks.digest()).take(31).all(|(a, b)| a == b);
                same && record.fingerprint.format() == asks.format()
            })
        },
        ..SOUND
    },
    Flaw {
        name: "ignores the format of a fingerprint",
        refused_by: &["a_fingerprint_of_another_format_is_another_and_both_formats_are_told"],
        decide: |asked| bound_by(asked, |record, asks| record.fingerprint.digest() == asks.digest()),
        ..SOUND
    },
    Flaw {
        name: "says a mismatch has the format that was asked",
        refused_by: &["a_fingerprint_of_another_format_is_another_and_both_formats_are_told"],
        decide: |asked| {
            let mut decided = asked.rightly();
            if let Outcome::FingerprintMismatch(FingerprintMismatch {
                stored_format, presented_format, ..
            }) = &mut decided.outcome
            {
                *stored_format = *presented_format;
            }
            decided
        },
        ..SOUND
    },
    Flaw {
        name: "lets a lease stand at its end",
        refused_by: &[
            "a_lease_stands_to_its_last_millisecond",
            "a_deadline_that_was_moved_counts_from_there",
        ],
        decide: |asked| match asked.record {
            Some(record) if record.lease_until == asked.now && presented(asked).is_some() => {
                asked.at(Timestamp::from_millis(asked.now.as_millis() - 1))
            }
            _ => asked.rightly(),
        },
        ..SOUND
    },
    Flaw {
        name: "lets a reply stand at its end",
        refused_by: &["a_reply_is_replayed_to_its_last_millisecond"],
        decide: |asked| match asked
            .record
            .filter(|record| record.expires_at == asked.now)
            .and_then(Completed::of)
        {
            Some(done) if presented(asked).is_some() => {
                Transition { write: Write::Keep, outcome: Outcome::Completed(done) }
            }
            _ => asked.rightly(),
        },
        ..SOUND
    },
    Flaw {
        name: "cuts leases and retentions to ten years",
        refused_by: &["the_longest_and_the_shortest_periods_are_kept_at_both_ends_of_time"],
        decide: |asked| {
            const TEN_YEARS: i64 = 3_652 * 86_400_000;
            let latest = Timestamp::from_millis(asked.now.as_millis() + TEN_YEARS);
            asked.spoiled(|record| record.expires_at = record.expires_at.min(latest))
        },
        ..SOUND
    },
];
