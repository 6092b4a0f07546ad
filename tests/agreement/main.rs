//! The one-step table: every class of record, at every moment around its deadlines, asked every question. The
//! core, the memory backend and the SQLite backend must each answer and store what the tables of
//! `docs/design.md` say; so they agree with each other.
//!
//! Exhaustive and without randomness: there is no seed to print.

mod classes;
mod inspected;
mod plain;
mod pure;
mod rules;
mod story;
mod subjects;

use classes::CLASSES;
use plain::Plain;
use rules::{Asked, Scene, Token, Written, expected};
use std::collections::HashSet;
use story::{Class, Standing};

/// One row of the table.
#[derive(Debug)]
struct Row {
    class: &'static Class,
    now: i64,
    standing: Standing,
    asked: Asked,
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {:?} at {}: {:?}", self.class.name, self.standing, self.now, self.asked)
    }
}

impl Row {
    /// The token it shows, if it shows one.
    fn token(&self) -> Option<Token> {
        match self.asked {
            Asked::Complete(token, _)
            | Asked::Renew(token)
            | Asked::Checkpoint(token, _)
            | Asked::Release(token)
            | Asked::Abandon(token) => Some(token),
            Asked::Claim(_) | Asked::Forget | Asked::Read | Asked::Sweep(_) => None,
        }
    }

    fn expected(&self, stored: Option<&Plain>) -> rules::Expected {
        let scene = Scene { stored, standing: self.standing, now: self.now, next: self.class.grants() + 1 };
        expected(scene, self.asked, self.token() == Some(Token::Mine))
    }
}

/// The tokens that a class has to show.
fn tokens(class: &Class) -> impl Iterator<Item = Token> + use<> {
    let grants = class.grants();
    Token::ALL.into_iter().filter(move |token| match token {
        Token::Mine => grants >= 1,
        Token::Superseded => grants >= 2,
        Token::Elsewhere | Token::NeverIssued => true,
    })
}

/// Every row, in the order class, moment, question.
fn rows() -> impl Iterator<Item = Row> {
    CLASSES.iter().flat_map(|class| {
        class.moments().flat_map(move |(standing, now)| {
            let asked = Asked::OPEN.into_iter().chain(tokens(class).flat_map(Asked::with));
            asked.map(move |asked| Row { class, now, standing, asked })
        })
    })
}

#[test]
fn every_backend_answers_and_stores_what_the_table_says() {
    let mut count = 0;
    for mut subject in subjects::all() {
        let mut played = 0;
        for row in rows() {
            let left = row.class.left.map(|left| left.plain());
            let about = format!("{}: {row}", subject.name);
            subject.play(row.class);
            assert_eq!(subject.stored(), left, "{about}: before the question");

            subject.set_clock(row.now);
            let expected = row.expected(left.as_ref());
            assert_eq!(subject.ask(row.asked), Ok(expected.told), "{about}");
            let stored = match expected.written {
                Written::Keep => left,
                Written::Put(record) => Some(record),
                Written::Delete => None,
            };
            assert_eq!(subject.stored(), stored, "{about}: what is stored");

            subject.assert_bystanders_untouched(&about);
            subject.reset();
            played += 1;
        }
        println!("{}: {played} rows", subject.name);
        assert!(played >= least_rows(), "{}: {played} rows, of at least {}", subject.name, least_rows());
        count += 1;
    }
    assert_eq!(count, subjects::COUNT, "executors");
}

/// How many rows the dimensions make at the least, counted by hand and not by the loop that plays them.
const fn least_rows() -> usize {
    const RECORDS: usize = 23; // classes that leave a record with two deadlines at some distance
    const DEADLINES: usize = 2 * 3; // lease and expiry, a millisecond before, at, and after
    const TOKENS: usize = 3; // mine, another record's, one never issued; after a takeover the superseded one too
    const BY_TOKEN: usize = 4 + 1 + 3 + 1 + 1; // complete with each reply, renew, checkpoints, release, abandon
    const OPEN: usize = 3 + 1 + 1 + 3; // claim with each fingerprint, forget, read, sweep with each limit
    RECORDS * DEADLINES * (TOKENS * BY_TOKEN + OPEN)
}

#[test]
fn every_deadline_is_tried_a_millisecond_before_at_and_after() {
    for class in CLASSES {
        let Some(left) = class.left else { continue };
        for deadline in [left.lease_until, left.expires_at] {
            for now in [deadline - 1, deadline, deadline + 1] {
                assert!(class.moments().any(|(_, moment)| moment == now), "{}: {now}", class.name);
            }
        }
    }
}

#[test]
fn every_way_of_standing_meets_every_question_with_every_kind_of_token() {
    let kind = |row: &Row| (row.standing, std::mem::discriminant(&row.asked), row.token());
    let kinds: HashSet<_> = rows().map(|row| kind(&row)).collect();
    // Four standings, five commands with each of four tokens, and claim, forget, read and sweep without one.
    assert_eq!(kinds.len(), 4 * (5 * 4 + 4));
    let claims: HashSet<_> = rows()
        .filter_map(|row| match row.asked {
            Asked::Claim(asks) => Some((row.standing, asks)),
            _ => None,
        })
        .collect();
    assert_eq!(claims.len(), 4 * rules::Asks::ALL.len());
}
