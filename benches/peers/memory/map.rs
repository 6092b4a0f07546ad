//! A bare `DashMap`: what a program would do without a library. It compares no fingerprint, grants no token,
//! and forgets nothing.

use crate::common::threads::timed;
use crate::{BODY_LEN, Driven, Part, STATUS};
use bytes::Bytes;
use dashmap::{DashMap, Entry};
use std::time::Duration;

pub const WAYS: &[Driven] = &[("threads", by_threads)];

enum Slot {
    Claimed,
    Completed { status: u16, body: Bytes },
}

fn by_threads(mut parts: Vec<Part>) -> Duration {
    let map: DashMap<Box<str>, Slot> = DashMap::new();
    timed(&mut parts, |part| {
        for (key, body) in part.keys.iter().zip(part.bodies.drain(..)) {
            match map.entry(key.as_str().into()) {
                Entry::Vacant(vacant) => drop(vacant.insert(Slot::Claimed)),
                Entry::Occupied(_) => panic!("wanted a free key"),
            }
            *map.get_mut(key.as_str()).expect("the claim") =
                Slot::Completed { status: STATUS, body: body.into() };
            match &*map.get(key.as_str()).expect("the claim") {
                Slot::Completed { status, body } => {
                    assert_eq!((*status, body.clone().len()), (STATUS, BODY_LEN));
                }
                Slot::Claimed => panic!("wanted a replay"),
            }
        }
    })
}
