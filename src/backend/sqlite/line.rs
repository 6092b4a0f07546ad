//! The line of those who want the writer, and which of them are this thread: [`Line`].

use crate::backend::sqlite::writer::Writer;
use crate::commit_queue::{self, CommitQueue, Executor, Limits, QueueFull};
use crate::error::BackendError;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// A commit is shared by as many commands at the most, so that nobody waits long for the others of a batch.
const LIMITS: Limits = Limits { batch: 1_000, waiting: 10_000 };

thread_local! {
    /// The addresses of the lines that this thread is in.
    static ENTERED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The writer, which threads have in the order in which they come; their commands share its commits.
///
/// A thread is never in one line twice: it would be inside code of the application's own that the writer runs
/// (the work of `atomically`, a clock), and wait for itself.
pub(super) struct Line(CommitQueue<Writer>);

impl Line {
    pub(super) fn new(writer: Writer) -> Self {
        Self(CommitQueue::new(writer, LIMITS))
    }

    /// Has `commands` executed in one transaction, with those of others who wait; one answer for each.
    pub(super) fn submit(
        &self,
        commands: Vec<<Writer as Executor>::Command>,
    ) -> Result<Vec<<Writer as Executor>::Answer>, BackendError> {
        let _entered = self.enter()?;
        Ok(self.0.submit(commands)?)
    }

    /// The writer for this thread alone, once it is its turn.
    pub(super) fn turn(&self) -> Result<Turn<'_>, BackendError> {
        let entered = self.enter()?;
        Ok(Turn { writer: self.0.turn()?, _entered: entered })
    }

    /// Refuses a thread that is in this line.
    pub(super) fn refuse_who_is_in_it(&self) -> Result<(), BackendError> {
        let mut is_in_it = false;
        note(|entered| is_in_it = entered.contains(&self.address()));
        if is_in_it { Err(BackendError::reentrant()) } else { Ok(()) }
    }

    fn enter(&self) -> Result<Entered, BackendError> {
        self.refuse_who_is_in_it()?;
        let address = self.address();
        note(|entered| entered.push(address));
        Ok(Entered(address))
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(&self.0).addr()
    }
}

impl From<QueueFull> for BackendError {
    fn from(QueueFull: QueueFull) -> Self {
        Self::busy()
    }
}

/// Looks at where this thread is, or notes it down. A thread that goes down has lost its notes.
fn note(change: impl FnOnce(&mut Vec<usize>)) {
    let _going_down = ENTERED.try_with(|entered| change(&mut entered.borrow_mut()));
}

/// That this thread is in a line, until it is dropped.
struct Entered(usize);

impl Drop for Entered {
    fn drop(&mut self) {
        note(|entered| entered.retain(|address| *address != self.0));
    }
}

/// A thread's turn with the writer; ends when it is dropped.
pub(super) struct Turn<'l> {
    writer: commit_queue::Turn<'l, Writer>,
    _entered: Entered,
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
