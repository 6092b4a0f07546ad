//! The results, as the benches have left them: `benches/common/measured.rs` writes them.

use serde_json::Value;
use std::error::Error;
use std::fs;
use std::path::Path;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// All that was measured.
#[derive(Debug, Default)]
pub struct Measured {
    pub rows: Vec<Row>,
    pub series: Vec<Series>,
}

/// One figure.
#[derive(Debug)]
pub struct Row {
    pub id: String,
    pub what: String,
    pub unit: String,
    /// What runs it again.
    pub command: String,
    pub bound: Option<Bound>,
    /// What came out, or why nothing was measured.
    pub value: std::result::Result<Spread, String>,
}

/// The median of some repeats, and the two furthest from it.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub repeats: u64,
}

/// What is to be reached.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub higher_is_better: bool,
    pub must: f64,
    pub goal: Option<f64>,
}

impl Bound {
    pub fn is_met(self, bound: f64, value: f64) -> bool {
        if self.higher_is_better { value >= bound } else { value <= bound }
    }
}

/// Lines of a chart.
#[derive(Debug)]
pub struct Series {
    pub id: String,
    pub title: String,
    pub x: String,
    pub y: String,
    pub lines: Vec<Line>,
    pub command: String,
}

#[derive(Debug)]
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

impl Measured {
    /// Reads every file in `folder`.
    pub fn read(folder: &Path) -> Result<Self> {
        let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut files: Vec<_> =
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<_>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        let mut measured = Self::default();
        for file in files {
            let text = fs::read(&file)?;
            measured.add(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        measured.rows.sort_by_key(Row::order);
        Ok(measured)
    }

    fn add(&mut self, text: &[u8]) -> Result<()> {
        let all: Value = serde_json::from_slice(text)?;
        for row in list(&all, "rows")? {
            self.rows.push(Row::read(row)?);
        }
        for series in list(&all, "series")? {
            self.series.push(Series::read(series)?.into_growth());
        }
        Ok(())
    }
}

impl Row {
    fn read(row: &Value) -> Result<Self> {
        let value = match row["not_measured"].as_str() {
            Some(why) => Err(why.to_owned()),
            None => Ok(Spread {
                median: number(row, "median")?,
                min: number(row, "min")?,
                max: number(row, "max")?,
                repeats: row["repeats"].as_u64().ok_or("no repeats")?,
            }),
        };
        let bound = match row["better"].as_str() {
            None => None,
            Some(better) => Some(Bound {
                higher_is_better: better == "higher",
                must: number(row, "must")?,
                goal: row["goal"].as_f64(),
            }),
        };
        let (id, what, unit) = (text(row, "id")?, text(row, "what")?, text(row, "unit")?);
        Ok(Self { id, what, unit, command: text(row, "command")?, bound, value })
    }

    /// Which of the numbered figures this is a part of: 7 for `P7-kit-1`.
    pub fn number(&self) -> Option<u32> {
        let digits = self.id.strip_prefix('P')?;
        digits.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
    }

    /// The numbered ones first; otherwise as the benches have them.
    fn order(&self) -> u32 {
        self.number().unwrap_or(u32::MAX)
    }
}

impl Series {
    fn read(series: &Value) -> Result<Self> {
        let mut lines = Vec::new();
        for line in list(series, "lines")? {
            let points = list(line, "points")?.iter().map(|point| point[0].as_f64().zip(point[1].as_f64()));
            let points = points.collect::<Option<_>>().ok_or("a point that is none")?;
            lines.push(Line { name: text(line, "name")?, points });
        }
        Ok(Self {
            id: text(series, "id")?,
            title: text(series, "title")?,
            x: text(series, "x")?,
            y: text(series, "y")?,
            lines,
            command: text(series, "command")?,
        })
    }

    /// With each line in terms of its first point, where it is about what grows with the number of records: what
    /// is compared is the growth.
    #[must_use]
    pub fn into_growth(mut self) -> Self {
        if self.x == "records" && self.y == "ns" {
            let first = self.places().first().copied().map(short).unwrap_or_default();
            self.y = format!("times the cost at {first}");
            for line in &mut self.lines {
                let one = line.points.first().map_or(1.0, |point| point.1);
                line.points.iter_mut().for_each(|point| point.1 /= one);
            }
        }
        self
    }

    /// All places on the horizontal axis, in order.
    pub fn places(&self) -> Vec<f64> {
        let mut places: Vec<f64> =
            self.lines.iter().flat_map(|line| &line.points).map(|point| point.0).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        places
    }
}

fn list<'v>(value: &'v Value, name: &str) -> Result<&'v Vec<Value>> {
    value[name].as_array().ok_or_else(|| format!("no {name}").into())
}

fn text(value: &Value, name: &str) -> Result<String> {
    value[name].as_str().map(str::to_owned).ok_or_else(|| format!("no {name}").into())
}

fn number(value: &Value, name: &str) -> Result<f64> {
    value[name].as_f64().ok_or_else(|| format!("no {name}").into())
}

/// Three digits that count.
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        1e6.. => format!("{}M", short(value / 1e6)),
        1e4.. => format!("{}k", short(value / 1e3)),
        100.0.. => format!("{value:.0}"),
        10.0.. => trimmed(&format!("{value:.1}")),
        _ => trimmed(&format!("{value:.2}")),
    }
}

/// Without zeros at the end.
fn trimmed(number: &str) -> String {
    number.trim_end_matches('0').trim_end_matches('.').to_owned()
}
