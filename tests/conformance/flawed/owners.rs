//! Flaws in what an owner's commands do, and in who is taken for the owner.

use super::store::{Asked, Flaw, SOUND};
use bytes::Bytes;
use idempotency::transition::{Transition, Write};
use idempotency::{Command, Completed, FencingToken, LostReason, Outcome, Record, State, Timestamp};

/// What is right, but for what is said of whether there was something to forget.
fn forgotten_as(asked: &Asked<'_>, there_was: bool) -> Transition {
    let mut decided = asked.rightly();
    if let Outcome::Forgotten { existed } = &mut decided.outcome {
        *existed = there_was;
    }
    decided
}

fn token_of(command: &Command) -> Option<FencingToken> {
    match command {
        Command::Complete { token, .. }
        | Command::Renew { token }
        | Command::Checkpoint { token, .. }
        | Command::Release { token }
        | Command::Abandon { token } => Some(*token),
        Command::Claim { .. } | Command::Forget => None,
    }
}

/// The owner's own record in progress, as the core sees it.
fn own<'a>(asked: &Asked<'a>) -> Option<&'a Record> {
    let token = token_of(asked.command)?;
    asked.record.filter(|record| {
        record.token == token && record.state == State::InProgress && !record.is_expired(asked.now)
    })
}

const fn is_renewal(command: &Command) -> bool {
    matches!(command, Command::Renew { .. } | Command::Checkpoint { .. })
}

