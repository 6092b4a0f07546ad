//! A system that has no thread to give.

use crate::address_space::without_room_for_a_stack;
use crate::alone::alone;
use crate::stage::{FOR_EVER, on_every_stage};
use idempotency::{Error, Reply};
use std::cell::RefCell;

#[test]
fn a_claim_that_gets_no_thread_is_not_kept_alive_and_can_be_once_there_is_room() {
    alone(
        "without_thread::a_claim_that_gets_no_thread_is_not_kept_alive_and_can_be_once_there_is_room",
        || {
            // Both before there is any other thread: the stack of one that has ended would do for the next.
            let refused = RefCell::new(Vec::new());
            on_every_stage(|stage| {
                let claim = stage.claim("job");
                let answer = without_room_for_a_stack(|| claim.keep_alive(FOR_EVER));
                refused.borrow_mut().push((stage, claim, answer));
            });
            for (stage, claim, answer) in refused.into_inner() {
                assert!(matches!(answer, Err(Error::Unavailable(_))), "{}: {answer:?}", stage.name);
                stage.let_renewals_come();
                assert_eq!(stage.witness.renewals("job"), 0, "{}: it was told that it is not", stage.name);
                claim.keep_alive(FOR_EVER).expect("there is room again");
                stage.until_renewed("job", 2);
                claim.complete(Reply::Marker).expect("a claim that stands");
            }
        },
    );
}
