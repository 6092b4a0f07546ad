//! Waiting for what will come, with a deadline that no sound run meets.

use std::thread;
use std::time::Duration;

const NAP: Duration = Duration::from_millis(5);
const MAX_NAPS: u32 = 12_000;

/// Waits until `look` sees something, and gives that; fails the test after a minute.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..MAX_NAPS {
        if let Some(seen) = look() {
            return seen;
        }
        thread::sleep(NAP);
    }
    panic!("waited in vain until {what}");
}
