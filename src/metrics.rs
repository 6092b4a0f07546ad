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
    ($($(#[doc = $doc:literal])* $event:ident => $field:ident,)*) => {
        /// What happened to an operation, as it is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Event {
            $($event,)*
        }

        /// What the handles of one store have done since the store was opened, in this process. All of them
        /// count together; another process, and a store that is opened again, count for themselves.
        ///
        /// Counters only go up. They are read one after the other while others go on, so a claim may be in
        /// one and not yet in another.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Metrics {
            $($(#[doc = $doc])* pub $field: u64,)*
            /// Calls that failed, by kind. Lost claims are no failures of the store: they are in
            /// [`lost_claims`](Self::lost_claims) instead.
            pub errors: ErrorCounts,
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
    /// Claims that were granted as the first of their record.
    Claimed => claims,
    /// Claims that were granted by taking over a lapsed one.
    TakenOver => takeovers,
    /// Claims that were answered with the recorded reply.
    Replayed => replays,
    /// Claims that were answered "in progress".
    FoundInProgress => in_progress,
    /// Claims that were refused because the key is another request's. If these rise, a client uses keys more
    /// than once.
    Mismatched => mismatches,
    /// Replies that were recorded.
    Completed => completions,
    /// Claims that were released.
    Released => releases,
    /// Claims that were abandoned.
    Abandoned => abandons,
    /// Runs of [`run`](crate::IdempotencyStore::run) and
    /// [`atomically`](crate::IdempotencyStore#method.atomically) whose work failed or panicked: it gave an
    /// error, or a reply that is a failure by the policy.
    WorkFailed => failed_runs,
    /// Calls that were refused because the claim was not its owner's any more: the lease was shorter than the
    /// work, or an operator has intervened.
    Lost => lost_claims,
    /// [`Claim`](crate::Claim)s that were dropped without being ended, and without a ticket for somebody else
    /// to end them by. Their keys are blocked until the lease ends.
    DroppedUnfinished => dropped_unfinished,
    /// Leases that were renewed.
    Renewed => renewals,
    /// Checkpoints that were saved.
    CheckpointSaved => checkpoints,
    /// Records that were deleted by [`forget`](crate::IdempotencyStore::forget).
    Forgotten => forgotten,
    /// Expired records that were removed.
    Swept => swept,
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
        ErrorKind::ALL.into_iter().zip(self.0)
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

    pub(crate) fn count(&self, event: Event) {
        self.count_many(event, 1);
    }

    pub(crate) fn count_many(&self, event: Event, times: usize) {
        // Relaxed: a counter orders nothing.
        let times = u64::try_from(times).unwrap_or(u64::MAX);
        self.stripe().counter(event).fetch_add(times, Ordering::Relaxed);
    }

    pub(crate) fn count_error(&self, kind: ErrorKind) {
        let counted = ErrorKind::ALL.into_iter().zip(&self.stripe().errors).find(|(one, _)| *one == kind);
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
                        counters.count(Event::Claimed);
                        counters.count_many(Event::Swept, 3);
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
        for kind in ErrorKind::ALL {
            let before = counters.sum().errors;
            counters.count_error(kind);
            let changed: Vec<_> =
                counters.sum().errors.iter().filter(|(kind, count)| before.of(*kind) != *count).collect();
            assert_eq!(changed, [(kind, 1)]);
        }
    }
}
