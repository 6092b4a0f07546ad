//! Forks of a test's process.

use crate::alone::alarm;

unsafe extern "C" {
    pub fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    pub fn _exit(status: i32) -> !;
}

/// Ends a child that waits for a lock which nobody gives back.
const HANGS_AFTER_SECONDS: u32 = 60;

/// A forked child of this process, which its starter waits for.
#[must_use = "a child that is not waited for"]
pub struct Fork(pub i32);

impl Fork {
    /// Runs `body` in a child, which ends with the number that it comes to.
    pub fn start(body: impl FnOnce() -> u8) -> Self {
        // SAFETY: no other thread of this process does anything (see `alone`), so the child may do what the
        // parent may. It leaves by `_exit`, so that it neither unwinds into the harness nor runs what is to
        // be run once at exit.
        let process = unsafe { fork() };
        assert!(process >= 0, "the process can't be forked");
        if process == 0 {
            // SAFETY: it takes a number and touches no memory of ours.
            unsafe { alarm(HANGS_AFTER_SECONDS) };
            let number = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(PANICKED);
            // SAFETY: it does not return, and runs no code of ours.
            unsafe { _exit(number.into()) }
        }
        Self(process)
    }

    pub fn wait(self) -> u8 {
        let mut status = 0;
        // SAFETY: `status` is there for the whole call, and the child is ours and not waited for by others.
        let ended = unsafe { waitpid(self.0, &raw mut status, 0) };
        assert_eq!(ended, self.0);
        assert_eq!(status & 0x7f, 0, "the child was ended by a signal");
        u8::try_from((status >> 8) & 0xff).expect("eight bits")
    }
}

/// Runs `body` in a forked child and gives the number that it came to.
pub fn in_a_fork(body: impl FnOnce() -> u8) -> u8 {
    Fork::start(body).wait()
}

pub const AS_IT_SHOULD_BE: u8 = 0;
pub const PANICKED: u8 = 254;
