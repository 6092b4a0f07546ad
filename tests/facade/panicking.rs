//! A log of the program's own that panics, on a thread of the store's.

use crate::kept_stage::{on_every_stage, until};
use idempotency::Reply;
use std::cell::Cell;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A subscriber that panics at every event when it is told to.
struct Panicking(Arc<AtomicBool>);

impl Subscriber for Panicking {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        assert!(!self.0.load(Ordering::SeqCst), "on purpose");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The renewal is logged, and so is its failure.
#[test]
fn a_log_that_panics_does_not_end_the_renewing_of_claims() {
    thread_local! {
        static IS_LOGGED: Cell<bool> = const { Cell::new(false) };
    }
    on_every_stage(|stage| {
        let panics = Arc::new(AtomicBool::new(true));
        stage.witness.before_each_batch({
            let panics = Arc::clone(&panics);
            move || {
                if !IS_LOGGED.replace(true) {
                    // For this thread, the renewer's, as long as it is there.
                    mem::forget(tracing::subscriber::set_default(Panicking(Arc::clone(&panics))));
                }
            }
        });
        let claim = stage.kept("job");
        stage.until_renewed("job", 3);
        panics.store(false, Ordering::SeqCst);
        stage.until_renewed("job", 3);
        until("the owner hears that it succeeded", || claim.renewal_error().is_none());
        assert!(!claim.is_lost(), "{}", stage.name);
        claim.complete(Reply::Marker).expect("a claim that stands");
    });
}
