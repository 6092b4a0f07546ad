//! A backend of one's own: each record in a file of its own. `docs/backends.md` explains it.
//!
//! ```text
//! cargo run --example file_per_key FOLDER      runs one payment, in a folder that is there; run it twice
//! ```
//!
//! Read `backend` first. It passes the whole suite that every backend has to pass (`tests/conformance`).

mod backend;

use backend::FilePerKey;
use idempotency::{
    ClaimOutcome, Fingerprint, IdempotencyKey, IdempotencyStore, Scope, StoredResponse, SystemClock,
};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("which folder?")?;
    let store = IdempotencyStore::new(FilePerKey::open(folder, SystemClock)?);
    let (scope, key) = (Scope::new("account 17")?, IdempotencyKey::new("8e03978e")?);
    let fingerprint = Fingerprint::of_request("POST", "/payments", "", r#"{"amount": 500}"#);
    match store.try_claim(&scope, &key, &fingerprint)? {
        ClaimOutcome::Claimed(claim) => {
            let done = claim.complete(StoredResponse::new(201).with_body(r#"{"id": "pay_1"}"#))?;
            println!("paid: {:?}", done.reply);
        }
        ClaimOutcome::Completed(done) => println!("paid before: {:?}", done.reply),
        ClaimOutcome::InProgress(running) => println!("again in {} s", running.retry_after_secs()),
        ClaimOutcome::FingerprintMismatch(_) => println!("this key was used for another request"),
    }
    Ok(())
}
