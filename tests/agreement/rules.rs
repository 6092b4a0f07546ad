//! The two tables of `docs/design.md`, section "Semantics", cell by cell.
//!
//! How a record stands at a moment is written down with its [class](crate::classes), so that no deadline is
//! compared here.

use crate::plain::{Done, Plain, Told};
use crate::story::{Content, REQUEST, Standing};
use idempotency::{Fingerprint, LostReason};

/// Terms of the claims under test: none of a story's, so that a claim which keeps the old ones is found out.
pub const LEASE: i64 = 7_000;
pub const RETENTION: i64 = 11_000;
/// The retention that completions under test ask for.
pub const REPLAY: i64 = 13_000;

/// What a claim asks for, against what the record was claimed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asks {
    Same,
    /// Another digest, in its last bit only.
    OtherDigest,
    /// The same digest, in another format.
    OtherFormat,
}

impl Asks {
    pub const ALL: [Self; 3] = [Self::Same, Self::OtherDigest, Self::OtherFormat];

    pub fn fingerprint(self) -> Fingerprint {
        let mut digest = *REQUEST.digest();
        match self {
            Self::Same => REQUEST,
            Self::OtherDigest => {
                digest[31] ^= 1;
                Fingerprint::from_stored(REQUEST.format(), digest)
            }
            Self::OtherFormat => Fingerprint::from_stored(255, digest),
        }
    }
}

/// Whose token a command shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Token {
    /// The record's own; if there is none left, the last one it had.
    Mine,
    /// An earlier claim's of the same key.
    Superseded,
    /// That of another key's record, older than all of this one's.
    Elsewhere,
    /// One above every token granted.
    NeverIssued,
}

impl Token {
    pub const ALL: [Self; 4] = [Self::Mine, Self::Superseded, Self::Elsewhere, Self::NeverIssued];
}

/// What is done with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    Complete,
    Renew,
    Checkpoint,
    Release,
    Abandon,
}

/// One question put to a store.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    Claim(Asks),
    Complete(Token, Content),
    Renew(Token),
    Checkpoint(Token, &'static [u8]),
    Release(Token),
    Abandon(Token),
    Forget,
    Read,
    Sweep(usize),
}

impl Asked {
    /// Every question with a token.
    pub fn with(token: Token) -> [Self; 10] {
        [
            Self::Complete(token, Content::Response),
            Self::Complete(token, Content::EmptyResponse),
            Self::Complete(token, Content::Reference),
            Self::Complete(token, Content::Marker),
            Self::Renew(token),
            Self::Checkpoint(token, b"new"),
            Self::Checkpoint(token, b""),
            Self::Checkpoint(token, b"half way"),
            Self::Release(token),
            Self::Abandon(token),
        ]
    }

    /// Every question without one.
    pub const OPEN: [Self; 8] = [
        Self::Claim(Asks::Same),
        Self::Claim(Asks::OtherDigest),
        Self::Claim(Asks::OtherFormat),
        Self::Forget,
        Self::Read,
        Self::Sweep(0),
        Self::Sweep(1),
        Self::Sweep(10),
    ];
}

/// What a cell of the tables says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cell {
    Grant,
    TakeOver,
    Replay,
    Running,
    Mismatch,
    Record,
    Already,
    Renew,
    Save,
    Delete,
    Lapse,
    Gone,
    Lost(LostReason),
}
use Cell::{
    Already, Delete, Gone, Grant, Lapse, Lost, Mismatch, Record, Renew, Replay, Running, Save, TakeOver,
};
use LostReason::{CompletedByThisClaim as ByMe, Running as Other};

const STANDINGS: [Standing; 4] = [Standing::Gone, Standing::Running, Standing::Lapsed, Standing::Completed];

/// A claim, by how the record stands.
#[rustfmt::skip]
const CLAIMS: [(Asks, [Cell; 4]); 3] = [
    //                    gone   running   lapsed    completed
    (Asks::Same,        [Grant, Running,  TakeOver, Replay]),
    (Asks::OtherDigest, [Grant, Mismatch, Mismatch, Mismatch]),
    (Asks::OtherFormat, [Grant, Mismatch, Mismatch, Mismatch]),
];

