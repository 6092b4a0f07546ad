//! What a store has done so far, in numbers: [`Metrics`].

use crate::error::ErrorKind;
use crate::outcome::{LostReason, Outcome};
use crate::transition::Command;
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::available_parallelism;

/// More stripes than this save no time that anybody could measure.
const MAX_STRIPES: usize = 16;

macro_rules! events {
    ($($event:ident => $field:ident: $summary:literal $($more:literal)*;)*) => {
        /// What happened to an operation, as it is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Event {
            $($event,)*
        }

        /// What the handles and claims of one store have done since the store was opened, in this process. All
        /// of them count together; another process, and a store that is opened again, count for themselves.
        ///
        /// Counters only go up. They are read one after the other while others go on, so a claim may be in
        /// one and not yet in another.
        ///
        /// An answer is counted once, and so is an error: whoever asks for a claim is in `claims`,
        /// `takeovers`, `replays`, `in_progress`, `mismatches` or `errors`. One who waits for it is in
        /// `in_progress` as well. What was rolled back by
        /// [`atomically`](crate::IdempotencyStore#method.atomically) counts as a failed run or an error, and
        /// nothing else; what was answered in a transaction of the application's is counted whatever becomes
        /// of that. A call that never got as far as the store (a key or a policy that was refused, an `open`
        /// that failed) is not counted.
        ///
        /// [`observability`](crate::observability) says what to watch, and how to publish them.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Metrics {
            $(
                #[doc = $summary]
                $(#[doc = $more])*
                pub $field: u64,
            )*
            /// Calls that failed, by kind. Lost claims are no failures of the store: they are in
            /// [`lost_claims`](Self::lost_claims) instead.
            pub errors: ErrorCounts,
        }

        #[cfg(feature = "metrics")]
        impl Event {
            /// All of them, in the order of the counters.
            pub(crate) const ALL: &[Self] = &[$(Self::$event),*];

            /// Its counter for the `metrics` facade.
            pub(crate) fn key(self) -> &'static ::metrics::Key {
                match self {
                    $(Self::$event => {
                        static KEY: ::metrics::Key = ::metrics::Key::from_static_name(
                            concat!("idempotency_", stringify!($field), "_total")
                        );
                        &KEY
                    })*
                }
            }

            /// What it counts, in a sentence.
            pub(crate) const fn summary(self) -> &'static str {
                match self {
                    $(Self::$event => $summary,)*
                }
            }
        }

        /// One set of counters; each thread counts in one of several.
        #[derive(Debug, Default)]
        struct Stripe {
            $($field: AtomicU64,)*
            errors: [AtomicU64; ErrorKind::ALL.len()],
        }

        impl Stripe {
            fn counter(&self, event: Event) -> &AtomicU64 {
                match event {
                    $(Event::$event => &self.$field,)*
                }
            }

            fn add_to(&self, sum: &mut Metrics) {
                $(sum.$field = sum.$field.saturating_add(self.$field.load(Ordering::Relaxed));)*
                for (sum, counter) in sum.errors.0.iter_mut().zip(&self.errors) {
                    *sum = sum.saturating_add(counter.load(Ordering::Relaxed));
                }
            }
        }
    };
}

events! {
    Claimed => claims:
        "Claims granted as the first of their record.";
    TakenOver => takeovers:
        "Claims granted by taking over one that was abandoned, or whose lease was over."
        "If these rise and no work fails, processes die, or leases are shorter than the work.";
    Replayed => replays:
        "Claims answered with the recorded reply.";
    FoundInProgress => in_progress:
        "Claims answered with \"in progress\".";
    Mismatched => mismatches:
        "Claims refused because the key is another request's."
        "If these rise, a client uses keys more than once.";
    Completed => completions:
        "Replies recorded.";
    CompletionFailed => failed_completions:
        "Completions that failed, but for those of lost claims, and in a transaction of the application's own."
        "The effect may have happened, and its reply is not on record, or may not be: unless the completion is"
        "tried again, the operation runs again after the lease. The error is in `errors`, too.";
    Released => releases:
        "Claims released.";
    Abandoned => abandons:
        "Claims abandoned.";
    WorkFailed => failed_runs:
        "Runs whose work failed or panicked."
        "[`run`](crate::IdempotencyStore::run) and"
        "[`atomically`](crate::IdempotencyStore#method.atomically) count them: the work gave an error, or a"
        "reply that is a failure by the policy and was not recorded.";
    Lost => lost_claims:
        "Calls refused because the claim was not its owner's any more."
        "The lease was shorter than the work, or an operator has intervened.";
    DroppedUnfinished => dropped_unfinished:
        "Claims dropped without being ended."
        "No [`Ticket`](crate::Ticket) was taken for somebody else to end them by. Their keys are blocked until"
        "the lease ends.";
    Renewed => renewals:
        "Leases renewed.";
    RenewalFailed => renewal_failures:
        "Renewals in the background that failed, and are tried again."
        "See [`keep_alive`](crate::Claim::keep_alive).";
    CheckpointSaved => checkpoints:
        "Checkpoints saved.";
    Forgotten => forgotten:
        "Records deleted by an operator."
        "See [`forget`](crate::IdempotencyStore::forget).";
    Swept => swept:
        "Expired records removed by sweeping."
        "What a full memory store removes by itself is not counted.";
}

