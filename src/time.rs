//! Points in time, stretches of time, and the clocks that tell it.
//!
//! The only file that reads a clock of the machine. One unit everywhere: whole milliseconds.

use crate::planted;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The first millisecond after the year 9999, the last year a clock may show.
const END_OF_YEAR_9999: i64 = 253_402_300_800_000;

/// A point in time: milliseconds since 1970-01-01T00:00:00Z.
///
/// Arithmetic saturates; nothing wraps and nothing depends on a time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// A point `millis` milliseconds after (or, if negative, before) the start of 1970, UTC.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the start of 1970, UTC.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This point moved forward by `duration`, a part of a millisecond rounded up.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis_rounded_up(duration)))
    }

    /// This point moved back by `duration`, a part of a millisecond rounded up.
    #[must_use]
    pub fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis_rounded_up(duration)))
    }

    /// How long it is from `earlier` to this point; zero if `earlier` is the later one.
    #[must_use]
    pub fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Whether a deadline at this point is over at `now`.
    ///
    /// Half-open: what has deadline `d` stands while `now < d`. In Rust it is written down only here.
    #[must_use]
    pub fn is_over(self, now: Self) -> bool {
        if planted::is("deadline-late") {
            return self.0 < now.0;
        }
        if planted::is("deadline-early") {
            return self.0 <= now.0.saturating_add(1);
        }
        self.0 <= now.0
    }
}

/// A lease or a retention: whole milliseconds, at least one, at most [`Period::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period(i64);

impl Period {
    /// The longest lease and the longest retention: 36,525 days (100 years).
    pub const MAX: Duration = Duration::from_secs(36_525 * 24 * 60 * 60);
    const MAX_MILLIS: i64 = millis_rounded_up(Self::MAX);

    /// `duration` as a period; a part of a millisecond rounds up.
    ///
    /// # Errors
    /// [`PeriodError`] if `duration` is zero or longer than [`Period::MAX`].
    pub const fn new(duration: Duration) -> Result<Self, PeriodError> {
        if duration.is_zero() {
            return Err(PeriodError::Zero);
        }
        let millis = millis_rounded_up(duration);
        if millis > Self::MAX_MILLIS { Err(PeriodError::TooLong) } else { Ok(Self(millis)) }
    }

    /// A period of `millis` milliseconds, as a backend reads it back from its storage.
    ///
    /// # Errors
    /// [`PeriodError`] if `millis` is below 1 or longer than [`Period::MAX`].
    pub fn from_millis(millis: i64) -> Result<Self, PeriodError> {
        Self::new(Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
    }

    /// The period in milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The period as a [`Duration`].
    #[must_use]
    pub fn as_duration(self) -> Duration {
        Duration::from_millis(self.0.unsigned_abs())
    }

    /// The point in time one period after `start`.
    #[must_use]
    pub fn after(self, start: Timestamp) -> Timestamp {
        Timestamp(start.0.saturating_add(self.0))
    }
}

/// A length of time that is neither a lease nor a retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeriodError {
    /// No time at all: a lease of zero is over before the work begins, and with a retention of zero a
    /// takeover would not know that it is one.
    #[error("a lease or a retention must be longer than zero")]
    Zero,
    /// Longer than [`Period::MAX`].
    #[error("a lease or a retention must be at most 36,525 days")]
    TooLong,
}

/// Where a backend gets the time from.
///
/// A clock may step back: nothing is clamped. No lease ends earlier for it; a reply that is recorded meanwhile
/// is replayed for one retention from what the clock showed. A backend refuses to work while its clock is
/// outside the years 1970–9999. The clock is read while a lock is held, so it must be quick and must not use the
/// store.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

impl<C: Clock + ?Sized> Clock for Box<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// The clock showed a time outside the years 1970–9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the clock is outside the years 1970–9999: {millis} ms since 1970")]
pub struct ClockOutOfRange {
    /// What the clock showed, in milliseconds since 1970.
    pub millis: i64,
}

/// Reads `clock` once, for one command.
///
/// # Errors
/// [`ClockOutOfRange`] if it shows a time that no record may carry.
pub fn read_clock(clock: &dyn Clock) -> Result<Timestamp, ClockOutOfRange> {
    let now = clock.now();
    if (0..END_OF_YEAR_9999).contains(&now.0) { Ok(now) } else { Err(ClockOutOfRange { millis: now.0 }) }
}

/// The machine's wall clock: the same for every process, and it steps when it is set.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the file that reads clocks")]
    fn now(&self) -> Timestamp {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => Timestamp(millis_rounded_down(since)),
            Err(before) => Timestamp(millis_rounded_down(before.duration()).saturating_neg()),
        }
    }
}

/// A clock that never steps: the wall clock at its making, and what has passed since then.
///
/// For stores that end with their process. Two of them drift apart, so never for a store that is shared.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    start: Timestamp,
    started: Instant,
}