/// Whoever shows the record's own token; a release by a later attempt stands below.
#[rustfmt::skip]
const OWNERS: [(Act, [Cell; 4]); 5] = [
    //                  gone                    running lapsed  completed
    (Act::Complete,   [Lost(LostReason::Gone), Record, Record, Already]),
    (Act::Renew,      [Lost(LostReason::Gone), Renew,  Renew,  Lost(ByMe)]),
    (Act::Checkpoint, [Lost(LostReason::Gone), Save,   Save,   Lost(ByMe)]),
    (Act::Release,    [Gone,                   Delete, Delete, Lost(ByMe)]),
    (Act::Abandon,    [Gone,                   Lapse,  Lapse,  Lost(ByMe)]),
];

/// The same for a release by attempt 2 and later: an earlier attempt may have had the effect.
const LATER_RELEASE: [Cell; 4] = [Gone, Lapse, Lapse, Lost(ByMe)];

/// Whoever shows another token.
#[rustfmt::skip]
const STRANGERS: [(Act, [Cell; 4]); 5] = [
    //                  gone                    running      lapsed       completed
    (Act::Complete,   [Lost(LostReason::Gone), Lost(Other), Lost(Other), Lost(LostReason::Completed)]),
    (Act::Renew,      [Lost(LostReason::Gone), Lost(Other), Lost(Other), Lost(LostReason::Completed)]),
    (Act::Checkpoint, [Lost(LostReason::Gone), Lost(Other), Lost(Other), Lost(LostReason::Completed)]),
    (Act::Release,    [Gone,                   Lost(Other), Lost(Other), Lost(LostReason::Completed)]),
    (Act::Abandon,    [Gone,                   Lost(Other), Lost(Other), Lost(LostReason::Completed)]),
];

fn cell<R: Copy + PartialEq>(table: &[(R, [Cell; 4])], row: R, standing: Standing) -> Cell {
    let (_, cells) = table.iter().find(|(name, _)| *name == row).expect("a row for every command");
    in_column(cells, standing)
}

fn in_column(cells: &[Cell; 4], standing: Standing) -> Cell {
    cells[STANDINGS.iter().position(|one| *one == standing).expect("a column for every standing")]
}

/// What is to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    Keep,
    Put(Plain),
    Delete,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub told: Told,
    pub written: Written,
}

/// A record at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// What is stored, expired or not.
    pub stored: Option<&'a Plain>,
    pub standing: Standing,
    pub now: i64,
    /// The rank that the next token gets.
    pub next: usize,
}

/// What the tables say to `asked`. `own` says whether the token it shows is the record's.
pub fn expected(scene: Scene<'_>, asked: Asked, own: bool) -> Expected {
    let act = |act: Act| {
        let attempt = scene.stored.map_or(1, |record| record.attempt);
        match (own, act) {
            (false, _) => cell(&STRANGERS, act, scene.standing),
            (true, Act::Release) if attempt > 1 => in_column(&LATER_RELEASE, scene.standing),
            (true, _) => cell(&OWNERS, act, scene.standing),
        }
    };
    match asked {
        Asked::Claim(asks) => claim(scene, cell(&CLAIMS, asks, scene.standing), asks),
        Asked::Complete(_, content) => complete(scene, act(Act::Complete), content),
        Asked::Renew(_) => keep_going(scene, act(Act::Renew), None),
        Asked::Checkpoint(_, bytes) => keep_going(scene, act(Act::Checkpoint), Some(bytes)),
        Asked::Release(_) => end(scene, act(Act::Release), Told::Released),
        Asked::Abandon(_) => end(scene, act(Act::Abandon), Told::Abandoned),
        Asked::Forget if scene.standing == Standing::Gone => keep(Told::Forgotten { existed: false }),
        Asked::Forget => Expected { told: Told::Forgotten { existed: true }, written: Written::Delete },
        Asked::Read if scene.standing == Standing::Gone => keep(Told::Seen(None)),
        Asked::Read => keep(Told::Seen(Some((scene.record().clone(), scene.now)))),
        Asked::Sweep(limit) => sweep(scene, limit),
    }
}

