//! What is asked of a store, as spans and durations name it: [`Operation`].

use crate::transition::Command;

/// What is asked of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Claim,
    Complete,
    Renew,
    Checkpoint,
    Release,
    Abandon,
    Forget,
    Read,
    Sweep,
    Stats,
    Stuck,
    Batch,
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "metrics", feature = "tracing")),
        expect(dead_code, reason = "only SQLite has it, and only these name it")
    )]
    Atomically,
    Run,
}

impl Operation {
    pub(crate) const fn of(command: &Command) -> Self {
        match command {
            Command::Claim { .. } => Self::Claim,
            Command::Complete { .. } => Self::Complete,
            Command::Renew { .. } => Self::Renew,
            Command::Checkpoint { .. } => Self::Checkpoint,
            Command::Release { .. } => Self::Release,
            Command::Abandon { .. } => Self::Abandon,
            Command::Forget => Self::Forget,
        }
    }

    /// Its name, which does not change.
    #[cfg(any(feature = "metrics", feature = "tracing"))]
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Complete => "complete",
            Self::Renew => "renew",
            Self::Checkpoint => "checkpoint",
            Self::Release => "release",
            Self::Abandon => "abandon",
            Self::Forget => "forget",
            Self::Read => "read",
            Self::Sweep => "sweep",
            Self::Stats => "stats",
            Self::Stuck => "stuck",
            Self::Batch => "batch",
            Self::Atomically => "atomically",
            Self::Run => "run",
        }
    }
}
