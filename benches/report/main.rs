//! Shows what was measured: prints the tables, and draws the charts, from what the other benches have written into
//! the folder `measured` of the target folder. `just report`, or `cargo bench --bench report`. Tables and charts are
//! written beside the results, or into the folder that is named.

mod chart;
#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "shared by benches that use different parts of it")]
mod common;

use chart::{Chart, Line};
use common::measured::{folder, short};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    // `--quick` is for what quick runs have written, to see that this works.
    let (flags, folders): (Vec<String>, Vec<String>) =
        env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let measured = folder(flags.iter().any(|flag| flag == "--quick"));
    // A bench runs in the folder of its package.
    let drawn = folders.first().map_or_else(|| measured.clone(), PathBuf::from);
    fs::create_dir_all(&drawn).expect("a folder for the charts");
    let files = results(&measured);
    assert!(!files.is_empty(), "nothing was measured");
    let mut text = String::from(
        "Ratios of what ran side by side in one run, in turns: the median of the repeats, and the two furthest from it.\n\
         The absolute numbers are of one machine at one time, for information.\n",
    );
    for results in &files {
        text += &table(results);
        for series in results["series"].as_array().into_iter().flatten() {
            let file = drawn.join(string(series, "id")).with_extension("svg");
            fs::write(&file, chart_of(series).to_svg()).expect("a file for the chart");
            text += &format!("\n{}: `{}`\n", file.display(), string(series, "command"));
        }
    }
    fs::write(drawn.join("measured.md"), &text).expect("a file for the tables");
    println!("{text}");
}

/// What each bench has written, in the order of their names.
fn results(folder: &Path) -> Vec<Value> {
    let entries = fs::read_dir(folder).expect("measured results");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files
        .iter()
        .map(|file| serde_json::from_slice(&fs::read(file).expect("a file")).expect("results of a bench"))
        .collect()
}

/// The rows of a bench, in Markdown.
fn table(results: &Value) -> String {
    let mut text = format!("\n## {}\n\n", string(results, "bench"));
    let rows = results["rows"].as_array().map_or(&[][..], Vec::as_slice);
    if !rows.is_empty() {
        text += "| # | what | median | spread | must | goal | | subject : baseline | command |\n";
        text += "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
    }
    for row in rows {
        let number = |name: &str| row[name].as_f64().map(short).unwrap_or_default();
        let as_stated = |name: &str| row.get(name).filter(|value| !value.is_null()).map(Value::to_string);
        let sign = row["better"].as_str().map_or("", |better| if better == "higher" { "≥ " } else { "≤ " });
        let sides = row["sides_unit"]
            .as_str()
            .map(|unit| format!("{} : {} {unit}", number("subject"), number("baseline")));
        let cells = [
            string(row, "id").to_owned(),
            string(row, "what").to_owned(),
            format!("{} {}", number("median"), string(row, "unit")),
            format!("{} to {} in {}", number("min"), number("max"), row["repeats"]),
            format!("{sign}{}", as_stated("must").unwrap_or_default()),
            as_stated("goal").unwrap_or_default(),
            row["verdict"].as_str().unwrap_or_default().to_owned(),
            sides.unwrap_or_default(),
            format!("`{}`", string(row, "command")),
        ];
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

fn chart_of(series: &Value) -> Chart {
    let points = |line: &Value| {
        let points = line["points"].as_array().into_iter().flatten();
        points.map(|point| (number(&point[0]), number(&point[1]))).collect()
    };
    let lines = series["lines"].as_array().into_iter().flatten();
    Chart {
        title: string(series, "title").to_owned(),
        x: string(series, "x").to_owned(),
        y: string(series, "y").to_owned(),
        lines: lines
            .map(|line| Line { name: string(line, "name").to_owned(), points: points(line) })
            .collect(),
    }
}

fn string<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}
