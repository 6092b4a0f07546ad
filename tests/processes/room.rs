//! A file system on which a process has as much room as a test gives it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `struct rlimit`: what holds now, and the most it can be set to.
#[repr(C)]
struct Limit {
    now: u64,
    most: u64,
}

unsafe extern "C" {
    #[link_name = "setrlimit64"]
    fn setrlimit(resource: u32, limit: *const Limit) -> i32;
    fn signal(signal: i32, handler: usize) -> usize;
    fn unshare(what: i32) -> i32;
    fn getuid() -> u32;
    fn getgid() -> u32;
    fn mount(source: *const u8, target: *const u8, kind: *const u8, flags: u64, data: *const u8) -> i32;
}

/// `RLIMIT_FSIZE`: how long a file may get by what this process writes.
const FILE_SIZE: u32 = 1;
const NO_LIMIT: u64 = u64::MAX;
const SIGXFSZ: i32 = 25;
const SIG_IGN: usize = 1;
const CLONE_NEWNS: i32 = 0x0002_0000;
const CLONE_NEWUSER: i32 = 0x1000_0000;

/// What stands in the way of a file that grows.
pub enum Room {
    /// A limit on the length of the files that this process writes: a write fails as `EFBIG`, after one that was cut
    /// short.
    Limited { log: PathBuf },
    /// A small file system of its own, nearly filled: a write fails as `ENOSPC`.
    Filled { ballast: PathBuf },
}

impl Room {
    /// For the database at `file`.
    pub fn limited(file: &Path) -> Self {
        // SAFETY: it takes numbers and touches no memory of ours.
        unsafe { signal(SIGXFSZ, SIG_IGN) };
        let mut log = file.to_owned().into_os_string();
        log.push("-wal");
        Self::Limited { log: log.into() }
    }

    pub fn filled(file: &Path) -> Self {
        Self::Filled { ballast: file.with_extension("ballast") }
    }

    /// What the store calls a write that finds none, in the words of the count: SQLite takes only `ENOSPC` for a full disk.
    pub const fn refuses_with(&self) -> &'static str {
        match self {
            Self::Limited { .. } => "unavailable",
            Self::Filled { .. } => "full",
        }
    }

    /// Leaves room for some `bytes` more.
    pub fn leave(&self, bytes: usize) {
        match self {
            Self::Limited { log } => {
                let len = fs::metadata(log).expect("a log").len();
                limit(len + u64::try_from(bytes).expect("a small number"));
            }
            Self::Filled { ballast } => {
                let mut file = File::create(ballast).expect("a file");
                let page = [0; 4096];
                let filled = loop {
                    if let Err(error) = file.write_all(&page) {
                        break error;
                    }
                };
                assert_eq!(filled.kind(), io::ErrorKind::StorageFull, "{filled}");
                let full = file.metadata().expect("its length").len();
                let kept = full.saturating_sub(u64::try_from(bytes).expect("a small number"));
                file.set_len(kept).expect("a shorter file");
            }
        }
    }

    /// Takes away what stood in the way.
    pub fn give_back(&self) {
        match self {
            Self::Limited { .. } => limit(NO_LIMIT),
            Self::Filled { ballast } => fs::remove_file(ballast).expect("a file that goes away"),
        }
    }
}

fn limit(len: u64) {
    let limit = Limit { now: len, most: NO_LIMIT };
    // SAFETY: the place is there for the call, and has the layout that the call wants.
    assert_eq!(unsafe { setrlimit(FILE_SIZE, &raw const limit) }, 0, "no limit of {len}");
}

/// Has the process of `command` mount a file system of `bytes` on `folder`, which nobody else sees and which goes away
/// with it. Starting fails where the system does not allow that.
pub fn with_a_small_file_system(command: &mut Command, folder: &Path, bytes: usize) {
    let target = format!("{}\0", folder.display());
    let options = format!("size={bytes}\0");
    // SAFETY: they only tell a number.
    let (user, group) = unsafe { (getuid(), getgid()) };
    let (users, groups) = (format!("0 {user} 1"), format!("0 {group} 1"));
    let mount_it = move || {
        // SAFETY: it touches no memory of ours.
        if unsafe { unshare(CLONE_NEWUSER | CLONE_NEWNS) } != 0 {
            return Err(io::Error::last_os_error());
        }
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", &users)?;
        fs::write("/proc/self/gid_map", &groups)?;
        let kind = c"tmpfs".as_ptr().cast();
        // SAFETY: each of them ends with a NUL, and is there for the call.
        if unsafe { mount(kind, target.as_ptr(), kind, 0, options.as_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls only; what it needs memory for was made before, and paths this
    // short are put on the stack.
    unsafe { command.pre_exec(mount_it) };
}
