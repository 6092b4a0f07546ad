//! The server as a process of its own: [`Process`].

use super::client::Client;
use super::provider::Ledger;
use super::{TOKEN_A, TOKEN_B};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A folder that servers share: store, provider, accounts.
pub struct Place {
    folder: TempDir,
    pub ledger: Ledger,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut accounts = String::new();
        for (name, token) in [("acct_a", TOKEN_A), ("acct_b", TOKEN_B)] {
            let digest = Sha256::digest(token).iter().fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02x}").expect("room");
                hex
            });
            writeln!(accounts, "{name} {digest}").expect("room");
        }
        fs::write(folder.path().join("accounts"), accounts).expect("a file");
        let ledger = Ledger::new(folder.path());
        Self { folder, ledger }
    }

    /// One more server on the same store and the same provider.
    pub fn start(&self, lease: Duration) -> Process {
        let path = self.folder.path();
        let mut child = Command::new(env!("CARGO_BIN_EXE_payments-http"))
            .arg("--db")
            .arg(path.join("payments.db"))
            .arg("--accounts")
            .arg(path.join("accounts"))
            .arg("--provider")
            .arg(path)
            .args(["--listen", "127.0.0.1:0", "--lease", &lease.as_millis().to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("a server");
        let mut said = BufReader::new(child.stdout.take().expect("its stdout")).lines();
        let line = said.next().expect("a line").expect("text");
        let address = line.strip_prefix("listening on ").expect("its address");
        Process { address: address.parse().expect("an address"), child, said }
    }
}

/// A server; killed when it is dropped.
pub struct Process {
    pub address: SocketAddr,
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub fn client(&self) -> Client {
        Client::new(self.address, TOKEN_A)
    }

    /// As a loss of power: nothing of it goes on.
    pub fn kill(mut self) {
        self.child.kill().expect("a process to kill");
        self.child.wait().expect("a process that ends");
    }

    /// Asks it to stop, and waits until it has heard that; it need not have stopped yet.
    pub fn terminate(&mut self) {
        let pid = self.child.id();
        let sent = Command::new("sh").args(["-c", &format!("kill -TERM {pid}")]).status();
        assert!(sent.expect("a shell").success());
        assert_eq!(self.said.next().expect("a line").expect("text"), "stopping");
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("a process that ends")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already where the test has waited for it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
