//! Counters and durations for the `metrics` facade; nothing at all without the feature `metrics`.
//!
//! Handles are asked for anew each time: one that was had before the program installed its recorder would
//! never reach it. Without a recorder that costs an atomic load.

pub(super) use imp::*;

#[cfg(feature = "metrics")]
mod imp {
    use crate::error::ErrorKind;
    use crate::metrics::Event;
    use crate::observed::operation::Operation;
    use crate::time::Stopwatch;
    use ::metrics::{Counter, Histogram, Key, KeyName, Label, Level, Metadata, Unit, with_recorder};

    /// What a recorder may choose by, wherever in the crate it comes from.
    static METADATA: Metadata<'static> = Metadata::new("idempotency", Level::INFO, Some("idempotency"));
    const ERRORS: &str = "idempotency_errors_total";
    const DURATION: &str = "idempotency_command_duration_seconds";

    /// Says what is counted, and lets each counter begin at zero: a series that begins with its first event
    /// shows no rise.
    pub(crate) fn begin() {
        let failed = "Calls that failed, by kind of error.";
        let duration = "How long commands take, failed ones included.";
        with_recorder(|recorder| {
            for event in Event::ALL {
                let name = event.key().name_shared();
                recorder.describe_counter(name, Some(Unit::Count), event.summary().into());
            }
            recorder.describe_counter(KeyName::from_const_str(ERRORS), Some(Unit::Count), failed.into());
            recorder.describe_histogram(
                KeyName::from_const_str(DURATION),
                Some(Unit::Seconds),
                duration.into(),
            );
        });
        Event::ALL.iter().for_each(|event| count(*event, 0));
        ErrorKind::ALL
            .iter()
            .filter(|kind| **kind != ErrorKind::ClaimLost) // counted as an event
            .for_each(|kind| errors(*kind).increment(0));
    }

    pub(crate) fn count(event: Event, times: u64) {
        counter(event.key()).increment(times);
    }

    pub(crate) fn count_error(kind: ErrorKind) {
        errors(kind).increment(1);
    }

    fn errors(kind: ErrorKind) -> Counter {
        counter(&Key::from_parts(ERRORS, vec![Label::from_static_parts("kind", kind.as_str())]))
    }

    fn counter(key: &Key) -> Counter {
        with_recorder(|recorder| recorder.register_counter(key, &METADATA))
    }

    fn duration(operation: Operation) -> Histogram {
        macro_rules! key_of {
            ($($operation:ident),*) => {
                match operation {
                    $(Operation::$operation => {
                        static LABELS: [Label; 1] =
                            [Label::from_static_parts("command", Operation::$operation.as_str())];
                        static KEY: Key = Key::from_static_parts(DURATION, &LABELS);
                        &KEY
                    })*
                }
            };
        }
        let key = key_of!(
            Claim, Complete, Renew, Checkpoint, Release, Abandon, Forget, Read, Sweep, Stats, Stuck, Batch,
            Atomically, Run
        );
        with_recorder(|recorder| recorder.register_histogram(key, &METADATA))
    }

    /// Measures until it is dropped, however the call ends.
    pub(crate) struct Timer {
        operation: Operation,
        stopwatch: Stopwatch,
    }

    impl Timer {
        pub(crate) fn start(operation: Operation) -> Self {
            Self { operation, stopwatch: Stopwatch::start() }
        }
    }

    impl Drop for Timer {
        fn drop(&mut self) {
            duration(self.operation).record(self.stopwatch.elapsed());
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod imp {
    use crate::error::ErrorKind;
    use crate::metrics::Event;
    use crate::observed::operation::Operation;

    pub(crate) const fn begin() {}

    pub(crate) const fn count(_: Event, _: u64) {}

    pub(crate) const fn count_error(_: ErrorKind) {}

    pub(crate) struct Timer;

    impl Timer {
        pub(crate) const fn start(_: Operation) -> Self {
            Self
        }
    }
}
