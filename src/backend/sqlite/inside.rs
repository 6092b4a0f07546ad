//! Which stores a thread is inside of: [`Inside`].

use crate::backend::sqlite::place::Place;
use crate::error::BackendError;
use std::cell::RefCell;
use std::ptr;

thread_local! {
    /// The addresses of the stores' places.
    static STORES: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A thread's stay inside a store, where code of the application's own may run, such as its clock. From in there
/// it is refused another: it would wait for what it has itself. Ends when it is dropped.
pub(super) struct Inside(usize);

impl Inside {
    /// Begins one, unless this thread is inside already.
    pub(super) fn enter(place: &Place) -> Result<Self, BackendError> {
        Self::refuse(place)?;
        let address = address(place);
        note(|stores| stores.push(address));
        Ok(Self(address))
    }

    /// Refuses a thread that is inside.
    pub(super) fn refuse(place: &Place) -> Result<(), BackendError> {
        let mut is_inside = false;
        note(|stores| is_inside = stores.contains(&address(place)));
        if is_inside { Err(BackendError::reentrant()) } else { Ok(()) }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        note(|stores| stores.retain(|address| *address != self.0));
    }
}

fn address(place: &Place) -> usize {
    ptr::from_ref(place).addr()
}

/// Looks at what this thread is inside of, or notes it down. A thread that goes down has lost its notes.
fn note(change: impl FnOnce(&mut Vec<usize>)) {
    let _going_down = STORES.try_with(|stores| change(&mut stores.borrow_mut()));
}
