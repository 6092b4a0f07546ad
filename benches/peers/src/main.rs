//! Reads what the benches have measured, and writes `measured.md` and its charts:
//! `report FOLDER-OF-RESULTS FOLDER-OF-DOCS`, or `just report`.

mod chart;
mod measured;
mod page;
#[cfg(test)]
mod tests;

use measured::Measured;
use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let folders: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [results, docs] = folders.as_slice() else {
        return Err("two arguments are needed: the folder of the results, and that of the docs".into());
    };
    let measured = Measured::read(results)?;
    let charts = docs.join("charts");
    fs::create_dir_all(&charts)?;
    for series in &measured.series {
        chart::draw(series, &charts.join(&series.id).with_extension("svg"))?;
    }
    let page = page::write(&measured, std::thread::available_parallelism()?.get());
    print!("{page}");
    fs::write(docs.join("measured.md"), page)?;
    Ok(())
}
