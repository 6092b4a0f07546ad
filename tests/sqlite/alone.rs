//! Tests that need a process of their own: what they do to it is done to all that runs in it.

use std::process::Command;

unsafe extern "C" {
    /// Has the system end this process after so many seconds.
    pub fn alarm(seconds: u32) -> u32;
}

/// Tells this test binary, run again, to run a test in this very process.
const ALONE: &str = "IDEMPOTENCY_TEST_ALONE";

/// After this a process of these tests is ended by the system: it waits for a lock that nobody gives back.
const HANGS_AFTER_SECONDS: u32 = 120;

/// Runs `body`, the inside of the test named `test`, in a process where no other test runs. A fork, say, copies
/// the locks that other threads hold at that moment, those of the allocator and of SQLite included.
pub fn alone(test: &str, body: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        // SAFETY: it takes a number and touches no memory of ours.
        unsafe { alarm(HANGS_AFTER_SECONDS) };
        return body();
    }
    let output = Command::new(std::env::current_exe().expect("the path of this test"))
        .args(["--exact", test, "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .expect("a child process");
    assert!(output.status.success(), "{output:?}");
    let ran = String::from_utf8_lossy(&output.stdout).contains("1 passed");
    assert!(ran, "the child found no test named {test}: {output:?}");
}