impl MonotonicClock {
    /// Starts at the wall clock's time.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the file that reads clocks")]
    pub fn new() -> Self {
        Self { start: SystemClock.now(), started: Instant::now() }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    #[expect(clippy::disallowed_methods, reason = "the file that reads clocks")]
    fn now(&self) -> Timestamp {
        Timestamp(self.start.0.saturating_add(millis_rounded_down(self.started.elapsed())))
    }
}

/// A clock that shows what it is told, for tests. Clones show the same time.
///
/// ```
/// use idempotency::{Clock, ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_millis(1_000));
/// let same = clock.clone();
/// clock.advance(Duration::from_secs(30));
/// assert_eq!(same.now(), Timestamp::from_millis(31_000));
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that shows `now` until it is told otherwise.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(now.0)))
    }

    /// Shows `now` from here on, earlier than before or later.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, Ordering::SeqCst);
    }

    /// Moves forward by `by`.
    pub fn advance(&self, by: Duration) {
        self.step(|now| now.saturating_add(by));
    }

    /// Steps back by `by`.
    pub fn rewind(&self, by: Duration) {
        self.step(|now| now.saturating_sub(by));
    }

    fn step(&self, to: impl Fn(Timestamp) -> Timestamp) {
        self.0.update(Ordering::SeqCst, Ordering::SeqCst, |now| to(Timestamp(now)).0);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// Nanoseconds since 1970 on the machine's wall clock, at least 1: where a token counter starts at the
/// earliest.
///
/// Never an injected clock's: tokens must rise over the store's whole life, also across a test's clock that
/// starts at zero.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the file that reads clocks")]
pub(crate) fn wall_clock_nanos() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX).max(1)
}

/// How long something takes, whatever the wall clock does meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

#[expect(clippy::disallowed_methods, reason = "the file that reads clocks")]
impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// `duration` in whole milliseconds, a part of one rounded up.
pub(crate) fn whole_millis(duration: Duration) -> Duration {
    Duration::from_millis(millis_rounded_up(duration).unsigned_abs())
}

#[expect(clippy::as_conversions, reason = "`try_from` is not const; what does not fit is caught before")]
const fn millis_rounded_up(duration: Duration) -> i64 {
    const MOST: u64 = i64::MAX.unsigned_abs();
    let parts = duration.subsec_nanos().div_ceil(1_000_000) as u64;
    let millis = duration.as_secs().saturating_mul(1_000).saturating_add(parts);
    if millis > MOST { i64::MAX } else { millis as i64 }
}

fn millis_rounded_down(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_stands_until_the_millisecond_it_names() {
        let deadline = Timestamp::from_millis(100);
        assert!(!deadline.is_over(Timestamp::from_millis(99)));
        assert!(deadline.is_over(Timestamp::from_millis(100)));
        assert!(deadline.is_over(Timestamp::from_millis(101)));
    }

    #[test]
    fn a_part_of_a_millisecond_rounds_up() {
        for (duration, millis) in [
            (Duration::from_nanos(1), 1),
            (Duration::from_micros(999), 1),
            (Duration::from_millis(1), 1),
            (Duration::from_nanos(1_000_001), 2),
            (Period::MAX, 36_525 * 86_400_000),
        ] {
            assert_eq!(Period::new(duration).map(Period::as_millis), Ok(millis), "{duration:?}");
        }
        assert_eq!(Period::new(Duration::ZERO), Err(PeriodError::Zero));
        assert_eq!(Period::new(Period::MAX + Duration::from_nanos(1)), Err(PeriodError::TooLong));
        assert_eq!(Period::new(Duration::from_millis(i64::MAX.unsigned_abs())), Err(PeriodError::TooLong));
        assert_eq!(Period::new(Duration::MAX), Err(PeriodError::TooLong));
        assert_eq!(Period::from_millis(0), Err(PeriodError::Zero));
        assert_eq!(Period::from_millis(-1), Err(PeriodError::Zero));
        assert_eq!(Period::from_millis(i64::MAX), Err(PeriodError::TooLong));
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let end = Timestamp::from_millis(i64::MAX - 1);
        assert_eq!(end.saturating_add(Duration::MAX).as_millis(), i64::MAX);
        assert_eq!(Timestamp::from_millis(i64::MIN).saturating_sub(Duration::MAX).as_millis(), i64::MIN);
        assert_eq!(Timestamp::from_millis(5).saturating_since(Timestamp::from_millis(9)), Duration::ZERO);
        let widest = Timestamp::from_millis(i64::MAX).saturating_since(Timestamp::from_millis(i64::MIN));
        assert_eq!(widest, Duration::from_millis(i64::MAX.unsigned_abs()));
        assert_eq!(Period::from_millis(7).map(|p| p.after(end).as_millis()), Ok(i64::MAX));
    }

    #[test]
    fn a_clock_is_believed_from_1970_to_9999_only() {
        for (millis, believed) in [
            (-1, false),
            (0, true),
            (END_OF_YEAR_9999 - 1, true),
            (END_OF_YEAR_9999, false),
            (i64::MIN, false),
            (i64::MAX, false),
        ] {
            let clock = ManualClock::new(Timestamp::from_millis(millis));
            assert_eq!(read_clock(&clock).is_ok(), believed, "{millis}");
        }
    }

    /// As if the wall clock had stepped since it was made.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the file that reads clocks")]
    fn a_monotonic_clock_does_not_follow_the_wall_clock() {
        let clock = MonotonicClock { start: Timestamp(5), started: Instant::now() };
        let (first, second) = (clock.now(), clock.now());
        assert!(Timestamp(5) <= first && first <= second, "{first:?}, {second:?}");
        assert!(second < Timestamp::from_millis(1_577_836_800_000), "{second:?}");
    }

    #[test]
    fn the_machines_clocks_agree_on_the_century() {
        let year_2020 = Timestamp::from_millis(1_577_836_800_000);
        assert!(SystemClock.now() > year_2020);
        assert!(MonotonicClock::new().now() > year_2020);
        assert!(wall_clock_nanos() / 1_000_000 > year_2020.as_millis());
    }
}
