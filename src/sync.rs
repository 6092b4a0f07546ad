//! The locks and atomics that the concurrent parts use: `parking_lot` and `std`, or those of `loom` or `shuttle`
//! when it checks them.
//!
//! The only file that names any. It offers the small, non-poisoning part that all have; `Arc` is always
//! std's, since loom's cannot hold a `dyn` value.

#[cfg(not(any(idempotency_loom, idempotency_shuttle)))]
mod imp {
    pub(crate) use parking_lot::Mutex;
    #[cfg(any(feature = "sqlite", test))]
    pub(crate) use parking_lot::MutexGuard;
    /// A mutex that hands over in the order of arrival: nobody starves behind a busy neighbour.
    #[cfg(feature = "sqlite")]
    pub(crate) use parking_lot::{FairMutex, FairMutexGuard};
    pub(crate) use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
    pub(crate) use std::thread::sleep;

    /// A condition variable whose `wait` takes the guard and gives it back, as loom's does.
    #[cfg(any(feature = "sqlite", test))]
    #[derive(Debug)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    #[cfg(any(feature = "sqlite", test))]
    impl Condvar {
        pub(crate) const fn new() -> Self {
            Self(parking_lot::Condvar::new())
        }

        pub(crate) fn wait<'m, T>(&self, mut guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
            self.0.wait(&mut guard);
            guard
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }
    }
}

#[cfg(any(idempotency_loom, idempotency_shuttle))]
mod imp {
    #[cfg(idempotency_loom)]
    use loom as checker;
    #[cfg(idempotency_shuttle)]
    use shuttle as checker;

    #[cfg(all(test, idempotency_loom))]
    pub(crate) use loom::{model, thread};

    pub(crate) use checker::sync::MutexGuard;
    pub(crate) use checker::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
    /// shuttle's lets the others run.
    #[cfg(idempotency_shuttle)]
    pub(crate) use shuttle::thread::sleep;
    #[cfg(idempotency_loom)]
    pub(crate) use std::thread::sleep;

    /// The checker's mutex in the shape of `parking_lot`'s: `lock` gives the guard itself.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(checker::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(checker::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            match self.0.lock() {
                Ok(guard) => guard,
                Err(poisoned) => poisoned.into_inner(),
            }
        }

        #[cfg(feature = "tokio")]
        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// The checker's condition variable, without poisoning.
    #[cfg(test)]
    #[derive(Debug)]
    pub(crate) struct Condvar(checker::sync::Condvar);

    #[cfg(test)]
    impl Condvar {
        pub(crate) fn new() -> Self {
            Self(checker::sync::Condvar::new())
        }

        pub(crate) fn wait<'m, T>(&self, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
            match self.0.wait(guard) {
                Ok(guard) => guard,
                Err(poisoned) => poisoned.into_inner(),
            }
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }
    }
}

pub(crate) use imp::*;

/// Locks that can be waited on with a time-out, which loom does not have: `parking_lot`'s in every build, and
/// not checked.
pub(crate) mod timed {
    pub(crate) use parking_lot::{Condvar, Mutex};
}
