//! What the benches share: what is measured and against what, on which keys, and how it is compared and
//! written down. A package of its own takes it in by `#[path]`; it needs `dashmap`, `hdrhistogram`, `idempotency`,
//! `serde_json` and `tempfile`.

pub mod bare_map;
pub mod keys;
pub mod measured;
pub mod plan;
pub mod raw;
pub mod request;
#[path = "../../tests/common/seed.rs"]
pub mod seed;
pub mod sides;
pub mod spread;
pub mod subjects;
pub mod threads;
pub mod waits;
