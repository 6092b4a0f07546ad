//! How long a claim stands, and who sees to it: [`Standing`].

use crate::claim::{Claim, Ticket};
use crate::error::Error;
use crate::keep_alive::KeptAlive;
use crate::shared::Shared;
use crate::time::{Stopwatch, Timestamp};
use std::sync::OnceLock;
use std::time::Duration;

impl Claim {
    /// Has the claim renewed in the background from now on, for at most `max_age`: for work that may outlast
    /// its lease and can't [renew](Self::renew) in between. Nobody takes over as long as the process lives
    /// and reaches the store; once it dies, somebody can as soon as the lease is over.
    ///
    /// The claim is renewed about a third of its lease after this handle was granted it or renewed it last
    /// (at once if it was [resumed](crate::IdempotencyStore::resume)), and then every third of the lease. One
    /// thread does so for all claims of the store, many to a call of the backend; whoever drops the store's
    /// last handle or claim waits for its end. All of it goes by the machine's own time, whatever the store's
    /// clock shows.
    ///
    /// A job that hangs holds its claim for `max_age`, and a lease longer, before it can be taken over.
    /// [`Duration::MAX`] sets no bound, and zero ends the renewing. Calling this again puts another
    /// `max_age`, from then on, in place of the one before.
    ///
    /// It is no promise: the store may be out of reach for longer than the lease, or the whole process stand
    /// still. Look at [`is_lost`](Self::is_lost) where the work can stop, and at
    /// [`renewal_error`](Self::renewal_error) where it can wait.
    ///
    /// Completing, releasing or abandoning the claim, and turning it into a ticket, end the renewing first:
    /// they wait for a renewal that is on its way, as long as that call of the backend takes, and none comes
    /// after it. So a completion is not mistaken for a loss, and what was abandoned stays so. A claim that a
    /// [`CompleteError`](crate::CompleteError) gives back is not kept alive any more; call this again.
    /// Dropping the claim ends the renewing and waits for nothing; the lease runs on, as always.
    ///
    /// A [`ticket`](Self::ticket) of a claim that is kept alive can complete it, which ends the renewing.
    /// What is abandoned by it is renewed again, and what is released by it looks lost; turn the claim
    /// [into the ticket](Self::into_ticket) for that. Leases of some seconds or more are what this is for: a few
    /// milliseconds are over before a thread has its turn.
    ///
    /// ```
    /// # use idempotency::*;
    /// # use std::time::Duration;
    /// # let store = IdempotencyStore::in_memory();
    /// # let (scope, key) = (Scope::new("reports")?, IdempotencyKey::new("2026-11")?);
    /// # let fingerprint = Fingerprint::builder().field("month", "11").finish();
    /// # fn render(page: u32) -> u32 { page }
    /// let store = store.with_policy(Policy::new().with_lease(Duration::from_secs(30)))?;
    /// if let ClaimOutcome::Claimed(claim) = store.try_claim(&scope, &key, &fingerprint)? {
    ///     claim.keep_alive(Duration::from_secs(3_600))?; // an hour is ten times what it takes
    ///     for page in 0..100 {
    ///         if claim.is_lost() {
    ///             return Ok(()); // somebody else is at it
    ///         }
    ///         render(page);
    ///     }
    ///     claim.complete(Reply::Reference("report 2026-11".into()))?;
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The claim stands as before, and is not renewed in the background:
    /// - [`Error::Unavailable`]: the system gives no thread now.
    /// - [`Error::Forked`]: this process is a fork of the one that opened the store.
    pub fn keep_alive(&self, max_age: Duration) -> Result<(), Error> {
        self.standing.keep_alive(&self.store, &self.ticket, max_age)
    }

    /// Whether the claim will be renewed in the background once more: not before
    /// [`keep_alive`](Self::keep_alive) was called, nor once its `max_age` leaves no time for another renewal.
    /// Then the lease runs out, and nobody looks whether somebody has taken over: [`renew`](Self::renew) tells.
    #[must_use]
    pub fn is_kept_alive(&self) -> bool {
        self.standing.is_kept_alive()
    }

