//! That the page and the charts say what the results say.

use crate::measured::{Measured, short};
use crate::{chart, page};
use std::error::Error;
use std::fs;

/// What a bench leaves.
const RESULTS: &str = r#"{"bench": "some", "rows": [
  {"id": "Z", "what": "not in the list", "unit": "µs", "median": 3.0, "min": 2.0, "max": 4.0, "repeats": 5, "command": "run z"},
  {"id": "P8", "what": "growth", "unit": "×", "median": 1.2, "min": 1.1, "max": 1.5, "repeats": 5, "command": "run 8",
   "better": "lower", "must": 1.3, "goal": 1.0},
  {"id": "P7-kit-1", "what": "a | b <c>", "unit": "×", "median": 4.5, "min": 4.0, "max": 5.0, "repeats": 7,
   "command": "run 7", "better": "higher", "must": 2.0, "goal": 4.0},
  {"id": "P1", "what": "claims", "unit": "×", "median": 9.0, "min": 8.0, "max": 11.0, "repeats": 5, "command": "run 1",
   "better": "higher", "must": 10.0, "goal": null},
  {"id": "P11-redis", "what": "against Redis", "unit": "×", "command": "run 11", "better": "higher", "must": 0.6,
   "goal": 1.0, "not_measured": "no redis-server found"}],
 "series": [{"id": "claims", "title": "Claims", "x": "callers", "y": "claims/s", "command": "run c", "lines": [
   {"name": "this crate", "points": [[1.0, 5000.0], [64.0, 61000.0]]},
   {"name": "Mutex<Connection>", "points": [[1.0, 6000.0]]}]},
  {"id": "growth", "title": "Cost", "x": "records", "y": "ns", "command": "run g", "lines": [
   {"name": "this crate", "points": [[10000.0, 400.0], [1000000.0, 500.0]]},
   {"name": "upsert", "points": [[10000.0, 200.0], [1000000.0, 20000.0]]}]}]}"#;

fn measured() -> Result<Measured, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("some.json"), RESULTS)?;
    Measured::read(folder.path())
}

fn line_of<'p>(page: &'p str, start: &str) -> &'p str {
    page.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start} in {page}"))
}

#[test]
fn each_figure_says_what_it_came_to_and_whether_that_is_enough() -> Result<(), Box<dyn Error>> {
    let page = page::write(&measured()?, 2);
    assert_eq!(
        line_of(&page, "| P1 |"),
        "| P1 | claims | **9×** (8 to 11 in 5 repeats) | ≥ 10× |  | **missed** | `run 1` |"
    );
    assert_eq!(
        line_of(&page, "| P8 |"),
        "| P8 | growth | **1.2×** (1.1 to 1.5 in 5 repeats) | ≤ 1.3× | ≤ 1× | met | `run 8` |"
    );
    assert_eq!(
        line_of(&page, "| P7-kit-1 |"),
        "| P7-kit-1 | a \\| b &lt;c&gt; | **4.5×** (4 to 5 in 7 repeats) | ≥ 2× | ≥ 4× | goal met | `run 7` |"
    );
    assert_eq!(line_of(&page, "| Z |"), "| Z | not in the list | **3 µs** (2 to 4 in 5 repeats) | `run z` |");
    Ok(())
}

#[test]
fn what_was_not_measured_is_never_left_out() -> Result<(), Box<dyn Error>> {
    let page = page::write(&measured()?, 2);
    assert_eq!(
        line_of(&page, "| P11-redis |"),
        "| P11-redis | against Redis | **not measured**: no redis-server found | ≥ 0.6× | ≥ 1× |  | `run 11` |"
    );
    for absent in [2, 3, 4, 5, 6, 9, 10, 12] {
        assert_eq!(
            line_of(&page, &format!("| P{absent} |")),
            format!("| P{absent} | **not measured yet** | | | | | |")
        );
    }
    Ok(())
}

#[test]
fn a_chart_names_all_its_lines_and_numbers() -> Result<(), Box<dyn Error>> {
    let (measured, folder) = (measured()?, tempfile::tempdir()?);
    let file = folder.path().join("claims.svg");
    chart::draw(&measured.series[0], &file)?;
    let picture = fs::read_to_string(&file)?;
    for text in [
        "Claims",
        "claims/s, by callers",
        "this crate",
        "Mutex&lt;Connection&gt;",
        "5000",
        "61k",
        "6000",
        "64",
    ] {
        assert!(picture.lines().any(|line| line == text), "no {text} in {picture}");
    }
    Ok(())
}

#[test]
fn what_grows_with_the_records_is_shown_in_terms_of_the_fewest() -> Result<(), Box<dyn Error>> {
    let (measured, folder) = (measured()?, tempfile::tempdir()?);
    let page = page::write(&measured, 2);
    assert_eq!(line_of(&page, "| times the cost at"), "| times the cost at 10k by records | 10k | 1M |");
    assert_eq!(line_of(&page, "| this crate | 1 |"), "| this crate | 1 | 1.25 |");
    // A hundredfold growth: an axis of decades.
    let file = folder.path().join("growth.svg");
    chart::draw(&measured.series[1], &file)?;
    let picture = fs::read_to_string(&file)?;
    let numbers: Vec<&str> =
        picture.lines().filter(|line| ["1", "10", "100", "1000"].contains(line)).collect();
    assert_eq!(numbers, ["1", "10", "100"]);
    Ok(())
}

#[test]
fn results_that_are_none_are_refused() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("broken.json"), RESULTS.replace("\"median\": 9.0", "\"median\": \"many\""))?;
    let error = Measured::read(folder.path()).map(drop).expect_err("a number that is none");
    assert!(error.to_string().contains("broken.json: no median"), "{error}");
    Ok(())
}

#[test]
fn numbers_are_written_with_three_digits_that_count() {
    let written =
        [0.0, 0.054, 0.6, 1.0, 9.96, 31.25, 190.4, 6_012.0, 31_249.0, 1_000_000.0, 4_310_000.0].map(short);
    assert_eq!(written, ["0", "0.05", "0.6", "1", "9.96", "31.2", "190", "6012", "31.2k", "1M", "4.31M"]);
}
