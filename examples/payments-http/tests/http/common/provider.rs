//! What the provider has been asked for, read from its ledger: [`Ledger`].

use payments_http::provider::{Call, Provider};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::Builder;

#[derive(Clone, Debug)]
pub struct Ledger {
    folder: PathBuf,
}

impl Ledger {
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// All calls so far.
    pub fn calls(&self) -> Vec<Call> {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let provider = Provider::new(&self.folder, Duration::ZERO);
        runtime.block_on(provider.calls()).expect("a ledger")
    }

    /// How often it was called, and how often it did something.
    pub fn tally(&self) -> (usize, usize) {
        let calls = self.calls();
        (calls.len(), calls.iter().filter(|call| call.is_new).count())
    }

    /// From now on it does what it is asked for, and answers nobody.
    pub fn hold(&self) {
        fs::write(self.folder.join("hold"), "").expect("a file");
    }

    /// It answers again, also those who have waited.
    pub fn let_go(&self) {
        fs::remove_file(self.folder.join("hold")).expect("a provider that was held");
    }
}