impl Event {
    /// What `outcome` counts as; none where nothing happened that anybody would count.
    pub(crate) const fn of(command: &Command, outcome: &Outcome) -> Option<Self> {
        Some(match outcome {
            Outcome::Claimed(grant) if grant.attempt > 1 => Self::TakenOver,
            Outcome::Claimed(_) => Self::Claimed,
            Outcome::Completed(_) => Self::Replayed,
            Outcome::InProgress { .. } => Self::FoundInProgress,
            Outcome::FingerprintMismatch(_) => Self::Mismatched,
            Outcome::Recorded(_) => Self::Completed,
            Outcome::Renewed { .. } if matches!(command, Command::Checkpoint { .. }) => Self::CheckpointSaved,
            Outcome::Renewed { .. } => Self::Renewed,
            Outcome::Released => Self::Released,
            Outcome::Abandoned => Self::Abandoned,
            Outcome::Lost(reason) => return Self::of_loss(*reason),
            Outcome::Forgotten { existed: true } => Self::Forgotten,
            Outcome::Forgotten { existed: false } | Outcome::AlreadyRecorded(_) | Outcome::AlreadyGone => {
                return None;
            }
        })
    }

    /// What a refused owner counts as: one that has completed itself has lost nothing.
    pub(crate) const fn of_loss(reason: LostReason) -> Option<Self> {
        match reason {
            LostReason::CompletedByThisClaim => None,
            LostReason::Gone | LostReason::Running | LostReason::Completed => Some(Self::Lost),
        }
    }
}

/// How many calls failed, by kind.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct ErrorCounts([u64; ErrorKind::ALL.len()]);

impl ErrorCounts {
    /// How many failed in this way.
    #[must_use]
    pub fn of(&self, kind: ErrorKind) -> u64 {
        self.iter().find(|(counted, _)| *counted == kind).map_or(0, |(_, count)| count)
    }

    /// How many failed.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Each kind, and how many failed in this way.
    pub fn iter(&self) -> impl Iterator<Item = (ErrorKind, u64)> + '_ {
        ErrorKind::ALL.iter().copied().zip(self.0)
    }
}

/// Shows the kinds that there were.
impl fmt::Debug for ErrorCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().filter(|(_, count)| *count > 0).map(|(kind, count)| (kind.as_str(), count)))
            .finish()
    }
}

/// Counters that threads do not fight over: each counts in a stripe, and reading sums them up.
pub(crate) struct Counters {
    stripes: Box<[CachePadded<Stripe>]>,
}

impl Counters {
    pub(crate) fn new() -> Self {
        let stripes = available_parallelism().map_or(1, usize::from).min(MAX_STRIPES).next_power_of_two();
        Self { stripes: (0..stripes).map(|_| CachePadded::new(Stripe::default())).collect() }
    }

    pub(crate) fn count(&self, event: Event, times: u64) {
        // Relaxed: a counter orders nothing.
        self.stripe().counter(event).fetch_add(times, Ordering::Relaxed);
    }

    pub(crate) fn count_error(&self, kind: ErrorKind) {
        let counted = ErrorKind::ALL.iter().copied().zip(&self.stripe().errors).find(|(one, _)| *one == kind);
        if let Some((_, counter)) = counted {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn sum(&self) -> Metrics {
        let mut sum = Metrics::default();
        self.stripes.iter().for_each(|stripe| stripe.add_to(&mut sum));
        sum
    }

    #[expect(clippy::indexing_slicing, reason = "masked by the length, which is a power of two")]
    fn stripe(&self) -> &Stripe {
        &self.stripes[number_of_this_thread() & self.stripes.len().saturating_sub(1)]
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sum().fmt(f)
    }
}

/// A number for each thread, one after the other. A thread that goes down counts as the first.
fn number_of_this_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<usize> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.try_with(Cell::get).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn what_threads_count_at_once_adds_up() {
        let counters = Counters::new();
        thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| {
                    for _ in 0..1_000 {
                        counters.count(Event::Claimed, 1);
                        counters.count(Event::Swept, 3);
                        counters.count_error(ErrorKind::Busy);
                    }
                });
            }
        });
        let sum = counters.sum();
        assert_eq!((sum.claims, sum.swept, sum.errors.of(ErrorKind::Busy)), (8_000, 24_000, 8_000));
        assert_eq!((sum.takeovers, sum.errors.total()), (0, 8_000));
    }

    #[test]
    fn each_event_and_each_kind_has_a_counter_of_its_own() {
        let counters = Counters::new();
        for kind in ErrorKind::ALL.iter().copied() {
            let before = counters.sum().errors;
            counters.count_error(kind);
            let changed: Vec<_> =
                counters.sum().errors.iter().filter(|(kind, count)| before.of(*kind) != *count).collect();
            assert_eq!(changed, [(kind, 1)]);
        }
    }
}
