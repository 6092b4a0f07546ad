//! What the examples share that play a story: their arguments, and the table of what was expected and what
//! happened.

use std::error::Error;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Stdout, Write};
use std::process::ExitCode;

#[path = "exit.rs"]
pub mod exit;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Plays the story of the example `name`, or prints its `help`, as the arguments say.
pub fn main(name: &str, help: &str, play: impl FnOnce(Stdout) -> Result<bool>) -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut out = io::stdout();
    let done = match arguments.as_slice() {
        [] => play(out),
        [flag] if flag == "--help" || flag == "-h" => {
            out.write_all(help.as_bytes()).map(|()| true).map_err(Into::into)
        }
        _ => Err("these arguments make no sense; try --help".into()),
    };
    exit::code(name, done)
}

pub struct Table<W> {
    out: W,
    rows: usize,
    wrong: usize,
}

impl<W: Write> Table<W> {
    /// A table without rows, below `what_a_row_is`.
    pub fn new(mut out: W, what_a_row_is: &str) -> Result<Self> {
        writeln!(out, "{what_a_row_is}\n")?;
        writeln!(out, "{:<37}  {:<54}  {:<54}  ok", "scenario", "expected", "happened")?;
        writeln!(out, "{:-<37}  {:-<54}  {:-<54}  ---", "", "", "")?;
        Ok(Self { out, rows: 0, wrong: 0 })
    }

    pub fn row(&mut self, scenario: &str, expected: &str, happened: impl Display) -> Result<()> {
        let happened = happened.to_string();
        let ok = if happened == expected { "yes" } else { "NO" };
        self.rows += 1;
        self.wrong += usize::from(happened != expected);
        writeln!(self.out, "{scenario:<37}  {expected:<54}  {happened:<54}  {ok}")?;
        Ok(())
    }

    /// Sums up, and says whether all went as expected.
    pub fn end(mut self) -> Result<bool> {
        writeln!(self.out, "\n{} of {} as expected", self.rows - self.wrong, self.rows)?;
        Ok(self.wrong == 0)
    }
}

pub fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}
