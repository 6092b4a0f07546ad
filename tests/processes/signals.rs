//! Children that are stopped and go on: what a paused machine, a debugger or a starved container does to a process.

use crate::crew::Child;

unsafe extern "C" {
    fn kill(process: i32, signal: i32) -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
}

const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;
/// Tells of children that were stopped, too.
const WUNTRACED: i32 = 2;

impl Child {
    /// Stops all threads of the child, wherever they are; it has stopped when this returns.
    pub fn stop(&self) {
        self.send(SIGSTOP);
        let mut status = 0;
        // SAFETY: `status` is there for the whole call, and nobody else waits for this child meanwhile.
        let told_of = unsafe { waitpid(self.id(), &raw mut status, WUNTRACED) };
        assert_eq!((told_of, status & 0xff), (self.id(), 0x7f), "child {} has not stopped", self.number);
    }

    pub fn go_on(&self) {
        self.send(SIGCONT);
    }

    fn send(&self, signal: i32) {
        // SAFETY: it touches no memory of ours. The child has not been waited for, so the number is still its own.
        assert_eq!(unsafe { kill(self.id(), signal) }, 0, "child {} is gone", self.number);
    }
}
