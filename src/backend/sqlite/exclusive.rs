//! One thread at a time, and never one that already has its turn: [`Exclusive`].

use crate::error::BackendError;
use crate::sync::{FairMutex, FairMutexGuard};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

thread_local! {
    /// The addresses of what this thread has its turn with.
    static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A value that threads take turns with, in the order in which they come.
pub(super) struct Exclusive<T>(FairMutex<T>);

impl<T> Exclusive<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(FairMutex::new(value))
    }

    /// Waits for this thread's turn, unless it has it already.
    pub(super) fn lock(&self) -> Result<Turn<'_, T>, BackendError> {
        self.refuse_the_holder()?;
        let guard = self.0.lock();
        let address = self.address();
        note(|held| held.push(address));
        Ok(Turn { guard, address })
    }

    /// Refuses a thread that has its turn: it is inside code of the application's own that the holder runs,
    /// and would wait for itself.
    pub(super) fn refuse_the_holder(&self) -> Result<(), BackendError> {
        let mut is_held = false;
        note(|held| is_held = held.contains(&self.address()));
        if is_held { Err(BackendError::reentrant()) } else { Ok(()) }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(&self.0).addr()
    }
}

/// Looks at what this thread holds, or notes it down. A thread that goes down has lost its notes.
fn note(change: impl FnOnce(&mut Vec<usize>)) {
    let _going_down = HELD.try_with(|held| change(&mut held.borrow_mut()));
}

/// A thread's turn; ends when it is dropped.
pub(super) struct Turn<'e, T> {
    guard: FairMutexGuard<'e, T>,
    address: usize,
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        note(|held| held.retain(|address| *address != self.address));
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Turn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_its_turn_is_refused_another_and_gets_one_after_it() {
        let (one, two) = (Exclusive::new(1), Exclusive::new(2));
        let turn = one.lock();
        assert!(one.lock().is_err_and(|error| matches!(error.into(), crate::error::Error::Reentrant)));
        assert!(two.lock().is_ok_and(|two| *two == 2), "another one is another matter");
        drop(turn);
        assert!(one.lock().is_ok_and(|one| *one == 1));
    }
}