pub const FLAWS: &[Flaw] = &[
    Flaw {
        name: "replays from the claim on, not from the completion",
        refused_by: &["completing_records_the_reply_for_one_retention_from_now"],
        decide: |asked| {
            let mut decided = asked.rightly();
            if let (Outcome::Recorded(done), Write::Put(record), Command::Complete { retention, .. }) =
                (&mut decided.outcome, &mut decided.write, asked.command)
            {
                record.expires_at = retention.after(record.created_at);
                done.expires_at = record.expires_at;
            }
            decided
        },
        ..SOUND
    },
    Flaw {
        name: "keeps the checkpoint of what has completed",
        refused_by: &["completing_records_the_reply_for_one_retention_from_now"],
        decide: |asked| {
            asked.spoiled(|new| {
                if new.state == State::Completed {
                    new.checkpoint = asked.record.and_then(|old| old.checkpoint.clone());
                }
            })
        },
        ..SOUND
    },
    Flaw {
        name: "lets the last reply stand",
        refused_by: &[
            "completing_again_gives_the_first_reply_and_writes_nothing",
            "of_completions_at_once_one_stands",
        ],
        decide: |asked| match (asked.command, asked.record.filter(|record| record.state == State::Completed))
        {
            (Command::Complete { token, .. }, Some(record)) if record.token == *token => {
                let (state, reply) = (State::InProgress, None);
                asked.with(Some(&Record { state, reply, completed_at: None, ..record.clone() }))
            }
            _ => asked.rightly(),
        },
        ..SOUND
    },
    Flaw {
        name: "renews from the end of the lease",
        refused_by: &["renewing_stands_for_one_lease_from_now"],
        decide: |asked| {
            let mut decided = asked.rightly();
            if let (Outcome::Renewed { lease_until }, Write::Put(new), Some(old)) =
                (&mut decided.outcome, &mut decided.write, asked.record)
            {
                new.lease_until = old.lease.after(old.lease_until);
                *lease_until = new.lease_until;
            }
            decided
        },
        ..SOUND
    },
    Flaw {
        name: "shortens a lease when the clock has stepped back",
        refused_by: &["renewing_never_shortens_a_lease"],
        decide: |asked| {
            let mut decided = asked.rightly();
            if let (Outcome::Renewed { lease_until }, Write::Put(new)) =
                (&mut decided.outcome, &mut decided.write)
            {
                new.lease_until = new.lease.after(asked.now);
                *lease_until = new.lease_until;
            }
            decided
        },
        ..SOUND
    },
    Flaw {
        name: "leaves the record's end where it was at a renewal",
        refused_by: &[
            "a_lapsed_claim_is_known_for_one_whole_retention",
            "a_deadline_that_was_moved_counts_from_there",
        ],
        decide: |asked| {
            asked.spoiled(|new| {
                if let Some(old) = asked.record.filter(|_| is_renewal(asked.command)) {
                    new.expires_at = old.expires_at.max(new.lease_until);
                }
            })
        },
        ..SOUND
    },
    Flaw {
        name: "adds to the checkpoint",
        refused_by: &["a_checkpoint_takes_the_place_of_the_one_before_and_renews"],
        decide: |asked| {
            asked.spoiled(|new| {
                if let (Command::Checkpoint { bytes, .. }, Some(old)) = (asked.command, asked.record) {
                    let saved = old.checkpoint.iter().flatten().chain(bytes).copied();
                    new.checkpoint = Some(saved.collect::<Bytes>());
                }
            })
        },
        ..SOUND
    },
    Flaw {
        name: "abandons what is released",
        refused_by: &[
            "a_released_and_a_forgotten_key_are_free_for_any_request",
            "releasing_a_first_attempt_deletes_its_record",
        ],
        decide: |asked| match asked.command {
            Command::Release { token } if own(asked).is_some() => {
                let abandon = Command::Abandon { token: *token };
                let decided = Asked { command: &abandon, ..*asked }.rightly();
                Transition { outcome: Outcome::Released, ..decided }
            }
            _ => asked.rightly(),
        },
        ..SOUND
    },
    Flaw {
        name: "deletes a takeover that is released",
        refused_by: &["releasing_a_takeover_leaves_it_lapsed_and_bound"],
        decide: |asked| match asked.command {
            Command::Release { .. } if own(asked).is_some() => {
                Transition { write: Write::Delete, outcome: Outcome::Released }
            }
            _ => asked.rightly(),
        },
        ..SOUND
    },
    Flaw {
        name: "keeps the lease of what is abandoned",
        refused_by: &[
            "an_abandoned_claim_is_taken_over_at_once",
            "abandoning_ends_the_lease_and_nothing_else",
        ],
        decide: |asked| match asked.command {
            Command::Abandon { .. } => Transition { write: Write::Keep, ..asked.rightly() },
            _ => asked.rightly(),
        },
        ..SOUND
    },
    Flaw {
        name: "moves the end of an abandoned lease on",
        refused_by: &["abandoning_ends_the_lease_and_nothing_else"],
        decide: |asked| {
            asked.spoiled(|record| {
                if matches!(asked.command, Command::Abandon { .. }) {
                    record.lease_until = asked.now;
                }
            })
        },
        ..SOUND
    },
    Flaw {
        name: "refuses an owner whose lease is over",
        refused_by: &[
            "a_lapsed_owner_keeps_its_rights_while_nobody_takes_over",
            "an_owner_is_heard_to_the_last_millisecond_of_its_record",
        ],
        decide: |asked| match own(asked) {
            Some(record) if record.is_lapsed(asked.now) => {
                Transition { write: Write::Keep, outcome: Outcome::Lost(LostReason::Gone) }
            }
            _ => asked.rightly(),
        },
        ..SOUND
    },
    Flaw {
        name: "says of any key that it was forgotten",
        refused_by: &["forgetting_deletes_whatever_stands_and_says_whether_there_was_something"],
        decide: |asked| forgotten_as(asked, true),
        ..SOUND
    },
    Flaw {
        name: "says of what has expired that it was there",
        refused_by: &[
            "forgetting_deletes_whatever_stands_and_says_whether_there_was_something",
            "a_sweep_changes_no_answer",
        ],
        decide: |asked| forgotten_as(asked, asked.record.is_some()),
        ..SOUND
    },
    Flaw {
        name: "asks for no token",
        refused_by: &[
            "an_owner_that_was_taken_over_changes_nothing",
            "an_owner_whose_successor_has_completed_changes_nothing",
            "a_token_of_another_claim_is_no_proof",
            "a_token_from_before_the_record_went_away_is_no_proof",
            "a_command_sees_what_those_before_it_in_the_batch_did",
        ],
        decide: |asked| {
            let Some((token, record)) = token_of(asked.command).zip(asked.record) else {
                return asked.rightly();
            };
            asked.with(Some(&Record { token, ..record.clone() }))
        },
        ..SOUND
    },
    Flaw {
        name: "lets a completed claim be renewed",
        refused_by: &["a_claim_that_has_completed_changes_nothing_more"],
        decide: |asked| match asked.record {
            Some(record)
                if record.state == State::Completed
                    && token_of(asked.command) == Some(record.token)
                    && is_renewal(asked.command) =>
            {
                let expires_at = record.retention.after(asked.now);
                let write = Write::Put(Record { expires_at, ..record.clone() });
                Transition { write, outcome: Outcome::Renewed { lease_until: record.lease_until } }
            }
            _ => asked.rightly(),
        },
        ..SOUND
    },
    Flaw {
        name: "says of a successor that has completed that it runs",
        refused_by: &["an_owner_whose_successor_has_completed_changes_nothing"],
        decide: |asked| {
            let decided = asked.rightly();
            let is_completed = decided.outcome == Outcome::Lost(LostReason::Completed);
            if is_completed {
                Transition { outcome: Outcome::Lost(LostReason::Running), ..decided }
            } else {
                decided
            }
        },
        ..SOUND
    },
    Flaw {
        name: "completes what is not there",
        refused_by: &[
            "an_owner_whose_record_is_gone_creates_none",
            "an_expired_record_is_gone_for_its_owner_and_stays_until_it_is_swept",
        ],
        decide: |asked| {
            let decided = asked.rightly();
            let Command::Complete { token, reply, retention } = asked.command else { return decided };
            if decided.outcome != Outcome::Lost(LostReason::Gone) {
                return decided;
            }
            let record = Record {
                fingerprint: idempotency::Fingerprint::from_bytes([0; 32]),
                state: State::Completed,
                token: *token,
                attempt: 1,
                created_at: asked.now,
                lease: *retention,
                retention: *retention,
                lease_until: asked.now,
                completed_at: Some(asked.now),
                expires_at: retention.after(asked.now),
                checkpoint: None,
                reply: Some(reply.clone()),
            };
            let done = Completed::of(&record).map(Outcome::Recorded);
            Transition { write: Write::Put(record), outcome: done.unwrap_or(decided.outcome) }
        },
        ..SOUND
    },
    Flaw {
        name: "hears an owner after its record has expired",
        refused_by: &[
            "an_expired_record_is_gone_for_its_owner_and_stays_until_it_is_swept",
            "an_owner_is_heard_to_the_last_millisecond_of_its_record",
            "a_sweep_changes_no_answer",
        ],
        decide: |asked| match asked.record {
            Some(record) if token_of(asked.command).is_some() && record.is_expired(asked.now) => {
                asked.at(Timestamp::from_millis(record.expires_at.as_millis() - 1))
            }
            _ => asked.rightly(),
        },
        ..SOUND
    },
];
