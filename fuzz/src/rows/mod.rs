//! Rows that no store has written, in its file all the same: whatever an operation meets there, it does not panic, takes
//! no damage for a record, changes nothing that it can't read, and leaves the neighbours alone.

mod judge;
mod row;
mod seal;
mod stage;

use super::input::Input;
use super::reached::Reached;
use bytes::Bytes;
use idempotency::transition::{self, Transition, Write};
use idempotency::{
    Backend, BackendError, Command, Error, FencingToken, Fingerprint, Outcome, Period, Record, RecordId,
    Reply, StoredResponse, Timestamp,
};
use judge::{Checkpoint, Judgement, judge};
use row::{Cell, Column, Row, text};
use stage::{NOW, Stage, Table, id};
use std::slice;

/// A sound row, then hostile values for its columns, until the bytes are used up.
///
/// # Panics
/// If an operation of the store does with the row what it should not.
#[must_use]
pub fn run(data: &[u8]) -> Reached {
    let mut input = Input::new(data);
    let choice = input.next();
    let stage = Stage::of(if choice & 1 == 0 { Table::OfItsTypes } else { Table::OfAnyType });
    let mut row = sound(choice >> 1);
    row.edit(&mut input, NOW);
    let mut trial = Trial { stage, reached: Reached::default() };
    trial.run(&row);
    trial.stage.put_back();
    trial.reached
}

/// One row of each kind that a store writes.
fn sound(kind: u8) -> Row {
    let mut row = Row(vec![Cell::Null; row::WIDTH]);
    for (column, cell) in [
        (Column::Scope, text("s")),
        (Column::Key, text("k")),
        (Column::State, text("in_progress")),
        (Column::Token, Cell::Integer(7)),
        (Column::Attempt, Cell::Integer(2)),
        (Column::CreatedAt, Cell::Integer(NOW - 50)),
        (Column::Lease, Cell::Integer(1_000)),
        (Column::Retention, Cell::Integer(2_000)),
        (Column::LeaseUntil, Cell::Integer(NOW + 1)),
        (Column::ExpiresAt, Cell::Integer(NOW + 2_000)),
        (Column::Format, Cell::Integer(255)),
        (Column::Fingerprint, Cell::Blob(vec![9; 32])),
        (Column::Writer, Cell::Integer(0)),
    ] {
        row.set(column, cell);
    }
    let lapsed = (Column::LeaseUntil, Cell::Integer(NOW));
    let checkpoint = (Column::Checkpoint, Cell::Blob(b"half-way".to_vec()));
    let of_a_reply = |kind| {
        vec![
            (Column::State, text("completed")),
            (Column::CompletedAt, Cell::Integer(NOW - 5)),
            (Column::Kind, text(kind)),
        ]
    };
    let kind = kind % 8;
    let cells = match kind {
        0 => vec![],
        1 => vec![lapsed],
        2 => vec![checkpoint],
        3 => vec![lapsed, checkpoint],
        4 => of_a_reply("marker"),
        5 => [of_a_reply("reference"), vec![(Column::Reference, text("payments/17"))]].concat(),
        6 => {
            let response = [
                (Column::Status, Cell::Integer(201)),
                (Column::Headers, Cell::Blob(b"\0\0\0\x01a\0\0\0\x02\xff\0".to_vec())),
                (Column::Body, Cell::Blob(b"body".to_vec())),
            ];
            [of_a_reply("response"), response.to_vec()].concat()
        }
        _ => vec![(Column::ExpiresAt, Cell::Integer(NOW))],
    };
    cells.into_iter().for_each(|(column, cell)| row.set(column, cell));
    if (4..=6).contains(&kind) {
        seal::reply(&mut row);
    }
    if matches!(kind, 2 | 3) {
        seal::checkpoint(&mut row);
    }
    row
}

