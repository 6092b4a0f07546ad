//! In transactions of the application's.

use super::methods::{in_progress, policy};
use super::{Caller, say};
use crate::history::Asked;
use crate::plain::Told;
use crate::steps::{Inside, fingerprint, reply};
use crate::stores::Kind;
use idempotency::rusqlite::{Connection, Transaction, TransactionBehavior};
use idempotency::{ClaimOutcome, Fingerprint, Outcome, Ran, RecordId, RunError, SqliteStore, TxClaim};

/// What is asked for in a transaction.
struct Operation {
    store: SqliteStore,
    id: RecordId,
    fingerprint: Fingerprint,
    now: i64,
}

impl<K: Kind> Caller<K> {
    /// Work that fails is told nothing.
    pub fn inside(&mut self, call: &(usize, Asked), what: Inside, now: i64) -> Result<Option<Told>, String> {
        let (key, asked) = call;
        let &Asked::Claim { request, lease, retention, .. } = asked else { panic!("{asked:?} is no claim") };
        let store = self.opened().in_file.as_ref().ok_or("no store in a file")?;
        let store = store.with_policy(policy(lease, retention)).expect("a usable policy");
        let operation =
            Operation { store, id: self.ids[*key].clone(), fingerprint: fingerprint(request), now };
        let outcome = match what {
            Inside::Atomically(number) => operation.atomically(Some(number))?,
            Inside::AtomicallyFails => operation.atomically(None)?,
            Inside::ClaimIn { reply, commits } => {
                let path = self.folder.path().join("store.db");
                let mut connection = Connection::open(path).map_err(|error| say(&error))?;
                let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate);
                let transaction = transaction.map_err(|error| say(&error))?;
                let outcome = match operation.claim_in(&transaction)? {
                    Ok(claim) => match reply {
                        Some(number) => complete(&claim, number)?,
                        None => {
                            let told = told(&claim);
                            end(transaction, commits)?;
                            return Ok(Some(told));
                        }
                    },
                    Err(outcome) => outcome,
                };
                end(transaction, commits)?;
                Some(outcome)
            }
        };
        Ok(outcome.map(|outcome| Told::of(outcome, &self.tokens)))
    }
}

impl Operation {
    /// With work that gives this reply, or else fails.
    fn atomically(&self, number: Option<u8>) -> Result<Option<Outcome>, String> {
        let RecordId { scope, key } = &self.id;
        let ran = self.store.atomically(scope, key, &self.fingerprint, |_| number.map(reply).ok_or("no"));
        Ok(Some(match ran {
            Ok(Ran::Executed(done)) => Outcome::Recorded(done),
            Ok(Ran::Replayed(done)) => Outcome::Completed(done),
            Ok(Ran::InProgress(running)) => in_progress(&running, self.now)?,
            Ok(Ran::FingerprintMismatch(mismatch)) => Outcome::FingerprintMismatch(mismatch),
            Err(RunError::Work(_)) if number.is_none() => return Ok(None),
            other => return Err(format!("{other:?}")),
        }))
    }

    fn claim_in<'t>(&self, transaction: &'t Transaction<'_>) -> Result<Result<TxClaim<'t>, Outcome>, String> {
        let RecordId { scope, key } = &self.id;
        let claimed = self.store.try_claim_in(transaction, scope, key, &self.fingerprint);
        Ok(match claimed.map_err(|error| say(&error))? {
            ClaimOutcome::Claimed(claim) => Ok(claim),
            ClaimOutcome::Completed(done) => Err(Outcome::Completed(done)),
            ClaimOutcome::InProgress(running) => Err(in_progress(&running, self.now)?),
            ClaimOutcome::FingerprintMismatch(mismatch) => Err(Outcome::FingerprintMismatch(mismatch)),
        })
    }
}

fn complete(claim: &TxClaim<'_>, number: u8) -> Result<Outcome, String> {
    claim.complete(reply(number)).map(Outcome::Recorded).map_err(|error| say(&error))
}

/// A claim in a transaction shows no token and no lease.
fn told(claim: &TxClaim<'_>) -> Told {
    let checkpoint = claim.checkpoint().map(|bytes| bytes.to_vec());
    Told::Claimed { token: 0, attempt: claim.attempt(), lease_until: 0, checkpoint }
}

fn end(transaction: Transaction<'_>, commits: bool) -> Result<(), String> {
    let ended = if commits { transaction.commit() } else { transaction.rollback() };
    ended.map_err(|error| say(&error))
}
