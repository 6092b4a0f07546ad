//! What a claim for another request is answered.

use super::stage::{EXPIRY, LEASE, OTHER, REPLAY, REQUEST, Stage, Step, claim, key, moment};
use crate::fingerprint::Fingerprint;
use crate::key::RecordId;
use crate::outcome::{FingerprintMismatch, Outcome};
use crate::record::State;
use crate::reply::Reply;
use crate::transition::Command;

fn mismatch(state: State, presented: Fingerprint) -> Outcome {
    Outcome::FingerprintMismatch(FingerprintMismatch {
        created_at: moment(0),
        state,
        stored_format: REQUEST.format(),
        presented_format: presented.format(),
    })
}

/// Asks for `presented`, which must be refused; and the record must stay.
fn refused(stage: &mut Stage<'_>, id: &RecordId, state: State, presented: Fingerprint) -> Step {
    let before = stage.stored(id)?;
    stage.wants(id, &claim(presented)?, &mismatch(state, presented))?;
    stage.holds(id, before.as_ref())
}

pub(super) fn another_request_is_refused_while_the_claim_stands(stage: &mut Stage<'_>) -> Step {
    let id = key("running")?;
    stage.claim(&id)?;
    refused(stage, &id, State::InProgress, OTHER)
}

pub(super) fn another_request_is_refused_once_the_claim_has_lapsed(stage: &mut Stage<'_>) -> Step {
    let id = key("lapsed")?;
    stage.claim(&id)?;
    stage.at(LEASE);
    refused(stage, &id, State::InProgress, OTHER)
}

pub(super) fn another_request_is_refused_once_the_claim_is_abandoned(stage: &mut Stage<'_>) -> Step {
    let id = key("abandoned")?;
    let token = stage.claim(&id)?.token;
    stage.wants(&id, &Command::Abandon { token }, &Outcome::Abandoned)?;
    refused(stage, &id, State::InProgress, OTHER)?;
    stage.claim(&id)?;
    refused(stage, &id, State::InProgress, OTHER)
}

pub(super) fn another_request_is_refused_once_the_claim_has_completed(stage: &mut Stage<'_>) -> Step {
    let id = key("done")?;
    let token = stage.claim(&id)?.token;
    stage.complete(&id, token, Reply::Marker)?;
    refused(stage, &id, State::Completed, OTHER)
}

pub(super) fn another_request_is_refused_until_the_record_expires(stage: &mut Stage<'_>) -> Step {
    let id = key("claimed")?;
    stage.claim(&id)?;
    stage.at(EXPIRY.saturating_sub(1));
    refused(stage, &id, State::InProgress, OTHER)?;

    stage.at(0);
    let id = key("completed")?;
    let token = stage.claim(&id)?.token;
    stage.complete(&id, token, Reply::Marker)?;
    stage.at(REPLAY.saturating_sub(1));
    refused(stage, &id, State::Completed, OTHER)
}

pub(super) fn a_fingerprint_that_differs_in_one_bit_is_another(stage: &mut Stage<'_>) -> Step {
    let id = key("bits")?;
    stage.claim(&id)?;
    let mut batch = Vec::new();
    let mut expected = Vec::new();
    for bit in 0..256_usize {
        let mut digest = *REQUEST.digest();
        if let Some(byte) = digest.get_mut(bit.wrapping_shr(3)) {
            *byte ^= 1_u8.wrapping_shl(u32::try_from(bit).unwrap_or_default() % 8);
        }
        let presented = Fingerprint::from_stored(REQUEST.format(), digest);
        batch.push((id.clone(), claim(presented)?));
        expected.push(mismatch(State::InProgress, presented));
    }
    let answers = stage.batch(&batch)?;
    for (bit, (expected, seen)) in expected.iter().zip(&answers).enumerate() {
        stage.same(format_args!("the answer to a fingerprint that differs in bit {bit}"), expected, seen)?;
    }
    Ok(())
}

pub(super) fn a_fingerprint_of_another_format_is_another_and_both_formats_are_told(
    stage: &mut Stage<'_>,
) -> Step {
    let id = key("formats")?;
    let token = stage.claim(&id)?.token;
    for format in [0, 8, u8::MAX] {
        refused(stage, &id, State::InProgress, Fingerprint::from_stored(format, *REQUEST.digest()))?;
    }
    stage.complete(&id, token, Reply::Marker)?;
    refused(stage, &id, State::Completed, Fingerprint::from_stored(u8::MAX, *REQUEST.digest()))
}