/// What is asked of the row.
fn commands(row: &Row) -> Vec<Command> {
    let period = Period::from_millis(3_000).expect("a period");
    let token = row.integer(Column::Token).and_then(FencingToken::new).unwrap_or(FencingToken::FIRST);
    let other = FencingToken::new(8).expect("a token");
    let claim = |fingerprint| Command::Claim { fingerprint, lease: period, retention: period };
    let response = StoredResponse::new(200).with_header("n", "v").with_body("b");
    vec![
        claim(row.fingerprint().unwrap_or(Fingerprint::from_bytes([9; 32]))),
        claim(Fingerprint::builder().finish()),
        Command::Complete { token, reply: response.into(), retention: period },
        Command::Complete { token: other, reply: Reply::Marker, retention: period },
        Command::Renew { token },
        Command::Checkpoint { token, bytes: Bytes::from_static(b"further") },
        Command::Release { token },
        Command::Abandon { token },
        Command::Forget,
    ]
}

struct Trial {
    stage: Stage,
    reached: Reached,
}

impl Trial {
    fn run(&mut self, row: &Row) {
        let breaks_a_check = self.stage.breaks_a_check(row);
        let Some(row) = self.play(row, |_, row| row.clone()) else {
            return self.reached.once("rows that no table takes");
        };
        let is_in_place = (row.cell(Column::Scope), row.cell(Column::Key)) == (&text("s"), &text("k"));
        let views = View {
            // What lies under another name is no record of this one.
            commands: if is_in_place { judge(&row, NOW, Checkpoint::Ignored) } else { Judgement::Expired },
            readers: if is_in_place { judge(&row, NOW, Checkpoint::Counts) } else { Judgement::Expired },
            breaks_a_check,
        };
        self.reached.once(match (&views.readers, &views.commands) {
            _ if !is_in_place => "rows of another name",
            (Judgement::Expired, _) => "expired rows",
            (Judgement::Sound(_), _) => "sound rows",
            (Judgement::Damaged, Judgement::Sound(_)) => "damaged checkpoints",
            (Judgement::Damaged, _) => "damaged rows",
        });
        self.play(&row, |trial, _| trial.look(&views));
        for command in commands(&row) {
            for in_a_batch in [false, true] {
                self.play(&row, |trial, row| trial.command(row, &views, &command, in_a_batch));
            }
        }
        self.play(&row, |trial, row| trial.sweep(row));
    }

    /// Puts the row there, and takes away what is left of it. None if the table takes no such row.
    fn play<T>(&mut self, row: &Row, play: impl FnOnce(&mut Self, &Row) -> T) -> Option<T> {
        row.insert(&self.stage.shell)?;
        let stored = self.rows().pop().expect("the row");
        let came_of_it = play(self, &stored);
        self.stage.neighbours_stand();
        self.stage.clear();
        Some(came_of_it)
    }

    /// What is there beside the neighbours.
    fn rows(&self) -> Vec<Row> {
        Row::all(&self.stage.shell, self.stage.first_row).into_iter().map(|(_, row)| row).collect()
    }

    fn look(&mut self, views: &View) {
        let read = self.stage.backend.read(&it());
        match &views.readers {
            Judgement::Expired => assert!(matches!(read, Ok(None)), "{read:?}"),
            Judgement::Damaged => assert!(is_corrupt(&read), "{read:?}"),
            Judgement::Sound(expected) => {
                let (record, _) = read.expect("a sound row").expect("a record");
                assert_eq!(record.check(), Ok(()));
                assert_eq!(&record, expected);
            }
        }
        let stats = self.stage.backend.stats().expect("damage is counted");
        assert!(stats.bytes > 0);
        self.stage.backend.stuck(10).expect("damage is passed over");
    }

    fn command(&mut self, row: &Row, views: &View, command: &Command, in_a_batch: bool) {
        let answer = if in_a_batch {
            self.stage.backend.execute_many(&[(it(), command.clone())]).pop().expect("an answer")
        } else {
            self.stage.backend.execute(&it(), command)
        };
        let rows = self.rows();
        let unchanged = [row.clone()];
        let about = format!("{command:?}, in a batch: {in_a_batch}, {row:?}: {answer:?}, {rows:?}");
        if is_corrupt(&answer) {
            assert!(views.may_refuse(command) && rows == unchanged, "{about}");
            return self.reached.once("refusals");
        }
        let outcome = answer.unwrap_or_else(|error| panic!("{error:?}: {about}"));
        let record = match &views.commands {
            Judgement::Damaged if *command == Command::Forget => {
                let existed = outcome == Outcome::Forgotten { existed: true };
                assert_eq!(rows.is_empty(), existed, "{about}");
                return self.reached.times("forgotten damage", usize::from(existed));
            }
            // What SQLite takes for expired, as a sweep does, too, though it is not a time of the store's.
            Judgement::Damaged if matches!(command, Command::Claim { .. }) && has_run_out(row) => None,
            Judgement::Damaged => panic!("damage was taken for a record: {about}"),
            Judgement::Expired => None,
            Judgement::Sound(record) => Some(record),
        };
        self.as_of(record, views, command, &outcome, row, &about);
    }

