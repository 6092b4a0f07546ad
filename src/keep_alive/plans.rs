//! Which claim is renewed when: [`Plans`]. No clock, no lock, no thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How many claims are renewed in one call of the backend: others write between two.
const MAX_BATCH: usize = 1_000;
/// What passes between two renewals of a claim at the least, or nearly: a lease of a millisecond must not
/// make the thread spin.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
/// What passes before a renewal that failed is tried again, at the least, where a third of the lease is
/// longer.
const SHORTEST_RETRY: Duration = Duration::from_millis(5);
/// [`retry`] takes a share of this.
pub(super) const WHOLE: u32 = 1_000;

/// How long after the lease was extended it is renewed: a third of it.
pub(super) fn third(lease: Duration) -> Duration {
    part(lease, 3).max(SHORTEST_PAUSE)
}

/// How long after a failure the renewal is tried again: from half a tenth of the lease to a tenth, by
/// `share`.
pub(super) fn retry(lease: Duration, share: u32) -> Duration {
    let half = part(lease, 20);
    let random = part(half.saturating_mul(share.min(WHOLE)), WHOLE);
    half.saturating_add(random).max(SHORTEST_RETRY).min(third(lease))
}

fn part(of: Duration, divisor: u32) -> Duration {
    of.checked_div(divisor).unwrap_or(of)
}

/// The claims that are kept alive, and when each is renewed next. Moments are what the renewer's stopwatch
/// shows then.
#[derive(Debug)]
pub(super) struct Plans<K> {
    /// By the claim's [address](address).
    plans: BTreeMap<usize, Plan<K>>,
    /// Until when the thread rests if nobody wakes it.
    rests_until: Duration,
}

#[derive(Debug)]
struct Plan<K> {
    kept: Arc<K>,
    /// From this moment on it is not renewed any more.
    end: Duration,
    /// None while it is being renewed.
    next: Option<Next>,
}

#[derive(Clone, Copy, Debug)]
struct Next {
    /// From when on it is renewed if others are, so that they share one commit.
    from: Duration,
    /// When it is renewed at the latest.
    due: Duration,
}

impl Next {
    fn after(now: Duration, pause: Duration) -> Self {
        let due = now.saturating_add(pause);
        Self { from: due.saturating_sub(part(pause, 4)), due }
    }
}

impl<K> Plans<K> {
    pub(super) const fn new() -> Self {
        Self { plans: BTreeMap::new(), rests_until: Duration::MAX }
    }

    /// Has `kept` renewed in `pause` and then again and again, before `end`; if it is planned already, as it
    /// is, but before this `end`. Whether the thread rests too long for it.
    pub(super) fn keep(&mut self, kept: &Arc<K>, now: Duration, pause: Duration, end: Duration) -> bool {
        let address = address(kept);
        let new = || Plan { kept: Arc::clone(kept), end, next: Some(Next::after(now, pause)) };
        let plan = self.plans.entry(address).or_insert_with(new);
        plan.end = end;
        match plan.next {
            Some(next) if end <= next.due => {
                self.plans.remove(&address);
                false
            }
            Some(next) => next.due < self.rests_until,
            None => false,
        }
    }

    /// Takes in hand what is to be renewed now, at most [`MAX_BATCH`] claims: if any is due, others that will
    /// be soon come along.
    pub(super) fn take(&mut self, now: Duration) -> Vec<Arc<K>> {
        self.plans.retain(|_, plan| plan.next.is_none() || now < plan.end);
        if self.first_due().is_none_or(|due| now < due) {
            return Vec::new();
        }
        let mut batch: Vec<_> =
            self.plans.values_mut().filter(|plan| plan.next.is_some_and(|next| next.from <= now)).collect();
        batch.sort_by_key(|plan| plan.next.map(|next| next.due));
        let taken = batch.into_iter().take(MAX_BATCH).map(|plan| {
            plan.next = None;
            Arc::clone(&plan.kept)
        });
        taken.collect()
    }

    /// Puts `kept` back, to be renewed in `pause` if there is one.
    pub(super) fn put_back(&mut self, kept: &Arc<K>, now: Duration, pause: Option<Duration>) {
        let address = address(kept);
        let next = pause.map(|pause| Next::after(now, pause));
        match (self.plans.get_mut(&address), next) {
            (Some(plan), Some(next)) if next.due < plan.end => plan.next = Some(next),
            _ => {
                self.plans.remove(&address);
            }
        }
    }

