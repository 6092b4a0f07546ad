//! A VFS of SQLite's, over its default one, that fails what it is told to fail.
//!
//! [`Disk`] is what tests use; [`shim`](super::shim) is how SQLite calls it.

use super::shim;
use super::tape::{Folder, Tape};
use rusqlite::ffi;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What SQLite asks a disk for and may be refused. Giving a lock back is not among it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Open,
    Delete,
    Read,
    Write,
    Truncate,
    Sync,
    Lock,
    ShmMap,
    ShmLock,
}

impl Operation {
    /// The code that SQLite's own VFS fails it with.
    const fn usual_code(self) -> c_int {
        match self {
            Self::Open => ffi::SQLITE_CANTOPEN,
            Self::Delete => ffi::SQLITE_IOERR_DELETE,
            Self::Read => ffi::SQLITE_IOERR_READ,
            Self::Write => ffi::SQLITE_IOERR_WRITE,
            Self::Truncate => ffi::SQLITE_IOERR_TRUNCATE,
            Self::Sync => ffi::SQLITE_IOERR_FSYNC,
            Self::Lock => ffi::SQLITE_IOERR_LOCK,
            Self::ShmMap => ffi::SQLITE_IOERR_SHMMAP,
            Self::ShmLock => ffi::SQLITE_IOERR_SHMLOCK,
        }
    }
}

/// Which file an operation is about. The shared memory of a database counts as its main file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    Main,
    Wal,
    Other,
}

/// Which operations fail, from which on, and how.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Any, if none is named.
    which: Option<(&'static [Operation], File)>,
    first: usize,
    times: usize,
    /// That of the operation, if none is chosen.
    code: Option<c_int>,
}

impl Fault {
    /// The first operation fails, once.
    pub const fn of_any() -> Self {
        Self { which: None, first: 1, times: 1, code: None }
    }

    /// The first of these operations on `file` fails, once.
    pub const fn of(operations: &'static [Operation], file: File) -> Self {
        Self { which: Some((operations, file)), ..Self::of_any() }
    }

    /// None fails: the operations are only counted.
    pub const fn none() -> Self {
        Self::of_any().times(0)
    }

    /// The operation number `first`, counted from 1, is the first to fail.
    pub const fn from(self, first: usize) -> Self {
        Self { first, ..self }
    }

    /// So many fail, one after another.
    pub const fn times(self, times: usize) -> Self {
        Self { times, ..self }
    }

    /// All fail from the first on.
    pub const fn lasting(self) -> Self {
        self.times(usize::MAX)
    }

    pub const fn with_code(self, code: c_int) -> Self {
        Self { code: Some(code), ..self }
    }
}

/// One operation that SQLite has asked for.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub operation: Operation,
    pub file: File,
    pub failed: bool,
}

/// What a disk was asked for, and how much of it failed.
#[derive(Debug, Default)]
pub struct Log(Vec<Seen>);

impl Log {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn failed(&self) -> usize {
        self.0.iter().filter(|seen| seen.failed).count()
    }

    pub fn count(&self, operation: Operation, file: File) -> usize {
        self.0.iter().filter(|seen| (seen.operation, seen.file) == (operation, file)).count()
    }
}

type Action = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Plan {
    fault: Option<Fault>,
    /// How many operations the fault is about were seen.
    matched: usize,
    log: Log,
    /// What to run, and before which operation, counted from 1 with the log.
    action: Option<(usize, Action)>,
    /// What to run before the main file is opened the next time.
    before_open: Option<Action>,
    locks_hold_nobody_off: bool,
}

impl Plan {
    fn due(&mut self, operation: Operation, file: File) -> Option<Action> {
        if (operation, file) == (Operation::Open, File::Main) && self.before_open.is_some() {
            return self.before_open.take();
        }
        let next = self.log.len() + 1;
        self.action.take_if(|(at, _)| *at == next).map(|(_, action)| action)
    }

    /// Counts the operation, and gives the code that it ends with.
    fn judge(&mut self, operation: Operation, file: File) -> c_int {
        let hit = self.fault.filter(|fault| {
            fault.which.is_none_or(|(operations, of)| operations.contains(&operation) && of == file)
        });
        let code = hit.and_then(|fault| {
            self.matched += 1;
            let failing = fault.first..fault.first.saturating_add(fault.times);
            failing.contains(&self.matched).then(|| fault.code.unwrap_or(operation.usual_code()))
        });
        if self.fault.is_some() {
            self.log.0.push(Seen { operation, file, failed: code.is_some() });
        }
        code.unwrap_or(ffi::SQLITE_OK)
    }
}

