//! What came of all checks: [`Report`].

use super::{Breach, Check, Verdict};
use std::fmt;

/// What came of each check. `Display` shows one line for each, and each breach in full.
#[derive(Clone, Debug)]
#[must_use = "look whether the backend is conformant"]
pub struct Report {
    ended: Vec<(Check, Result<Verdict, Breach>)>,
}

impl Report {
    pub(super) const fn new(ended: Vec<(Check, Result<Verdict, Breach>)>) -> Self {
        Self { ended }
    }

    /// Whether no rule was broken. Look at what was [skipped](Self::skipped), too.
    #[must_use]
    pub fn is_conformant(&self) -> bool {
        self.breaches().next().is_none()
    }

    /// The checks that passed.
    pub fn passed(&self) -> impl Iterator<Item = &Check> {
        self.ended.iter().filter(|(_, ended)| matches!(ended, Ok(Verdict::Passed))).map(|(check, _)| check)
    }

    /// The checks that were skipped, each with the reason.
    pub fn skipped(&self) -> impl Iterator<Item = (&Check, &str)> {
        self.ended.iter().filter_map(|(check, ended)| match ended {
            Ok(Verdict::Skipped { reason }) => Some((check, reason.as_str())),
            _ => None,
        })
    }

    /// The rules that were broken.
    pub fn breaches(&self) -> impl Iterator<Item = &Breach> {
        self.ended.iter().filter_map(|(_, ended)| ended.as_ref().err())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (check, ended) in &self.ended {
            let (topic, name) = (check.topic(), check.name());
            match ended {
                Ok(Verdict::Passed) => writeln!(f, "passed   {topic}: {name}")?,
                Ok(Verdict::Skipped { reason }) => writeln!(f, "skipped  {topic}: {name}: {reason}")?,
                Err(breach) => writeln!(f, "BROKEN   {topic}: {breach}")?,
            }
        }
        let (passed, skipped) = (self.passed().count(), self.skipped().count());
        write!(f, "{passed} passed, {skipped} skipped, {} broken", self.breaches().count())
    }
}
