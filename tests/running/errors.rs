//! `RunError`: what it says, and what it turns into.

use crate::support::{a_key, a_print, a_scope, reply};
use idempotency::{
    Error, IdempotencyKey, IdempotencyStore, KeyError, LostReason, Ran, Reply, RunError, Scope,
};
use std::error::Error as StdError;
use std::io;

type Any = Box<dyn StdError + Send + Sync>;

fn not_recorded<E>(error: Error) -> RunError<E> {
    RunError::NotRecorded { reply: reply(201), error }
}

fn chain(error: &dyn StdError) -> Vec<String> {
    std::iter::successors(Some(error), |&error| error.source()).map(ToString::to_string).collect()
}

#[test]
fn each_error_says_what_failed_and_its_chain_says_why() {
    let work: RunError<io::Error> = RunError::Work(io::Error::other("no answer came"));
    assert_eq!(chain(&work), ["the work failed", "no answer came"]);
    let store: RunError<io::Error> = RunError::Store(Error::Busy(None));
    assert_eq!(chain(&store), ["the store is busy"]);
    let definite: RunError<io::Error> = not_recorded(Error::ClaimLost(LostReason::Running));
    assert_eq!(
        chain(&definite),
        ["the reply was not recorded", "the claim is lost: another claim has taken over"]
    );
    let indefinite: RunError<io::Error> = not_recorded(Error::Indefinite(None));
    assert_eq!(chain(&indefinite), ["the reply may not be recorded", "the outcome is unknown"]);
}

#[test]
fn an_error_of_the_store_can_be_asked_whether_to_try_again() {
    let transient = |error: Error| [RunError::<()>::Store(error.clone()), not_recorded(error)];
    for (error, is_transient, is_indefinite) in [
        (Error::Busy(None), true, false),
        (Error::Unavailable(None), true, false),
        (Error::Indefinite(None), false, true),
        (Error::Full(None), false, false),
        (Error::TransactionEnded { committed: true }, false, true),
        (Error::ClaimLost(LostReason::Gone), false, false),
    ] {
        for run_error in transient(error.clone()) {
            assert_eq!(run_error.store_error().map(Error::kind), Some(error.kind()), "{run_error:?}");
            assert_eq!(
                (run_error.is_transient(), run_error.is_indefinite()),
                (is_transient, is_indefinite),
                "{run_error:?}"
            );
        }
    }
    // The store knows nothing of the work's own.
    let work = RunError::Work(Error::Busy(None));
    assert!(work.store_error().is_none() && !work.is_transient() && !work.is_indefinite());
}

#[test]
fn the_errors_of_store_keys_and_work_come_together_by_a_question_mark() {
    fn answer(
        store: &IdempotencyStore<idempotency::MemoryBackend>,
        name: &str,
    ) -> Result<Ran, RunError<Error>> {
        let key = IdempotencyKey::new(name)?;
        let _policy = store.with_policy(*store.policy())?;
        store.run(&Scope::new("tenant")?, &key, &a_print(), |claim| {
            claim.renew()?;
            Ok(Reply::Marker)
        })
    }
    let store = IdempotencyStore::in_memory();
    assert!(matches!(answer(&store, "k"), Ok(Ran::Executed(_))));
    assert!(matches!(answer(&store, ""), Err(RunError::Store(Error::Key(KeyError::Empty)))));
}

#[test]
fn one_error_type_for_work_and_store_keeps_what_each_of_them_said() {
    fn io() -> Any {
        io::Error::other("no answer came").into()
    }
    let into_error = |error: RunError<Any>| error.into_error();
    assert_eq!(into_error(RunError::Work(io())).to_string(), "no answer came");
    let busy = into_error(RunError::Store(Error::Busy(None)));
    assert!(matches!(busy.downcast_ref(), Some(Error::Busy(None))), "{busy:?}");
    let lost = into_error(not_recorded(Error::ClaimLost(LostReason::Gone)));
    assert!(matches!(lost.downcast_ref(), Some(Error::ClaimLost(LostReason::Gone))), "{lost:?}");
    // Where the work fails with the store's own errors, that is the type.
    let work = RunError::Work(Error::Reentrant).into_error();
    assert!(matches!(work, Error::Reentrant));
}

#[test]
fn an_error_goes_through_threads_and_shows_neither_reply_nor_key() {
    fn travels<T: Send + Sync + 'static>(_: &T) {}
    let store = IdempotencyStore::in_memory()
        .with_policy(idempotency::Policy::new().with_max_reply_len(1))
        .expect("a usable policy");
    let failed = store.run(&a_scope(), &a_key(), &a_print(), |_| Ok::<_, io::Error>(reply(201)));
    let failed = failed.expect_err("a reply that is too large");
    travels(&failed);
    let shown = format!("{failed:?} {failed}");
    for secret in ["201!", "x-status", "tenant"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
