//! The line of those who want the writer: [`Line`].

use crate::backend::sqlite::inside::Inside;
use crate::backend::sqlite::place::Place;
use crate::backend::sqlite::writer::Writer;
use crate::commit_queue::{self, CommitQueue, Executor, Limits, QueueFull};
use crate::error::BackendError;
use std::ops::{Deref, DerefMut};

/// A commit is shared by as many commands at the most, or by some 4 MiB, so that nobody waits long for the others of
/// a batch.
const LIMITS: Limits = Limits { batch: 1_000, waiting: 10_000 };

/// The writer, which threads have in the order in which they come; their commands share its commits.
pub(super) struct Line(CommitQueue<Writer>);

impl Line {
    pub(super) fn new(writer: Writer) -> Self {
        Self(CommitQueue::new(writer, LIMITS))
    }

    /// Has `commands` executed in one transaction, with those of others who wait; one answer for each.
    pub(super) fn submit(
        &self,
        place: &Place,
        commands: Vec<<Writer as Executor>::Command>,
    ) -> Result<Vec<<Writer as Executor>::Answer>, BackendError> {
        let _inside = Inside::enter(place)?;
        Ok(self.0.submit(commands)?)
    }

    /// The writer for this thread alone, once it is its turn.
    pub(super) fn turn(&self, place: &Place) -> Result<Turn<'_>, BackendError> {
        let inside = Inside::enter(place)?;
        Ok(Turn { writer: self.0.turn()?, _inside: inside })
    }
}

impl From<QueueFull> for BackendError {
    fn from(QueueFull: QueueFull) -> Self {
        Self::busy()
    }
}

/// A thread's turn with the writer; ends when it is dropped.
pub(super) struct Turn<'l> {
    writer: commit_queue::Turn<'l, Writer>,
    _inside: Inside,
}

impl Deref for Turn<'_> {
    type Target = Writer;

    fn deref(&self) -> &Writer {
        &self.writer
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut Writer {
        &mut self.writer
    }
}
