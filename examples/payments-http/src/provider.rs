//! A pretended payment provider: [`Provider`].

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::task;

/// A provider that does once what it is asked for under one key. Its ledger is a file in a folder of its own,
/// so that it outlives a killed client, and several processes have one provider.
#[derive(Clone, Debug)]
pub struct Provider(Arc<Place>);

#[derive(Debug)]
struct Place {
    folder: PathBuf,
    delay: Duration,
}

/// A line of the ledger: a call that the provider has had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Whether it did something. If not, it had done so before, under the same key.
    pub is_new: bool,
    /// What it did: `pay` or `refund`.
    pub what: String,
    /// Its idempotency key.
    pub key: String,
    /// Whose money it was.
    pub account: String,
    /// The amount of a payment, or the payment of a refund.
    pub detail: String,
    /// The id of what was done.
    pub id: String,
}

/// A payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// Its id.
    pub id: String,
    /// How much.
    pub amount: u64,
}

impl Provider {
    /// The provider whose ledger is in `folder`. It does what it is asked for at once, and answers `delay`
    /// later; if there is a file named `hold` in the folder, not before that is gone.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, delay: Duration) -> Self {
        Self(Arc::new(Place { folder: folder.into(), delay }))
    }

    /// Charges `amount`, unless it was charged under `key` before. Gives the payment's id; none if the answer
    /// was lost on its way, as the first one for the card `tok_answer_lost` is.
    ///
    /// # Errors
    /// If the ledger can't be read or written.
    pub async fn charge(
        &self,
        key: String,
        account: &str,
        amount: u64,
        card: &str,
    ) -> io::Result<Option<String>> {
        let call = self.call("pay", key, account, amount.to_string()).await?;
        Ok((!call.is_new || card != "tok_answer_lost").then_some(call.id))
    }

    /// Gives the whole of `payment` back, unless that was done under `key` before. Gives the refund's id.
    ///
    /// # Errors
    /// If the ledger can't be read or written.
    pub async fn refund(&self, key: String, account: &str, payment: &str) -> io::Result<String> {
        Ok(self.call("refund", key, account, payment.to_owned()).await?.id)
    }

    /// The payment `id`, if it is `account`'s.
    ///
    /// # Errors
    /// If the ledger can't be read.
    pub async fn payment(&self, account: &str, id: &str) -> io::Result<Option<Payment>> {
        let mut payments = self.calls().await?.into_iter().filter(|call| call.is_new && call.what == "pay");
        let payment = payments.find(|call| call.id == id && call.account == account);
        Ok(payment.and_then(|call| Some(Payment { amount: call.detail.parse().ok()?, id: call.id })))
    }

    /// All calls so far.
    ///
    /// # Errors
    /// If the ledger can't be read.
    pub async fn calls(&self) -> io::Result<Vec<Call>> {
        let place = Arc::clone(&self.0);
        let read = move || {
            let ledger = place.open()?;
            ledger.lock_shared()?;
            place.read(&ledger)
        };
        task::spawn_blocking(read).await?
    }

    async fn call(&self, what: &'static str, key: String, account: &str, detail: String) -> io::Result<Call> {
        let (place, account) = (Arc::clone(&self.0), account.to_owned());
        let call = task::spawn_blocking(move || place.enter(what, key, account, detail)).await??;
        tokio::time::sleep(self.0.delay).await;
        while tokio::fs::try_exists(self.0.folder.join("hold")).await? {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(call)
    }
}

impl Place {
    fn open(&self) -> io::Result<File> {
        OpenOptions::new().read(true).append(true).create(true).open(self.folder.join("ledger"))
    }

    fn read(&self, mut ledger: &File) -> io::Result<Vec<Call>> {
        let calls = io::read_to_string(&mut ledger)?;
        calls.lines().map(|line| Call::parse(line).ok_or(io::ErrorKind::InvalidData.into())).collect()
    }

    /// Writes the call into the ledger, under the lock of the file.
    fn enter(&self, what: &str, key: String, account: String, detail: String) -> io::Result<Call> {
        let mut ledger = self.open()?;
        ledger.lock()?;
        let calls = self.read(&ledger)?;
        let earlier = calls.iter().find(|call| call.is_new && call.key == key);
        let number = calls.iter().filter(|call| call.is_new).count() + 1;
        let id = earlier.map_or_else(|| format!("{what}_{number}"), |call| call.id.clone());
        let call = Call { is_new: earlier.is_none(), what: what.to_owned(), key, account, detail, id };
        ledger.write_all(call.line().as_bytes())?;
        ledger.sync_data()?;
        Ok(call)
    }
}

impl Call {
    fn line(&self) -> String {
        let Self { is_new, what, key, account, detail, id } = self;
        let done = if *is_new { "done" } else { "repeated" };
        format!("{done}\t{what}\t{key}\t{account}\t{detail}\t{id}\n")
    }

    fn parse(line: &str) -> Option<Self> {
        let [done, what, key, account, detail, id]: [&str; 6] =
            line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        let [what, key, account, detail, id] = [what, key, account, detail, id].map(str::to_owned);
        Some(Self { is_new: done == "done", what, key, account, detail, id })
    }
}
