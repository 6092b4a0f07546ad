//! The core without any store: the transition itself, its companions, and what a record must meet.

use crate::plain::{Plain, Told, moment};
use crate::rules::{Asked, Written};
use crate::subjects::{command, period};
use crate::{Row, rows};
use bytes::Bytes;
use idempotency::{FencingToken, LostReason, Outcome, Record, Reply, State, Timestamp, Write, transition};

/// A token for each rank.
fn ranks(grants: usize) -> Vec<FencingToken> {
    (0..=grants).map(numbered).collect()
}

fn numbered(rank: usize) -> FencingToken {
    let number = 1_000 + 10 * i64::try_from(rank).expect("a small rank");
    FencingToken::new(number).expect("a token")
}

/// The record, without any command that led to it.
fn made(plain: &Plain) -> Record {
    let (completed_at, reply) =
        plain.completed.clone().map_or((None, None), |(at, reply)| (Some(at), Some(reply)));
    Record {
        fingerprint: plain.fingerprint,
        state: if reply.is_some() { State::Completed } else { State::InProgress },
        token: numbered(plain.token),
        attempt: plain.attempt,
        created_at: moment(plain.created_at),
        lease: period(plain.lease),
        retention: period(plain.retention),
        lease_until: moment(plain.lease_until),
        completed_at: completed_at.map(moment),
        expires_at: moment(plain.expires_at),
        checkpoint: plain.checkpoint.clone().map(Bytes::from),
        reply,
    }
}

/// The record that a row is about, the tokens granted until then, and the row's command, if the core has one
/// for it.
fn scene(row: &Row) -> Option<(Option<Record>, Vec<FencingToken>, transition::Command)> {
    let issued = ranks(row.class.grants());
    let command = command(row.asked, &issued)?;
    Some((row.class.left.map(|left| made(&left.plain())), issued, command))
}

#[test]
fn apply_decides_what_the_table_says() {
    let mut decided = 0;
    for row in rows() {
        let Some((record, mut issued, command)) = scene(&row) else { continue };
        let next = numbered(issued.len());
        issued.push(next);
        let transition = transition::apply(record.as_ref(), &command, moment(row.now), next);
        let expected = row.expected(record.as_ref().map(|record| Plain::of(record, &issued)).as_ref());
        assert_eq!(Told::of(transition.outcome, &issued), expected.told, "{row}");
        let written = match transition.write {
            Write::Keep => Written::Keep,
            Write::Put(record) => {
                assert_eq!(record.check(), Ok(()), "{row}");
                Written::Put(Plain::of(&record, &issued))
            }
            Write::Delete => Written::Delete,
        };
        assert_eq!(written, expected.written, "{row}");
        decided += 1;
    }
    let without_command = rows().filter(|row| matches!(row.asked, Asked::Read | Asked::Sweep(_))).count();
    assert_eq!(decided + without_command, rows().count());
}

#[test]
fn grants_foretells_whether_apply_grants() {
    let (mut granted, mut refused) = (0, 0);
    for row in rows() {
        let Some((record, issued, command)) = scene(&row) else { continue };
        let (now, next) = (moment(row.now), numbered(issued.len()));
        let outcome = transition::apply(record.as_ref(), &command, now, next).outcome;
        let foretold = transition::grants(record.as_ref(), &command, now);
        assert_eq!(foretold, matches!(outcome, Outcome::Claimed(_)), "{row}: {outcome:?}");
        *(if foretold { &mut granted } else { &mut refused }) += 1;
    }
    assert!(granted > 0 && refused > 0, "{granted} granted, {refused} refused");
}

#[test]
fn a_token_is_used_by_a_grant_and_by_nothing_else() {
    for row in rows() {
        let Some((record, issued, command)) = scene(&row) else { continue };
        let (now, next) = (moment(row.now), numbered(issued.len()));
        let with = |token| transition::apply(record.as_ref(), &command, now, token);
        if transition::grants(record.as_ref(), &command, now) {
            let Write::Put(granted) = with(next).write else { panic!("{row}: a grant that stores nothing") };
            assert_eq!(granted.token, next, "{row}");
        } else {
            assert_eq!(with(next), with(FencingToken::FIRST), "{row}");
        }
    }
}

