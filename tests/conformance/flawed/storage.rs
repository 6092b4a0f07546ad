//! Flaws of a storage: its tokens, its clock, its sweeps, its batches, its lock, and what it tells and keeps.

use super::store::{Flaw, Flawed, Reading, SOUND};
use idempotency::{
    Backend, BackendError, Outcome, Record, State, Stats, StoreId, StuckReason, Swept, transition,
};

pub const FLAWS: &[Flaw] = &[
    Flaw {
        name: "counts tokens for each key",
        refused_by: &["each_token_is_higher_than_all_before", "no_two_claims_at_once_have_one_token"],
        token: |_, record| record.map_or(1, |record| record.token.get()) + 1,
        ..SOUND
    },
    Flaw {
        name: "draws tokens from the records that are there",
        refused_by: &[
            "tokens_rise_whatever_became_of_the_claim_before",
            "a_token_from_before_the_record_went_away_is_no_proof",
        ],
        token: |kept, _| kept.records.values().map(|record| record.token.get()).max().unwrap_or(1) + 1,
        ..SOUND
    },
    Flaw {
        name: "starts its tokens anew when it is opened",
        refused_by: &["tokens_rise_on_when_the_store_is_reopened"],
        open: |kept, _| kept.last = 1,
        ..SOUND
    },
    Flaw {
        name: "reads the clock before it has access",
        refused_by: &["who_reads_the_clock_first_has_access_first"],
        reading: Reading::BeforeTheLock,
        ..SOUND
    },
    Flaw {
        name: "reads the clock twice",
        refused_by: &["what_a_command_writes_goes_by_one_reading_of_the_clock"],
        reading: Reading::Twice,
        ..SOUND
    },
    Flaw {
        name: "believes any clock",
        refused_by: &["a_clock_out_of_range_is_an_error_and_nothing_is_done"],
        reading: Reading::Unchecked,
        ..SOUND
    },
    Flaw {
        name: "reads the clock once a second",
        refused_by: &["each_command_reads_the_clock_anew", "who_reads_the_clock_first_has_access_first"],
        reading: Reading::Kept,
        ..SOUND
    },
    Flaw {
        name: "lets no clock step back",
        refused_by: &["a_clock_that_steps_back_ends_nothing_early", "each_command_reads_the_clock_anew"],
        reading: Reading::NeverBack,
        ..SOUND
    },
    Flaw {
        name: "sweeps lapsed claims",
        refused_by: &["a_sweep_removes_what_has_expired_and_nothing_else"],
        sweep: |store, limit, now| {
            store.kept().sweep(limit, |_, record| record.is_expired(now) || record.is_lapsed(now))
        },
        ..SOUND
    },
    Flaw {
        name: "sweeps no replies",
        refused_by: &[
            "a_sweep_removes_what_has_expired_and_nothing_else",
            "a_record_that_ends_earlier_than_it_was_to_is_swept",
        ],
        sweep: |store, limit, now| {
            store.kept().sweep(limit, |_, record| record.is_expired(now) && record.state == State::InProgress)
        },
        ..SOUND
    },
    Flaw {
        name: "sweeps a millisecond early",
        refused_by: &["a_sweep_leaves_a_record_to_its_last_millisecond"],
        sweep: |store, limit, now| {
            let soon = idempotency::Timestamp::from_millis(now.as_millis() + 1);
            store.kept().sweep(limit, |_, record| record.is_expired(soon))
        },
        ..SOUND
    },
    Flaw {
        name: "sweeps without a limit",
        refused_by: &["a_sweep_removes_at_most_its_limit_and_says_whether_there_is_more"],
        sweep: |store, _, now| store.kept().sweep(usize::MAX, |_, record| record.is_expired(now)),
        ..SOUND
    },
    Flaw {
        name: "never says that there is more to sweep",
        refused_by: &["a_sweep_removes_at_most_its_limit_and_says_whether_there_is_more"],
        sweep: |store, limit, now| {
            let swept = store.kept().sweep(limit, |_, record| record.is_expired(now));
            Swept { more: false, ..swept }
        },
        ..SOUND
    },
    Flaw {
        name: "sweeps by the first deadline that a record had",
        refused_by: &[
            "a_record_that_lives_longer_than_it_was_to_is_not_swept",
            "a_record_that_ends_earlier_than_it_was_to_is_swept",
        ],
        sweep: |store, limit, now| {
            let mut kept = store.kept();
            let expiries = kept.first_expiries.clone();
            kept.sweep(limit, |id, _| expiries.get(id).is_some_and(|expiry| expiry.is_over(now)))
        },
        ..SOUND
    },
    Flaw {
        name: "looks what to sweep, then deletes by key",
        refused_by: &["a_sweep_beside_claims_removes_none_of_them"],
        sweep: |store, limit, now| {
            let expired = store.kept().records.clone();
            Flawed::pause();
            store.kept().sweep(limit, |id, _| expired.get(id).is_some_and(|record| record.is_expired(now)))
        },
        ..SOUND
    },
    Flaw {
        name: "answers a batch backwards",
        refused_by: &["a_batch_is_answered_in_its_order"],
        batch: |store, batch| {
            let mut answers = (SOUND.batch)(store, batch);
            answers.reverse();
            answers
        },
        ..SOUND
    },
    Flaw {
        name: "executes a batch backwards",
        refused_by: &["a_long_batch_has_an_answer_for_each_command"],
        batch: |store, batch| {
            let backwards: Vec<_> = batch.iter().rev().cloned().collect();
            let mut answers = (SOUND.batch)(store, &backwards);
            answers.reverse();
            answers
        },
        ..SOUND
    },
    Flaw {
        name: "decides a batch by what was there before it",
        refused_by: &["a_command_sees_what_those_before_it_in_the_batch_did"],
        batch: |store, batch| {
            let before = store.kept().records.clone();
            let decide = |(id, command): &(idempotency::RecordId, idempotency::Command)| {
                let answer = store.execute(id, command)?;
                let now = store.now(&mut store.kept())?;
                let is_grant = transition::grants(before.get(id), command, now);
                let first = idempotency::FencingToken::FIRST;
                let early = transition::apply(before.get(id), command, now, first).outcome;
                Ok::<Outcome, BackendError>(if is_grant { answer } else { early })
            };
            batch.iter().map(decide).collect()
        },
        ..SOUND
    },
    Flaw {
        name: "answers a thousand commands of a batch",
        refused_by: &["a_long_batch_has_an_answer_for_each_command"],
        batch: |store, batch| (SOUND.batch)(store, &batch[..batch.len().min(1_000)]),
        ..SOUND
    },
    Flaw {
        name: "looks, then writes",
        refused_by: &[
            "of_callers_at_once_one_is_granted_the_key",
            "of_callers_at_once_one_takes_a_lapsed_claim_over",
            "of_completions_at_once_one_stands",
            "no_two_claims_at_once_have_one_token",
        ],
        lets_go: true,
        ..SOUND
    },
    Flaw {
        name: "reads what has expired",
        refused_by: &["an_expired_record_is_not_read", "a_claims_retention_lasts_to_its_last_millisecond"],
        read: |kept, id, now| kept.records.get(id).map(|record| (record.clone(), now)),
        ..SOUND
    },
    Flaw {
        name: "gives a record with the time of its making",
        refused_by: &[
            "reading_gives_the_record_and_the_time_and_changes_nothing",
            "each_command_reads_the_clock_anew",
        ],
        read: |kept, id, now| {
            (SOUND.read)(kept, id, now).map(|(record, _)| (record.clone(), record.created_at))
        },
        ..SOUND
    },
    Flaw {
        name: "renews what is read",
        refused_by: &["reading_gives_the_record_and_the_time_and_changes_nothing"],
        read: |kept, id, now| {
            let read = (SOUND.read)(kept, id, now);
            if let Some(record) = kept.records.get_mut(id).filter(|record| record.state == State::InProgress)
            {
                record.lease_until = record.lease_until.max(record.lease.after(now));
            }
            read
        },
        ..SOUND
    },
    Flaw {
        name: "counts no expired records",
        refused_by: &["each_record_is_counted_once_as_it_stands"],
        stats: |kept, now| {
            let mut stats = (SOUND.stats)(kept, now);
            stats.expired = 0;
            stats
        },
        ..SOUND
    },
    Flaw {
        name: "counts no bytes",
        refused_by: &["what_records_hold_is_counted"],
        stats: |kept, now| {
            let mut stats = Stats::default();
            kept.records.values().for_each(|record| stats.count(record, now, 0));
            stats
        },
        ..SOUND
    },
    Flaw {
        name: "lists stuck claims by their keys",
        refused_by: &["lapsed_claims_are_listed_by_the_end_of_their_leases"],
        stuck: |kept, now, limit| {
            let mut all = (SOUND.stuck)(kept, now, usize::MAX);
            all.sort_by(|one, other| one.id.cmp(&other.id));
            all.truncate(limit);
            all
        },
        ..SOUND
    },
    Flaw {
        name: "lists lapsed claims alone",
        refused_by: &["a_lease_that_a_step_of_the_clock_made_too_long_is_listed"],
        stuck: |kept, now, limit| {
            let mut all = (SOUND.stuck)(kept, now, limit);
            all.retain(|stuck| stuck.reason == StuckReason::Lapsed);
            all
        },
        ..SOUND
    },
    Flaw {
        name: "has the id of every other store",
        refused_by: &["a_store_is_one_store"],
        open: |kept, _| kept.id = StoreId::from_bytes([7; 16]),
        ..SOUND
    },
    Flaw {
        name: "has another id each time it is opened",
        refused_by: &["a_reopened_store_is_the_same_store"],
        open: |kept, _| kept.id = StoreId::random(),
        ..SOUND
    },
    Flaw {
        name: "loses checkpoints when it is closed",
        refused_by: &["what_was_answered_is_there_when_the_store_is_reopened"],
        open: |kept, _| kept.records.values_mut().for_each(|record| record.checkpoint = None),
        ..SOUND
    },
    Flaw {
        name: "is empty when it is opened again",
        refused_by: &[
            "what_was_answered_is_there_when_the_store_is_reopened",
            "deadlines_pass_while_the_store_is_closed",
        ],
        open: |kept, _| {
            kept.records.clear();
        },
        ..SOUND
    },
    Flaw {
        name: "lets leases stand still while it is closed",
        refused_by: &["deadlines_pass_while_the_store_is_closed"],
        open: |kept, now| {
            let renew =
                |record: &mut Record| record.lease_until = record.lease_until.max(record.lease.after(now));
            kept.records.values_mut().for_each(renew);
        },
        ..SOUND
    },
];