impl Scene<'_> {
    #[track_caller]
    fn record(&self) -> &Plain {
        self.stored.expect("a record that stands")
    }
}

fn keep(told: Told) -> Expected {
    Expected { told, written: Written::Keep }
}

fn claim(scene: Scene<'_>, cell: Cell, asks: Asks) -> Expected {
    let (attempt, created_at, checkpoint) = match cell {
        Grant => (1, scene.now, None),
        TakeOver => {
            let record = scene.record();
            (record.attempt + 1, record.created_at, record.checkpoint.clone())
        }
        other => return refused(scene.record(), other, asks, scene.now),
    };
    let lease_until = scene.now + LEASE;
    Expected {
        told: Told::Claimed { token: scene.next, attempt, lease_until, checkpoint: checkpoint.clone() },
        written: Written::Put(Plain {
            fingerprint: asks.fingerprint(),
            token: scene.next,
            attempt,
            created_at,
            lease: LEASE,
            retention: RETENTION,
            lease_until,
            expires_at: lease_until + RETENTION,
            checkpoint,
            completed: None,
        }),
    }
}

fn refused(record: &Plain, cell: Cell, asks: Asks, now: i64) -> Expected {
    keep(match cell {
        Running => Told::InProgress { lease_until: record.lease_until, attempt: record.attempt, now },
        Replay => Told::Completed(done(record)),
        Mismatch => Told::Mismatch {
            created_at: record.created_at,
            completed: record.completed.is_some(),
            stored_format: 2,
            presented_format: if asks == Asks::OtherFormat { 255 } else { 2 },
        },
        other => panic!("{other:?} is no answer to a claim"),
    })
}

fn complete(scene: Scene<'_>, cell: Cell, content: Content) -> Expected {
    match cell {
        Record => {
            let record = Plain {
                checkpoint: None,
                completed: Some((scene.now, content.reply())),
                expires_at: scene.now + REPLAY,
                ..scene.record().clone()
            };
            Expected { told: Told::Recorded(done(&record)), written: Written::Put(record) }
        }
        Already => keep(Told::AlreadyRecorded(done(scene.record()))),
        Lost(reason) => keep(Told::Lost(reason)),
        other => panic!("{other:?} is no answer to a completion"),
    }
}

fn keep_going(scene: Scene<'_>, cell: Cell, bytes: Option<&[u8]>) -> Expected {
    match cell {
        Renew | Save => {
            let record = scene.record();
            let lease_until = i64::max(record.lease_until, scene.now + record.lease);
            let written = Written::Put(Plain {
                lease_until,
                expires_at: i64::max(record.expires_at, lease_until + record.retention),
                checkpoint: bytes.map(<[u8]>::to_vec).or_else(|| record.checkpoint.clone()),
                ..record.clone()
            });
            Expected { told: Told::Renewed { lease_until }, written }
        }
        Lost(reason) => keep(Told::Lost(reason)),
        other => panic!("{other:?} is no answer to a renewal"),
    }
}

fn end(scene: Scene<'_>, cell: Cell, told: Told) -> Expected {
    match cell {
        Delete => Expected { told, written: Written::Delete },
        Lapse => {
            let record = scene.record();
            let lease_until = i64::min(record.lease_until, scene.now);
            Expected { told, written: Written::Put(Plain { lease_until, ..record.clone() }) }
        }
        Gone => keep(Told::AlreadyGone),
        Lost(reason) => keep(Told::Lost(reason)),
        other => panic!("{other:?} ends no claim"),
    }
}

fn sweep(scene: Scene<'_>, limit: usize) -> Expected {
    let expired = scene.stored.is_some() && scene.standing == Standing::Gone;
    match (expired, limit) {
        (true, 0) => keep(Told::Swept { removed: 0, more: true }),
        (true, _) => Expected { told: Told::Swept { removed: 1, more: false }, written: Written::Delete },
        (false, _) => keep(Told::Swept { removed: 0, more: false }),
    }
}

fn done(record: &Plain) -> Done {
    let (completed_at, reply) = record.completed.clone().expect("a completed record");
    Done { reply, created_at: record.created_at, completed_at, expires_at: record.expires_at }
}
