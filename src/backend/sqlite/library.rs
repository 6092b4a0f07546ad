//! Which versions of SQLite itself the store runs on.

use crate::error::BackendError;

/// Refuses a library that can lose what it has acknowledged.
pub(super) fn check() -> Result<(), BackendError> {
    if is_sound(rusqlite::version_number()) {
        Ok(())
    } else {
        Err(BackendError::old_library(rusqlite::version()))
    }
}

/// Whether the version has the mend of the log's reset: before it, a checkpoint that raced one could lose
/// committed transactions (SQLite, "Write-Ahead Logging", section 11). As SQLite numbers versions: 3.51.3 is
/// 3051003.
const fn is_sound(version: i32) -> bool {
    matches!(version, 3_044_006..=3_044_999 | 3_050_007..=3_050_999 | 3_051_003..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_without_the_mend_are_refused_and_those_with_it_are_not() {
        for old in [3_007_000, 3_040_001, 3_044_005, 3_045_000, 3_050_006, 3_051_000, 3_051_002] {
            assert!(!is_sound(old), "{old}");
        }
        for sound in [3_044_006, 3_044_999, 3_050_007, 3_051_003, 3_052_000, 3_054_001, 4_000_000] {
            assert!(is_sound(sound), "{sound}");
        }
    }
}
