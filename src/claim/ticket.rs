//! A claim as plain data: [`Ticket`].

use crate::backend::StoreId;
use crate::fingerprint::Fingerprint;
use crate::hex::Hex;
use crate::key::{IdempotencyKey, RecordId, Scope};
use crate::outcome::Grant;
use crate::policy::Terms;
use crate::record::FencingToken;
use crate::time::Period;
use sha2::{Digest, Sha256};
use std::time::Duration;

/// A claim as plain data, for work that ends in another thread, task or process: [`store.complete(&ticket,
/// reply)`](crate::IdempotencyStore::complete), [`store.release(&ticket)`](crate::IdempotencyStore::release),
/// [`store.abandon(&ticket)`](crate::IdempotencyStore::abandon),
/// [`store.resume(ticket)`](crate::IdempotencyStore::resume). And for a completion in a transaction of the
/// application's: [`store.complete_in`](crate::IdempotencyStore#method.complete_in).
///
/// It carries the claim's own lease and retention, which win over those of the handle that finishes it. With
/// the feature `serde` it can be stored and sent, with scope and key in the clear; deserialising refuses
/// values that no ticket has. Whoever holds it can complete the operation, and it may be used more than once:
/// where tickets are delivered twice, both runs hold the same claim, and neither is told that it is the
/// second.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "wire::TicketData", into = "wire::TicketData"))]
pub struct Ticket {
    store_id: StoreId,
    id: RecordId,
    fingerprint: Fingerprint,
    token: FencingToken,
    attempt: u32,
    lease: Period,
    retention: Period,
}

impl Ticket {
    pub(crate) fn new(
        store_id: StoreId,
        id: RecordId,
        fingerprint: Fingerprint,
        terms: Terms,
        grant: &Grant,
    ) -> Self {
        Self {
            store_id,
            id,
            fingerprint,
            token: grant.token,
            attempt: grant.attempt,
            lease: terms.lease,
            retention: terms.retention,
        }
    }

    /// The store that granted the claim.
    #[must_use]
    pub const fn store_id(&self) -> StoreId {
        self.store_id
    }

    /// The record that the claim is for.
    #[must_use]
    pub const fn id(&self) -> &RecordId {
        &self.id
    }

    /// Who the key belongs to.
    #[must_use]
    pub const fn scope(&self) -> &Scope {
        &self.id.scope
    }

    /// The name of the operation.
    #[must_use]
    pub const fn key(&self) -> &IdempotencyKey {
        &self.id.key
    }

    /// What the operation asks for.
    #[must_use]
    pub const fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Proof of the claim.
    #[must_use]
    pub const fn token(&self) -> FencingToken {
        self.token
    }

    /// 1 for the first claim of the record, one more for each takeover.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    pub(crate) const fn is_takeover(&self) -> bool {
        self.attempt > 1
    }

    /// The claim's lease.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.lease.as_duration()
    }

    /// The claim's retention.
    #[must_use]
    pub fn retention(&self) -> Duration {
        self.retention.as_duration()
    }

    #[cfg(feature = "sqlite")]
    pub(crate) const fn retention_period(&self) -> Period {
        self.retention
    }

    /// What to send to the next provider as its idempotency key, so that it deduplicates what this operation
    /// asks of it.
    ///
    /// The same for every attempt; different for every label, scope, key and fingerprint. Give each call that
    /// one operation makes a label of its own. It has the form of a UUID (version 8, RFC 9562, section 5.8):
    /// 36 visible ASCII characters that the strictest provider takes. It shows neither scope nor key, but it
    /// is a digest, not a secret.
    ///
    /// Choose a retention at least as long as the provider's: a key that is new here while the provider still
    /// knows it would get the old operation's answer there. And after a takeover that comes later than the
    /// provider remembers, ask it what happened before charging: it does not deduplicate any more.
    ///
    /// ```
    /// # use idempotency::*;
    /// # let store = IdempotencyStore::in_memory();
    /// # let (scope, key) = (Scope::new("acct_1")?, IdempotencyKey::new("8e03978e")?);
    /// # let fingerprint = Fingerprint::builder().field("amount", "500").finish();
    /// # if let ClaimOutcome::Claimed(claim) = store.try_claim(&scope, &key, &fingerprint)? {
    /// let charge = claim.downstream_key("charge");
    /// let receipt = claim.downstream_key("receipt mail");
    /// assert_ne!(charge, receipt);
    /// assert_eq!(charge.len(), 36);
    /// # claim.abandon()?;
    /// # }
    /// # Ok::<(), idempotency::Error>(())
    /// ```
    #[must_use]
    pub fn downstream_key(&self, label: &str) -> String {
        let mut hasher = Sha256::new_with_prefix(b"idempotency downstream key 1");
        for part in [label, self.id.scope.as_str(), self.id.key.as_str()] {
            hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hasher.update(part);
        }
        hasher.update([self.fingerprint.format()]);
        hasher.update(self.fingerprint.digest());
        let digest: [u8; 32] = hasher.finalize().into();
        uuid_v8(&digest)
    }
}

/// The first 122 bits of `digest` that are free in a UUID of version 8.
fn uuid_v8(digest: &[u8; 32]) -> String {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(digest).for_each(|(to, from)| *to = *from);
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let mut text = Hex(&bytes).to_string();
    [20, 16, 12, 8].into_iter().for_each(|at| text.insert(at, '-'));
    text
}

#[cfg(feature = "serde")]
mod wire {
    use super::{FencingToken, Fingerprint, IdempotencyKey, Period, RecordId, Scope, StoreId, Ticket};

    /// A ticket as it is written down.
    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct TicketData {
        store_id: [u8; 16],
        scope: String,
        key: String,
        fingerprint_format: u8,
        fingerprint: [u8; 32],
        /// In decimal: it does not fit the numbers of every JSON reader.
        token: String,
        attempt: u32,
        lease_ms: i64,
        retention_ms: i64,
    }

    impl From<Ticket> for TicketData {
        fn from(ticket: Ticket) -> Self {
            Self {
                store_id: *ticket.store_id.as_bytes(),
                scope: ticket.id.scope.as_str().to_owned(),
                key: ticket.id.key.as_str().to_owned(),
                fingerprint_format: ticket.fingerprint.format(),
                fingerprint: *ticket.fingerprint.digest(),
                token: ticket.token.to_string(),
                attempt: ticket.attempt,
                lease_ms: ticket.lease.as_millis(),
                retention_ms: ticket.retention.as_millis(),
            }
        }
    }

    /// The token that is written like this, and in no other way.
    fn token(text: &str) -> Option<FencingToken> {
        text.parse().ok().and_then(FencingToken::new).filter(|token| token.to_string() == text)
    }

    impl TryFrom<TicketData> for Ticket {
        type Error = String;

        fn try_from(data: TicketData) -> Result<Self, String> {
            if data.attempt == 0 {
                return Err("an attempt is at least 1".to_owned());
            }
            Ok(Self {
                store_id: StoreId::from_bytes(data.store_id),
                id: RecordId {
                    scope: Scope::new(data.scope).map_err(|error| error.to_string())?,
                    key: IdempotencyKey::new(data.key).map_err(|error| error.to_string())?,
                },
                fingerprint: Fingerprint::from_stored(data.fingerprint_format, data.fingerprint),
                token: token(&data.token).ok_or("a token is a number from 1 on")?,
                attempt: data.attempt,
                lease: Period::from_millis(data.lease_ms).map_err(|error| error.to_string())?,
                retention: Period::from_millis(data.retention_ms).map_err(|error| error.to_string())?,
            })
        }
    }
}