#[test]
fn lost_gives_the_reason_that_a_renewal_would_get() {
    let (mut lost, mut held) = (0, 0);
    for row in rows().filter(|row| matches!(row.asked, Asked::Renew(_))) {
        let Some((record, _, command)) = scene(&row) else { continue };
        let transition::Command::Renew { token } = command else { panic!("{row}: {command:?}") };
        let told = row.expected(row.class.left.map(|left| left.plain()).as_ref()).told;
        let reason: Option<LostReason> = match told {
            Told::Lost(reason) => Some(reason),
            _ => None,
        };
        assert_eq!(transition::lost(record.as_ref(), token, moment(row.now)), reason, "{row}");
        *(if reason.is_some() { &mut lost } else { &mut held }) += 1;
    }
    assert!(lost > 0 && held > 0, "{lost} lost, {held} held");
}

#[test]
fn expiry_and_lapse_are_the_standings_that_the_table_names() {
    use crate::story::Standing;
    for row in rows().filter(|row| matches!(row.asked, Asked::Read)) {
        let Some(left) = row.class.left else { continue };
        let (record, now) = (made(&left.plain()), moment(row.now));
        assert_eq!(record.is_expired(now), row.standing == Standing::Gone, "{row}");
        if row.standing != Standing::Gone {
            assert_eq!(record.is_lapsed(now), row.standing == Standing::Lapsed, "{row}");
        }
    }
}

#[test]
fn nothing_wraps_at_either_end_of_time() {
    for now in [0, 1, i64::MAX - 1, i64::MAX] {
        let now = Timestamp::from_millis(now);
        for millis in [1, 3_155_760_000_000] {
            let claim = transition::Command::Claim {
                fingerprint: crate::story::REQUEST,
                lease: period(millis),
                retention: period(millis),
            };
            let Write::Put(record) = transition::apply(None, &claim, now, FencingToken::FIRST).write else {
                panic!("a claim of nothing is granted")
            };
            assert_eq!(record.check(), Ok(()), "{record:?}");
            assert!(record.lease_until >= now && record.expires_at >= record.lease_until, "{record:?}");
        }
    }
}

#[test]
fn the_number_of_attempts_stops_at_its_highest() {
    let lapsed =
        rows().find_map(|row| row.class.left.filter(|left| left.completed.is_none())).expect("a class");
    let record = Record { attempt: u32::MAX, ..made(&lapsed.plain()) };
    let claim = transition::Command::Claim {
        fingerprint: record.fingerprint,
        lease: record.lease,
        retention: record.retention,
    };
    let taken_over = transition::apply(Some(&record), &claim, record.lease_until, numbered(9));
    let Outcome::Claimed(grant) = taken_over.outcome else { panic!("{:?}", taken_over.outcome) };
    assert_eq!(grant.attempt, u32::MAX);
}

#[test]
fn a_record_that_breaks_an_invariant_is_found_and_each_break_has_its_own_name() {
    let left = |completed: bool| {
        let mut classes = crate::classes::CLASSES.iter().filter_map(|class| class.left);
        made(&classes.find(|left| left.completed.is_some() == completed).expect("such a class").plain())
    };
    let (running, completed) = (left(false), left(true));
    let reply = Some(Reply::Marker);
    let broken = [
        vec![
            Record { reply: reply.clone(), ..running.clone() },
            Record { reply: None, ..completed.clone() },
            Record { state: State::InProgress, ..completed.clone() },
            Record { state: State::Completed, ..running.clone() },
        ],
        vec![
            Record { completed_at: Some(moment(1)), ..running.clone() },
            Record { completed_at: None, ..completed.clone() },
        ],
        vec![Record { checkpoint: Some(Bytes::new()), ..completed.clone() }],
        vec![Record { expires_at: moment(29_999), lease_until: moment(30_000), ..running.clone() }],
        vec![Record { attempt: 0, ..running.clone() }, Record { attempt: 0, ..completed.clone() }],
    ];
    let mut names = Vec::new();
    for same in &broken {
        let found: Vec<_> =
            same.iter().map(|record| (record.check().expect_err("a violation"), record)).collect();
        for (violation, record) in &found {
            assert_eq!(*violation, found[0].0, "{record:?}");
        }
        assert!(!names.contains(&found[0].0), "{}", found[0].0);
        names.push(found[0].0);
    }
    assert_eq!(FencingToken::new(0), None);
    assert_eq!(FencingToken::new(-1), None);

    let at_once = Record { expires_at: running.lease_until, ..running };
    assert_eq!(at_once.check(), Ok(()), "may expire with its lease");
    let short = Record { expires_at: moment(1), lease_until: moment(30_000), ..completed };
    assert_eq!(short.check(), Ok(()), "a reply may be replayed for less than the lease");
}
