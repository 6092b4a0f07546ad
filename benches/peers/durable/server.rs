//! A server for one run: started for it on data of its own, stopped and its data deleted at its end, by a panic
//! too. A signal that kills the bench leaves both.

use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, thread};
use tempfile::TempDir;

/// How long a server is given to begin, and to end.
const PATIENCE: Duration = Duration::from_secs(30);
const NAP: Duration = Duration::from_millis(20);
const LOG: &str = "server.log";

/// Why there is no server, in words for the reader of the results.
pub type Missing = String;

/// A server's program and its folders.
#[derive(Debug)]
pub struct Place {
    /// On the disk that the store's files are on.
    data: TempDir,
    /// Not beside the data, since the path of a socket must be short.
    sockets: TempDir,
    /// Who the server is to run as, if it refuses to run as root, and that is who runs this.
    user: Option<(u32, u32)>,
}

impl Place {
    pub fn new() -> Result<Self, Missing> {
        let folder = |made: std::io::Result<TempDir>| made.map_err(|error| format!("no folder: {error}"));
        Ok(Self {
            data: folder(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")))?,
            sockets: folder(tempfile::tempdir())?,
            user: None,
        })
    }

    /// The folders given to a user without rights, if this runs as root.
    pub fn of_unprivileged_user(names: &[&str]) -> Result<Self, Missing> {
        let mut place = Self::new()?;
        if geteuid().is_root() {
            let (uid, gid) =
                user(names).ok_or_else(|| format!("it refuses root, and no user is {names:?}"))?;
            for folder in [&place.data, &place.sockets] {
                chown(folder.path(), Some(uid), Some(gid)).map_err(|error| format!("no folder: {error}"))?;
            }
            place.user = Some((uid, gid));
        }
        Ok(place)
    }

    pub fn data(&self) -> &Path {
        self.data.path()
    }

    pub fn sockets(&self) -> &Path {
        self.sockets.path()
    }

    /// A command that writes to the server's log, and runs as its user.
    pub fn command(&self, program: &Path) -> Result<Command, Missing> {
        let log = File::options().create(true).append(true).open(self.data().join(LOG));
        let log = log.map_err(|error| format!("no log: {error}"))?;
        let errors = log.try_clone().map_err(|error| format!("no log: {error}"))?;
        let mut command = Command::new(program);
        // In this process's group, so that an interrupt from the terminal ends the server, too.
        command.stdin(Stdio::null()).stdout(log).stderr(errors).current_dir(self.data());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        Ok(command)
    }

    /// What the server said last.
    pub fn last_words(&self) -> String {
        let log = fs::read_to_string(self.data().join(LOG)).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("; ")
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    stop: Signal,
    pub place: Place,
}

impl Server {
    /// Runs `command` until `stop` is sent to it, and waits until `answers`.
    pub fn start(
        place: Place,
        mut command: Command,
        stop: Signal,
        answers: impl Fn(&Place) -> bool,
    ) -> Result<Self, Missing> {
        let child = command.spawn().map_err(|error| format!("{command:?} can't be run: {error}"))?;
        let mut server = Self { child, stop, place };
        if !wait_until(|| server.has_ended() || answers(&server.place)) || server.has_ended() {
            return Err(format!("it did not start: {}", server.place.last_words()));
        }
        Ok(server)
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }
}

impl Drop for Server {
    /// Before the folders go, which are fields.
    fn drop(&mut self) {
        let asked = !self.has_ended() && kill_process(Pid::from_child(&self.child), self.stop).is_ok();
        if asked && wait_until(|| self.has_ended()) {
            return;
        }
        // It may have ended by now: then there is nothing to kill.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn wait_until(mut is_so: impl FnMut() -> bool) -> bool {
    let naps = PATIENCE.as_millis() / NAP.as_millis();
    (0..naps).any(|_| {
        let so = is_so();
        if !so {
            thread::sleep(NAP);
        }
        so
    })
}

/// The program `name`, on the path or in one of `folders`, the last of which comes first.
pub fn find(name: &str, folders: &[PathBuf]) -> Result<PathBuf, Missing> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(folders.iter().rev().cloned())
        .map(|folder| folder.join(name))
        .find(|file| {
            fs::metadata(file).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        })
        .ok_or_else(|| format!("no {name} found"))
}

/// User and group of the first of `names` that the system knows.
fn user(names: &[&str]) -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    names.iter().find_map(|name| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2).map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    })
}
