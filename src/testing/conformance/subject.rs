//! What the suite is run on: [`Subject`].

use super::SuiteClock;
use crate::backend::Backend;
use std::error::Error as StdError;
use std::fmt;

type Opened = Result<Box<dyn Backend>, Box<dyn StdError + Send + Sync>>;

/// One store, and how to open it. Each check has one of its own; it ends with what was given to its constructor,
/// so a folder that the closure owns is removed then.
pub struct Subject {
    open: Box<dyn FnMut(SuiteClock) -> Opened>,
    is_durable: bool,
}

impl Subject {
    /// A store that is gone once it is dropped. `open` gives it without records, and reads the time from the clock
    /// that it is given.
    #[must_use]
    pub fn volatile<B: Backend>(mut open: impl FnMut(SuiteClock) -> B + 'static) -> Self {
        Self { open: Box::new(move |clock| boxed(open(clock))), is_durable: false }
    }

    /// A store whose records stay. `open` gives it without records when it is called first, and with those that it
    /// had when it was dropped when it is called again.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// use idempotency::testing::conformance::Subject;
    /// use idempotency::{Error, SqliteBackend, SqliteOptions};
    ///
    /// fn sqlite() -> Result<Subject, std::io::Error> {
    ///     let folder = tempfile::tempdir()?;
    ///     Ok(Subject::durable(move |clock| -> Result<_, Error> {
    ///         SqliteBackend::open(folder.path().join("store.db"), SqliteOptions::new().with_clock(clock))
    ///     }))
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn durable<B, E>(mut open: impl FnMut(SuiteClock) -> Result<B, E> + 'static) -> Self
    where
        B: Backend,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let open = move |clock| match open(clock) {
            Ok(backend) => boxed(backend),
            Err(error) => Err(error.into()),
        };
        Self { open: Box::new(open), is_durable: true }
    }

    pub(super) fn open(&mut self, clock: SuiteClock) -> Opened {
        (self.open)(clock)
    }

    pub(super) const fn is_durable(&self) -> bool {
        self.is_durable
    }
}

fn boxed(backend: impl Backend) -> Opened {
    Ok(Box::new(backend))
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("is_durable", &self.is_durable).finish_non_exhaustive()
    }
}
