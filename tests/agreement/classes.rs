//! Every class of record, written out: the story that leads there, the record it leaves, and how that record
//! stands at each moment around its deadlines. Times are milliseconds from the story's start; nothing here is
//! computed.

use crate::story::Standing::{self, Completed, Gone, Lapsed, Running};
use crate::story::{Class, Content, Deed, Left};

const CLAIM: Deed = Deed::Claim { lease: 30_000, retention: 60_000 };
/// A takeover's terms differ, so that a record that keeps the first claim's is found out.
const TAKE_OVER: Deed = Deed::Claim { lease: 20_000, retention: 50_000 };

/// In progress for the first time, with nothing saved: what most classes differ from in a few fields.
const FIRST: Left = Left {
    token: 1,
    attempt: 1,
    created_at: 0,
    terms: (30_000, 60_000),
    lease_until: 30_000,
    expires_at: 90_000,
    checkpoint: None,
    completed: None,
};
const SECOND: Left =
    Left { token: 2, attempt: 2, terms: (20_000, 50_000), lease_until: 50_000, expires_at: 100_000, ..FIRST };

/// Moments of records that leave nothing.
const NEVER: &[(Standing, &[i64])] = &[(Gone, &[-5_000, 0, 29_999, 30_000, 90_000])];

const fn saved(by: usize) -> Deed {
    Deed::Checkpoint { by, bytes: b"half way" }
}

const fn completed(by: usize, with: Content) -> Deed {
    Deed::Complete { by, with, retention: 200_000 }
}

