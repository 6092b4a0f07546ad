//! Spans and events for `tracing`; nothing at all without the feature `tracing`.
//!
//! Scope and key go out as the digests that their `Display` shows; fingerprints and what is stored never do.

pub(crate) use imp::*;

#[cfg(feature = "tracing")]
mod imp {
    use crate::error::{Error, ErrorKind};
    use crate::key::{IdempotencyKey, RecordId, Scope};
    use crate::metrics::Event;
    use crate::observed::operation::Operation;
    use crate::outcome::Outcome;
    use std::error::Error as StdError;
    use std::fmt;
    #[cfg(feature = "tokio")]
    use tracing::Instrument;
    use tracing::field::{Empty, display};
    use tracing::span::EnteredSpan;
    use tracing::{Level, event, span};

    /// By which a subscriber may choose what to keep, wherever in the crate it comes from.
    const TARGET: &str = "idempotency";

    /// What the thread is in until this is dropped.
    pub(crate) struct Span(EnteredSpan);

    impl Span {
        pub(crate) fn enter(operation: Operation, scope: &Scope, key: &IdempotencyKey) -> Self {
            Self(new_span(operation, Some((scope, key))).entered())
        }

        /// One that is about more than one record.
        pub(crate) fn enter_for_many(operation: Operation) -> Self {
            Self(new_span(operation, None).entered())
        }

        pub(crate) fn answered(&self, answer: &Result<Outcome, Error>) {
            if let Ok(Outcome::Claimed(grant)) = answer {
                self.0.record("token", grant.token.get()).record("attempt", grant.attempt);
            }
            self.ended(match answer {
                Ok(outcome) => name_of(outcome),
                Err(Error::ClaimLost(_)) => "lost",
                Err(_) => "error",
            });
        }

        pub(crate) fn ended(&self, outcome: &'static str) {
            self.0.record("outcome", outcome);
        }
    }

    /// The span that the caller is in, for what is done on another thread in its place.
    #[cfg(feature = "tokio")]
    pub(crate) struct Context(tracing::Span);

    #[cfg(feature = "tokio")]
    impl Context {
        pub(crate) fn of_the_caller() -> Self {
            Self(tracing::Span::current())
        }

        pub(crate) fn within<T>(self, work: impl FnOnce() -> T) -> T {
            self.0.in_scope(work)
        }
    }

    /// Has `task` run in a span, whichever threads it runs on; `name_of` names what comes of it.
    #[cfg(feature = "tokio")]
    pub(crate) async fn in_span<T>(
        operation: Operation,
        (scope, key): (&Scope, &IdempotencyKey),
        name_of: fn(&T) -> &'static str,
        task: impl Future<Output = T>,
    ) -> T {
        let span = new_span(operation, Some((scope, key)));
        let outcome = task.instrument(span.clone()).await;
        span.record("outcome", name_of(&outcome));
        outcome
    }

    fn new_span(operation: Operation, about: Option<(&Scope, &IdempotencyKey)>) -> tracing::Span {
        macro_rules! span_of {
            ($level:ident, $operation:ident) => {
                span!(
                    target: TARGET,
                    Level::$level,
                    Operation::$operation.as_str(),
                    scope = about.map(|(scope, _)| display(scope)),
                    key = about.map(|(_, key)| display(key)),
                    token = Empty,
                    attempt = Empty,
                    outcome = Empty,
                )
            };
        }
        match operation {
            Operation::Claim => span_of!(DEBUG, Claim),
            Operation::Complete => span_of!(DEBUG, Complete),
            Operation::Renew => span_of!(DEBUG, Renew),
            Operation::Checkpoint => span_of!(DEBUG, Checkpoint),
            Operation::Release => span_of!(DEBUG, Release),
            Operation::Abandon => span_of!(DEBUG, Abandon),
            Operation::Forget => span_of!(DEBUG, Forget),
            Operation::Read => span_of!(DEBUG, Read),
            Operation::Sweep => span_of!(DEBUG, Sweep),
            Operation::Stats => span_of!(DEBUG, Stats),
            Operation::Stuck => span_of!(DEBUG, Stuck),
            Operation::Batch => span_of!(DEBUG, Batch),
            // The application's own work is inside, and its log is to say which operation that is for.
            Operation::Atomically => span_of!(INFO, Atomically),
            Operation::Run => span_of!(INFO, Run),
        }
    }

