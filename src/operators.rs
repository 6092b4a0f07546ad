//! What an operator asks of a store, whoever owns its claims.

use crate::backend::Backend;
use crate::error::Error;
use crate::key::{IdempotencyKey, RecordId, Scope};
use crate::outcome::Outcome;
use crate::record::Record;
use crate::store::IdempotencyStore;
use crate::transition::Command;

impl<B: Backend> IdempotencyStore<B> {
    /// The record of `key` within `scope`; none if there is none, or it has expired.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the record is damaged; any other if it could not be read.
    pub fn lookup(&self, scope: &Scope, key: &IdempotencyKey) -> Result<Option<Record>, Error> {
        let id = RecordId::new(scope.clone(), key.clone());
        Ok(self.shared().read(&id)?.map(|(record, _)| record))
    }

    /// Deletes the record of `key` within `scope`, whoever owns it: for operators. The key is free for any
    /// request at once, and an owner that is still at work loses its claim. Says whether there was a record.
    ///
    /// # Errors
    /// If it was not done, or, where [`Error::is_indefinite`], may have been.
    pub fn forget(&self, scope: &Scope, key: &IdempotencyKey) -> Result<bool, Error> {
        let id = RecordId::new(scope.clone(), key.clone());
        match self.shared().execute(&id, &Command::Forget)? {
            Outcome::Forgotten { existed } => Ok(existed),
            _ => Err(Error::wrong_answer()),
        }
    }
}