    /// Renews `kept` no more. Whether a renewal of it is on its way.
    pub(super) fn end(&mut self, kept: &Arc<K>) -> bool {
        match self.plans.get_mut(&address(kept)) {
            Some(plan) if plan.next.is_none() => {
                plan.end = Duration::ZERO;
                true
            }
            Some(_) => {
                self.plans.remove(&address(kept));
                false
            }
            None => false,
        }
    }

    /// Whether `kept` is planned, or a renewal of it is on its way.
    pub(super) fn has(&self, kept: &Arc<K>) -> bool {
        self.plans.contains_key(&address(kept))
    }

    /// How long the thread may rest from `now` on.
    pub(super) fn rest(&mut self, now: Duration) -> Duration {
        self.rests_until = self.first_due().unwrap_or(Duration::MAX);
        self.rests_until.saturating_sub(now)
    }

    fn first_due(&self) -> Option<Duration> {
        self.plans.values().filter_map(|plan| plan.next).map(|next| next.due).min()
    }
}

/// What tells a claim that is kept alive from others, another handle on the same claim included, as long as
/// it is.
fn address<K>(kept: &Arc<K>) -> usize {
    Arc::as_ptr(kept).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(90);
    const THIRD: Duration = Duration::from_secs(30);
    const SECOND: Duration = Duration::from_secs(1);
    const FOR_EVER: Duration = Duration::MAX;

    /// Any claim; it is known by its place in memory.
    fn a_claim() -> Arc<u8> {
        Arc::new(0)
    }

    fn is_same(taken: &[Arc<u8>], expected: &[&Arc<u8>]) -> bool {
        taken.len() == expected.len()
            && taken.iter().zip(expected).all(|(one, other)| Arc::ptr_eq(one, other))
    }

    #[test]
    fn a_claim_is_taken_when_it_is_due_and_again_a_pause_later() {
        let (mut plans, claim) = (Plans::new(), a_claim());
        assert!(plans.keep(&claim, SECOND, THIRD, FOR_EVER), "the thread rests until somebody calls");
        assert_eq!(plans.rest(SECOND), THIRD);
        assert!(plans.take(SECOND * 30).is_empty());
        assert!(is_same(&plans.take(SECOND * 31), &[&claim]));
        assert!(plans.take(SECOND * 500).is_empty(), "it is in hand");
        plans.put_back(&claim, SECOND * 40, Some(THIRD));
        assert_eq!(plans.rest(SECOND * 50), SECOND * 20);
        assert!(plans.take(SECOND * 69).is_empty());
        assert!(is_same(&plans.take(SECOND * 70), &[&claim]));
        plans.put_back(&claim, SECOND * 70, None);
        assert!(!plans.has(&claim));
        assert_eq!(plans.rest(Duration::ZERO), Duration::MAX);
    }

    #[test]
    fn the_thread_is_called_only_for_what_comes_before_its_next_turn() {
        let (mut plans, claims) = (Plans::new(), [(); 3].map(|()| a_claim()));
        assert!(plans.keep(&claims[0], Duration::ZERO, SECOND * 5, FOR_EVER));
        assert_eq!(plans.rest(Duration::ZERO), SECOND * 5);
        assert!(!plans.keep(&claims[1], Duration::ZERO, SECOND * 6, FOR_EVER));
        assert!(plans.keep(&claims[2], Duration::ZERO, SECOND * 4, FOR_EVER));
        assert_eq!(plans.rest(SECOND), SECOND * 3);
        assert_eq!(plans.rest(SECOND * 9), Duration::ZERO, "what is late is due at once");
    }

    #[test]
    fn what_is_due_soon_comes_along_and_what_is_not_does_not() {
        let mut plans = Plans::new();
        let (now, soon, later) = (a_claim(), a_claim(), a_claim());
        plans.keep(&later, SECOND * 8, THIRD, FOR_EVER);
        plans.keep(&soon, SECOND * 7, THIRD, FOR_EVER);
        plans.keep(&now, Duration::ZERO, THIRD, FOR_EVER);
        // A quarter of the pause, 7.5 s, before it is due.
        assert!(is_same(&plans.take(THIRD), &[&now, &soon]));
    }

    #[test]
    fn no_more_than_a_batch_is_taken_at_a_time_and_what_has_been_due_longest_comes_first() {
        let mut plans = Plans::new();
        let claims: Vec<_> = (0..2_500).map(|_| a_claim()).collect();
        for (claim, second) in claims.iter().zip(1..2_501_u32).rev() {
            plans.keep(claim, Duration::ZERO, SECOND * second, FOR_EVER);
        }
        let now = SECOND * 10_000;
        for expected in [&claims[..1_000], &claims[1_000..2_000], &claims[2_000..]] {
            assert!(is_same(&plans.take(now), &expected.iter().collect::<Vec<_>>()));
        }
        assert!(plans.take(now).is_empty());
    }

    #[test]
    fn nothing_is_renewed_from_its_end_on() {
        let (mut plans, claim) = (Plans::new(), a_claim());
        assert!(
            !plans.keep(&claim, Duration::ZERO, Duration::ZERO, Duration::ZERO),
            "there is nothing to do"
        );
        assert!(!plans.has(&claim));
        assert!(!plans.keep(&claim, Duration::ZERO, THIRD, THIRD), "it would be due when it is over");
        assert!(!plans.has(&claim));
        assert!(plans.keep(&claim, Duration::ZERO, THIRD, SECOND * 31));
        assert!(plans.take(SECOND * 31).is_empty(), "the thread is late");
        assert!(!plans.has(&claim));
        plans.keep(&claim, Duration::ZERO, THIRD, SECOND * 60);
        assert!(is_same(&plans.take(THIRD), &[&claim]));
        plans.put_back(&claim, THIRD, Some(THIRD));
        assert!(!plans.has(&claim), "the next one would be due when it is over");
    }

    #[test]
    fn another_end_takes_the_place_of_the_one_before_and_moves_nothing_else() {
        let (mut plans, claim) = (Plans::new(), a_claim());
        plans.keep(&claim, Duration::ZERO, THIRD, SECOND * 31);
        plans.keep(&claim, SECOND * 20, THIRD, SECOND * 100);
        assert!(is_same(&plans.take(THIRD), &[&claim]));
        plans.keep(&claim, THIRD, THIRD, SECOND * 50);
        plans.put_back(&claim, THIRD, Some(THIRD));
        assert!(!plans.has(&claim), "while it was in hand, the end was moved before its next renewal");
        plans.keep(&claim, THIRD, THIRD, FOR_EVER);
        plans.keep(&claim, THIRD, THIRD, SECOND * 31);
        assert!(!plans.has(&claim));
    }

    #[test]
    fn what_has_ended_is_not_taken_and_not_put_back() {
        let (mut plans, claim) = (Plans::new(), a_claim());
        assert!(!plans.end(&claim), "it was not there");
        plans.keep(&claim, Duration::ZERO, THIRD, FOR_EVER);
        assert!(!plans.end(&claim) && !plans.has(&claim));
        plans.keep(&claim, Duration::ZERO, THIRD, FOR_EVER);
        assert_eq!(plans.take(THIRD).len(), 1);
        assert!(plans.end(&claim) && plans.has(&claim), "its renewal is on its way");
        plans.put_back(&claim, THIRD, Some(THIRD));
        assert!(!plans.has(&claim));
    }

    #[test]
    fn two_handles_on_one_claim_are_kept_and_ended_each_by_itself() {
        let mut plans = Plans::new();
        let (one, other) = (a_claim(), a_claim());
        plans.keep(&one, Duration::ZERO, THIRD, FOR_EVER);
        plans.keep(&other, Duration::ZERO, THIRD, FOR_EVER);
        plans.end(&one);
        assert!(is_same(&plans.take(THIRD), &[&other]));
    }

    #[test]
    fn the_pauses_follow_from_the_lease_and_are_never_so_short_as_to_spin() {
        let millis = Duration::from_millis;
        for (lease, expected) in [(LEASE, THIRD), (millis(300), millis(100)), (millis(1), millis(2))] {
            assert_eq!(third(lease), expected, "{lease:?}");
        }
        for (lease, first, last) in [
            (LEASE, millis(4_500), millis(9_000)),
            (millis(300), millis(15), millis(30)),
            (millis(60), millis(5), millis(6)),
            (millis(1), millis(2), millis(2)),
        ] {
            assert_eq!((retry(lease, 0), retry(lease, WHOLE)), (first, last), "{lease:?}");
        }
        for lease in [1, 2, 3, 5, 10, 50, 100, 1_000].map(millis) {
            for pause in [third(lease), retry(lease, 0)] {
                let next = Next::after(SECOND, pause);
                assert!(next.from >= SECOND + millis(1), "{lease:?}");
            }
            assert!(retry(lease, WHOLE) <= third(lease), "{lease:?}");
        }
        let longest = crate::time::Period::MAX;
        assert_eq!(third(longest), longest / 3);
        assert!(retry(longest, WHOLE) < third(longest));
    }
}
