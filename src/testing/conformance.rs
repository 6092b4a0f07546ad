//! The suite that every backend has to pass: each rule of the store, as a check with a name.
//!
//! The rules are those of [`transition`](crate::transition) and of the [contract](crate::backend) of a backend.
//! What a check expects is written down by hand, beside it; only `the_core_explains_every_answer_and_every_record`
//! asks the core itself, about all that the others leave out. The clock is the suite's: no check waits for time to
//! pass.
//!
//! # Use
//! A [`Subject`] is a way to open one store that nobody else uses. [`conformance!`](crate::conformance) makes a
//! test of each check, so that whatever is added here is tested there, too:
//!
//! ```
//! mod memory {
//!     use idempotency::testing::conformance::Subject;
//!     use idempotency::{MemoryBackend, MemoryOptions};
//!
//!     fn memory() -> Subject {
//!         Subject::volatile(|clock| MemoryBackend::new(MemoryOptions::new().with_clock(clock)))
//!     }
//!
//!     idempotency::conformance!(memory);
//! }
//! ```
//!
//! [`run_all`] runs them in one call and gives a [`Report`]:
//!
//! ```
//! use idempotency::testing::conformance::{self, Subject};
//! use idempotency::{MemoryBackend, MemoryOptions};
//!
//! let report = conformance::run_all(|| {
//!     Subject::volatile(|clock| MemoryBackend::new(MemoryOptions::new().with_clock(clock)))
//! });
//! assert!(report.is_conformant(), "{report}");
//! assert!(report.skipped().all(|(_, reason)| reason.contains("reopened")), "{report}");
//! ```
//!
//! A minor version of the crate may bring more checks.
//!
//! # What it does not show
//! That what was acknowledged survives a crash: [reopening](Subject::durable) a store is no loss of power. And
//! that a storage which is down answers `Err`, never an outcome: no check can take it down. Nor what happens at the
//! ends that no number of calls reaches: the last token, the last attempt, and a store that is full.

mod batches;
mod breach;
mod claims;
mod clocks;
mod deadlines;
mod explained;
mod inspection;
mod list;
mod losses;
mod mismatches;
mod names;
mod owners;
mod reopening;
mod replies;
mod report;
mod show;
mod stage;
mod subject;
mod suite_clock;
mod sweeps;
mod threads;
mod tokens;

pub use self::breach::Breach;
pub use self::report::Report;
pub use self::subject::Subject;
pub use self::suite_clock::SuiteClock;

use self::stage::{Stage, Step, Stop};
use std::fmt;

/// One rule, and how to find out whether a backend keeps it.
#[derive(Clone, Copy)]
pub struct Check {
    name: &'static str,
    topic: &'static str,
    rule: &'static str,
    run: fn(&mut Stage<'_>) -> Step,
}

/// What came of a check that found nothing wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The rule is kept.
    Passed,
    /// Nothing is known: the backend has no way to do what the check needs.
    Skipped {
        /// What it can't do.
        reason: String,
    },
}

impl Check {
    /// Its name: what holds, as a sentence with underscores. No two checks have one.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What it is about, in a word.
    #[must_use]
    pub const fn topic(&self) -> &'static str {
        self.topic
    }

    /// What must hold.
    #[must_use]
    pub const fn rule(&self) -> &'static str {
        self.rule
    }

    /// Finds out whether the rule is kept by a store that `subject` gives. Each check asks for a new one.
    ///
    /// # Errors
    /// [`Breach`]: it is not.
    pub fn run(&self, subject: impl Fn() -> Subject) -> Result<Verdict, Breach> {
        let mut history = Vec::new();
        let ended = Stage::open(&subject, &mut history).and_then(|mut stage| (self.run)(&mut stage));
        match ended {
            Ok(()) => Ok(Verdict::Passed),
            Err(Stop::Skipped(reason)) => Ok(Verdict::Skipped { reason }),
            Err(Stop::Broken(difference)) => Err(Breach::new(*self, difference, history)),
        }
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("topic", &self.topic).field("name", &self.name).finish_non_exhaustive()
    }
}

/// All checks, by topic.
#[must_use]
pub const fn checks() -> &'static [Check] {
    CHECKS
}

/// The check with this name.
#[must_use]
pub fn check(name: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.name == name)
}

/// Runs all checks, each on a new store that `subject` gives.
pub fn run_all(subject: impl Fn() -> Subject) -> Report {
    Report::new(CHECKS.iter().map(|check| (*check, check.run(&subject))).collect())
}

/// Makes a test of each check, in the module where it stands. It takes what gives a new
/// [`Subject`]($crate::testing::conformance::Subject) for each of them: a function or a closure. A check that is skipped
/// says why, where the output of a test that passed is shown (`cargo test -- --nocapture`).
///
/// See [`testing::conformance`]($crate::testing::conformance) for an example.
#[macro_export]
macro_rules! conformance {
    ($subject:expr $(,)?) => {
        $crate::__conformance_list! { [$crate::__conformance_tests] $subject }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ([$subject:expr] $($topic:ident { $($name:ident: $rule:literal;)* })*) => {$($(
        #[doc = $rule]
        #[test]
        fn $name() -> ::std::result::Result<(), $crate::testing::conformance::Breach> {
            let name = ::std::stringify!($name);
            let check = $crate::testing::conformance::check(name).expect("a check of this list");
            if let $crate::testing::conformance::Verdict::Skipped { reason } = check.run($subject)? {
                ::std::println!("skipped: {name}: {reason}");
            }
            ::std::result::Result::Ok(())
        }
    )*)*};
}

macro_rules! table {
    ([] $($topic:ident { $($name:ident: $rule:literal;)* })*) => {
        const CHECKS: &[Check] = &[$($(
            Check {
                name: stringify!($name),
                topic: stringify!($topic),
                rule: $rule,
                run: $topic::$name,
            },
        )*)*];
    };
}

crate::__conformance_list! { [table] }
