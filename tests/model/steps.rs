//! What a random sequence is made of.

use idempotency::{Fingerprint, Reply, StoredResponse};
use proptest::collection::vec;
use proptest::prelude::*;

/// How many keys a sequence uses; the last two differ in their scope only.
pub const KEYS: usize = 3;

#[derive(Clone, Debug)]
pub enum Step {
    Do(usize, Want),
    /// One batch.
    Together(Vec<(usize, Want)>),
    Read(usize),
    Sweep(usize),
    /// To a deadline of the key's record, if it has one: a millisecond before it, to it, or a millisecond
    /// after it.
    Jump {
        key: usize,
        deadline: Deadline,
        by: i64,
    },
    /// Forward, or back.
    Shift(i64),
    /// Closes the store and opens it again, where that means anything.
    Reopen,
}

#[derive(Clone, Copy, Debug)]
pub enum Deadline {
    Lease,
    Expiry,
}

#[derive(Clone, Debug)]
pub enum Want {
    Claim { request: u8, lease: i64, retention: i64 },
    Complete { by: Proof, reply: u8, retention: i64 },
    Renew(Proof),
    Save(Proof, Vec<u8>),
    Release(Proof),
    Abandon(Proof),
    Forget,
}

/// Which token a command shows.
#[derive(Clone, Copy, Debug)]
pub enum Proof {
    /// The newest that was granted for the key, whatever became of it.
    Newest,
    /// An older one of the key's.
    Older(usize),
    /// Any that was granted, of whatever key.
    Any(usize),
    NeverIssued,
}

/// Three requests: the second differs in the digest, the third in the format only.
pub fn fingerprint(request: u8) -> Fingerprint {
    match request {
        0 => Fingerprint::from_stored(1, [7; 32]),
        1 => Fingerprint::from_stored(1, [8; 32]),
        _ => Fingerprint::from_stored(2, [7; 32]),
    }
}

pub fn reply(number: u8) -> Reply {
    match number % 4 {
        0 => Reply::Marker,
        1 => Reply::Reference(format!("row {number}")),
        2 => StoredResponse::new(204).into(),
        _ => StoredResponse::new(200)
            .with_header("X", vec![number, 0, 0xff])
            .with_header("x", "")
            .with_body(vec![number; usize::from(number)])
            .into(),
    }
}

/// Few values, so that deadlines meet; mostly shorter than the retention, as in life, and sometimes longer.
fn lease() -> impl Strategy<Value = i64> {
    prop_oneof![1 => Just(1_i64), 1 => Just(2), 2 => Just(50), 3 => Just(1_000), 3 => 1..5_000_i64]
}

fn retention() -> impl Strategy<Value = i64> {
    prop_oneof![1 => Just(1_i64), 1 => Just(50), 3 => Just(20_000), 5 => 1..60_000_i64]
}

fn proof() -> impl Strategy<Value = Proof> {
    prop_oneof![
        12 => Just(Proof::Newest),
        2 => (1..3_usize).prop_map(Proof::Older),
        1 => any::<usize>().prop_map(Proof::Any),
        1 => Just(Proof::NeverIssued),
    ]
}

fn want() -> impl Strategy<Value = Want> {
    let request = prop_oneof![10 => Just(0_u8), 1 => Just(1), 1 => Just(2)];
    prop_oneof![
        10 => (request, lease(), retention()).prop_map(|(request, lease, retention)| Want::Claim {
            request,
            lease,
            retention
        }),
        4 => (proof(), any::<u8>(), retention()).prop_map(|(by, reply, retention)| Want::Complete {
            by,
            reply,
            retention
        }),
        3 => proof().prop_map(Want::Renew),
        3 => (proof(), vec(any::<u8>(), 0..4)).prop_map(|(by, bytes)| Want::Save(by, bytes)),
        2 => proof().prop_map(Want::Release),
        2 => proof().prop_map(Want::Abandon),
        1 => Just(Want::Forget),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let deadline = prop_oneof![3 => Just(Deadline::Lease), 1 => Just(Deadline::Expiry)];
    prop_oneof![
        24 => (0..KEYS, want()).prop_map(|(key, want)| Step::Do(key, want)),
        2 => vec((0..KEYS, want()), 0..6).prop_map(Step::Together),
        2 => (0..KEYS).prop_map(Step::Read),
        4 => (0..4_usize).prop_map(Step::Sweep),
        8 => (0..KEYS, deadline, -1..=1_i64).prop_map(|(key, deadline, by)| Step::Jump { key, deadline, by }),
        2 => (-2_000..2_000_i64).prop_map(Step::Shift),
        1 => Just(Step::Reopen),
    ]
}

pub fn sequence() -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 1..120)
}
