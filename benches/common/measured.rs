//! What was measured, written down: as a table in the terminal, and as JSON in the folder `measured` of the
//! target folder, for whoever draws charts or compares runs.
//!
//! The file of a bench is `{"bench", "rows": […], "series": […]}`. A run replaces the rows and the series that
//! it measured, by their ids; the others stay as an earlier run left them.

use crate::common::plan::Plan;
use crate::common::sides::Sides;
use crate::common::spread::Spread;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Where the files go, if not into the target folder of the bench's own package.
const FOLDER_VARIABLE: &str = "IDEMPOTENCY_MEASURED";

/// What must be reached, and what would be better.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    AtLeast { must: f64, goal: Option<f64> },
    AtMost { must: f64, goal: Option<f64> },
}

impl Bound {
    const fn parts(self) -> (&'static str, f64, Option<f64>) {
        match self {
            Self::AtLeast { must, goal } => ("higher", must, goal),
            Self::AtMost { must, goal } => ("lower", must, goal),
        }
    }

    fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtLeast { must, .. } => value >= must,
            Self::AtMost { must, .. } => value <= must,
        }
    }
}

/// One line of the table.
#[derive(Debug)]
pub struct Row {
    /// As in the list of what must be reached, or a name of its own. Unique.
    pub id: String,
    pub what: String,
    /// Mostly ratios, subject to baseline.
    pub value: Spread,
    /// `×` for ratios.
    pub unit: &'static str,
    pub bound: Option<Bound>,
    /// What the two sides came to, for information: their medians, and in what. No claim about any other
    /// machine, or about this one at another time.
    pub sides: Option<(f64, f64, &'static str)>,
}

impl Row {
    /// The ratio of two sides, each of which came to so many `unit`.
    pub fn of_sides(
        id: impl Into<String>,
        what: impl Into<String>,
        sides: &Sides,
        unit: &'static str,
        bound: Option<Bound>,
    ) -> Self {
        let medians = (sides.subject().median, sides.baseline().median, unit);
        Self {
            id: id.into(),
            what: what.into(),
            value: sides.ratio(),
            unit: "×",
            bound,
            sides: Some(medians),
        }
    }

    fn verdict(&self) -> &'static str {
        match self.bound.map(|bound| bound.is_met_by(self.value.median)) {
            None => "",
            Some(true) => "met",
            Some(false) => "missed",
        }
    }

    fn to_json(&self, command: &str) -> Value {
        let Spread { median, min, max, repeats } = self.value;
        let mut row = json!({
            "id": self.id, "what": self.what, "unit": self.unit, "median": median, "min": min, "max": max,
            "repeats": repeats, "command": command,
        });
        if let Some((better, must, goal)) = self.bound.map(Bound::parts) {
            row["better"] = json!(better);
            row["must"] = json!(must);
            row["goal"] = json!(goal);
            row["verdict"] = json!(self.verdict());
        }
        if let Some((subject, baseline, unit)) = self.sides {
            row["subject"] = json!(subject);
            row["baseline"] = json!(baseline);
            row["sides_unit"] = json!(unit);
        }
        row
    }

    fn to_text(&self) -> String {
        let Spread { median, min, max, repeats } = self.value;
        let (id, what, unit) = (&self.id, &self.what, self.unit);
        let bound = match self.bound.map(Bound::parts) {
            None => String::new(),
            Some((better, must, goal)) => {
                let goal = goal.map(|goal| format!(", goal {goal}")).unwrap_or_default();
                let sign = if better == "higher" { "≥" } else { "≤" };
                format!("{sign} {must}{goal}: {}", self.verdict())
            }
        };
        let sides = self.sides.map_or_else(String::new, |(subject, baseline, unit)| {
            format!("{} : {} {unit}", short(subject), short(baseline))
        });
        let (median, min, max) = (short(median), short(min), short(max));
        format!(
            "{id:<14} {median:>8} {unit:<5} {min:>8} … {max:<8} {repeats:>3}  {bound:<26} {sides:<28} {what}"
        )
    }
}

/// Lines of a chart.
#[derive(Debug)]
pub struct Series {
    /// Unique.
    pub id: String,
    pub title: &'static str,
    pub x: &'static str,
    pub y: &'static str,
    /// Each with its name and its points.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

impl Series {
    fn to_json(&self, command: &str) -> Value {
        let lines: Vec<Value> =
            self.lines.iter().map(|(name, points)| json!({ "name": name, "points": points })).collect();
        json!({
            "id": self.id, "title": self.title, "x": self.x, "y": self.y, "lines": lines, "command": command,
        })
    }

