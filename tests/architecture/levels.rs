//! The levels of the house: what is in which, from the bottom up.

/// A part of `src` that imports are judged by, and its level. What is below a unit's folder belongs to it.
pub type Unit = (&'static str, u8);

pub const LEVELS: &[Unit] = &[
    ("time", 0),
    ("key", 0),
    ("fingerprint", 0),
    ("reply", 0),
    ("policy", 0),
    ("record", 0),
    ("sync", 0),
    ("header", 0),
    ("hex", 0),
    ("into_bytes", 0),
    ("jitter", 0),
    ("planted", 0),
    ("inspection", 1),
    ("outcome", 1),
    ("transition", 1),
    ("error", 2),
    ("backend", 3),
    ("commit_queue", 3),
    ("backend/memory", 4),
    ("backend/sqlite", 4),
    ("background", 5),
    ("keep_alive", 5),
    ("metrics", 5),
    ("observed", 5),
    ("shared", 5),
    ("claim", 6),
    ("answer", 6),
    ("store", 7),
    ("operators", 8),
    ("ran", 8),
    ("run", 8),
    ("sweeper", 8),
    ("transactions", 8),
    ("wait", 8),
    ("observability", 9),
    ("async_store", 9),
    ("testing", 9),
    ("", 9),
];

/// The unit that a module belongs to: the longest one whose folder it is in.
pub fn unit_of(module: &str) -> Option<Unit> {
    let is_inside = |unit: &str| {
        module == unit
            || module.strip_prefix(unit).is_some_and(|rest| !unit.is_empty() && rest.starts_with('/'))
    };
    LEVELS.iter().copied().filter(|(unit, _)| is_inside(unit)).max_by_key(|(unit, _)| unit.len())
}
