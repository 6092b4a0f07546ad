//! Work that fails leaves everything as it was, whatever was there.

use crate::common::Answer;
use crate::shop::{Shop, Stored, a_key, a_scope, claim};
use crate::ways_to_fail::{BEFORE, WAYS_TO_FAIL};
use idempotency::Reply;

/// Every column of the record, and the application's own rows. The token counter may rise: where the work ended
/// its transaction, the store opens the file again.
#[test]
fn work_that_fails_in_whatever_way_leaves_every_byte_as_it_was_and_the_next_run_is_the_same_attempt() {
    for (was, prepare, attempt) in BEFORE {
        for (way, fail) in WAYS_TO_FAIL {
            println!("{was}; {way}");
            let shop = Shop::new();
            prepare(&shop);
            let (before, counter) = (shop.stored(), last_token(&shop));
            let record = shop.store.lookup(&a_scope(), &a_key()).expect("a store");
            for _ in 0..2 {
                fail(&shop);
                let after = Stored { meta: before.meta.clone(), ..shop.stored() };
                assert_eq!(after, before, "{was}; {way}");
                assert!(last_token(&shop) >= counter, "{was}; {way}");
                assert_eq!(shop.store.lookup(&a_scope(), &a_key()).expect("a store"), record, "{was}; {way}");
            }
            let token = last_token(&shop);
            shop.must_run("a book", attempt);
            assert!(shop.column::<i64>("token") > token, "{was}; {way}: an older token");
            assert_eq!(shop.column::<i64>("token"), last_token(&shop), "{was}; {way}");
        }
    }
}

/// So that a row which came and went can't pass for one that never was.
#[test]
fn another_process_finds_the_key_free_at_once_after_each_of_them() {
    for (way, fail) in WAYS_TO_FAIL {
        let shop = Shop::new();
        let other = shop.handle();
        fail(&shop);
        let claim = claim(&other).expect("no lock is left").claimed();
        assert_eq!(claim.attempt(), 1, "{way}");
        claim.complete(Reply::Marker).expect("held");
    }
}

fn last_token(shop: &Shop) -> i64 {
    shop.connection()
        .query_row("SELECT last_token FROM idempotency_meta", [], |row| row.get(0))
        .expect("a counter")
}
