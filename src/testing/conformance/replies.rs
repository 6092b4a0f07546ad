//! Replies and checkpoints come back as they were given, to the byte.

use super::stage::{LEASE, REQUEST, Stage, Step, claim, claimed, complete, completed, key};
use crate::outcome::{Grant, Outcome};
use crate::policy::{MAX_CHECKPOINT_LEN, MAX_HEADERS_LEN};
use crate::reply::{Reply, StoredResponse};
use crate::transition::Command;
use bytes::Bytes;
use std::iter;

/// The reply limit of the default policy.
const LARGE: usize = 1024 * 1024;

/// Records `reply` under a key of its own: it must come back in every way in which a reply does.
fn comes_back(stage: &mut Stage<'_>, name: &str, reply: impl Into<Reply>) -> Step {
    let (id, reply) = (key(name)?, reply.into());
    let grant = stage.claim(&id)?;
    let record = completed(&claimed(&grant, 0, 0)?, reply.clone(), 0);
    let done = crate::outcome::Completed::of(&record);
    let recorded = stage.ask(&id, &complete(grant.token, reply.clone())?)?;
    stage.same("the answer to the completion", &done.clone().map(Outcome::Recorded), &Some(recorded))?;
    let again = stage.ask(&id, &complete(grant.token, reply)?)?;
    stage.same(
        "the answer to the second completion",
        &done.clone().map(Outcome::AlreadyRecorded),
        &Some(again),
    )?;
    let replayed = stage.ask(&id, &claim(REQUEST)?)?;
    stage.same("the replay", &done.map(Outcome::Completed), &Some(replayed))?;
    stage.holds(&id, Some(&record))
}

pub(super) fn every_status_comes_back(stage: &mut Stage<'_>) -> Step {
    let statuses = || (100..=599).chain([0, 1, 99, 600, 999, u16::MAX]);
    let mut claims = Vec::new();
    for status in statuses() {
        claims.push((key(&format!("status {status}"))?, claim(REQUEST)?));
    }
    let mut completions = Vec::new();
    for (((id, _), granted), status) in claims.iter().zip(stage.batch(&claims)?).zip(statuses()) {
        if let Outcome::Claimed(Grant { token, .. }) = granted {
            completions.push((id.clone(), complete(token, StoredResponse::new(status))?));
        }
    }
    stage.same("the number of claims that are granted", &claims.len(), &completions.len())?;
    stage.batch(&completions)?;
    for (replayed, status) in stage.batch(&claims)?.into_iter().zip(statuses()) {
        let seen = match replayed {
            Outcome::Completed(done) => done.reply.status().map(u64::from),
            _ => None,
        };
        stage.same("the status of a replay", &Some(u64::from(status)), &seen)?;
    }
    Ok(())
}

pub(super) fn a_body_of_any_bytes_comes_back(stage: &mut Stage<'_>) -> Step {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let bodies: [(&str, Bytes); 7] = [
        ("empty", Bytes::new()),
        ("null", "null".into()),
        ("one NUL", "\0".into()),
        ("NULs", Bytes::from_static(&[0; 64])),
        ("white space", " \r\n".into()),
        ("every byte", all.into()),
        ("no UTF-8", Bytes::from_static(b"\xff\xfe\xc3")),
    ];
    for (name, body) in bodies {
        for status in [200, 204] {
            let response = StoredResponse::new(status).with_body(body.clone());
            comes_back(stage, &format!("{name} with {status}"), response)?;
        }
    }
    Ok(())
}

pub(super) fn headers_keep_order_repeats_case_and_bytes(stage: &mut Stage<'_>) -> Step {
    let response = StoredResponse::new(200)
        .with_header("Set-Cookie", "a=1")
        .with_header("x-zeta", "1")
        .with_header("set-cookie", "b=2")
        .with_header("Set-Cookie", "a=1")
        .with_header("A", "")
        .with_header("", "no name")
        .with_header("x: y\r\n", "not for HTTP")
        .with_header("binary", b"\0\xff\r\n\xc3".as_slice())
        .with_header("é", "ß");
    comes_back(stage, "headers", response.clone())?;
    comes_back(stage, "headers and a body", response.with_body("made"))
}

pub(super) fn the_kinds_of_replies_stay_apart(stage: &mut Stage<'_>) -> Step {
    comes_back(stage, "a marker", Reply::Marker)?;
    comes_back(stage, "an empty reference", Reply::Reference(String::new()))?;
    comes_back(stage, "a reference", Reply::Reference("payments/\0é 1".to_owned()))?;
    comes_back(stage, "an empty response", StoredResponse::new(0))?;
    comes_back(stage, "a response like the reference", StoredResponse::new(200).with_body("payments/\0é 1"))
}

pub(super) fn the_largest_replies_come_back_whole(stage: &mut Stage<'_>) -> Step {
    let large = Bytes::from_iter((0..=u8::MAX).cycle().take(LARGE));
    comes_back(stage, "a large body", StoredResponse::new(200).with_body(large))?;
    comes_back(stage, "a large reference", Reply::Reference("r".repeat(LARGE)))?;
    // A header counts 32 bytes beside its name and its value.
    let value = Bytes::from(vec![b'v'; MAX_HEADERS_LEN.saturating_sub(36)]);
    comes_back(stage, "a large header", StoredResponse::new(200).with_header("name", value))?;
    let many = iter::repeat_n((), MAX_HEADERS_LEN / 36).enumerate();
    let many = many.fold(StoredResponse::new(200), |response, (number, ())| {
        response.with_header(format!("{:02x}", number % 256), if number % 2 == 0 { "ab" } else { "ba" })
    });
    comes_back(stage, "many headers", many)
}

pub(super) fn a_checkpoint_of_any_bytes_comes_back(stage: &mut Stage<'_>) -> Step {
    let id = key("checkpoints")?;
    let largest = Bytes::from_iter((0..=u8::MAX).cycle().take(MAX_CHECKPOINT_LEN));
    let mut token = stage.claim(&id)?.token;
    let checkpoints = [Bytes::new(), "\0".into(), Bytes::from_static(b"\xff\xc3"), largest, "page 7".into()];
    for (number, bytes) in (1..).zip(checkpoints) {
        stage.ask(&id, &Command::Checkpoint { token, bytes: bytes.clone() })?;
        let stored = stage.record(&id)?;
        let expected = crate::record::Record { checkpoint: Some(bytes.clone()), ..stored.clone() };
        stage.same("what is stored", &expected, &stored)?;
        stage.at(LEASE.saturating_mul(number));
        let grant = stage.claim(&id)?;
        let expected = Grant { checkpoint: Some(bytes), ..grant.clone() };
        stage.same("the grant", &Outcome::Claimed(expected), &Outcome::Claimed(grant.clone()))?;
        token = grant.token;
    }
    Ok(())
}