    fn to_text(&self) -> String {
        let mut text = format!("{}: {} by {}", self.title, self.y, self.x);
        for (name, points) in &self.lines {
            let points: Vec<String> =
                points.iter().map(|(x, y)| format!("{}: {}", short(*x), short(*y))).collect();
            text += &format!("\n  {name:<32} {}", points.join("  "));
        }
        text
    }
}

/// Four digits that count, no more than the measurement has.
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        1000.0.. => format!("{value:.0}"),
        100.0.. => format!("{value:.1}"),
        10.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// What a run of a bench has come to so far.
#[derive(Debug)]
pub struct Results {
    bench: &'static str,
    /// What runs this bench.
    bench_command: &'static str,
    /// What measures again what is being measured.
    command: String,
    plan: Plan,
    rows: Vec<(Row, String)>,
    /// What is said aloud, and what is written down.
    missing: Vec<(String, Value)>,
    series: Vec<(Series, String)>,
}

impl Results {
    pub fn new(bench: &'static str, bench_command: &'static str, plan: Plan) -> Self {
        let command = bench_command.to_owned();
        Self {
            bench,
            bench_command,
            command,
            plan,
            rows: Vec::new(),
            missing: Vec::new(),
            series: Vec::new(),
        }
    }

    /// What is added from here on is of the measurement `name`.
    pub fn begin(&mut self, name: &str) {
        self.command = format!("{} -- {name}", self.bench_command);
    }

    pub fn add(&mut self, row: Row) {
        println!("{}", row.to_text());
        self.rows.push((row, self.command.clone()));
    }

    /// Says aloud that there is no row `id`, and why.
    pub fn not_measured(&mut self, id: &'static str, what: &str, bound: Bound, why: &str) {
        let text = format!("{id:<14} NOT MEASURED: {why}  {what}");
        println!("{text}");
        let (better, must, goal) = bound.parts();
        let row = json!({
            "id": id, "what": what, "unit": "×", "not_measured": why, "better": better, "must": must,
            "goal": goal, "command": self.command,
        });
        self.missing.push((text, row));
    }

    pub fn chart(&mut self, series: Series) {
        println!("{}", series.to_text());
        self.series.push((series, self.command.clone()));
    }

    /// Prints everything once more, together, and writes the file. What a quick run writes lies apart, since
    /// it says nothing.
    pub fn finish(self) {
        println!("\n{}, in {} interleaved repeats (seed {}):", self.bench, self.plan.repeats, self.plan.seed);
        self.rows.iter().for_each(|(row, _)| println!("{}", row.to_text()));
        self.missing.iter().for_each(|(text, _)| println!("{text}"));
        self.series.iter().for_each(|(series, _)| println!("{}", series.to_text()));
        let folder = folder(self.plan.counts());
        fs::create_dir_all(&folder).expect("a folder for the results");
        let file = folder.join(self.bench).with_extension("json");
        let missing = self.missing.iter().map(|(_, row)| row.clone());
        let rows = self.rows.iter().map(|(row, command)| row.to_json(command)).chain(missing);
        let series = self.series.iter().map(|(series, command)| series.to_json(command));
        let all = json!({
            "bench": self.bench,
            "rows": merged(&file, "rows", rows),
            "series": merged(&file, "series", series),
        });
        fs::write(&file, format!("{all:#}\n")).expect("a file for the results");
        println!("written to {}", file.display());
    }
}

/// Where the results lie; apart, those of quick runs and of too few repeats.
pub fn folder(counts: bool) -> PathBuf {
    let measured = match env::var_os(FOLDER_VARIABLE) {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("measured"),
    };
    if counts { measured } else { measured.join("quick") }
}

/// What `file` has in `list`, with what is `new` in place of what has the same id.
fn merged(file: &Path, list: &str, new: impl Iterator<Item = Value>) -> Vec<Value> {
    let earlier: Value = fs::read(file)
        .ok()
        .map(|text| serde_json::from_slice(&text).expect("results of an earlier run"))
        .unwrap_or_default();
    let mut all: Vec<Value> = earlier[list].as_array().cloned().unwrap_or_default();
    for value in new {
        match all.iter_mut().find(|old| old["id"] == value["id"]) {
            Some(old) => *old = value,
            None => all.push(value),
        }
    }
    all
}
