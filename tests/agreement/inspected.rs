//! The same classes of records, as an operator sees them: which count each goes into, and whether its claim
//! looks stuck, at every moment around its deadlines and around the one before which its lease looks too
//! long.

use crate::classes::CLASSES;
use crate::plain::{millis, rank};
use crate::story::{Class, Left, Standing};
use crate::subjects::{self, Subject};
use idempotency::{Stuck, StuckReason};
use std::collections::HashSet;

/// The class's own moments, and those around the one at which its lease is as long as it may be.
fn moments(class: &Class) -> Vec<(Standing, i64)> {
    let mut moments: Vec<_> = class.moments().collect();
    if let Some(Left { completed: None, lease_until, terms: (lease, _), .. }) = class.left {
        let around = [-1, 0, 1].map(|by| lease_until - lease + by);
        moments
            .extend(around.into_iter().filter(|now| *now < lease_until).map(|now| (Standing::Running, now)));
    }
    moments
}

/// Why the class's claim looks stuck.
fn reason(class: &Class, standing: Standing, now: i64) -> Option<StuckReason> {
    match (standing, class.left) {
        (Standing::Lapsed, _) => Some(StuckReason::Lapsed),
        (Standing::Running, Some(left)) if left.lease_until - now > left.terms.0 => {
            Some(StuckReason::LeaseTooLong)
        }
        _ => None,
    }
}

#[track_caller]
fn assert_tells_of(stuck: &Stuck, class: &Class, subject: &Subject, about: &str) {
    let left = class.left.expect(about);
    assert_eq!(&stuck.id, subject.id(), "{about}");
    assert_eq!(rank(stuck.token, subject.issued()), left.token, "{about}");
    assert_eq!((stuck.attempt, stuck.lease.as_millis()), (left.attempt, left.terms.0), "{about}");
    let times = [stuck.created_at, stuck.lease_until, stuck.expires_at].map(millis);
    assert_eq!(times, [left.created_at, left.lease_until, left.expires_at], "{about}");
}

#[test]
fn every_backend_counts_and_lists_each_class_as_it_stands() {
    let mut count = 0;
    for mut subject in subjects::all() {
        let mut seen = HashSet::new();
        for class in CLASSES {
            for (standing, now) in moments(class) {
                let about = format!("{}: {}, {standing:?} at {now}", subject.name, class.name);
                subject.play(class);
                subject.set_clock(now);

                let one_if = |is: bool| u64::from(is);
                let expected = (
                    2 + one_if(standing == Standing::Running), // the bystanders' leases end long after
                    one_if(standing == Standing::Lapsed),
                    one_if(standing == Standing::Completed),
                    one_if(standing == Standing::Gone && class.left.is_some()),
                    0,
                );
                let stats = subject.stats();
                let told = (stats.in_progress, stats.lapsed, stats.completed, stats.expired, stats.damaged);
                assert_eq!(told, expected, "{about}");

                let reason = reason(class, standing, now);
                let all = subject.stuck(usize::MAX);
                assert_eq!(all.len(), 2 + usize::from(reason.is_some()), "{about}: {all:?}");
                if let Some(reason) = reason {
                    assert_eq!(all[0].reason, reason, "{about}");
                    assert_tells_of(&all[0], class, &subject, &about);
                }
                // Their leases end at one moment, so they come by name.
                let [one, other] = subject.bystanders()[..] else { panic!("two bystanders") };
                for (stuck, id) in all[all.len() - 2..].iter().zip([other, one]) {
                    assert_eq!((&stuck.id, stuck.reason), (id, StuckReason::LeaseTooLong), "{about}");
                }
                for limit in 0..=all.len() {
                    assert_eq!(subject.stuck(limit), all[..limit], "{about}: of {limit}");
                }
                seen.insert((standing, reason));
                subject.assert_bystanders_untouched(&about);
                subject.reset();
            }
        }
        // Running in its lease and under one that is too long; lapsed, completed, gone.
        assert_eq!(seen.len(), 5, "{}: {seen:?}", subject.name);
        count += 1;
    }
    assert_eq!(count, subjects::COUNT, "executors");
}
