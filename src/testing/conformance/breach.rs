//! A rule that a backend does not keep: [`Breach`].

use super::Check;
use std::fmt;

/// What a check wanted, and what it saw instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// What was looked at.
    pub(super) what: String,
    pub(super) expected: String,
    pub(super) seen: String,
}

/// A backend does not keep a rule: which, what was expected and what was seen, and after what.
///
/// `Debug` shows what `Display` does, over several lines: it is what a failing test prints.
#[derive(Clone)]
pub struct Breach {
    check: Check,
    difference: Difference,
    history: Vec<String>,
}

impl Breach {
    pub(super) const fn new(check: Check, difference: Difference, history: Vec<String>) -> Self {
        Self { check, difference, history }
    }

    /// The check that found it.
    #[must_use]
    pub const fn check(&self) -> &Check {
        &self.check
    }

    /// What was looked at: an answer, a record, the number of readings of a clock.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.difference.what
    }

    /// What it had to be.
    #[must_use]
    pub fn expected(&self) -> &str {
        &self.difference.expected
    }

    /// What it was.
    #[must_use]
    pub fn seen(&self) -> &str {
        &self.difference.seen
    }

    /// What had happened to the store by then, in order: each call with its answer. Calls of threads that a check
    /// runs beside one another are not in it.
    pub fn history(&self) -> impl ExactSizeIterator<Item = &str> {
        self.history.iter().map(String::as_str)
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { what, expected, seen } = &self.difference;
        writeln!(f, "{}: {}", self.check.name(), self.check.rule())?;
        writeln!(f, "  {what}")?;
        writeln!(f, "    expected: {expected}")?;
        write!(f, "    seen:     {seen}")?;
        if !self.history.is_empty() {
            write!(f, "\n  after")?;
        }
        self.history.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

impl fmt::Debug for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Breach {}
