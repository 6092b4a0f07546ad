//! How an example ends; the same for several of them.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// 0 if all was well, 1 if not, 2 for an error, which is written to stderr together with its causes.
pub fn code(name: &str, done: Result<bool, Box<dyn Error + Send + Sync>>) -> ExitCode {
    match done {
        Ok(all_well) => ExitCode::from(u8::from(!all_well)),
        Err(error) if is_closed_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            complain(name, &*error);
            ExitCode::from(2)
        }
    }
}

/// Writes the error to stderr, together with its causes.
pub fn complain(name: &str, error: &(dyn Error + 'static)) {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let causes: Vec<_> = causes.map(ToString::to_string).collect();
    // Written, not printed: where nobody reads it, that is no reason to panic.
    let _ = writeln!(io::stderr(), "{name}: {}", causes.join(": "));
}

/// Whether whoever was reading has read enough (`… | head`).
pub fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