pub const CLASSES: &[Class] = &[
    Class { name: "never claimed", story: &[], left: None, moments: NEVER },
    Class {
        name: "released by attempt 1",
        story: &[(0, CLAIM), (10_000, Deed::Release { by: 1 })],
        left: None,
        moments: NEVER,
    },
    Class {
        name: "released by attempt 1 with a checkpoint, lapsed",
        story: &[(0, CLAIM), (5_000, saved(1)), (40_000, Deed::Release { by: 1 })],
        left: None,
        moments: NEVER,
    },
    Class {
        name: "forgotten in progress",
        story: &[(0, CLAIM), (10_000, Deed::Forget)],
        left: None,
        moments: NEVER,
    },
    Class {
        name: "forgotten after completion by a takeover",
        story: &[
            (0, CLAIM),
            (30_000, TAKE_OVER),
            (35_000, completed(2, Content::Response)),
            (36_000, Deed::Forget),
        ],
        left: None,
        moments: NEVER,
    },
    Class {
        name: "in progress, attempt 1",
        story: &[(0, CLAIM)],
        left: Some(FIRST),
        moments: &[
            (Running, &[-5_000, 0, 15_000, 29_999]),
            (Lapsed, &[30_000, 30_001, 89_999]),
            (Gone, &[90_000, 90_001]),
        ],
    },
    Class {
        name: "in progress, attempt 1, with a checkpoint",
        story: &[(0, CLAIM), (10_000, saved(1))],
        left: Some(Left { lease_until: 40_000, expires_at: 100_000, checkpoint: Some(b"half way"), ..FIRST }),
        moments: &[
            (Running, &[10_000, 39_999]),
            (Lapsed, &[40_000, 40_001, 99_999]),
            (Gone, &[100_000, 100_001]),
        ],
    },
    Class {
        name: "in progress, an empty checkpoint in place of a full one",
        story: &[(0, CLAIM), (0, saved(1)), (0, Deed::Checkpoint { by: 1, bytes: b"" })],
        left: Some(Left { checkpoint: Some(b""), ..FIRST }),
        moments: &[(Running, &[29_999]), (Lapsed, &[30_000, 30_001, 89_999]), (Gone, &[90_000, 90_001])],
    },
    Class {
        name: "renewed",
        story: &[(0, CLAIM), (20_000, Deed::Renew { by: 1 })],
        left: Some(Left { lease_until: 50_000, expires_at: 110_000, ..FIRST }),
        moments: &[
            (Running, &[20_000, 30_000, 49_999]),
            (Lapsed, &[50_000, 50_001, 90_000, 109_999]),
            (Gone, &[110_000, 110_001]),
        ],
    },
    Class {
        name: "renewed after its lease, before anybody took over",
        story: &[(0, CLAIM), (45_000, Deed::Renew { by: 1 })],
        left: Some(Left { lease_until: 75_000, expires_at: 135_000, ..FIRST }),
        moments: &[(Running, &[74_999]), (Lapsed, &[75_000, 75_001, 134_999]), (Gone, &[135_000, 135_001])],
    },
    Class {
        name: "renewed while the clock had stepped back",
        story: &[(0, CLAIM), (-5_000, Deed::Renew { by: 1 })],
        left: Some(FIRST),
        moments: &[(Running, &[29_999]), (Lapsed, &[30_000, 30_001, 89_999]), (Gone, &[90_000, 90_001])],
    },
    Class {
        name: "the shortest lease and retention",
        story: &[(0, Deed::Claim { lease: 1, retention: 1 })],
        left: Some(Left { terms: (1, 1), lease_until: 1, expires_at: 2, ..FIRST }),
        moments: &[(Running, &[0]), (Lapsed, &[1]), (Gone, &[2, 3])],
    },
    Class {
        name: "the longest lease and retention",
        story: &[(0, Deed::Claim { lease: 3_155_760_000_000, retention: 3_155_760_000_000 })],
        left: Some(Left {
            terms: (3_155_760_000_000, 3_155_760_000_000),
            lease_until: 3_155_760_000_000,
            expires_at: 6_311_520_000_000,
            ..FIRST
        }),
        moments: &[
            (Running, &[3_155_759_999_999]),
            (Lapsed, &[3_155_760_000_000, 3_155_760_000_001, 6_311_519_999_999]),
            (Gone, &[6_311_520_000_000, 6_311_520_000_001]),
        ],
    },
    Class {
        name: "abandoned by attempt 1",
        story: &[(0, CLAIM), (10_000, Deed::Abandon { by: 1 })],
        left: Some(Left { lease_until: 10_000, ..FIRST }),
        moments: &[
            (Running, &[9_999]),
            (Lapsed, &[10_000, 10_001, 30_000, 89_999]),
            (Gone, &[90_000, 90_001]),
        ],
    },
    Class {
        name: "abandoned by attempt 1 with a checkpoint",
        story: &[(0, CLAIM), (5_000, saved(1)), (10_000, Deed::Abandon { by: 1 })],
        left: Some(Left { lease_until: 10_000, expires_at: 95_000, checkpoint: Some(b"half way"), ..FIRST }),
        moments: &[(Running, &[9_999]), (Lapsed, &[10_000, 10_001, 94_999]), (Gone, &[95_000, 95_001])],
    },
    Class {
        name: "abandoned after its lease",
        story: &[(0, CLAIM), (45_000, Deed::Abandon { by: 1 })],
        left: Some(FIRST),
        moments: &[(Running, &[29_999]), (Lapsed, &[30_000, 30_001, 89_999]), (Gone, &[90_000, 90_001])],
    },
    Class {
        name: "taken over at the end of the lease",
        story: &[(0, CLAIM), (30_000, TAKE_OVER)],
        left: Some(SECOND),
        moments: &[
            (Running, &[20_000, 30_000, 49_999]),
            (Lapsed, &[50_000, 50_001, 99_999]),
            (Gone, &[100_000, 100_001]),
        ],
    },
    Class {
        name: "taken over in the last moment before expiry, with the checkpoint",
        story: &[(0, CLAIM), (10_000, saved(1)), (99_999, TAKE_OVER)],
        left: Some(Left {
            lease_until: 119_999,
            expires_at: 169_999,
            checkpoint: Some(b"half way"),
            ..SECOND
        }),
        moments: &[
            (Running, &[119_998]),
            (Lapsed, &[119_999, 120_000, 169_998]),
            (Gone, &[169_999, 170_000]),
        ],
    },
    Class {
        name: "taken over at once after an abandonment, renewed, with a checkpoint of its own",
        story: &[
            (0, CLAIM),
            (5_000, saved(1)),
            (10_000, Deed::Abandon { by: 1 }),
            (10_000, TAKE_OVER),
            (15_000, Deed::Checkpoint { by: 2, bytes: b"further" }),
            (25_000, Deed::Renew { by: 2 }),
        ],
        left: Some(Left { lease_until: 45_000, expires_at: 95_000, checkpoint: Some(b"further"), ..SECOND }),
        moments: &[(Running, &[44_999]), (Lapsed, &[45_000, 45_001, 94_999]), (Gone, &[95_000, 95_001])],
    },
    Class {
        name: "released after a takeover",
        story: &[(0, CLAIM), (10_000, saved(1)), (40_000, TAKE_OVER), (47_000, Deed::Release { by: 2 })],
        left: Some(Left {
            lease_until: 47_000,
            expires_at: 110_000,
            checkpoint: Some(b"half way"),
            ..SECOND
        }),
        moments: &[(Running, &[46_999]), (Lapsed, &[47_000, 47_001, 109_999]), (Gone, &[110_000, 110_001])],
    },
    Class {
        name: "abandoned after a takeover",
        story: &[(0, CLAIM), (30_000, TAKE_OVER), (31_000, Deed::Abandon { by: 2 })],
        left: Some(Left { lease_until: 31_000, ..SECOND }),
        moments: &[(Running, &[30_999]), (Lapsed, &[31_000, 31_001, 99_999]), (Gone, &[100_000, 100_001])],
    },
    Class {
        name: "taken over twice",
        story: &[(0, CLAIM), (30_000, TAKE_OVER), (50_000, TAKE_OVER)],
        left: Some(Left { token: 3, attempt: 3, lease_until: 70_000, expires_at: 120_000, ..SECOND }),
        moments: &[(Running, &[69_999]), (Lapsed, &[70_000, 70_001, 119_999]), (Gone, &[120_000, 120_001])],
    },
    Class {
        name: "claimed anew over an expired claim with a checkpoint",
        story: &[(0, CLAIM), (0, saved(1)), (90_000, TAKE_OVER)],
        left: Some(Left {
            attempt: 1,
            created_at: 90_000,
            lease_until: 110_000,
            expires_at: 160_000,
            ..SECOND
        }),
        moments: &[
            (Running, &[109_999]),
            (Lapsed, &[110_000, 110_001, 159_999]),
            (Gone, &[160_000, 160_001]),
        ],
    },
    Class {
        name: "claimed anew over an expired completion",
        story: &[(0, CLAIM), (10_000, completed(1, Content::Response)), (210_000, TAKE_OVER)],
        left: Some(Left {
            attempt: 1,
            created_at: 210_000,
            lease_until: 230_000,
            expires_at: 280_000,
            ..SECOND
        }),
        moments: &[
            (Running, &[229_999]),
            (Lapsed, &[230_000, 230_001, 279_999]),
            (Gone, &[280_000, 280_001]),
        ],
    },
    Class {
        name: "completed by attempt 1",
        story: &[(0, CLAIM), (10_000, completed(1, Content::Response))],
        left: Some(Left { expires_at: 210_000, completed: Some((10_000, Content::Response)), ..FIRST }),
        moments: &[
            (Completed, &[-5_000, 10_000, 29_999, 30_000, 30_001, 209_999]),
            (Gone, &[210_000, 210_001]),
        ],
    },
    Class {
        name: "completed with a checkpoint, for less than the rest of the lease",
        story: &[
            (0, CLAIM),
            (0, saved(1)),
            (10_000, Deed::Complete { by: 1, with: Content::EmptyResponse, retention: 5_000 }),
        ],
        left: Some(Left { expires_at: 15_000, completed: Some((10_000, Content::EmptyResponse)), ..FIRST }),
        moments: &[(Completed, &[14_999]), (Gone, &[15_000, 15_001, 29_999, 30_000, 30_001])],
    },
    Class {
        name: "completed after its lease, before anybody took over",
        story: &[(0, CLAIM), (89_999, Deed::Complete { by: 1, with: Content::Reference, retention: 1 })],
        left: Some(Left { completed: Some((89_999, Content::Reference)), ..FIRST }),
        moments: &[(Completed, &[29_999, 30_000, 30_001, 89_999]), (Gone, &[90_000, 90_001])],
    },
    Class {
        name: "completed by a takeover, with the checkpoint",
        story: &[(0, CLAIM), (0, saved(1)), (30_000, TAKE_OVER), (40_000, completed(2, Content::Marker))],
        left: Some(Left { expires_at: 240_000, completed: Some((40_000, Content::Marker)), ..SECOND }),
        moments: &[(Completed, &[40_000, 49_999, 50_000, 50_001, 239_999]), (Gone, &[240_000, 240_001])],
    },
    Class {
        name: "completed after its own abandonment",
        story: &[(0, CLAIM), (10_000, Deed::Abandon { by: 1 }), (20_000, completed(1, Content::Response))],
        left: Some(Left {
            lease_until: 10_000,
            expires_at: 220_000,
            completed: Some((20_000, Content::Response)),
            ..FIRST
        }),
        moments: &[(Completed, &[9_999, 10_000, 10_001, 219_999]), (Gone, &[220_000, 220_001])],
    },
];
