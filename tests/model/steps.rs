//! What a random sequence is made of.

use crate::flaky::Fate;
use idempotency::{Fingerprint, Reply, StoredResponse};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;

/// How many keys a sequence uses; the last two differ in their scope only.
pub const KEYS: usize = 3;

#[derive(Clone, Debug)]
pub enum Step {
    Do {
        key: usize,
        want: Want,
        way: Way,
        fate: Fate,
    },
    /// One batch.
    Together(Vec<(usize, Want)>),
    /// One `try_claim_many`, through a handle with this lease and retention.
    ClaimMany {
        requests: Vec<(usize, u8)>,
        lease: i64,
        retention: i64,
    },
    /// In a transaction of the application's.
    Inside {
        key: usize,
        request: u8,
        lease: i64,
        retention: i64,
        what: Inside,
    },
    Read(usize, Handle),
    /// A ticket is turned into a claim again.
    Resume(usize, Proof),
    /// A ticket for this key, from another store.
    Foreign(usize),
    /// Statistics, and at most so many claims that look stuck.
    Survey(usize),
    /// Sweeps of at most so many, until there is no more. Which ones the first of them takes is the backend's
    /// choice, and no difference once the last is over. One that is not answered is for all of them.
    Sweep(usize, Fate),
    /// To a deadline of the key's record: a millisecond before it, to it, or a millisecond after it.
    Jump {
        key: usize,
        deadline: Deadline,
        by: i64,
    },
    /// Forward, or back.
    Shift(i64),
    /// Closes all handles and opens the store again.
    Reopen,
}

/// How a command is given.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// To the backend, as it is.
    Command(Handle),
    /// By the store's methods; with a token, by its ticket.
    Method(Handle),
}

/// Two handles on one store; in a file, each has connections of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handle {
    /// Calls of this one may fail.
    First,
    Second,
}

/// What is done in a transaction.
#[derive(Clone, Copy, Debug)]
pub enum Inside {
    /// `atomically`, with work that gives this reply.
    Atomically(u8),
    /// `atomically`, with work that fails.
    AtomicallyFails,
    /// `try_claim_in`, perhaps completed; the transaction is committed or rolled back.
    ClaimIn { reply: Option<u8>, commits: bool },
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

fn request() -> impl Strategy<Value = u8> {
    prop_oneof![10 => Just(0_u8), 1 => Just(1), 1 => Just(2)]
}

fn proof() -> impl Strategy<Value = Proof> {
    prop_oneof![
        12 => Just(Proof::Newest),
        2 => (1..3_usize).prop_map(Proof::Older),
        1 => any::<usize>().prop_map(Proof::Any),
        1 => Just(Proof::NeverIssued),
    ]
}

fn claim() -> impl Strategy<Value = Want> {
    (request(), lease(), retention()).prop_map(|(request, lease, retention)| Want::Claim {
        request,
        lease,
        retention,
    })
}

fn want() -> impl Strategy<Value = Want> {
    prop_oneof![
        10 => claim(),
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

/// What shrinks most comes first: a plain command to the first handle, answered.
fn way() -> impl Strategy<Value = (Way, Fate)> {
    let handle = prop_oneof![3 => Just(Handle::First), 1 => Just(Handle::Second)];
    let fate = prop_oneof![
        12 => Just(Fate::Answered),
        1 => Just(Fate::Refused),
        2 => Just(Fate::DoneUnheard),
        2 => Just(Fate::NotDoneUnheard),
    ];
    (any::<bool>(), handle, fate).prop_map(|(by_method, handle, fate)| {
        let way = if by_method { Way::Method(handle) } else { Way::Command(handle) };
        (way, if handle == Handle::First { fate } else { Fate::Answered })
    })
}

fn inside() -> impl Strategy<Value = Step> {
    let what = prop_oneof![
        any::<u8>().prop_map(Inside::Atomically),
        Just(Inside::AtomicallyFails),
        (any::<Option<u8>>(), any::<bool>()).prop_map(|(reply, commits)| Inside::ClaimIn { reply, commits }),
    ];
    (0..KEYS, request(), lease(), retention(), what).prop_map(|(key, request, lease, retention, what)| {
        Step::Inside { key, request, lease, retention, what }
    })
}

fn claim_many() -> impl Strategy<Value = Step> {
    (vec((0..KEYS, request()), 0..4), lease(), retention())
        .prop_map(|(requests, lease, retention)| Step::ClaimMany { requests, lease, retention })
}

/// The next step: `recorded` are the keys with a record, whose deadlines can be jumped to.
pub fn step(recorded: Vec<usize>, on_file: bool) -> BoxedStrategy<Step> {
    let handle = prop_oneof![Just(Handle::First), Just(Handle::Second)];
    let fate = prop_oneof![4 => Just(Fate::Answered), 1 => way().prop_map(|(_, fate)| fate)];
    let sweep = (0..=KEYS, fate).prop_map(|(limit, fate)| {
        let limit = if fate == Fate::Answered { limit } else { KEYS };
        Step::Sweep(limit, fate)
    });
    let call =
        (0..KEYS, want(), way()).prop_map(|(key, want, (way, fate))| Step::Do { key, want, way, fate });
    let mut steps = vec![
        (28, call.boxed()),
        (2, vec((0..KEYS, want()), 0..6).prop_map(Step::Together).boxed()),
        (1, claim_many().boxed()),
        (3, (0..KEYS, handle).prop_map(|(key, handle)| Step::Read(key, handle)).boxed()),
        (2, (0..KEYS, proof()).prop_map(|(key, proof)| Step::Resume(key, proof)).boxed()),
        (1, (0..KEYS).prop_map(Step::Foreign).boxed()),
        (1, (0..=KEYS).prop_map(Step::Survey).boxed()),
        (4, sweep.boxed()),
        (2, (-2_000..2_000_i64).prop_map(Step::Shift).boxed()),
    ];
    if !recorded.is_empty() {
        let deadline = prop_oneof![3 => Just(Deadline::Lease), 1 => Just(Deadline::Expiry)];
        let jump = (proptest::sample::select(recorded), deadline, -1..=1_i64);
        steps.push((8, jump.prop_map(|(key, deadline, by)| Step::Jump { key, deadline, by }).boxed()));
    }
    if on_file {
        steps.extend([(3, inside().boxed()), (1, Just(Step::Reopen).boxed())]);
    }
    Union::new_weighted(steps).boxed()
}
