//! `docs/measured.md`.

use crate::measured::{Bound, Measured, Row, Series, Spread, short};
use std::fmt::Write;

/// How many figures there are to be.
const FIGURES: u32 = 12;
/// The row that tells how fast the disk was.
const DISK: &str = "disk";

const HEAD: &str = "\
# Measured

<!-- Written by `just report`, from what the benches left: change the benches, not this. -->

Each figure compares what was measured side by side, in turns, in one run: the median of the repeats, with the
lowest and the highest of them. A ratio of one machine is no promise for another; the command measures it on yours.
The goal is what would be better than what must be reached.
";

/// The page, for a machine with so many cores.
pub fn write(measured: &Measured, cores: usize) -> String {
    let mut page = HEAD.to_owned();
    let (numbered, others): (Vec<&Row>, Vec<&Row>) =
        measured.rows.iter().filter(|row| row.id != DISK).partition(|row| row.number().is_some());
    let machine = machine(measured.rows.iter().find(|row| row.id == DISK), cores);
    page += &format!("\n{machine}\n\n## Figures\n\n");
    page += "| | what | measured | must | goal | | command |\n| --- | --- | --- | --- | --- | --- | --- |\n";
    for number in 1..=FIGURES {
        let of_number: Vec<&&Row> = numbered.iter().filter(|row| row.number() == Some(number)).collect();
        if of_number.is_empty() {
            page += &format!("| P{number} | **not measured yet** | | | | | |\n");
        }
        of_number.iter().for_each(|row| page += &line(row));
    }
    page += "\n## Charts\n";
    measured.series.iter().for_each(|series| page += &chart(series));
    if !others.is_empty() {
        page += "\n## Further figures\n\n| | what | measured | command |\n| --- | --- | --- | --- |\n";
        for row in others {
            let (value, command) = (value(row), &row.command);
            page += &format!("| {} | {} | {value} | `{command}` |\n", row.id, escaped(&row.what));
        }
    }
    page
}

/// What it was measured on.
fn machine(disk: Option<&Row>, cores: usize) -> String {
    let mut machine = format!("The machine: {cores} cores");
    if let Some((row, Ok(took))) = disk.map(|row| (row, &row.value)) {
        machine += &format!("; {} in {} µs, {}", row.what, short(took.median), spread(*took));
    }
    machine + "."
}

fn line(row: &Row) -> String {
    let (must, goal, verdict) = match row.bound {
        None => (String::new(), String::new(), ""),
        Some(bound) => {
            let sign = if bound.higher_is_better { "≥" } else { "≤" };
            let written = |value: f64| format!("{sign} {}", with_unit(value, &row.unit));
            let goal = bound.goal.map(written).unwrap_or_default();
            let verdict = row.value.as_ref().map_or("", |value| verdict(bound, *value));
            (written(bound.must), goal, verdict)
        }
    };
    let (id, what, command) = (&row.id, escaped(&row.what), &row.command);
    format!("| {id} | {what} | {} | {must} | {goal} | {verdict} | `{command}` |\n", value(row))
}

fn verdict(bound: Bound, value: Spread) -> &'static str {
    if bound.goal.is_some_and(|goal| bound.is_met(goal, value.median)) {
        "goal met"
    } else if bound.is_met(bound.must, value.median) {
        "met"
    } else {
        "**missed**"
    }
}

fn value(row: &Row) -> String {
    match &row.value {
        Ok(value) => format!("**{}** ({})", with_unit(value.median, &row.unit), spread(*value)),
        Err(why) => format!("**not measured**: {why}"),
    }
}

fn spread(value: Spread) -> String {
    format!("{} to {} in {} repeats", short(value.min), short(value.max), value.repeats)
}

fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "×" => format!("{}×", short(value)),
        unit => format!("{} {unit}", short(value)),
    }
}

/// The picture, and its numbers for who can't see it.
fn chart(series: &Series) -> String {
    let (title, id) = (&series.title, &series.id);
    let mut text = format!("\n### {title}\n\n![{title}: {} by {}](charts/{id}.svg)\n\n", series.y, series.x);
    let places = series.places();
    let heads: String = places.iter().map(|place| format!(" {} |", short(*place))).collect();
    let rules = " ---: |".repeat(places.len());
    text += &format!("| {} by {} |{heads}\n| --- |{rules}\n", escaped(&series.y), escaped(&series.x));
    for line in &series.lines {
        let at = |place: &f64| line.points.iter().find(|point| point.0 == *place);
        let cells: String = places
            .iter()
            .map(|place| format!(" {} |", at(place).map_or(String::new(), |point| short(point.1))))
            .collect();
        writeln!(text, "| {} |{cells}", escaped(&line.name)).expect("a string takes all");
    }
    text + &format!("\nFrom one run: `{}`.\n", series.command)
}

/// A cell of a table can't hold a bar, nor HTML's brackets.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('>', "&gt;")
}
