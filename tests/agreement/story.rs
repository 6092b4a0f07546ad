//! What a class of records is made of.

use crate::plain::Plain;
use idempotency::{Fingerprint, Reply, StoredResponse};

/// What the story's claims ask for.
pub const REQUEST: Fingerprint = Fingerprint::from_stored(2, [0x5a; 32]);

/// How a record stands at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// There is none, or it has expired.
    Gone,
    /// In progress under its lease.
    Running,
    /// In progress, its lease over.
    Lapsed,
    Completed,
}

/// One command of a story. `by` is the rank of the token that proves it: 1 for the story's first claim.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    Claim { lease: i64, retention: i64 },
    Renew { by: usize },
    Checkpoint { by: usize, bytes: &'static [u8] },
    Complete { by: usize, with: Content, retention: i64 },
    Release { by: usize },
    Abandon { by: usize },
    Forget,
}

/// Which reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Response,
    EmptyResponse,
    Reference,
    Marker,
}

impl Content {
    pub fn reply(self) -> Reply {
        match self {
            Self::Response => Reply::Response(
                StoredResponse::new(201)
                    .with_header("Set-Cookie", "a=1")
                    .with_header("set-cookie", &[0xff, 0x00, b'\n'][..])
                    .with_body(&b"{\"id\": 1}\0"[..]),
            ),
            Self::EmptyResponse => Reply::Response(StoredResponse::new(204)),
            Self::Reference => Reply::Reference("payments/1".to_owned()),
            Self::Marker => Reply::Marker,
        }
    }
}

/// The record that a story leaves. Lease and retention are those of its newest claim.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    pub token: usize,
    pub attempt: u32,
    pub created_at: i64,
    pub terms: (i64, i64),
    pub lease_until: i64,
    pub expires_at: i64,
    pub checkpoint: Option<&'static [u8]>,
    pub completed: Option<(i64, Content)>,
}

impl Left {
    pub fn plain(&self) -> Plain {
        Plain {
            fingerprint: REQUEST,
            token: self.token,
            attempt: self.attempt,
            created_at: self.created_at,
            lease: self.terms.0,
            retention: self.terms.1,
            lease_until: self.lease_until,
            expires_at: self.expires_at,
            checkpoint: self.checkpoint.map(<[u8]>::to_vec),
            completed: self.completed.map(|(at, with)| (at, with.reply())),
        }
    }
}

#[derive(Debug)]
pub struct Class {
    pub name: &'static str,
    pub story: &'static [(i64, Deed)],
    pub left: Option<Left>,
    /// The moments tried, by how the record stands then.
    pub moments: &'static [(Standing, &'static [i64])],
}

impl Class {
    pub fn moments(&self) -> impl Iterator<Item = (Standing, i64)> + use<> {
        let moments = self.moments.iter();
        moments.flat_map(|(standing, moments)| moments.iter().map(|now| (*standing, *now)))
    }

    /// How many claims the story was granted.
    pub fn grants(&self) -> usize {
        self.story.iter().filter(|(_, deed)| matches!(deed, Deed::Claim { .. })).count()
    }
}
