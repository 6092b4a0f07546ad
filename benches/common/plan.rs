//! What one run of a bench is to measure, as its command line says.

use crate::common::keys::{self, Keys};
use crate::common::measured::Results;
use std::env;

/// So many, at the least, that a repeat which the machine disturbed does not decide.
const REPEATS: usize = 5;

/// How much is measured, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub repeats: usize,
    /// Tiny sizes, to see that it works: what comes out says nothing.
    pub quick: bool,
    pub seed: u64,
}

impl Plan {
    /// `full`, or `quick` in a quick run.
    pub fn size(self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }

    /// Whether what comes out may be shown: else it lies apart.
    pub const fn counts(self) -> bool {
        !self.quick && self.repeats >= REPEATS
    }

    pub fn keys(self) -> Keys {
        Keys::new(self.seed)
    }
}

/// One thing to measure: its name on the command line, and what adds its rows to the results.
pub type Measurement = (&'static str, fn(Plan, &mut Results));

/// Runs those of `measurements` that the command line names, or all of them, and writes down what came out.
///
/// `command` is what runs this bench, as a reader would type it. Arguments: names of measurements,
/// `--repeats N`, and `--quick`. Without cargo's `--bench` it is a test of the bench, and quick.
pub fn run(bench: &'static str, command: &'static str, measurements: &[Measurement]) {
    let mut arguments = env::args().skip(1);
    let (mut names, mut repeats, mut quick) = (Vec::new(), None, !env::args().any(|it| it == "--bench"));
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // Cargo's own, and what stands before the names where a recipe runs it.
            "--bench" | "--" => {}
            "--quick" => quick = true,
            "--repeats" => {
                let count = arguments.next().and_then(|count| count.parse().ok()).filter(|count| *count > 0);
                repeats = Some(count.expect("a number of repeats"));
            }
            name if measurements.iter().any(|(known, _)| *known == name) => names.push(argument),
            _ => {
                let known: Vec<_> = measurements.iter().map(|(known, _)| *known).collect();
                panic!("{argument}: neither --repeats, --quick, nor one of {known:?}");
            }
        }
    }
    let repeats = repeats.unwrap_or(if quick { 2 } else { REPEATS });
    let plan = Plan { repeats, quick, seed: keys::seed() };
    let mut results = Results::new(bench, command, plan);
    for (name, measure) in measurements {
        if names.is_empty() || names.iter().any(|wanted| wanted == name) {
            eprintln!("measuring {name}");
            results.begin(name);
            measure(plan, &mut results);
        }
    }
    results.finish();
}