/// What a disk that is put on tape makes of syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syncs {
    Kept,
    /// It says that they are done, and does nothing: a store on it is as one that never syncs.
    Ignored,
}

/// A disk that can be told to fail. Each is a VFS of its own, under a name of its own, so that tests run side
/// by side.
///
/// Syncs are counted and fail as all else, but are not handed on: a power cut that is only modelled ([`Platter`](super::platter::Platter)) needs none.
pub struct Disk(&'static Controls);

/// Those of disks that are gone: to be used again, since SQLite looks for a VFS in a list.
static IDLE: Mutex<Vec<&'static Controls>> = Mutex::new(Vec::new());

fn idle() -> MutexGuard<'static, Vec<&'static Controls>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the shim reaches through SQLite's pointers. Never freed, since SQLite keeps no count of who uses a
/// VFS.
pub(super) struct Controls {
    name: String,
    plan: Mutex<Plan>,
    tape: Mutex<Option<Tape>>,
}

impl Controls {
    fn tape(&self) -> MutexGuard<'_, Option<Tape>> {
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts on tape what the shim has done, if there is one.
    pub(super) fn note<T>(&self, what: impl FnOnce(&mut Tape) -> T) -> Option<T> {
        self.tape().as_mut().map(what)
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether every lock of the write-ahead log is given to whoever asks.
    pub(super) fn gives_every_lock(&self) -> bool {
        self.plan().locks_hold_nobody_off
    }

    /// What the shim asks before each operation: the code to end it with, or `SQLITE_OK` to go on.
    pub(super) fn enter(&self, operation: Operation, file: File) -> c_int {
        // Not under the lock: it may use this very disk.
        let due = self.plan().due(operation, file);
        if let Some(action) = due {
            action();
        }
        self.plan().judge(operation, file)
    }
}

impl Disk {
    pub fn new() -> Self {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let idle = idle().pop();
        Self(idle.unwrap_or_else(|| {
            let name = format!("faults-{}", MADE.fetch_add(1, Ordering::Relaxed));
            let controls: &'static Controls =
                Box::leak(Box::new(Controls { name, plan: Mutex::default(), tape: Mutex::default() }));
            shim::register(&controls.name, controls);
            controls
        }))
    }

    /// What to open a file on this disk with.
    pub fn vfs(&self) -> &'static str {
        &self.0.name
    }

    /// Counts from here on, and fails what `fault` says.
    pub fn fail(&self, fault: Fault) {
        let mut plan = self.0.plan();
        *plan = Plan {
            fault: Some(fault),
            action: plan.action.take(),
            before_open: plan.before_open.take(),
            ..Plan::default()
        };
    }

    /// Works again, and says what was seen since it was told to fail.
    pub fn heal(&self) -> Log {
        std::mem::take(&mut *self.0.plan()).log
    }

    /// Gives every lock of a write-ahead log to whoever asks, as a file system without working locks does.
    pub fn let_locks_hold_nobody_off(&self) {
        self.0.plan().locks_hold_nobody_off = true;
    }

    /// Puts all changes on tape from here on: of one folder, which has these files, none of them open.
    pub fn record(&self, before: Folder, syncs: Syncs) {
        *self.0.tape() = Some(Tape::new(before, syncs == Syncs::Ignored));
    }

    /// How many changes are on tape.
    pub fn recorded(&self) -> usize {
        self.0.note(|tape| tape.changes.len()).expect("a tape")
    }

    pub fn take_tape(&self) -> Tape {
        self.0.tape().take().expect("a tape")
    }

    /// Runs `action`, whose panic would end the process, before the main file is opened the next time.
    pub fn before_the_next_open(&self, action: impl FnOnce() + Send + 'static) {
        self.0.plan().before_open = Some(Box::new(action));
    }

    /// Runs `action`, whose panic would end the process, before operation number `at` from when the disk is told
    /// to fail, whichever that is.
    pub fn before_operation(&self, at: usize, action: impl FnOnce() + Send + 'static) {
        self.0.plan().action = Some((at, Box::new(action)));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.heal();
        *self.0.tape() = None;
        idle().push(self.0);
    }
}
