//! This crate.

use crate::common::request::Request;
use crate::common::threads::timed;
use crate::{BODY_LEN, Driven, Part, STATUS};
use idempotency::{IdempotencyStore, StoredResponse};
use std::time::Duration;

pub const WAYS: &[Driven] = &[("threads", by_threads)];

fn by_threads(mut parts: Vec<Part>) -> Duration {
    let (store, request) = (IdempotencyStore::in_memory(), Request::new());
    timed(&mut parts, |part| {
        for (key, body) in part.keys.iter().zip(part.bodies.drain(..)) {
            request.complete(&store, key, StoredResponse::new(STATUS).with_body(body));
            let done = request.replay(&store, key);
            assert_eq!(done.reply.response().map(|response| response.body().len()), Some(BODY_LEN));
        }
    })
}
