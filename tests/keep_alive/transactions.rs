//! Claims that are kept alive beside transactions on the same file, whose renewals wait for those.

use crate::common::{Answer, START, asks_for, key, scope};
use crate::stage::{FOR_EVER, LEASE, until, with_lease};
use idempotency::rusqlite::{Connection, Transaction, TransactionBehavior};
use idempotency::{
    Claim, Error, ErrorKind, IdempotencyStore, ManualClock, Ran, Reply, SqliteBackend, SqliteOptions,
    SqliteStore,
};
use std::thread;
use std::time::Duration;

/// A store on a file, and another connection to it.
fn store_and_another(busy_timeout: Duration) -> (SqliteStore, Connection, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("store.db");
    let options = SqliteOptions::new().with_clock(ManualClock::new(START)).with_busy_timeout(busy_timeout);
    let store = IdempotencyStore::new(SqliteBackend::open(&path, options).expect("a fresh store"));
    (with_lease(&store, LEASE), Connection::open(&path).expect("the file"), folder)
}

fn kept(store: &SqliteStore, name: &str) -> Claim {
    let claim = store.try_claim(&scope("tenant"), &key(name), &asks_for("it")).expect("an answer").claimed();
    claim.keep_alive(FOR_EVER).expect("a thread");
    claim
}

/// The renewal waits for this very work; whoever waited for the renewal would wait for itself.
#[test]
fn inside_atomically_ending_a_kept_claim_is_refused_as_any_use_of_the_store_is() {
    type Ending = fn(Claim) -> Result<(), Error>;
    const ENDINGS: [Ending; 4] = [
        |claim| Ok(claim.complete(Reply::Marker).map(drop)?),
        |claim| Ok(claim.complete_for(LEASE, Reply::Marker).map(drop)?),
        Claim::release,
        Claim::abandon,
    ];
    let (store, _, _folder) = store_and_another(Duration::from_secs(60));
    let claims: Vec<_> = (0..=ENDINGS.len()).map(|n| kept(&store, &format!("job {n}"))).collect();
    let work = thread::spawn(move || {
        let ran = store.atomically(&scope("tenant"), &key("work"), &asks_for("it"), |_| {
            // The renewals are on their way then. Right code passes however small this is.
            thread::sleep(LEASE);
            let mut claims = claims.into_iter();
            for (end, claim) in ENDINGS.into_iter().zip(&mut claims) {
                let answer = end(claim);
                assert!(matches!(answer, Err(Error::Reentrant)), "{answer:?}");
            }
            Ok::<_, Error>(Reply::Reference(
                claims.next().expect("one more").into_ticket().key().as_str().into(),
            ))
        });
        (ran, store)
    });
    until("the work ends", || work.is_finished());
    let (ran, store) = work.join().expect("work that does not panic");
    assert!(matches!(ran, Ok(Ran::Executed(_))), "{ran:?}");
    assert_eq!(store.metrics().lost_claims, 0);
}

#[test]
fn a_file_that_is_busy_fails_renewals_until_it_can_be_had_again() {
    let (store, mut other, _folder) = store_and_another(Duration::from_millis(10));
    let claim = kept(&store, "job");
    until("it is renewed", || store.metrics().renewals > 0);
    let transaction = Transaction::new(&mut other, TransactionBehavior::Immediate).expect("the file's lock");
    until("renewals fail", || store.metrics().renewal_failures >= 3);
    until("the owner hears of it", || claim.renewal_error().is_some());
    assert_eq!(claim.renewal_error().map(|error| error.kind()), Some(ErrorKind::Busy));
    assert!(!claim.is_lost());
    drop(transaction);
    until("the owner hears that it succeeded", || claim.renewal_error().is_none());
    claim.complete(Reply::Marker).expect("a claim that stands");
}

#[test]
fn a_claim_that_is_completed_in_a_transaction_is_not_lost_and_renewed_no_more() {
    let (store, mut other, _folder) = store_and_another(Duration::from_secs(60));
    for round in 0..20 {
        let claim = kept(&store, &format!("job {round}"));
        let transaction =
            Transaction::new(&mut other, TransactionBehavior::Immediate).expect("the file's lock");
        // Now and then a renewal is on its way.
        thread::sleep(LEASE / 3);
        store.complete_in(&transaction, &claim.ticket(), Reply::Marker).expect("a claim that stands");
        transaction.commit().expect("a commit");
        let beside = kept(&store, &format!("beside {round}"));
        let enough = store.metrics().renewals + 3;
        until("others are renewed", || store.metrics().renewals >= enough);
        beside.release().expect("a claim that stands");
        assert!(!claim.is_lost() && claim.renewal_error().is_none());
        claim.complete(Reply::Marker).expect("the first reply stands, and is given");
    }
    assert_eq!((store.metrics().lost_claims, store.metrics().renewal_failures), (0, 0));
}