    /// What happened to the record `id`; `outcome`, where there is one, says more.
    pub(crate) fn happened(event: Event, id: &RecordId, outcome: Option<&Outcome>) {
        let (token, attempt) = match outcome {
            Some(Outcome::Claimed(grant)) => (Some(grant.token.get()), Some(grant.attempt)),
            _ => (None, None),
        };
        let reason = match outcome {
            Some(Outcome::Lost(reason)) => Some(display(reason)),
            _ => None,
        };
        macro_rules! event_of {
            ($level:ident, $message:literal) => {
                event!(
                    target: TARGET,
                    Level::$level,
                    scope = %id.scope,
                    key = %id.key,
                    token,
                    attempt,
                    reason,
                    $message
                )
            };
        }
        match event {
            Event::Claimed => event_of!(DEBUG, "claimed"),
            Event::TakenOver => event_of!(INFO, "taken over: an earlier attempt ended without a reply"),
            Event::Replayed => event_of!(DEBUG, "replayed"),
            Event::FoundInProgress => event_of!(DEBUG, "in progress elsewhere"),
            Event::Mismatched => event_of!(WARN, "refused: the key is another request's"),
            Event::Completed => event_of!(DEBUG, "completed"),
            Event::CompletionFailed => event_of!(WARN, "the reply was not recorded, or may not be"),
            Event::Released => event_of!(DEBUG, "released"),
            Event::Abandoned => event_of!(DEBUG, "abandoned"),
            Event::WorkFailed => event_of!(DEBUG, "the work failed"),
            Event::Lost => event_of!(WARN, "the claim is lost"),
            Event::DroppedUnfinished => event_of!(WARN, "a claim was dropped without being ended"),
            Event::Renewed => event_of!(DEBUG, "renewed"),
            Event::RenewalFailed => event_of!(WARN, "not renewed, to be tried again"),
            Event::CheckpointSaved => event_of!(DEBUG, "checkpoint saved"),
            Event::Forgotten => event_of!(INFO, "forgotten: an operator deleted the record"),
            Event::Swept => event_of!(DEBUG, "swept"),
        }
    }

    pub(crate) fn swept(removed: usize) {
        event!(target: TARGET, Level::DEBUG, removed, "swept");
    }

    /// `operation` failed, on the record `id` if it is about one.
    pub(crate) fn failed(operation: Operation, id: Option<&RecordId>, error: &Error) {
        macro_rules! event_of {
            ($level:ident) => {
                event!(
                    target: TARGET,
                    Level::$level,
                    command = operation.as_str(),
                    scope = id.map(|id| display(&id.scope)),
                    key = id.map(|id| display(&id.key)),
                    kind = error.kind().as_str(),
                    error = %Chain(error),
                    "failed"
                )
            };
        }
        match error.kind() {
            // The caller was wrong, or may try again: it is told.
            ErrorKind::Refused | ErrorKind::Busy | ErrorKind::Unavailable => event_of!(WARN),
            _ => event_of!(ERROR),
        }
    }

    /// An error with all that caused it.
    struct Chain<'a>(&'a Error);

    impl fmt::Display for Chain<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}", self.0)?;
            let mut cause = self.0.source();
            while let Some(error) = cause {
                write!(f, ": {error}")?;
                cause = error.source();
            }
            Ok(())
        }
    }

    const fn name_of(outcome: &Outcome) -> &'static str {
        match outcome {
            Outcome::Claimed(grant) if grant.attempt > 1 => "taken_over",
            Outcome::Claimed(_) => "claimed",
            Outcome::Completed(_) => "replayed",
            Outcome::InProgress { .. } => "in_progress",
            Outcome::FingerprintMismatch(_) => "mismatch",
            Outcome::Recorded(_) => "recorded",
            Outcome::AlreadyRecorded(_) => "already_recorded",
            Outcome::Renewed { .. } => "renewed",
            Outcome::Released => "released",
            Outcome::Abandoned => "abandoned",
            Outcome::AlreadyGone => "gone",
            Outcome::Lost(_) => "lost",
            Outcome::Forgotten { existed: true } => "forgotten",
            Outcome::Forgotten { existed: false } => "absent",
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod imp {
    use crate::error::Error;
    use crate::key::{IdempotencyKey, RecordId, Scope};
    use crate::metrics::Event;
    use crate::observed::operation::Operation;
    use crate::outcome::Outcome;

    pub(crate) struct Span;

    impl Span {
        pub(crate) const fn enter(_: Operation, _: &Scope, _: &IdempotencyKey) -> Self {
            Self
        }

        pub(crate) const fn enter_for_many(_: Operation) -> Self {
            Self
        }

        pub(crate) const fn answered(&self, _: &Result<Outcome, Error>) {}

        pub(crate) const fn ended(&self, _: &'static str) {}
    }

    #[cfg(feature = "tokio")]
    pub(crate) struct Context;

    #[cfg(feature = "tokio")]
    impl Context {
        pub(crate) const fn of_the_caller() -> Self {
            Self
        }

        pub(crate) fn within<T>(self, work: impl FnOnce() -> T) -> T {
            work()
        }
    }

    #[cfg(feature = "tokio")]
    pub(crate) async fn in_span<T>(
        _: Operation,
        _: (&Scope, &IdempotencyKey),
        _: fn(&T) -> &'static str,
        task: impl Future<Output = T>,
    ) -> T {
        task.await
    }

    pub(crate) const fn happened(_: Event, _: &RecordId, _: Option<&Outcome>) {}

    pub(crate) const fn swept(_: usize) {}

    pub(crate) const fn failed(_: Operation, _: Option<&RecordId>, _: &Error) {}
}