    /// Whether a call of this claim, or a renewal in the background, has heard that the claim is not its
    /// owner's any more: taken over, or its record gone. Then nothing can be written by it; stop the work if
    /// it can be stopped. A completion by a [`ticket`](Self::ticket) is no loss.
    ///
    /// It makes no call: while the claim is not [kept alive](Self::is_kept_alive) it is as old as the last one.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.standing.is_lost()
    }

    /// What the latest renewal in the background failed with; none if it succeeded, or if the owner has
    /// renewed the claim since. In a fork of the process it is [`Error::Forked`].
    ///
    /// It is tried again in a twentieth to a tenth of the lease, also when the lease is over: a lapsed claim
    /// can be renewed while nobody has taken over. Each failure is counted in
    /// [`Metrics::renewal_failures`](crate::Metrics::renewal_failures). A loss is no failure; see
    /// [`is_lost`](Self::is_lost).
    #[must_use]
    pub fn renewal_error(&self) -> Option<Error> {
        self.standing.renewal_error()
    }

    /// Until when the claim stands unless it is renewed, as far as this handle knows.
    #[must_use]
    pub fn lease_until(&self) -> Timestamp {
        self.standing.until()
    }

    /// Ends what [`keep_alive`](Self::keep_alive) has begun, as ending the claim does.
    #[cfg(feature = "tokio")]
    pub(crate) fn end_renewing(&self) {
        self.standing.end_renewing(&self.store);
    }
}

/// What a handle knows of its claim's lease.
#[derive(Debug)]
pub(super) struct Standing {
    until: Timestamp,
    is_lost: bool,
    /// Since the handle was granted the claim or has extended its lease; none if it knows neither.
    extended: Option<Stopwatch>,
    /// None until it is kept alive.
    kept: OnceLock<KeptAlive>,
}

impl Standing {
    /// Of a claim that was granted just now.
    pub(super) fn granted(until: Timestamp) -> Self {
        Self { extended: Some(Stopwatch::start()), ..Self::found(until) }
    }

    /// Of a claim that was granted some time ago.
    pub(super) const fn found(until: Timestamp) -> Self {
        Self { until, is_lost: false, extended: None, kept: OnceLock::new() }
    }

    fn until(&self) -> Timestamp {
        // Of two renewals, the owner's and the renewer's, the later one has left the later end.
        self.kept.get().map_or(self.until, |kept| kept.lease_until().max(self.until))
    }

    fn is_lost(&self) -> bool {
        self.is_lost || self.kept.get().is_some_and(KeptAlive::is_lost)
    }

    fn is_kept_alive(&self) -> bool {
        self.kept.get().is_some_and(KeptAlive::is_planned)
    }

    fn renewal_error(&self) -> Option<Error> {
        self.kept.get().and_then(KeptAlive::error)
    }

    fn keep_alive(&self, store: &Shared, ticket: &Ticket, max_age: Duration) -> Result<(), Error> {
        let renewer = store.renewer();
        let register = || renewer.register(ticket.id().clone(), ticket.token(), ticket.lease());
        renewer.keep(self.kept.get_or_init(register), self.extended, max_age)
    }

    /// The owner has extended the lease.
    pub(super) fn extend(&mut self, until: Timestamp) {
        self.until = until;
        self.extended = Some(Stopwatch::start());
        if let Some(kept) = self.kept.get() {
            kept.note_extended(until);
        }
    }

    /// A call of the owner's has heard that the claim is lost.
    pub(super) const fn lose(&mut self) {
        self.is_lost = true;
    }

    /// Ends the renewing, before the claim is ended.
    pub(super) fn end_renewing(&self, store: &Shared) {
        if let Some(kept) = self.kept.get() {
            kept.end(&**store.backend());
        }
    }
}