    /// A row that can be read is to every command the record that it holds.
    fn as_of(
        &mut self,
        record: Option<&Record>,
        views: &View,
        command: &Command,
        outcome: &Outcome,
        row: &Row,
        about: &str,
    ) {
        let granted = match outcome {
            Outcome::Claimed(grant) => Some(grant.token),
            _ => None,
        };
        // A takeover hands out the checkpoint.
        let record = match &views.readers {
            Judgement::Sound(whole) if granted.is_some() => Some(whole),
            _ => record,
        };
        let now = Timestamp::from_millis(NOW);
        let expected = transition::apply(record, command, now, granted.unwrap_or(FencingToken::FIRST));
        assert_eq!(*outcome, expected.outcome, "{about}");
        let mut rows = self.rows();
        match expected {
            Transition { write: Write::Keep, .. } => assert_eq!(rows, slice::from_ref(row), "{about}"),
            Transition { write: Write::Delete, .. } => assert!(rows.is_empty(), "{about}"),
            Transition { write: Write::Put(mut record), .. } => {
                rows.retain(|row| {
                    (row.cell(Column::Scope), row.cell(Column::Key)) == (&text("s"), &text("k"))
                });
                let [written] = &rows[..] else { panic!("{about}") };
                // Else it was read without its checkpoint, and that stays as it is in the row.
                let is_whole = matches!(views.readers, Judgement::Sound(_)) || granted.is_some();
                let writes_it = is_whole && granted.is_some()
                    || matches!(command, Command::Complete { .. } | Command::Checkpoint { .. });
                let view = if writes_it { Checkpoint::Counts } else { Checkpoint::Ignored };
                if !writes_it {
                    record.checkpoint = None;
                    assert_eq!(written.cell(Column::Checkpoint), row.cell(Column::Checkpoint), "{about}");
                }
                let expected = if record.expires_at.is_over(now) {
                    Judgement::Expired
                } else {
                    Judgement::Sound(record)
                };
                assert_eq!(judge(written, NOW, view), expected, "{about}");
                self.reached.once("writes");
            }
        }
    }

    /// What has expired goes, what has not stays; of what is damaged, SQLite says which it is.
    fn sweep(&mut self, row: &Row) {
        let swept = self.stage.backend.sweep(10).expect("damage does not stand in the way");
        assert!(!swept.more && swept.removed <= 1, "{swept:?}");
        let left = self.rows();
        let has_expired = row.integer(Column::ExpiresAt).map(|expires_at| expires_at <= NOW);
        assert!(
            has_expired.is_none_or(|has_expired| has_expired == (swept.removed == 1)),
            "{row:?}: {swept:?}"
        );
        assert_eq!(left, vec![row.clone(); 1 - swept.removed], "{swept:?}");
        self.reached.times("swept rows", swept.removed);
    }
}

/// How a row looks.
struct View {
    /// To commands, which mostly have no use for the checkpoint.
    commands: Judgement,
    /// To look-ups, and to a claim that takes over.
    readers: Judgement,
    breaks_a_check: bool,
}

impl View {
    /// Whether a command may say that the row is damaged.
    fn may_refuse(&self, command: &Command) -> bool {
        let takes_over = matches!(command, Command::Claim { .. });
        self.commands == Judgement::Damaged
            || (takes_over && self.readers == Judgement::Damaged)
            || self.breaks_a_check
    }
}

fn it() -> RecordId {
    id("s", "k")
}

fn has_run_out(row: &Row) -> bool {
    matches!(row.cell(Column::ExpiresAt), Cell::Real(expires_at) if *expires_at <= NOW as f64)
}

fn is_corrupt<T: Clone>(answer: &Result<T, BackendError>) -> bool {
    answer.as_ref().is_err_and(|error| matches!(Error::from(error.clone()), Error::Corrupt { .. }))
}
